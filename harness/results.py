"""The result store, read: runs as matrices, each under the thresholds that its machine's calibration decides."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from harness.analyze.calibration import DESIGN, Calibration, calibrate
from harness.analyze.collection import TOO_SMALL, StoredRun
from harness.analyze.comparison import Known, parse_limits
from harness.analyze.grouping import together
from harness.analyze.isolation import BothWays, both_ways
from harness.analyze.matrix import Matrix, build_matrix
from harness.analyze.race import Race
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.catalogue import read_catalogue
from harness.core.codec import Malformed, decode
from harness.core.mistake import Mistake
from harness.core.plan import BOTH_WAYS, TUNED, Plan
from harness.core.records import Record
from harness.store import MEASUREMENTS, RUN, Run, is_finished, is_own, read_records, read_run

LIMITS = Path(__file__).parent / "limits.toml"


def finished(results: Path) -> list[Path]:
    """The folders of all runs that have nothing left to measure, by machine and day."""
    folders = sorted(path.parent for path in results.glob(f"*/*/{RUN}"))
    return without_copies([folder for folder in folders if is_finished(folder)])


def without_copies(folders: Sequence[Path]) -> list[Path]:
    """Each run once, and a word about its copies: the average of a run with itself would seem surer than it is."""
    alike = together(((is_own(one), *_sizes(one)), one) for one in folders)
    copies: set[Path] = set()
    for several in (group for group in alike.values() if len(group) > 1):
        kept: list[Path] = []
        for folder in sorted(several, key=_is_elsewhere):
            if original := next((one for one in kept if _is_copy(folder, one)), None):
                copies.add(folder)
                _tell_once(f"{folder} is a copy of {original} and left out; keep it in no folder of results.")
            else:
                kept.append(folder)
    return [folder for folder in folders if folder not in copies]


def _sizes(folder: Path) -> Iterator[int | None]:
    paths = (folder / name for name in (RUN, MEASUREMENTS))
    return (path.stat().st_size if path.exists() else None for path in paths)


def _is_copy(one: Path, other: Path) -> bool:
    """Whether two folders whose files have the same sizes hold the same run."""
    names = (name for name in (RUN, MEASUREMENTS) if (one / name).exists())
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def _is_elsewhere(folder: Path) -> bool:
    """Whether a run lies below another name than its machine's."""
    return read_run(folder).environment.machine != folder.resolve().parent.name


def finished_and_measured(results: Path) -> list[Path]:
    """Those of real times; raises Mistake where there is none."""
    found = [folder for folder in finished(results) if not read_run(folder).rehearsed]
    if not found:
        raise Mistake(f"There is no finished run in {results}; ./speedmatrix run measures one.")
    return found


LEARNED = "learned"  # below a machine's folder: what `learn --until` kept


def races_below(machine: Path) -> tuple[Race, ...]:
    """The races that a machine's folder holds; raises Mistake for a file that is damaged."""
    found = []
    for path in sorted((machine / LEARNED).glob("*.json")):
        try:
            found.append(decode(Race, json.loads(path.read_text(encoding="utf-8")), path.name))
        except (ValueError, Malformed) as error:
            raise Mistake(f"{path} is damaged ({error}); remove it, or measure it again.") from error
    return tuple(found)


def read_kept(folder: Path) -> StoredRun:
    """One run, finished or not; raises Mistake when the folder is none, damaged, or its times are invented."""
    with read_whole(folder) as (run, records):
        if run.rehearsed:
            raise Mistake(
                f"{folder} was rehearsed: its times are invented and prove nothing; name a run that was measured."
            )
        return stored(folder, run, records)


@contextmanager
def read_whole(folder: Path) -> Iterator[tuple[Run, list[Record]]]:
    """A run and its records, to be analysed inside; raises Mistake when the folder is none or damaged.

    Well-formed records may still say what no analysis bears, such as a window without samples, so that whatever is
    raised inside for a number or a name that cannot be is the folder's fault too.
    """
    run, records = read_run(folder), read_records(folder)
    try:
        _check_arms(run.plan, records)
        with np.errstate(divide="raise", invalid="raise"):
            yield run, records
    except (LookupError, ValueError, ArithmeticError) as error:
        raise Mistake(
            f"{folder} is damaged: its records do not fit its plan ({error!r}); ./speedmatrix bundle {folder} names "
            "the first that does not, and without the folder the other runs can be read."
        ) from error


def _check_arms(plan: Plan, records: Iterable[Record]) -> None:
    """Raises LookupError for a record of an arm that the plan does not have."""
    last = {block.identity: len(block.comparisons) for block in plan.blocks}
    for arm in (record.arm for record in records):
        if not 0 <= arm.position <= last.get(arm.block, -1):
            raise LookupError(f"the plan has no position {arm.position} in block '{arm.block}'")


