"""Composition: from the ratio of one part of a step to the ratio of whole steps, where the parts take turns.

A reference's step of 1 loads for a share s. An option that changes the loader alone, by a ratio of r, leaves a step of
1 - s + s / r; likewise one that changes the rest alone, whose share is then that of the rest. Not all of such a gain
arrives: a loader leaves caches and memory to the step. How much does is seen where an option was timed on whole steps
too, and in part carries over to the others of that part. The interval joins that of r, the scatter of s between
replicates, how surely it is known what arrives, and a misfit, by the delta method with Satterthwaite's degrees of
freedom; it is never narrower than what the ends of r's own interval come to (docs/decisions/composed-ratios.md), by the
share or by what the part took where it was timed alone, and ends where the part would cost nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy import stats

from harness.analyze.estimate import CONTENDED, Estimate, between_runs, precision, results
from harness.analyze.evidence import Evidence, gather
from harness.analyze.grouping import ratios_of_sums, together
from harness.analyze.pairing import evidence_against
from harness.analyze.profile import Phases, phases
from harness.analyze.soundness import Absence, comes_back, superseded, unsound
from harness.analyze.verdict import UNCALIBRATED, Thresholds, Verdict, verdict
from harness.core.configuration import Configuration
from harness.core.environment import Environment
from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import STAGES, Plan
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import Place, Precision, Record, Window

NORMAL = 1.96  # half-widths of 95 % in standard deviations
MISFIT = 0.01  # standard deviation of a log ratio by which the formula itself errs
LEAST_LOG = 0.02  # of a composed ratio that can show what arrives
# Times as long alone as among steps, or the other way round, and share of a step, beyond which a part is not the same.
# In twelve runs loaders took 0.67 to 1.15 times as long, steps 0.97 to 1.20: the hour's pace, and what caches leave.
UNLIKE, BY = 1.5, 0.05
LEAST_REST = 0.001  # of a step, which is never all loading
SHARES_DISTURBED = "the machine was too disturbed while the reference's steps were timed, of which it is composed"
PART_UNLIKE = (
    "the reference's part took {times:.2g} times as long where it was timed alone as among steps, as with other files "
    "in memory: what its ratio comes to on steps is not known"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What the parts take of a reference's step, replicate by replicate."""

    of: Mapping[Timing, Sequence[float]]  # LOADER and COMPUTE
    disturbed: bool  # too few replicates were not, so that all are here
    sample_s: float  # seconds of a sample in those steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The share of a part's log ratio that arrives on whole steps, as far as it is known.

    Its mean, and two standard deviations: of what the options of a part have in common, and of each by itself.
    """

    share: float = 1.0
    in_common: float = 0.15 / math.sqrt(2)
    each: float = 0.15 / math.sqrt(2)
    seen: int = 0  # options that were timed both ways, which showed it

    @property
    def deviation(self) -> float:
        """The standard deviation for an option that was not timed on steps."""
        return math.hypot(self.in_common, self.each)


def before_any(timing: Timing, environment: Environment) -> Arrival:
    """What is known of arrivals before a run shows any; the figures are those of docs/decisions/composed-ratios.md.

    A CPU's steps share caches and memory with the loader. An emulated device's steps compute nothing, but a batch lives
    through one of them, so that the next takes new memory.
    """
    if timing is Timing.LOADER and environment.emulated:
        return Arrival(share=0.97, in_common=0.04, each=0.04)
    return Arrival(share=0.9) if timing is Timing.LOADER and not environment.accelerated else Arrival()


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """The ratio of training steps that the ratio of a part comes to, with its 95 % interval; it was not measured."""

    ratio: float
    low: float
    high: float
    verdict: Verdict
    share: float  # of the reference's step that the part takes
    arrives: Arrival

    @property
    def half_width(self) -> float:
        """Of the log ratio's interval."""
        return math.log(max(self.high / self.ratio, self.ratio / self.low))

    @property
    def is_known(self) -> bool:
        """Whether it was composed on a calm machine, within any bounds."""
        return self.verdict is not Verdict.DISTURBED and math.isfinite(self.high)


def shares_of(gathered: Iterable[Evidence]) -> Mapping[Configuration, Shares]:
    """The shares of every reference that was timed on sound steps in as many replicates as an estimate takes.

    Without disturbed replicates, unless too few are left.
    """
    known = list(gathered)
    former = {id(one.reference) for one in known if next(superseded(one), None)}
    windows = together(
        ((one.comparison.reference, window.arm.block, window.arm.replicate), window)
        for one in {id(found.reference): found for found in known}.values()
        if id(one.reference) not in former and next(unsound(one.reference), comes_back(one.reference)) is None
        for window in one.reference.windows
        if window.timing is Timing.STEP
    )
    seen = together(
        (config, (phases(kept := _undisturbed(found)), _is_calm(found), _sample_s(kept)))
        for (config, _, _), found in windows.items()
    )
    return {config: _shares(found) for config, found in seen.items() if len(found) >= FEWEST_REPLICATES}


