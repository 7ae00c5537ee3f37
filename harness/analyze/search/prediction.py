"""Predictions: speedups of stacks that nobody measured, where the stage model has earned it.

The model is fitted without the balanced stacks and must predict them: within 4 % in the median, and four in five of
them inside their 90 % intervals. Then it is fitted on everything, and what it says of other stacks is published as
predictions, with 90 % intervals. Otherwise there are words. A prediction never decides a verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.search.stage_model import Arrangement, Compared, Fitted, Study, fit
from harness.core.optimization import Stage

MOST_ERROR, LEAST_INSIDE = 0.04, 0.8
FEWEST = 3  # balanced stacks that a validation takes
INTERVAL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A speedup that was not measured, with its 90 % interval."""

    arrangement: Arrangement
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How well the model, fitted without the balanced stacks, predicts them."""

    stacks: int
    median_error: float  # of the ratio
    inside: float  # share of them inside their 90 % intervals

    @property
    def failing(self) -> str | None:
        """Why predictions are not published, or None where they are."""
        if self.stacks < FEWEST:
            return (
                f"{self.stacks} stacks that test the stage model were measured, and it takes {FEWEST}: --design matrix "
                "of six options or more has them"
            )
        if self.median_error > MOST_ERROR or self.inside < LEAST_INSIDE:
            return (
                f"the stage model missed {self.stacks} stacks that it did not know by {100 * self.median_error:.1f} % "
                f"in the median (at most {100 * MOST_ERROR:.0f} %), {100 * self.inside:.0f} % of them inside their "
                f"intervals (at least {100 * LEAST_INSIDE:.0f} %): only measured configurations are shown"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """A model that predicted stacks which it did not know, fitted to everything that was measured."""

    model: Fitted
    validation: Validation
    reference: Arrangement

    def predicted(self, wanted: Sequence[Arrangement]) -> tuple[Predicted, ...]:
        """Speedups of stacks over the reference, in order; raises KeyError for an option that was never measured."""
        logs, deviations = self.model.log_ratios(wanted, self.reference)
        half_widths = stats.norm.ppf((1 + INTERVAL) / 2) * deviations
        bounds = zip(wanted, np.exp(logs), np.exp(logs - half_widths), np.exp(logs + half_widths), strict=True)
        return tuple(
            Predicted(arrangement=one, ratio=float(ratio), low=float(low), high=float(high))
            for one, ratio, low, high in bounds
        )


def trusted(study: Study) -> Trusted | str:
    """The model of a study, or why it is not to be trusted."""
    found = validate(study)
    return found.failing or Trusted(model=fit(study), validation=found, reference=study.ratios[0].reference)


def validate(study: Study) -> Validation:
    """What a model that does not know the balanced stacks says of them, held against what was measured."""
    tests = tuple(one for one in study.ratios if is_held_out(study, one))
    stacks = {one.treatment for one in tests}
    known = tuple(one for one in study.ratios if one not in tests)
    seen = {option for one in known for side in (one.treatment, one.reference) for option in side.options}
    tests = tuple(one for one in tests if seen.issuperset({*one.treatment.options, *one.reference.options}))
    if not tests:
        return Validation(stacks=0, median_error=float("inf"), inside=0.0)
    sights = tuple(one for one in study.sights if one.arrangement not in stacks)
    model = fit(replace(study, ratios=known, sights=sights))
    errors, deviations = np.array([_error(model, one) for one in tests]).T
    within = np.abs(errors) <= stats.norm.ppf((1 + INTERVAL) / 2) * deviations
    return Validation(
        stacks=len(tests), median_error=float(np.median(np.abs(np.expm1(errors)))), inside=float(within.mean())
    )


def is_held_out(study: Study, one: Compared) -> bool:
    """Whether a ratio tests the model: of two options or more, and of neither all of them nor all but some.

    All but one counts as known where it was measured: a factorial holds it against the baseline, a matrix against all.
    """
    whole = max(study.ratios, key=lambda ratio: len(ratio.treatment.options)).treatment
    differing = set(one.treatment.options) ^ set(one.reference.options)
    lacking = set(one.treatment.options) ^ set(whole.options)
    return one.reference != whole and len(differing) > 1 and len(lacking) > 1


def _error(model: Fitted, one: Compared) -> tuple[float, float]:
    """The log error of a predicted ratio, and its standard deviation with that of the measurement."""
    logs, deviations = model.log_ratios((one.treatment,), one.reference)
    return float(logs[0] - one.log_ratio), float(np.hypot(deviations[0], one.deviation))


# Predictions of one workload: what the stage model says beyond what was measured, or why it says nothing.
#
# They stand apart from the matrix, have 90 % intervals, and decide no verdict.


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a trusted model says of the stacks of one workload that were not measured."""

    validation: Validation
    fastest: tuple[Predicted, ...]  # the fastest first; not all of them
    unmeasured: int | None  # how many there are; None where there are too many to be counted
    # By the name of a stack (baseline, all): how much faster it would be if a stage cost nothing, as the model has it.
    upper_bounds: Mapping[str, Mapping[Stage, float]]
