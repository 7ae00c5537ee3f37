"""Listing: the comparisons that a front end shows, known from the plan before anything is measured, and without torch.

What is listed is the first look: as many comparisons of each workload as the time is likely to buy, in the order of
the design `alone`, and every missing result of the plan with its words.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.configuration import Comparison
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.core.request import Request
from harness.plan.cost import Pace, arm_s
from harness.plan.planning import SMALLEST_POOL
from harness.report.words import one_line
from harness.results import read_kept
from harness.run.preparation import prepared, seconds_of
from harness.store import read_records, read_run

STACKS = ("all", "original")  # subjects that stand for several options


BUDGET = "4m40s"  # for all workloads of a device together


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One comparison that can be shown, or a missing result."""

    device: str
    workload: str
    label: str
    name: str  # of its configuration, short: leak@quick#512:all; says what is timed where that is not steps
    reference: str  # what the reference is called
    comparison: Comparison | None  # None for a missing result
    reason: str | None = None  # the words of a missing result


def listed(requests: Iterable[Request], budget: str = BUDGET) -> tuple[Listed, ...]:
    """All that is asked for, each device in a request of its own; raises Mistake where that cannot be."""
    return tuple(dict.fromkeys(one for request in requests for one in _planned(request, budget)))


def wanted(asked: Request, listing: Sequence[Listed], selected: Collection[Listed]) -> Request:
    """What is measured in one run for those that were selected of a device's listing.

    Where they are a part of what is listed of one workload, they come first, and of the rest only as many as give them
    a pool to share variances with. Where they are the same stack on many workloads, it is measured alone. Raises
    ValueError where no comparison is selected.
    """
    measurable = [one for one in listing if one.comparison is not None]
    chosen = [one for one in measurable if one in selected]
    first, *others = dict.fromkeys(one.workload for one in chosen)
    whole = replace(asked, workloads=(first, *others), device=chosen[0].device)
    if others:
        same = chosen[0].label if len({one.label for one in chosen}) == 1 else None
        return replace(whole, stack=same) if same in STACKS and len(chosen) >= SMALLEST_POOL else whole
    available = [one for one in measurable if one.workload == first]
    return whole if len(chosen) == len(available) else _narrowed(whole, available, chosen)


def _narrowed(whole: Request, available: Sequence[Listed], chosen: Sequence[Listed]) -> Request:
    stacks = [one.label for one in chosen if one.label in STACKS]
    if len(stacks) > 1:  # a command names one at most
        return whole
    alone = [one.label for one in chosen if one.label not in STACKS]
    company = [one.label for one in available if one.label not in STACKS and one.label not in alone]
    missing = max(0, SMALLEST_POOL - len(chosen))
    return replace(whole, stack=next(iter(stacks), None), only=(*alone, *company[:missing]))


def _planned(request: Request, budget: str) -> Iterator[Listed]:
    ready = prepared(request)
    plan, budget_s = ready.plan, seconds_of(budget)
    by_workload: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in plan.comparisons:
        by_workload[comparison.reference.workload].append(comparison)
    for name, comparisons in by_workload.items():
        share_s = None if budget_s is None else budget_s / len(by_workload)
        for comparison in comparisons[: _affordable(plan, share_s, ready.paces[name])]:
            yield _comparable(comparison, plan, ready.environment.device)
    yield from _no_results(plan, ready.environment.device)


def _affordable(plan: Plan, share_s: float | None, pace: Pace) -> int | None:
    """How many treatments so much time is likely to buy, by the guess that a campaign begins with; None for all."""
    if share_s is None:
        return None
    return max(SMALLEST_POOL, int(share_s / (plan.protocol.replicates * arm_s(plan.protocol, pace))) - 1)


def recorded(folder: Path) -> tuple[Listed, ...]:
    """What a run measured or tried, and its missing results; raises Mistake where it is no run or rehearsed."""
    return tuple(dict.fromkeys(_recorded(folder)))


def _recorded(folder: Path) -> Iterator[Listed]:
    read_kept(folder)
    run = read_run(folder)
    begun = {(record.arm.block, record.arm.position) for record in read_records(folder)}
    for block in run.plan.blocks:
        for position, comparison in enumerate(block.comparisons, 1):
            if (block.identity, position) in begun:
                yield _comparable(comparison, run.plan, run.environment.device)
    yield from _no_results(run.plan, run.environment.device)


def _comparable(comparison: Comparison, plan: Plan, device: str) -> Listed:
    reference = comparison.reference
    short = f"{reference.workload}@{reference.size}#{reference.batch}:{comparison.label}"
    copy = f" ({comparison.copy + 1})" if comparison.copy else ""
    timed = "" if comparison.timing is Timing.STEP else f" {comparison.timing}"
    return Listed(
        device=device,
        workload=reference.workload,
        label=comparison.label,
        name=one_line(f"{short}{copy}{timed}"),
        reference=one_line(plan.names.get(str(reference)) or "+".join(map(str, reference.options)) or "baseline"),
        comparison=comparison,
    )


def _no_results(plan: Plan, device: str) -> Iterator[Listed]:
    for no_result in plan.no_results:
        yield Listed(
            device=device,
            workload=no_result.workload,
            label=no_result.label,
            name=one_line(f"{no_result.workload}:{no_result.label}"),
            reference="baseline",
            comparison=None,
            reason=one_line(no_result.reason),
        )