def stored(folder: Path, run: Run, records: Iterable[Record]) -> StoredRun:
    """A run that was read, with its matrix under the thresholds of the calibration beside it."""
    matrix = build_matrix(run.plan, records, run.environment, calibration_beside(folder, run))
    return StoredRun(
        name=folder.resolve().name,
        began=run.began,
        command=run.command,
        version=run.version,
        matrix=replace(matrix, contributed=not is_own(folder)),
    )


def calibration_beside(folder: Path, run: Run) -> Calibration | None:
    """What the machine of a run has shown: of the finished calibrations beside it the nearest in time, or None.

    A machine that is shared can tell less on a busy day, which says little of the runs of a calm one. It must be of the
    same environment, and nobody's but theirs who made the run: somebody else's machine may have the same parts and
    another neighbour.
    """
    is_ours, began = is_own(folder), datetime.fromisoformat(run.began)
    nearest: tuple[timedelta, Path] | None = None
    for other in sorted((one.parent for one in folder.resolve().parent.glob(f"*/{RUN}")), reverse=True):
        found = _calibrating(other) if is_own(other) is is_ours else None
        if found is None:
            continue
        # Windows of before 0.3.0 say nothing of those that steps lead into, nor equal arms under malloc thresholds of
        # ours, as all were up to schema 3, of those without.
        away = abs(datetime.fromisoformat(found.began) - began)
        if _conditions(found) == _conditions(run) and decides(found) and (nearest is None or away < nearest[0]):
            nearest = away, other
    return None if nearest is None else _calibration(nearest[1])


def _conditions(run: Run) -> tuple[object, ...]:
    is_tuned = any(one.name == TUNED for block in run.plan.blocks for one in block.reference.options)
    return run.environment.digest, run.rehearsed, run.plan.protocol.lead_s > 0, is_tuned


def decides(run: Run) -> bool:
    """Whether a run is a calibration at sizes that prove something, of arms that have processes of their own."""
    return run.plan.design == DESIGN and all(
        one.reference.size != TOO_SMALL and not one.shared for one in run.plan.blocks
    )


def _calibrating(folder: Path) -> Run | None:
    """A run that is finished and may be of the design, told by its text: to read every run would take long.

    One that cannot be read is left out with a word about it: it says nothing of the others beside it.
    """
    try:
        may_be = is_finished(folder) and f'"{DESIGN}"'.encode() in (folder / RUN).read_bytes()
        return read_run(folder) if may_be else None
    except (OSError, Mistake) as error:
        _tell_once(f"Left out as a calibration: {error}")
        return None


@cache
def _tell_once(words: str) -> None:
    sys.stderr.write(f"{words}\n")


@cache  # a finished run stays as it is, and every run beside it asks
def _calibration(folder: Path) -> Calibration:
    with read_whole(folder) as (run, records):
        return calibrate(run.plan, records)


def measured_both_ways(folders: Iterable[Path]) -> Iterator[BothWays]:
    """What all runs of the design `isolation` among some folders say, by machine and day."""
    for folder in folders:
        run = read_run(folder)
        if run.plan.design != BOTH_WAYS or run.rehearsed:
            continue
        with read_whole(folder) as (_, records):
            found = tuple(both_ways(run.plan, records, run.environment, thresholds_of(folder)))
        yield from found


def stored_runs(folders: Iterable[Path]) -> list[StoredRun]:
    """All runs among some folders that tell of workloads; raises Mistake on a damaged one."""
    return [read_kept(folder) for folder in folders if answers(read_run(folder))]


def answers(run: Run) -> bool:
    """Whether a run tells of workloads: its times are real, and it does not hold two ways to measure together."""
    return not run.rehearsed and run.plan.design != BOTH_WAYS


def newest(results: Path) -> Path:
    """The newest run below a folder that was measured here; raises Mistake when there is none."""
    found = [path.parent for path in results.glob("*/*/run.json") if is_own(path.parent)]
    if not found:
        raise Mistake(f"There is no run in {results} that was measured here; ./speedmatrix run makes one.")
    return max(found, key=lambda folder: folder.name)


def matrix_of(folder: Path) -> Matrix:
    """The matrix of a run, finished or not; raises Mistake when the folder is none or damaged."""
    with read_whole(folder) as (run, records):
        return stored(folder, run, records).matrix


def thresholds_of(folder: Path) -> Thresholds:
    """What the machine's calibration decides for every interval: looks and reports must know the same width."""
    calibration = calibration_beside(folder, read_run(folder))
    return calibration.thresholds if calibration else UNCALIBRATED


def known_limits() -> Known:
    """What devices can do at most, and how many operations a sample takes: a comparison explains itself by them."""
    work = {
        (name, size): count
        for name, workload in read_catalogue().workloads.items()
        for size, count in workload.operations.items()
    }
    return Known(limits=parse_limits(LIMITS.read_text(encoding="utf-8"), LIMITS.name), work=work)
