"""Notes: what a reader must know beside an estimate before trusting it."""

import math
from collections.abc import Iterator

from harness.analyze.estimate import Estimate
from harness.analyze.profile import Profile
from harness.analyze.quality import Agreement, Quality
from harness.core.protocol import Protocol

Arms = tuple[Profile | None, Profile | None]  # the treatment, the reference


def notes(estimate: Estimate, quality: Quality | None, arms: Arms, protocol: Protocol) -> tuple[str, ...]:
    """The sentences that belong to one estimate; none is good news."""
    return tuple(_notes(estimate, quality, arms, protocol))


def _notes(estimate: Estimate, quality: Quality | None, arms: Arms, protocol: Protocol) -> Iterator[str]:
    yield from _of_the_machine(estimate)
    if estimate.withheld:
        yield unproven(estimate)
    if estimate.outlying:
        yield "its restarts disagree more than those of its neighbours: add restarts"
    yield from _of_the_windows(estimate)
    yield from _of_the_tails(estimate, arms)
    if estimate.in_turn:
        yield (
            f"restarts in turn: memory did not hold both arms at once, so in {estimate.in_turn} of its restarts one "
            "was timed after the other, and what the machine did between them is in its ratio"
        )
    if sentence := _still_wide(estimate, protocol):
        yield sentence
    if estimate.processes < protocol.restarts:
        yield f"{estimate.processes} of {protocol.restarts} restarts so far"
    if any(arm is not None and not arm.steady for arm in arms):
        yield "not settled when its warm-up ended"
    if quality is not None and quality.status not in {Agreement.SAME_BITS, Agreement.CLOSE}:
        yield f"quality {quality.status}: {quality.sentence}"


def _of_the_machine(estimate: Estimate) -> Iterator[str]:
    if estimate.unrest:
        yield f"the machine was too disturbed: {estimate.unrest}"
    if estimate.device is not None:
        yield from (one for one in estimate.device.remarks() if one != estimate.unrest)


def _of_the_windows(estimate: Estimate) -> Iterator[str]:
    if estimate.left_out:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in estimate.left_out)
        count = sum(count for _, count in estimate.left_out)
        yield f"{count} of {estimate.windows} windows were left out: {reasons}"
    if estimate.sensitive:
        yield (
            f"a few windows carry much of the total time: a mean that leaves out the extreme ones would say "
            f"{estimate.trimmed_ratio:.2f}x"
        )


def _of_the_tails(estimate: Estimate, arms: Arms) -> Iterator[str]:
    """What the slowest steps of the reference take, then those of the treatment."""
    treatment, reference = arms
    for found, arm, whose in zip(estimate.tails, (reference, treatment), ("the reference's", "its"), strict=True):
        if found is not None and found.matters(_workers(arm)):
            yield found.sentence(whose)


def _workers(arm: Profile | None) -> int:
    """Loader workers that its switches ask for."""
    levels = [one.level for one in arm.cell.switches if one.name == "workers"] if arm else []
    return max((one for one in levels if isinstance(one, int)), default=0)


def unproven(estimate: Estimate) -> str:
    """What is said of an interval that would be a verdict on a machine which finds smaller effects."""
    if math.isinf(estimate.terms.margin):
        return "no verdict: calibrated, this machine found none of the delays that were put in"
    return f"no verdict: calibrated, this machine found no delay below {100 * estimate.terms.margin:.0f} %"


def _still_wide(estimate: Estimate, protocol: Protocol) -> str | None:
    """What is said of an interval that has not come down to the target."""
    half_width = estimate.half_width
    if protocol.target is None or half_width <= protocol.target:
        return None
    width = f"±{100 * math.expm1(half_width):.1f} %" if half_width < 1 else "no useful bounds"
    seen = f"{width} after {estimate.processes} restarts, the target is ±{100 * protocol.target:.3g} %"
    if estimate.processes >= protocol.most_restarts:
        return f"{seen}: no more are planned"
    return f"{seen}: more time narrows it"
