"""Staging: the runs of a search, each a folder of its own that a later call finds again and goes on with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.analyze.winner import SEARCH
from harness.cli.foretelling import Ground
from harness.cli.measuring import run_of
from harness.cli.planning import Prepared, Wish
from harness.core.plan import Plan
from harness.store import IN_PROGRESS, RUN, Run, create, read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where and how long a search measures."""

    results: Path
    measure: Callable[[Prepared, Path, float | None], None]  # a plan into its folder, until a moment of the clock
    clock: Callable[[], float]
    began_s: float
    budget_s: float | None
    fresh: bool
    tell: Callable[[str], None]

    def until(self, share: float) -> float | None:
        """The moment at which a share of the budget is spent."""
        return None if self.budget_s is None else self.began_s + share * self.budget_s

    def is_time_left(self, share: float) -> bool:
        """Whether that moment is still to come."""
        moment = self.until(share)
        return moment is None or self.clock() < moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Quest:
    """One search: what is wanted, its first plan, the stacks there are, and the place where it is measured."""

    wish: Wish
    ready: Prepared
    ground: Ground
    bench: Bench


def is_unfinished(folder: Path) -> bool:
    """Whether something of a run is left to measure."""
    return (folder / IN_PROGRESS).exists()


def staged(quest: Quest, plan: Plan, until: float, since: str | None) -> Path:
    """The folder of a plan's run, measured as far as a share of the time allows; an earlier one is gone on with.

    Without `since` any earlier run will do, unless a fresh one was asked for; else one that began no earlier.
    """
    bench, run = quest.bench, run_of(replace(quest.ready, plan=plan))
    before = sorted(bench.results.glob(f"*/*-{run.digest}/{RUN}"), key=lambda path: path.parent.name)
    usable = [path.parent for path in before if since is None or read_run(path.parent).began >= since]
    folder = usable[-1] if usable and not (bench.fresh and since is None) else create(bench.results, run)
    go_on(quest, folder, until)
    return folder


def go_on(quest: Quest, folder: Path, until: float) -> None:
    """Measures what is left of a run, as far as a share of the time allows."""
    if is_unfinished(folder) and quest.bench.is_time_left(until):
        ready = replace(quest.ready, plan=read_run(folder).plan)
        quest.bench.measure(ready, folder, quest.bench.until(until))


def rounds_before(quest: Quest, first: Path) -> list[Path]:
    """Runs of proposals that were made since the first run, on the same machine with the same program."""
    start = read_run(first)
    found = []
    for path in sorted(quest.bench.results.glob(f"*/*/{RUN}"), key=lambda path: path.parent.name):
        run = read_run(path.parent)
        if run.plan.design == SEARCH and run.began >= start.began and _conditions(run) == _conditions(start):
            found += [path.parent] if _is_of(run.plan, start.plan) else []
    return found


def _conditions(run: Run) -> tuple[object, ...]:
    return run.version, run.environment.digest, run.plan.protocol, run.plan.seed, run.plan.data


def _is_of(plan: Plan, first: Plan) -> bool:
    """Whether a run of proposals is about switches of the first run alone, against the same reference."""
    switches = {switch for one in first.comparisons for switch in one.treatment.switches}
    reference = first.blocks[0].reference
    return all(one.reference == reference and switches.issuperset(one.treatment.switches) for one in plan.comparisons)
