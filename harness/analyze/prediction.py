"""Predictions: speedups of stacks that nobody measured, where the stage model has earned it.

The model is fitted without the balanced stacks and must foretell them: within 4 % in the median, and four in five of
them inside their 90 % intervals. Then it is fitted on everything, and what it says of other stacks is published as
predictions, with 90 % intervals. Otherwise there are words. A prediction never decides a verdict.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from scipy import stats

from harness.analyze.attribution import Gain, share_columns
from harness.analyze.matrix import Matrix
from harness.analyze.profile import Profile, host_memory
from harness.analyze.stage_model import Arrangement, Compared, Declared, Fitted, Stack, Study, configs, fit, log_times
from harness.core.configuration import Configuration, Option
from harness.core.environment import Environment
from harness.core.optimization import Stage

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
class Predictions:
    """A model that has earned it, and what it says."""

    model: Fitted
    foretold: Foretold
    reference: Arrangement
    configs: tuple[Predicted, ...]  # the fastest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """A model that has foretold stacks which it did not know, fitted to everything that was measured."""

    model: Fitted
    foretold: Foretold
    reference: Arrangement

    def predicted(self, wanted: Sequence[Arrangement]) -> tuple[Predicted, ...]:
        """Speedups of stacks over the reference, in order; raises KeyError for an option that was never measured."""
        return predicted(self.model, wanted, self.reference)


def trusted(study: Study) -> Trusted | str:
    """The model of a study, or why it is not to be trusted."""
    found = foretold(study)
    return found.failing or Trusted(model=fit(study), foretold=found, reference=study.ratios[0].reference)


def predicted(model: Fitted, wanted: Sequence[Arrangement], reference: Arrangement) -> tuple[Predicted, ...]:
    """What a model says of stacks, trusted or not; raises KeyError for an option that was never measured."""
    logs, deviations = model.log_ratios(wanted, reference)
    half_widths = stats.norm.ppf((1 + INTERVAL) / 2) * deviations
    bounds = zip(wanted, np.exp(logs), np.exp(logs - half_widths), np.exp(logs + half_widths), strict=True)
    return tuple(
        Predicted(arrangement=one, ratio=float(ratio), low=float(low), high=float(high))
        for one, ratio, low, high in bounds
    )


def predictions(study: Study, wanted: Sequence[Arrangement]) -> Predictions | str:
    """Speedups of stacks over the study's first reference, or why there are none.

    Raises KeyError where a wanted stack has an option that was on in no measured configuration.
    """
    found = trusted(study)
    if isinstance(found, str):
        return found
    ordered = tuple(sorted(found.predicted(wanted), key=lambda one: -one.ratio))
    return Predictions(model=found.model, foretold=found.foretold, reference=found.reference, configs=ordered)


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
    """Whether a ratio tests the model: of two options or more, and of neither all of them nor all but some.

    All but one counts as known where it was measured: a factorial holds it against the baseline, a matrix against all.
    """
    whole = max(study.ratios, key=lambda ratio: len(ratio.treatment.options)).treatment
    differing = set(one.treatment.options) ^ set(one.reference.options)
    lacking = set(one.treatment.options) ^ set(whole.options)
    return one.reference != whole and len(differing) > 1 and len(lacking) > 1


def _error(model: Fitted, one: Compared) -> tuple[float, float]:
    """The log error of a foretold ratio, and its standard deviation with that of the measurement."""
    logs, deviations = model.log_ratios((one.treatment,), one.reference)
    return float(logs[0] - one.log_ratio), float(np.hypot(deviations[0], one.deviation))


# Cross-checks: a model that knows some of the measured configurations, held against all the others.
#
# A factorial measures every stack of a few options. So the configurations that the design `matrix` would have measured
# can be given to the model, and what it says of the rest can be compared with what was seen, which no matrix can do for
# itself.

NORMAL_90 = 1.645  # standard deviations that hold 90 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One stack that the model did not know: what it said, and what was measured."""

    predicted: Predicted
    ratio: float  # as measured
    deviation: float  # of the log of that
    multiplied: float | None  # the product of what its options give alone; None where one was not measured alone

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
    """How a model that knows the configurations of a matrix foretells all other measured stacks."""

    fitted: int  # configurations that the model knew, the reference among them
    configs: tuple[Checked, ...]  # the others, the fastest measured first

    @property
    def median_error(self) -> float:
        """Of the predicted ratios."""
        return median(one.error for one in self.configs)

    @property
    def worst_error(self) -> float:
        """Of the predicted ratios."""
        return max(one.error for one in self.configs)

    @property
    def inside(self) -> float:
        """The share of them inside their 90 % intervals."""
        return sum(one.is_inside for one in self.configs) / len(self.configs)

    @property
    def multiplied_error(self) -> float | None:
        """The median error of multiplying what each option gives alone: what most would do without a model."""
        found = [abs(one.multiplied / one.ratio - 1) for one in self.configs if one.multiplied is not None]
        return median(found) if len(found) == len(self.configs) else None


