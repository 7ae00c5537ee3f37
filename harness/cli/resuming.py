"""Resuming: which unfinished run a command goes on with, and when it must not."""

from collections.abc import Iterator
from pathlib import Path

from harness.core.environment import differing
from harness.core.mistake import Mistake
from harness.store import RUN, Run, in_progress, read_run, stamp_of, unfinished


def resumable(results: Path, run: Run) -> Path | None:
    """The folder of the run that the same command has begun, or None.

    Raises Mistake where it was begun under other conditions: windows of two of them are never one measurement.
    """
    found = in_progress(results, run.digest)
    # A damaged one is noticed before anything is written beside it; one of a former baseline is left alone.
    if found is not None and read_run(found).plan == run.plan:
        return found
    for folder, other in _begun_elsewise(results, run):
        raise Mistake(
            f"This command has begun the run in {folder} under other conditions: {'; '.join(changes(other, run))}. "
            "Restore them to continue it, or begin anew with --fresh."
        )
    return None


def changes(before: Run, now: Run) -> Iterator[str]:
    """What differs between the conditions of two runs, each as `name was, now is`."""
    if before.version != now.version:
        yield f"speedmatrix was {before.version}, now is {now.version}"
    for name, was, is_now in differing(before.environment, now.environment):
        yield f"{name} was {_shown(was)}, now is {_shown(is_now)}"


def clock_note(results: Path, run: Run) -> str | None:
    """Words where a run says that it began later than now, as after a clock that went back; else None."""
    folders = (path.parent.name for path in (results / run.environment.machine).glob(f"*/{RUN}"))
    newest = max(folders, default="")
    if newest.partition("-")[0] <= stamp_of(run):
        return None
    return (
        f"The clock says {run.began}, and the run {newest} says that it began later. Nothing is lost by that, but "
        "reports take the run with the later name for the newest."
    )


def _begun_elsewise(results: Path, run: Run) -> Iterator[tuple[Path, Run]]:
    """Unfinished runs of the same plan or command on this machine under other conditions, the newest first.

    One that is older than a run of today's conditions was left behind on purpose, by --fresh.
    """
    machine = results / run.environment.machine
    since = max((path.name for path in machine.glob(f"*-{run.digest}")), default="")
    for folder in reversed(unfinished(results)):
        other = _readable(folder) if folder.parent == machine and folder.name > since else None
        if other is None or other.rehearsed != run.rehearsed:
            continue
        same = other.plan == run.plan or other.command == run.command
        if same and any(changes(other, run)):
            yield folder, other


def _readable(folder: Path) -> Run | None:
    """What a run is; None of one that is damaged: nobody could continue it, and whoever reports it is told."""
    try:
        return read_run(folder)
    except Mistake:
        return None


def _shown(fact: str | int | None) -> str:
    return "missing" if fact is None else str(fact)
