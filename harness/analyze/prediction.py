"""Predictions: speedups of stacks that nobody measured, where the stage model has earned it.

The model is fitted without the balanced stacks and must foretell them: within 4 % in the median, and four in five of
them inside their 90 % intervals. Then it is fitted on everything, and what it says of other stacks is published as
predictions, with 90 % intervals. Otherwise there are words. A prediction never decides a verdict.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.fitting import fit
from harness.analyze.stages import Fitted
from harness.analyze.study import Arrangement, Compared, Study

MOST_ERROR, LEAST_INSIDE = 0.04, 0.8
FEWEST = 3  # stacks that the model must have foretold
INTERVAL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A speedup that was not measured, with its 90 % interval."""

    arrangement: Arrangement
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """How well the model, fitted without the balanced stacks, foretold them."""

    stacks: int
    median_error: float  # of the ratio
    inside: float  # share of them inside their 90 % intervals

    @property
    def failing(self) -> str | None:
        """Why predictions are not published, or None where they are."""
        if self.stacks < FEWEST:
            return (
                f"{self.stacks} stacks that test the stage model were measured, and it takes {FEWEST}: --design matrix "
                "of six switches or more has them"
            )
        if self.median_error > MOST_ERROR or self.inside < LEAST_INSIDE:
            return (
                f"the stage model missed {self.stacks} stacks that it did not know by {100 * self.median_error:.1f} % "
                f"in the median (at most {100 * MOST_ERROR:.0f} %), {100 * self.inside:.0f} % of them inside their "
                f"intervals (at least {100 * LEAST_INSIDE:.0f} %): only measured cells are shown"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """A model that has earned it, and what it says."""

    model: Fitted
    foretold: Foretold
    reference: Arrangement
    cells: tuple[Predicted, ...]  # the fastest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """A model that has foretold stacks which it did not know, fitted to everything that was measured."""

    model: Fitted
    foretold: Foretold
    reference: Arrangement

    def predicted(self, wanted: Sequence[Arrangement]) -> tuple[Predicted, ...]:
        """Speedups of stacks over the reference, in order; raises KeyError for a switch that was never measured."""
        return predicted(self.model, wanted, self.reference)


def trusted(study: Study) -> Trusted | str:
    """The model of a study, or why it is not to be trusted."""
    found = foretold(study)
    return found.failing or Trusted(model=fit(study), foretold=found, reference=study.ratios[0].reference)


def predicted(model: Fitted, wanted: Sequence[Arrangement], reference: Arrangement) -> tuple[Predicted, ...]:
    """What a model says of stacks, trusted or not; raises KeyError for a switch that was never measured."""
    logs, deviations = model.log_ratios(wanted, reference)
    half_widths = stats.norm.ppf((1 + INTERVAL) / 2) * deviations
    bounds = zip(wanted, np.exp(logs), np.exp(logs - half_widths), np.exp(logs + half_widths), strict=True)
    return tuple(
        Predicted(arrangement=one, ratio=float(ratio), low=float(low), high=float(high))
        for one, ratio, low, high in bounds
    )


def predictions(study: Study, wanted: Sequence[Arrangement]) -> Predictions | str:
    """Speedups of stacks over the study's first reference, or why there are none.

    Raises KeyError where a wanted stack has a switch that was on in no measured cell.
    """
    found = trusted(study)
    if isinstance(found, str):
        return found
    ordered = tuple(sorted(found.predicted(wanted), key=lambda one: -one.ratio))
    return Predictions(model=found.model, foretold=found.foretold, reference=found.reference, cells=ordered)


def foretold(study: Study) -> Foretold:
    """What a model that does not know the balanced stacks says of them, held against what was measured."""
    tests = tuple(one for one in study.ratios if is_foretold(study, one))
    if not tests or len(tests) == len(study.ratios):
        return Foretold(stacks=0, median_error=float("inf"), inside=0.0)
    model = fit_without(study, tests)
    errors, deviations = np.array([_error(model, one) for one in tests]).T
    within = np.abs(errors) <= stats.norm.ppf((1 + INTERVAL) / 2) * deviations
    return Foretold(
        stacks=len(tests), median_error=float(np.median(np.abs(np.expm1(errors)))), inside=float(within.mean())
    )


def fit_without(study: Study, hidden: Collection[Compared]) -> Fitted:
    """The model of a study that knows neither some ratios nor what was seen of their treatments.

    Raises ValueError where nothing else was measured.
    """
    stacks = {one.treatment for one in hidden}
    known = tuple(one for one in study.ratios if one not in hidden)
    return fit(replace(study, ratios=known, sights=tuple(one for one in study.sights if one.arrangement not in stacks)))


def is_foretold(study: Study, one: Compared) -> bool:
    """Whether a ratio tests the model: of two switches or more, and of neither all of them nor all but some.

    All but one counts as known wherever it was measured: a factorial holds it against plain, a matrix against all.
    """
    whole = max(study.ratios, key=lambda ratio: len(ratio.treatment.switches)).treatment
    differing = set(one.treatment.switches) ^ set(one.reference.switches)
    lacking = set(one.treatment.switches) ^ set(whole.switches)
    return one.reference != whole and len(differing) > 1 and len(lacking) > 1


def _error(model: Fitted, one: Compared) -> tuple[float, float]:
    """The log error of a foretold ratio, and its standard deviation with that of the measurement."""
    logs, deviations = model.log_ratios((one.treatment,), one.reference)
    return float(logs[0] - one.log_ratio), float(np.hypot(deviations[0], one.deviation))
