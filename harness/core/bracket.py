"""Brackets: a treatment's burst between the two bursts of its reference that stand nearest in time."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.measurement import Burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """A treatment's burst with its neighbours, all of one life."""

    treatment: Burst
    before: Burst
    after: Burst


def brackets(bursts: Iterable[Burst], position: int) -> tuple[Bracket, ...]:
    """All brackets of the arm at `position` in one life; a burst without both neighbours belongs to none."""
    found = []
    before: Burst | None = None
    waiting: list[Burst] = []
    for burst in sorted(bursts, key=lambda burst: burst.order):
        if burst.arm.position == 0:
            if before is not None:
                found += [Bracket(treatment=one, before=before, after=burst) for one in waiting]
            before, waiting = burst, []
        elif burst.arm.position == position:
            waiting.append(burst)
    return tuple(found)