def _shares(found: Sequence[tuple[Phases, bool, float]]) -> Shares:
    calm = [one for one in found if one[1]]
    disturbed = len(calm) < FEWEST_REPLICATES
    kept = [one for one, *_ in found] if disturbed else [one for one, *_ in calm]
    of = {Timing.LOADER: [one.input_wait for one in kept], Timing.COMPUTE: [one.compute for one in kept]}
    return Shares(of=of, disturbed=disturbed, sample_s=fmean(each_s for *_, each_s in (found if disturbed else calm)))


def _sample_s(windows: Sequence[Window]) -> float:
    return sum(one.wall_s for one in windows) / sum(one.samples for one in windows)


def _undisturbed(windows: Sequence[Window]) -> Sequence[Window]:
    """Those that a ratio of steps is taken from; all, where none is left."""
    return [one for one in windows if evidence_against(one) is None] or windows


def _is_calm(windows: Sequence[Window]) -> bool:
    """Whether the machine let a replicate be, by what disturbs a ratio of steps."""
    kept = [one for one in windows if evidence_against(one) is None]
    others = [one.others for one in kept if one.others is not None]
    return 2 * len(kept) >= len(windows) and (not others or fmean(others) <= CONTENDED)


def arrival(
    pairs: Iterable[tuple[Estimate, Estimate]],
    shares: Sequence[float],
    before: Arrival = Arrival(),
    *,
    alone: float | None = None,
) -> Arrival:
    """What arrives of a part, from options whose ratio of steps and of the part are both known; a Bayesian update.

    That of one option says of another only what they have in common; `alone` as in `composed`.
    """
    weight, total, seen = before.in_common**-2, before.share * before.in_common**-2, 0
    for whole, part in pairs:
        plain = composed(part, shares, Arrival(in_common=0.0, each=0.0), alone=alone)
        log = math.log(plain.ratio)
        if abs(log) >= LEAST_LOG:
            error = math.hypot(math.hypot(whole.half_width, plain.half_width) / NORMAL / abs(log), before.each)
            weight += error**-2
            total += error**-2 * math.log(whole.ratio) / log
            seen += 1
    return replace(before, share=total / weight, in_common=weight**-0.5, seen=seen)


def composed(
    part: Estimate,
    shares: Sequence[float],
    arrives: Arrival = Arrival(),
    *,
    alone: float | None = None,
    rest: float | None = None,
    disturbed: bool = False,
) -> Composed:
    """The ratio of steps from that of a part and the part's shares of the reference's step, `disturbed` or not.

    `alone` is what the part took where it was timed alone, `rest` what the other part took there, both of the
    reference's step. Where the part took another time alone than among steps, the interval reaches to what either time
    comes to, in a step that is shorter or longer by as much. What is not of the part remains of a step, however fast
    the part becomes.
    """
    known, share = np.asarray(shares), float(np.mean(shares))
    takes = (share, share if alone is None else alone / (1 - share + alone))
    most = -math.log(max(LEAST_REST, min(1 - max(takes), 1.0 if rest is None else rest)))
    left = share / part.ratio  # of a step of 1, what the part still takes
    step = 1 - share + left
    error, freedom = part.standard_error
    variances = (
        (arrives.share * left / step * error) ** 2,
        (arrives.share * (1 - 1 / part.ratio) / step) ** 2 * float(known.var(ddof=1)) / len(known),
        MISFIT**2 + (arrives.deviation * math.log(step)) ** 2,
    )
    degrees = (freedom, len(known) - 1.0, math.inf)
    total = sum(variances)
    joint = total**2 / sum(one**2 / many for one, many in zip(variances, degrees, strict=True))
    half = float(stats.t.ppf(part.point, joint)) * math.sqrt(total)
    # Terms that are surely known lift the degrees of freedom of their sum: alone that would narrow the interval.
    # The scatter of shares has no such floor: at 10 % between two replicates 93 to 94 % of intervals hold without one,
    # at 20 % 91 to 93 %, and one would double them.
    log, *ends = (
        min(most, -arrives.share * math.log(1 - each + each / one))
        for each in takes
        for one in (part.ratio, part.low, part.high)
    )
    scatter = float(stats.t.ppf(part.point, len(known) - 1)) * math.sqrt(float(known.var(ddof=1)) / len(known))
    most += math.hypot(scatter / max(LEAST_REST, 1 - share), NORMAL * MISFIT)
    with np.errstate(over="ignore"):
        ratio, low = (float(np.exp(one)) for one in (log, min(log - half, *ends)))
        high = float(np.exp(min(most, max(log + half, *ends))))
    found = verdict(low, high, part.thresholds.margin, disturbed=part.disturbed or disturbed)
    if part.looked_up:
        found = Verdict.UNDECIDED
    return Composed(ratio=ratio, low=low, high=high, verdict=found, share=share, arrives=arrives)


