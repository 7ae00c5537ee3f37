"""Notes: what a reader must know beside an estimate before trusting it."""

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
    if estimate.disturbed:
        change = f"{100 * estimate.interference:.0f} %"
        yield f"the machine was too disturbed: the reference's own rate changed by {change} from burst to burst"
    if estimate.outlying:
        yield "its restarts disagree more than those of its neighbours: add restarts"
    if estimate.sensitive:
        yield f"a few brackets stand far out and are left out: with them it is {estimate.plain_ratio:.2f}x"
    if estimate.processes < protocol.restarts:
        yield f"{estimate.processes} of {protocol.restarts} restarts so far"
    if any(arm is not None and not arm.steady for arm in arms):
        yield "not settled when its warm-up ended"
    if quality is not None and quality.status not in {Agreement.SAME_BITS, Agreement.CLOSE}:
        yield f"quality {quality.status}: {quality.sentence}"
