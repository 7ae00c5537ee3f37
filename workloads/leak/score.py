"""Scores of verdicts against the truth, both (files,) of bool; a share of nothing is 0."""

import numpy as np
import numpy.typing as npt

Verdicts = npt.NDArray[np.bool_]


def f1(found: Verdicts, truth: Verdicts) -> float:
    """Harmonic mean of precision and recall."""
    return _share(2 * int((found & truth).sum()), int(found.sum() + truth.sum()))


def precision(found: Verdicts, truth: Verdicts) -> float:
    """The share of leaks among what was called a leak."""
    return _share(int((found & truth).sum()), int(found.sum()))


def recall(found: Verdicts, truth: Verdicts) -> float:
    """The share of leaks that were found."""
    return _share(int((found & truth).sum()), int(truth.sum()))


def accuracy(found: Verdicts, truth: Verdicts) -> float:
    """The share of right verdicts: high for a model that finds nothing where there is little to find."""
    return _share(int((found == truth).sum()), len(truth))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
