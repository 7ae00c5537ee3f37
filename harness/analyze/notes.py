"""Notes: what a reader must know beside an estimate before trusting it."""

import math
from collections.abc import Iterable, Iterator

from harness.analyze.estimate import Estimate
from harness.analyze.profile import Profile
from harness.analyze.quality import Agreement, Quality
from harness.core.protocol import Protocol


def notes(
    estimate: Estimate, quality: Quality | None, arms: Iterable[Profile | None], protocol: Protocol
) -> tuple[str, ...]:
    """The sentences that belong to one estimate; none is good news."""
    return tuple(_notes(estimate, quality, arms, protocol))


def _notes(
    estimate: Estimate, quality: Quality | None, arms: Iterable[Profile | None], protocol: Protocol
) -> Iterator[str]:
    yield from _of_the_machine(estimate)
    if estimate.withheld:
        yield unproven(estimate)
    if estimate.outlying:
        yield "its restarts disagree more than those of its neighbours: add restarts"
    if estimate.sensitive:
        yield f"a few brackets stand far out and are left out: with them it is {estimate.plain_ratio:.2f}x"
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