def average_of_composed(several: Sequence[Composed], margin: float) -> Composed:
    """The weighted average of what several runs composed of the same part; the first tells shares and what arrives.

    They share the formula's error and what is assumed to arrive, so that more of them do not narrow the interval; runs
    that lie far apart weigh more alike and widen it, as in an average of ratios (docs/decisions/averages-of-runs.md).
    """
    if len(several) == 1:
        return several[0]
    logs, widths = np.log([one.ratio for one in several]), np.array([one.half_width for one in several])
    between, excess = between_runs(logs, widths / NORMAL)
    errors = np.hypot(widths / NORMAL, math.sqrt(between))
    weights = errors**-2 / np.sum(errors**-2)
    centre = float(weights @ logs)
    half = float(weights @ widths) * math.sqrt(max(1.0, 1 + excess / (len(several) - 1)))
    low, high = math.exp(centre - half), math.exp(centre + half)
    return replace(several[0], ratio=math.exp(centre), low=low, high=high, verdict=verdict(low, high, margin))


Part = tuple[Configuration, Timing]  # a reference, and what of its steps is timed alone
OTHER = {Timing.LOADER: Timing.COMPUTE, Timing.COMPUTE: Timing.LOADER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a part takes of a reference's step, replicate by replicate, and what arrives of its gains."""

    shares: Sequence[float]
    arrives: Arrival
    alone: float | None  # what it took where it was timed alone, of a step
    rest: float | None  # what the other part took there
    disturbed: bool  # while those steps were timed

    @property
    def notes(self) -> tuple[str, ...]:
        """Why what is composed of it has no verdict, in words; none is good news."""
        share = fmean(self.shares)
        alone = share if self.alone is None else self.alone
        is_unlike = abs(alone - share) > BY and not share / UNLIKE < alone < share * UNLIKE
        unlike = [PART_UNLIKE.format(times=alone / max(share, LEAST_REST))] * is_unlike
        return (*[SHARES_DISTURBED] * self.disturbed, *unlike)

    def on_steps(self, part: Estimate) -> Composed:
        """What a ratio of the part comes to on whole steps."""
        is_open = bool(self.notes)
        return composed(part, self.shares, self.arrives, alone=self.alone, rest=self.rest, disturbed=is_open)


Known = Mapping[Part, Taken]


def known_parts(found: Sequence[tuple[Evidence, Estimate | Absence]], environment: Environment) -> Known:
    """The shares of every part of every reference, and what arrives of its gains, as far as this run shows it."""
    shares = shares_of(evidence for evidence, _ in found)
    references = {id(one.reference): one for one, _ in found}.values()
    alone_s = ratios_of_sums(
        ((one.comparison.reference, window.timing), window.wall_s, window.samples)
        for one in references
        for window in _undisturbed(one.reference.windows)
    )
    measured = {
        (one.comparison.treatment, one.comparison.reference, one.comparison.timing): result
        for one, result in found
        if isinstance(result, Estimate)
    }
    pairs: dict[Part, list[tuple[Estimate, Estimate]]] = {}
    for (treatment, config, timing), part in measured.items():
        whole = measured.get((treatment, config, Timing.STEP))
        calm = whole is not None and not whole.disturbed and not part.disturbed
        if whole is not None and calm and timing in PARTS_OF_A_STEP:
            pairs.setdefault((config, timing), []).append((whole, part))
    taken: dict[Part, Taken] = {}
    for config, parts in shares.items():
        alone = {one: alone_s[config, one] / parts.sample_s for one in OTHER if (config, one) in alone_s}
        for timing, known in parts.of.items():
            before, both = before_any(timing, environment), pairs.get((config, timing), ())
            taken[config, timing] = Taken(
                shares=known,
                arrives=arrival(both, known, before, alone=alone.get(timing)),
                alone=alone.get(timing),
                rest=alone.get(OTHER[timing]),
                disturbed=parts.disturbed,
            )
    return taken


def precisions(plan: Plan, records: Iterable[Record], thresholds: Thresholds = UNCALIBRATED) -> dict[Place, Precision]:
    """The precision of every comparison that has an estimate; raises Mistake where an option has no promise.

    `thresholds` are those by which the machine's matrix is reported: decisions and report then know the same width. A
    part of a step counts by its share, as if its ratio were 1: what it came to must not decide who gets more.
    """
    gathered = list(gather(plan, records))
    shares = shares_of(gathered) if plan.design == STAGES else {}
    places = [(block.identity, position) for block in plan.blocks for position, _ in enumerate(block.comparisons, 1)]
    found: dict[Place, Precision] = {}
    for place, evidence, estimate in zip(places, gathered, results(gathered, plan.protocol, thresholds), strict=True):
        if isinstance(estimate, Estimate):
            parts, seen = shares.get(evidence.comparison.reference), precision(estimate)
            known = parts.of.get(evidence.comparison.timing) if parts else None
            found[place] = replace(seen, half_width=seen.half_width * float(np.mean(known))) if known else seen
    return found