def cross_checked(study: Study, known: Collection[Stack]) -> CrossCheck | None:
    """What a model fitted to the known stacks says of all others; None where there are no others, or nothing else.

    Only ratios over the study's first reference are foretold; what was measured against anything else is left out.
    """
    reference = study.ratios[0].reference
    hidden = tuple(one for one in study.ratios if one.treatment.options not in known)
    tests = tuple(one for one in hidden if one.reference == reference)
    if not tests or len(hidden) == len(study.ratios):
        return None
    model = fit_without(study, hidden)
    alone = _alone(study, reference)
    said = predicted(model, [one.treatment for one in tests], reference)
    found = [_checked(one, told, alone) for one, told in zip(tests, said, strict=True)]
    kept = {one.treatment for one in study.ratios if one not in hidden}
    return CrossCheck(fitted=len(kept | {reference}), configs=tuple(sorted(found, key=lambda one: -one.ratio)))


def _alone(study: Study, reference: Arrangement) -> Mapping[Option, float]:
    """The log ratio of each option that was measured by itself."""
    below, found = set(reference.options), {}
    for one in study.ratios:
        added = set(one.treatment.options) - below
        if one.reference == reference and len(added) == 1:
            found[added.pop()] = one.log_ratio
    return found


def _checked(one: Compared, told: Predicted, alone: Mapping[Option, float]) -> Checked:
    added = set(one.treatment.options) - set(one.reference.options)
    product = sum(alone[option] for option in added) if added <= alone.keys() else None
    return Checked(
        predicted=told,
        ratio=float(np.exp(one.log_ratio)),
        deviation=one.deviation,
        multiplied=None if product is None else float(np.exp(product)),
    )


# Outlooks: what the stage model says of one workload beyond what was measured, or why it says nothing.
#
# Everything here is predicted. It stands apart from the matrix, has 90 % intervals, and decides no verdict.

