"""Range tests: at which learning rates a training learns, from losses under a rate that grew with every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from harness.core.workload import Ranged

WINDOW = 10  # parts of the test, over one of which losses are averaged
FEWEST_STEPS = 20
WANDERING = 6  # times what a mean of losses wanders by itself, below which nothing rose or fell


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one test showed; rates that it never came to are None."""

    steepest: float | None  # where the loss falls fastest
    least: float | None  # where it is least
    limit: float | None  # from where on it is above where it began


@dataclass(frozen=True, slots=True)
class Between:
    """A rate as several tests have it: the geometric mean, and the least and the greatest of them."""

    rate: float
    low: float
    high: float


def reach_of(test: Ranged) -> int:
    """How many steps on either side of one a mean takes in."""
    return max(1, test.steps // (2 * WINDOW))


def smoothed(losses: Sequence[float], reach: int) -> list[float]:
    """Means over as many steps before as after, so that nothing is seen later than it happens."""
    parts = (losses[max(0, place - reach) : place + reach + 1] for place in range(len(losses)))
    return [sum(part) / len(part) for part in parts]


def found_in(test: Ranged) -> Rates:
    """Where the loss falls, is least, and has lost what was learned."""
    rates = [rate for rate, _ in test.points]
    finite = [loss for _, loss in test.points if math.isfinite(loss)]
    reach = reach_of(test)
    means = smoothed(finite, reach)
    start, wanders = means[min(reach, len(means) - 1)], WANDERING * _wanders(finite, means, 2 * reach + 1)
    least = min(range(len(means)), key=means.__getitem__)
    falls = {at: means[at + reach] - means[at - reach] for at in range(reach, least - reach + 1)}
    steepest = min(falls, key=falls.__getitem__, default=None)
    worse = next((at for at in range(least, len(means)) if means[at] > start + wanders), None)
    if worse is None and len(finite) < len(rates):
        worse = len(finite)
    learned = steepest is not None and means[least] < start - wanders
    return Rates(
        steepest=rates[steepest] if learned and steepest is not None else None,
        least=rates[least] if learned else None,
        limit=None if worse is None else rates[worse],
    )


def _wanders(losses: Sequence[float], means: Sequence[float], steps: int) -> float:
    """By how much a mean over so many steps is off by chance, from how far single losses lie from it."""
    apart = median(abs(one - mean) for one, mean in zip(losses, means, strict=True))
    return apart / NormalDist().inv_cdf(0.75) / math.sqrt(steps)


def agreed(rates: Sequence[float | None]) -> Between | None:
    """What all tests say, or None where one of them says nothing."""
    known = [one for one in rates if one is not None]
    if not known or len(known) < len(rates):
        return None
    return Between(math.exp(sum(map(math.log, known)) / len(known)), min(known), max(known))
