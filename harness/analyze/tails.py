"""Tails: how much of an arm's time its slowest steps take.

A cache that misses, a slow object of a storage service, a garbage collection or a checkpoint takes seconds once in
hundreds of steps. Total time counts it in full, and whoever looks for time should look there first.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.measurement import Burst

SLOWEST = 0.01  # share of the steps that are looked at; one step at least
# A finding where those steps take so many times as long as the others in the mean. Ordinary scatter stays below: the
# slowest 1 % of steps take 1.7 times the mean of a lognormal law whose coefficient of variation is 0.2, 3.2 times
# where it is 0.5 and 6.8 times where it is 1; 5.6 times if times are exponential.
LEAST = 10.0
# Loader workers that finish side by side make one step of as many wait for all of them: that is no tail.
CLUMPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The slowest steps of an arm."""

    steps: int  # they are
    of: int  # all of its steps
    share: float  # of the time
    times: float  # as long as the other steps in the mean

    def matters(self, workers: int = 0) -> bool:
        """Whether they are no ordinary scatter, nor the clumps in which so many loader workers deliver."""
        return self.times >= max(LEAST, CLUMPS * workers)

    def sentence(self, whose: str) -> str:
        """The finding in words."""
        part = f"{100 * self.steps / self.of:.2g} %" if self.of >= 1 / SLOWEST else f"{self.steps} of {self.of}"
        return (
            f"{part} of {whose} steps take {100 * self.share:.0f} % of the time, {self.times:.0f} times as long as "
            "the others: look there first"
        )


def tail(bursts: Iterable[Burst], position: int) -> Tail | None:
    """The slowest 1 % of the steps of the arm at `position`; None where nobody took note of single steps.

    A window names its slowest 2 % or more. Where more of the arm's slowest steps lie in one window than it names, the
    share is larger than is told.
    """
    own = [one for one in bursts if one.arm.position == position and one.slowest_s]
    steps = sum(one.steps for one in own)
    if steps < 2:
        return None
    count = max(1, math.ceil(SLOWEST * steps))
    slowest_s = sorted((one for burst in own for one in burst.slowest_s or ()), reverse=True)[:count]
    all_s, their_s = sum(one.wall_s for one in own), sum(slowest_s)
    others_s = (all_s - their_s) / (steps - len(slowest_s)) if steps > len(slowest_s) else 0.0
    if others_s <= 0:
        return None
    return Tail(steps=len(slowest_s), of=steps, share=their_s / all_s, times=their_s / len(slowest_s) / others_s)
