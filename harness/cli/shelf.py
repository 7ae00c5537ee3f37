"""The shelf: all runs below a folder of results, read for those that show or compare many."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from harness.analyze.calibrating import calibrate
from harness.analyze.calibration import DESIGN, Calibration
from harness.analyze.collection import TOO_SMALL, Kept
from harness.analyze.matrix import build_matrix
from harness.core.former import TUNED
from harness.core.mistake import Mistake
from harness.store import IN_PROGRESS, RUN, Run, read_records, read_run

ORIGIN = "origin.json"  # beside a run that was taken in: where it came from


def finished(results: Path) -> list[Path]:
    """The folders of all runs that have nothing left to measure, by machine and day."""
    folders = sorted(path.parent for path in results.glob(f"*/*/{RUN}"))
    return [folder for folder in folders if not (folder / IN_PROGRESS).exists()]


def read_kept(folder: Path) -> Kept:
    """One run, finished or not; raises Mistake when the folder is none, damaged, or its times are invented."""
    run = read_run(folder)
    if run.rehearsed:
        raise Mistake(
            f"{folder} was rehearsed: its times are invented and prove nothing; name a run that was measured."
        )
    matrix = build_matrix(run.plan, read_records(folder), run.environment, calibration_beside(folder, run))
    return Kept(
        name=folder.resolve().name,
        began=run.began,
        command=run.command,
        version=run.version,
        matrix=matrix,
        contributed=(folder / ORIGIN).exists(),
    )


def calibration_beside(folder: Path, run: Run) -> Calibration | None:
    """What the machine of a run has shown: of the finished calibrations beside it the nearest in time, or None.

    A machine that is shared can tell less on a busy day, which says little of the runs of a calm one. It must be of the
    same environment, and nobody's but theirs who made the run: somebody else's machine may have the same parts and
    another neighbour.
    """
    theirs, began = (folder / ORIGIN).exists(), datetime.fromisoformat(run.began)
    nearest: tuple[timedelta, Path] | None = None
    for other in sorted((one.parent for one in folder.resolve().parent.glob(f"*/{RUN}")), reverse=True):
        if not _may_calibrate(other) or (other / ORIGIN).exists() is not theirs:
            continue
        found = read_run(other)
        # Windows of before 0.3.0 say nothing of those that steps lead into, nor equal arms under malloc thresholds of
        # ours, as all were up to schema 3, of those without.
        facts = (
            (one.environment.digest, one.rehearsed, one.plan.protocol.lead_s > 0, _is_tuned(one))
            for one in (found, run)
        )
        alike = len(set(facts)) == 1
        away = abs(datetime.fromisoformat(found.began) - began)
        if alike and decides(found) and (nearest is None or away < nearest[0]):
            nearest = away, other
    return None if nearest is None else _calibration(nearest[1])


def _is_tuned(run: Run) -> bool:
    return any(one.name == TUNED for block in run.plan.blocks for one in block.reference.switches)


def decides(run: Run) -> bool:
    """Whether a run is a calibration at sizes that prove something."""
    return run.plan.design == DESIGN and all(one.reference.size != TOO_SMALL for one in run.plan.blocks)


def _may_calibrate(folder: Path) -> bool:
    """Whether a run is finished and may be of the design, told by its text: to read every run would take long."""
    return not (folder / IN_PROGRESS).exists() and f'"{DESIGN}"' in (folder / RUN).read_text(encoding="utf-8")


@cache  # a finished run stays as it is, and every run beside it asks
def _calibration(folder: Path) -> Calibration:
    return calibrate(read_run(folder).plan, read_records(folder))


def shelf(folders: Iterable[Path]) -> list[Kept]:
    """All runs of real times among some folders; raises Mistake on a damaged one."""
    return [read_kept(folder) for folder in folders if not read_run(folder).rehearsed]
