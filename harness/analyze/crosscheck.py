"""Cross-checks: a model that knows some of the measured cells, held against all the others.

A factorial measures every stack of a few switches. So the cells that the design `matrix` would have measured can be
given to the model, and what it says of the rest can be compared with what was seen, which no matrix can do for itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from harness.analyze.prediction import Predicted, fit_without, predicted
from harness.analyze.study import Arrangement, Compared, Stack, Study
from harness.core.cell import Switch

NORMAL_90 = 1.645  # standard deviations that hold 90 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One stack that the model did not know: what it said, and what was measured."""

    predicted: Predicted
    ratio: float  # as measured
    deviation: float  # of the log of that
    multiplied: float | None  # the product of what its switches give alone; None where one was not measured alone

    @property
    def error(self) -> float:
        """By which share the prediction is off."""
        return abs(self.predicted.ratio / self.ratio - 1)

    @property
    def is_inside(self) -> bool:
        """Whether the measured ratio lies in the predicted 90 % interval, which both errors widen."""
        half_width = np.log(self.predicted.high / self.predicted.ratio)
        noise = NORMAL_90 * self.deviation
        return bool(abs(np.log(self.predicted.ratio / self.ratio)) <= np.hypot(half_width, noise))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """How a model that knows the cells of a matrix foretells all other measured stacks."""

    fitted: int  # cells that the model knew, the reference among them
    cells: tuple[Checked, ...]  # the others, the fastest measured first

    @property
    def median_error(self) -> float:
        """Of the predicted ratios."""
        return median(one.error for one in self.cells)

    @property
    def worst_error(self) -> float:
        """Of the predicted ratios."""
        return max(one.error for one in self.cells)

    @property
    def inside(self) -> float:
        """The share of them inside their 90 % intervals."""
        return sum(one.is_inside for one in self.cells) / len(self.cells)

    @property
    def multiplied_error(self) -> float | None:
        """The median error of multiplying what each switch gives alone: what most would do without a model."""
        found = [abs(one.multiplied / one.ratio - 1) for one in self.cells if one.multiplied is not None]
        return median(found) if len(found) == len(self.cells) else None


def cross_checked(study: Study, known: Collection[Stack]) -> CrossCheck | None:
    """What a model fitted to the known stacks says of all others; None where there are no others, or nothing else.

    Only ratios over the study's first reference are foretold; what was measured against anything else is left out.
    """
    reference = study.ratios[0].reference
    hidden = tuple(one for one in study.ratios if one.treatment.switches not in known)
    tests = tuple(one for one in hidden if one.reference == reference)
    if not tests or len(hidden) == len(study.ratios):
        return None
    model = fit_without(study, hidden)
    alone = _alone(study, reference)
    said = predicted(model, [one.treatment for one in tests], reference)
    found = [_checked(one, told, alone) for one, told in zip(tests, said, strict=True)]
    kept = {one.treatment for one in study.ratios if one not in hidden}
    return CrossCheck(fitted=len(kept | {reference}), cells=tuple(sorted(found, key=lambda one: -one.ratio)))


def _alone(study: Study, reference: Arrangement) -> Mapping[Switch, float]:
    """The log ratio of each switch that was measured by itself."""
    below, found = set(reference.switches), {}
    for one in study.ratios:
        added = set(one.treatment.switches) - below
        if one.reference == reference and len(added) == 1:
            found[added.pop()] = one.log_ratio
    return found


def _checked(one: Compared, told: Predicted, alone: Mapping[Switch, float]) -> Checked:
    added = set(one.treatment.switches) - set(one.reference.switches)
    product = sum(alone[switch] for switch in added) if added <= alone.keys() else None
    return Checked(
        predicted=told,
        ratio=float(np.exp(one.log_ratio)),
        deviation=one.deviation,
        multiplied=None if product is None else float(np.exp(product)),
    )
