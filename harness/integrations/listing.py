"""Listing: the comparisons that a front end shows, known from the plan before anything is measured, and without torch.

What is listed is the first look: as many comparisons of each workload as the time is likely to buy, in the order of
the design `alone`, and every missing result of the plan with its words.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.measuring import seconds_of
from harness.cli.planning import SMALLEST_POOL, Wish, prepared
from harness.cli.reading import read_kept
from harness.core.configuration import Comparison
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.integrations.configurations import Wanted
from harness.plan.cost import Pace, arm_s
from harness.report.words import one_line
from harness.store import read_records, read_run

STACKS = ("all", "original")  # subjects that stand for several options


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user of a front end asks for."""

    workloads: tuple[str, ...] = ()  # all of them when empty
    size: str | None = None
    devices: tuple[str, ...] = ("auto",)
    budget: str = "4m40s"  # for all workloads of a device together
    run: Path | None = None  # a run that was measured, to be shown instead of measuring


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


def listed(asked: Asked) -> tuple[Listed, ...]:
    """All that is asked for; raises Mistake where that cannot be."""
    if asked.run is not None:
        return tuple(_recorded(asked.run))
    return tuple(dict.fromkeys(one for device in asked.devices for one in _planned(asked, device)))


def wanted(asked: Asked, listing: Sequence[Listed], selected: Collection[Listed]) -> Wanted:
    """What is measured in one run for those that were selected of a device's listing.

    Where they are a part of what is listed of one workload, they come first, and of the rest only as many as give them
    a pool to share variances with. Where they are the same stack on many workloads, it is measured alone. Raises
    ValueError where no comparison is selected.
    """
    measurable = [one for one in listing if one.comparison is not None]
    chosen = [one for one in measurable if one in selected]
    first, *others = dict.fromkeys(one.workload for one in chosen)
    whole = Wanted(workload=first, others=tuple(others), size=asked.size, device=chosen[0].device, budget=asked.budget)
    if others:
        same = chosen[0].label if len({one.label for one in chosen}) == 1 else None
        return replace(whole, stack=same) if same in STACKS and len(chosen) >= SMALLEST_POOL else whole
    available = [one for one in measurable if one.workload == first]
    return whole if len(chosen) == len(available) else _narrowed(whole, available, chosen)


def _narrowed(whole: Wanted, available: Sequence[Listed], chosen: Sequence[Listed]) -> Wanted:
    stacks = [one.label for one in chosen if one.label in STACKS]
    if len(stacks) > 1:  # a command names one at most
        return whole
    alone = [one.label for one in chosen if one.label not in STACKS]
    company = [one.label for one in available if one.label not in STACKS and one.label not in alone]
    missing = max(0, SMALLEST_POOL - len(chosen))
    return replace(whole, stack=next(iter(stacks), None), labels=(*alone, *company[:missing]))


def _planned(asked: Asked, device: str) -> Iterator[Listed]:
    ready = prepared(_wish(asked, device))
    plan, budget_s = ready.plan, seconds_of(asked.budget)
    by_workload: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in plan.comparisons:
        by_workload[comparison.reference.workload].append(comparison)
    for name, comparisons in by_workload.items():
        share_s = None if budget_s is None else budget_s / len(by_workload)
        for comparison in comparisons[: _affordable(plan, share_s, ready.paces[name])]:
            yield _comparable(comparison, plan, ready.environment.device)
    yield from _no_results(plan, ready.environment.device)


def _wish(asked: Asked, device: str) -> Wish:
    """What `run` with the same words wishes."""
    return Wish(
        workloads=asked.workloads, size=asked.size, batch=None, design="alone", only=(), stack=None,
        reference="baseline", probe=None, protocol="brief", replicates=None, rounds=None, seed=0, device=device,
        own=None, target="none",
    )  # fmt: skip


def _affordable(plan: Plan, share_s: float | None, pace: Pace) -> int | None:
    """How many treatments so much time is likely to buy, by the guess that a campaign begins with; None for all."""
    if share_s is None:
        return None
    return max(SMALLEST_POOL, int(share_s / (plan.protocol.replicates * arm_s(plan.protocol, pace))) - 1)


def _recorded(folder: Path) -> Iterator[Listed]:
    """What a run measured or tried, and its missing results; raises Mistake where it is no run or rehearsed."""
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
