"""The equal error rate, the field's measure of a verifier."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def equal_error_rate(scores: Sequence[float], same: npt.NDArray[np.bool_]) -> float:
    """Where false accepts and false rejects lie closest over all thresholds, the larger of the two, from 0 to 1.

    Scores that are not finite give NaN: sorting would otherwise make a number of them.
    """
    values = np.asarray(scores)
    if not np.isfinite(values).all():
        return float("nan")
    thresholds = np.append(np.unique(values), np.inf)
    false_accepts = 1 - np.searchsorted(np.sort(values[~same]), thresholds) / (~same).sum()
    false_rejects = np.searchsorted(np.sort(values[same]), thresholds) / same.sum()
    nearest = np.abs(false_accepts - false_rejects).argmin()
    return max(float(false_accepts[nearest]), float(false_rejects[nearest]))
