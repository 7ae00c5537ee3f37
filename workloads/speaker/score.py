"""The field's measures of a verifier: equal error rate and minimum detection cost, by numpy and by loops as found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

TARGET_SHARE = 0.05  # of trials of one speaker, as the detection cost assumes it
MISS_COST = 1.0
FALSE_ACCEPT_COST = 1.0

Answers = npt.NDArray[np.bool_]  # (trials,): whether both utterances are of one speaker


@dataclass(frozen=True, slots=True)
class Verification:
    """How well scores tell same from other speakers; both numbers are NaN if a score is not finite."""

    equal_error_rate: float  # from 0 to 1
    detection_cost: float  # the least over all thresholds, as a share of what the better constant answer costs


Rate = TypeVar("Rate", float, npt.NDArray[np.float64])
Measure = Callable[[Sequence[float], Answers], Verification]
UNDEFINED = Verification(float("nan"), float("nan"))  # sorting would otherwise make numbers of scores that are none


def measured(scores: Sequence[float], same: Answers) -> Verification:
    """All thresholds at once.

    The equal error rate is where false accepts and false rejects lie closest, the larger of the two; the detection cost
    is that of NIST's evaluation plans.
    """
    values = np.asarray(scores)
    if not np.isfinite(values).all():
        return UNDEFINED
    thresholds = np.append(np.unique(values), np.inf)
    false_accepts = 1 - np.searchsorted(np.sort(values[~same]), thresholds) / (~same).sum()
    misses = np.searchsorted(np.sort(values[same]), thresholds) / same.sum()
    nearest = np.abs(false_accepts - misses).argmin()
    costs = _cost(misses, false_accepts)
    return Verification(max(float(false_accepts[nearest]), float(misses[nearest])), float(costs.min()))


def measured_by_loops(scores: Sequence[float], same: Answers) -> Verification:
    """As found: one threshold after the other in Python, for both measures."""
    if not np.isfinite(scores).all():
        return UNDEFINED
    targets = sum(map(bool, same))
    others = len(same) - targets
    missed, rejected, rates = 0, 0, []
    ordered = sorted(zip(scores, map(bool, same), strict=True))
    for _, tied in groupby(ordered, key=lambda trial: trial[0]):
        rates.append((missed / targets, 1 - rejected / others))
        for _, is_same in tied:
            missed, rejected = missed + is_same, rejected + (not is_same)
    rates.append((1.0, 0.0))
    nearest, least = (0.0, 1.0), float("inf")
    for misses, false_accepts in rates:
        if abs(false_accepts - misses) < abs(nearest[1] - nearest[0]):
            nearest = (misses, false_accepts)
        least = min(least, _cost(misses, false_accepts))
    return Verification(max(nearest), least)


def _cost(misses: Rate, false_accepts: Rate) -> Rate:
    cost = MISS_COST * misses * TARGET_SHARE + FALSE_ACCEPT_COST * false_accepts * (1 - TARGET_SHARE)
    return cost / min(MISS_COST * TARGET_SHARE, FALSE_ACCEPT_COST * (1 - TARGET_SHARE))
