"""Deciding: about how many restarts would end an `undecided`."""

import math

from harness.analyze.estimate import Estimate
from harness.analyze.verdict import limits

MOST_RESTARTS = 100  # beyond which nobody will wait for a verdict


def restarts_to_decide(estimate: Estimate) -> int | None:
    """About how many restarts give a verdict, if the estimate stays where it is; None where none in reach do.

    An interval narrows with the root of its restarts, so one that must come down from hw to the gap that separates the
    estimate from the nearest verdict takes R·(hw/gap)².
    """
    if math.isinf(estimate.terms.margin) or math.isinf(estimate.high):
        return None
    centre, half_width = math.log(estimate.ratio), estimate.half_width
    bounds = limits(estimate.terms.margin)
    gaps = [centre - math.log(bounds.faster), math.log(max(bounds.slower, 0.01)) - centre]
    if bounds.same:
        gaps.append(min(centre - math.log(bounds.same[0]), math.log(bounds.same[1]) - centre))
    if max(gaps) <= 0:
        return None
    needed = math.ceil(estimate.processes * (half_width / max(gaps)) ** 2)
    return max(needed, estimate.processes + 1) if needed <= MOST_RESTARTS else None
