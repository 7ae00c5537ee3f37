"""The shelf: all runs below a folder of results, read for those that show or compare many."""

from collections.abc import Iterable
from pathlib import Path

from harness.analyze.collection import Kept
from harness.analyze.matrix import build_matrix
from harness.core.mistake import Mistake
from harness.store import IN_PROGRESS, RUN, read_records, read_run

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
    matrix = build_matrix(run.plan, read_records(folder), run.environment)
    return Kept(
        name=folder.resolve().name,
        began=run.began,
        command=run.command,
        version=run.version,
        matrix=matrix,
        contributed=(folder / ORIGIN).exists(),
    )


def shelf(folders: Iterable[Path]) -> list[Kept]:
    """All runs of real times among some folders; raises Mistake on a damaged one."""
    return [read_kept(folder) for folder in folders if not read_run(folder).rehearsed]
