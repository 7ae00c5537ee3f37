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


def alone(bursts: Iterable[Burst], position: int) -> tuple[Burst, ...]:
    """The bursts of the arm at `position` in lives that timed no other arm, of one restart of one block."""
    bursts = tuple(bursts)
    shared = {burst.arm.life for burst in bursts if burst.arm.position != position}
    return tuple(burst for burst in bursts if burst.arm.position == position and burst.arm.life not in shared)


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