DRAWS = 60  # points as likely as the data allow, from which the intervals of shares come
NORMAL_95 = 1.96  # standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one option brings to a stack, three times: put on first, by the model over all orders, put on last."""

    option: Option
    alone: Gain | None
    share: Gain | None
    last: Gain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """A measured stack in parts."""

    label: str
    total: Gain
    parts: tuple[Part, ...]  # the largest share first


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperBound:
    """By how much a stack would be faster if a stage cost nothing, as the model has it."""

    name: str  # of the stack: baseline, all
    stages: Mapping[Stage, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a trusted model says."""

    foretold: Foretold
    fastest: tuple[Predicted, ...]  # of the stacks that were not measured, the fastest first; not all of them
    unmeasured: int | None  # how many there are; None where there are too many to be counted
    upper_bounds: tuple[UpperBound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is said of one workload beyond its measured configurations."""

    config: Configuration  # the reference
    name: str  # the reference's
    whole: Stack  # all that was switched on together; predicted stacks are told by how they differ from it
    forecast: Forecast | str  # or why there is none
    best: tuple[str, Gain] | None  # the fastest that was measured against the reference
    decomposition: Decomposition | None
    check: CrossCheck | None  # where more was measured than a matrix would have


@dataclass(frozen=True, slots=True, kw_only=True)
class Players:
    """The options of a stack whose shares are asked for, and what they stand on."""

    options: tuple[Option, ...]
    below: Stack
    needs: Mapping[str, tuple[str, ...]]  # optimization -> others that it makes no sense without


def shares(found: Trusted, players: Players, declared: Declared, generator: np.random.Generator) -> dict[Option, Gain]:
    """The Shapley shares of a stack's options by the model, with 95 % intervals.

    The spread is that of models drawn from what the data allow, each sharing out the whole by itself; beyond twelve
    options that of drawing orders is added.
    """
    frame = found.model.frame
    points = [found.model.point, *(found.model.drawn(generator).point for _ in range(DRAWS))]

    def value(stacks: Sequence[Stack]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        seen = configs(frame, [declared.arrangement(_on_top(players.below, stack)) for stack in stacks])
        return -np.stack([log_times(frame, point, seen).value for point in points], axis=1)

    columns, errors = share_columns(players.options, value, players.needs, generator)
    spread = np.hypot(columns[:, 1:].std(axis=1, ddof=1), errors[:, 0])
    return {
        option: Gain(log=float(log), half_width=float(NORMAL_95 * deviation))
        for option, log, deviation in zip(players.options, columns[:, 0], spread, strict=True)
    }


def _on_top(below: Stack, stack: Stack) -> Stack:
    names = {one.name for one in stack}
    return tuple(sorted((*(one for one in below if one.name not in names), *stack)))


def parts(
    options: Sequence[Option],
    first: Mapping[str, Gain],
    last: Mapping[str, Gain],
    modelled: Mapping[Option, Gain],
) -> tuple[Part, ...]:
    """Each option with the three numbers that are known of it, the largest of them first."""
    found = [
        Part(option=one, alone=first.get(str(one)), share=modelled.get(one), last=last.get(str(one))) for one in options
    ]
    return tuple(sorted(found, key=lambda part: (-_weight(part), str(part.option))))


def _weight(part: Part) -> float:
    if part.share is not None:
        return part.share.log
    known = [one.log for one in (part.alone, part.last) if one is not None]
    return sum(known) / len(known) if known else -np.inf


# Footprints: the peak memory of stacks that nobody measured, as a product of what each option does to it.
#
# The log of a peak is taken as a sum over options, fitted by least squares with a ridge: an option is expected to do
# little until configurations show otherwise. It serves to leave out what would not fit, and is never shown as a result.

EXPECTED, NOISE = 0.3, 0.03  # standard deviations of log bytes: of what an option does, and of a measured peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a stack needs of one memory, in bytes."""

    base: float  # log bytes with nothing on
    effects: Mapping[Option, float]  # on log bytes
    limit: int  # bytes that there are

    def peak(self, stack: Stack) -> float:
        """The predicted peak; an option that was never measured changes nothing."""
        return float(np.exp(self.base + sum(self.effects.get(one, 0.0) for one in stack)))

    def fits(self, stack: Stack) -> bool:
        """Whether the predicted peak is within the memory that there is."""
        return self.peak(stack) <= self.limit


def footprints(matrices: Iterable[Matrix], workload: str, environment: Environment) -> tuple[Footprint, ...]:
    """The host's footprint and, where there is one, the device's; nothing before anything was measured."""
    profiles = [one for matrix in matrices for one in _profiles(matrix, workload)]
    limit = environment.accelerator_memory_bytes
    host = list(zip((one.config.options for one in profiles), host_memory(*profiles)[1], strict=True))
    device = [(one.config.options, one.device_bytes) for one in profiles if one.device_bytes]
    found = [fitted(host, environment.memory_bytes)] if host else []
    return (*found, fitted(device, limit)) if device and limit else tuple(found)


def fitted(peaks: Iterable[tuple[Stack, int]], limit: int) -> Footprint:
    """The footprint from measured peaks of stacks, in bytes."""
    stacks, measured = zip(*peaks, strict=True)
    options = sorted({one for stack in stacks for one in stack}, key=str)
    logs = np.log(np.array(measured, dtype=np.float64))
    rows = np.array([[1.0, *(float(one in stack) for one in options)] for stack in stacks])
    ridge = np.diag([1e-6, *(NOISE / EXPECTED for _ in options)])
    goal = np.concatenate([logs - logs.mean(), np.zeros(1 + len(options))])
    found = np.linalg.lstsq(np.vstack([rows, ridge]), goal, rcond=None)[0]
    effects = {one: float(effect) for one, effect in zip(options, found[1:], strict=True)}
    return Footprint(base=float(found[0] + logs.mean()), effects=effects, limit=limit)


def _profiles(matrix: Matrix, workload: str) -> Iterable[Profile]:
    for table in matrix.tables:
        if table.config.workload == workload:
            yield from (one for one in (table.profile, *(row.treatment for row in table.rows)) if one)
