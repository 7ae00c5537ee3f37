"""Pairing: the ratio of totals that each replicate of a comparison gives, and how sure its own windows are of it.

What a user waits for is total time, so sums stand over sums: no window counts less for being slow, and none is left out
but on evidence from outside of the arms (docs/decisions/total-time.md). The reference's seconds per sample at a
treatment's moment lie on a line between the two reference windows around it, so that slow drift cancels.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from harness.analyze.grouping import together
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import POWER_CAP, SLOWDOWNS, Window, WindowPair, in_turn, window_pairs

# Moderated variances: what comparisons of one machine say of each other's spread.

Array = NDArray[np.float64]

SMALLEST_POOL = 4  # configurations; a prior from fewer would be a guess
OUTLYING = 0.99  # the point of the F distribution beyond which a configuration keeps its own variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A scaled inverse chi-square law of the configurations' variances; endless `freedom` means that all are alike."""

    variance: float
    freedom: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moderated:
    """One variance for each configuration with its degrees of freedom; an outlying configuration keeps its own."""

    variances: Array
    freedom: Array
    outlying: NDArray[np.bool_]


def moderate(variances: Array, freedom: Array) -> Moderated | None:
    """Variances shrunk towards the pool's, or None where the pool is too small or shows no variance at all.

    How much they are shrunk, and which configurations stand apart, is Smyth's. They are shrunk to the plain mean of the
    configurations that do not stand apart: with one or two degrees of freedom a configuration, Smyth's mean of logs is
    too uncertain, and intervals from pools of four hold in 94 % of cases, not in 95 %
    (docs/decisions/moderated-variances.md). No configuration gets more degrees of freedom than those configurations
    have together, as in limma.
    """
    if len(variances) < SMALLEST_POOL or np.median(variances) == 0:
        return None
    prior = fit_prior(variances, freedom)
    outlying = variances > prior.variance * stats.f.ppf(OUTLYING, freedom, min(prior.freedom, 1e6))
    pooled = float(np.average(variances[~outlying], weights=freedom[~outlying]))
    weight = freedom / (prior.freedom + freedom)
    return Moderated(
        variances=np.where(outlying, variances, pooled + weight * (variances - pooled)),
        freedom=np.where(outlying, freedom, np.minimum(prior.freedom + freedom, freedom[~outlying].sum())),
        outlying=outlying,
    )


Shared = tuple[Hashable, tuple[int, ...]]  # a block, and the numbers of the replicates that a configuration has of it


def freedom_together(logs: Sequence[Array], references: Sequence[Shared], share: float | None = None) -> float:
    """Degrees of freedom of the mean variance of configurations, where those of one block share their reference's luck.

    Each has one log ratio for each replicate, in the order of the numbers; those of a block hold the same reference
    process in replicates of the same number. Satterthwaite's (1946) of a sum of squares whose parts go together: by
    the `share` of the variance that is the references', or, where none is given, by the share that is found. With a
    share of 1 the replicates of the references are all that is known, with 0 all configurations count by themselves
    (docs/decisions/shared-references.md).
    """
    freedom = sum(len(one) - 1.0 for one in logs)
    squares = sum(float(np.sum((one - one.mean()) ** 2)) for one in logs)
    overlap = products = 0.0  # of two configurations of a block: degrees of freedom that both have, and their product
    for rows in together(zip((block for block, _ in references), _rows(logs, references), strict=True)).values():
        values, held = (np.stack(part) for part in zip(*rows, strict=True))
        sizes = held.sum(axis=1)
        both = held @ held.T
        overlap += float(np.sum(both - both / sizes - both / sizes[:, None] + both**2 / np.outer(sizes, sizes)))
        products += float(np.sum(values.sum(axis=0) ** 2))
    overlap, products = overlap - freedom, products - squares
    if share is None:
        found = products / overlap * freedom / squares if overlap > 0 and squares > 0 else 0.0
        share = min(1.0, max(0.0, found))
    return freedom**2 / (freedom + share**2 * overlap)


def _rows(logs: Sequence[Array], references: Sequence[Shared]) -> Iterator[tuple[Array, Array]]:
    """Each configuration's centred log ratios by the number of the replicate, and 1 for each that it has, else 0."""
    most = 1 + max((max(numbers) for _, numbers in references), default=0)
    for one, (_, numbers) in zip(logs, references, strict=True):
        values, held = np.zeros(most), np.zeros(most)
        values[list(numbers)], held[list(numbers)] = one - one.mean(), 1.0
        yield values, held


def fit_prior(variances: Array, freedom: Array) -> Prior:
    """The prior whose mean and variance of log variances match the pool's (Smyth 2004, section 6.2)."""
    half = freedom / 2
    floored = np.maximum(variances, 1e-5 * np.median(variances))  # as limma does, since a log cannot take zero
    centred = np.log(floored) - special.digamma(half) + np.log(half)
    excess = float(centred.var(ddof=1) - special.polygamma(1, half).mean())
    if excess <= 0:
        return Prior(variance=math.exp(float(centred.mean())), freedom=math.inf)
    half_prior = _trigamma_inverse(excess)
    scale = float(centred.mean() + special.digamma(half_prior) - math.log(half_prior))
    return Prior(variance=math.exp(scale), freedom=2 * half_prior)


def _trigamma_inverse(value: float) -> float:
    """Newton's method on 1/trigamma, which is nearly straight, so that it converges from below (Smyth's appendix)."""
    guess = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, guess))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, guess))
        guess += step
        if -step / guess < 1e-8:
            break
    return guess


# Tails: how much of an arm's time its slowest steps take.
#
# A cache that misses, a slow object of a storage service, a garbage collection or a checkpoint takes seconds once in
# hundreds of steps. Total time counts it in full, and whoever looks for time should look there first.

SLOWEST = 0.01  # share of the steps that are looked at; one step at least
# A finding where those steps take so many times as long as the others in the mean. Ordinary scatter stays below: the
# slowest 1 % of steps take 1.7 times the mean of a lognormal law whose coefficient of variation is 0.2, 3.2 times
# where it is 0.5 and 6.8 times where it is 1; 5.6 times if times are exponential. Further steps that take so many times
# the mean of the rest are counted with them: else they would make the others seem slow.
LEAST = 10.0
# Loader workers that finish side by side make one step of as many wait for all of them: that is no tail.
CLUMPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The slowest steps of an arm."""

    steps: int  # they are
    of: int  # all of its steps
    share: float  # of the time
    times: float  # as long as the other steps in the mean
    hundredth: float  # the slowest 1 % alone, as long as all other steps in the mean

    def matters(self, workers: int = 0) -> bool:
        """Whether they are no ordinary scatter, nor the clumps in which so many loader workers deliver.

        The slowest 1 % tell it beside all others: a step of a clump takes at most as many times the mean as there are
        workers, but any number of times as long as those that wait for nothing.
        """
        return self.hundredth >= max(LEAST, CLUMPS * workers)

    def sentence(self, whose: str) -> str:
        """The finding in words."""
        part = f"{100 * self.steps / self.of:.2g} %" if self.of >= 1 / SLOWEST else f"{self.steps} of {self.of}"
        return (
            f"{part} of {whose} steps take {100 * self.share:.0f} % of the time, {self.times:.0f} times as long as "
            "the others: look there first"
        )


def tail(windows: Iterable[Window], position: int) -> Tail | None:
    """The slowest steps of the arm at `position`; None where nobody took note of single steps.

    They are the slowest 1 %, and more while each still takes `LEAST` times the mean of the rest. A window names its
    slowest 2 % or more. Where more of the arm's slowest steps lie in one window than it names, the share is larger than
    is told.
    """
    own = [one for one in windows if one.arm.position == position and one.slowest_s]
    steps = sum(one.steps for one in own)
    if steps < 2:
        return None
    slowest_s = sorted((one for window in own for one in window.slowest_s or ()), reverse=True)
    all_s, sums_s = sum(one.wall_s for one in own), list(accumulate(slowest_s))
    rests_s = [(all_s - sums_s[count - 1]) / (steps - count) for count in range(1, min(len(sums_s) + 1, steps))]
    least = min(len(sums_s), math.ceil(SLOWEST * steps))
    if rests_s[least - 1] <= 0:
        return None
    slow = [count for count, rest_s in enumerate(rests_s, 1) if 0 < LEAST * rest_s <= slowest_s[count - 1]]
    count = max(least, max(slow, default=least))
    return Tail(
        steps=count,
        of=steps,
        share=sums_s[count - 1] / all_s,
        times=sums_s[count - 1] / count / rests_s[count - 1],
        hundredth=sums_s[least - 1] / least / rests_s[least - 1],
    )


# The device beside a ratio: who else was on it, and what held its clock down, in the windows of either arm.

# Choices, with no series of measurements behind them yet (docs/decisions/gpu-facts.md).
COMPANY = 0.1  # share of the windows beside another process, beyond which no verdict is given
UNLIKE = 0.1  # by which the shares of slowed windows may differ between the arms
APART = 0.05  # by which the arms' mean clocks may differ without a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """One number of each arm."""

    treatment: float
    reference: float

    @property
    def apart(self) -> float:
        """How far they lie from each other."""
        return abs(self.treatment - self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What its driver told in the windows of two arms; shares are of the windows in which it told anything."""

    looked: int  # windows of both arms in which it is known who was there
    shared: int  # those in which a process was there that is none of ours
    slowed: Both | None  # share of windows in which heat or a fault held the clock down
    capped: Both | None  # share of windows in which the limit of its power did
    clock_mhz: Both | None  # mean, of the multiprocessors when a window had ended

    @property
    def disturbance(self) -> str | None:
        """Why no verdict can be given, in words; None where one can.

        The limit of its power is no reason: what an option draws is its own doing, and so is a clock that falls for it.
        """
        if self.shared > COMPANY * self.looked:
            return self._company
        unlike = self.slowed is not None and (self.slowed.apart > UNLIKE or self._clocks_differ)
        return self._heat if self._was_slowed and unlike else None

    def remarks(self) -> Iterator[str]:
        """What a reader should know, whether or not it forbids a verdict."""
        if self.shared:
            yield self._company
        if self._was_slowed:
            yield self._heat
        if self.clock_mhz is not None and self._clocks_differ:
            ours, theirs = self.clock_mhz.treatment, self.clock_mhz.reference
            words = f"the device's clock was {ours:,.0f} MHz, in the reference {theirs:,.0f} MHz"
            capped = self.capped is not None and max(self.capped.treatment, self.capped.reference) > 0
            yield f"{words}; its power limit held it down{_in_shares(self.capped)}" if capped else words

    @property
    def _company(self) -> str:
        return f"another process was on the device in {self.shared} of {self.looked} windows"

    @property
    def _heat(self) -> str:
        return f"heat or a fault held the device's clock down{_in_shares(self.slowed)}"

    @property
    def _clocks_differ(self) -> bool:
        found = self.clock_mhz
        return found is not None and found.apart > APART * max(found.treatment, found.reference)

    @property
    def _was_slowed(self) -> bool:
        return self.slowed is not None and max(self.slowed.treatment, self.slowed.reference) > 0


def device_of(windows: Iterable[Window], position: int) -> Device | None:
    """The device in the windows of the arm at `position` and of its reference; None where no driver told of it."""
    windows = tuple(windows)
    ours, theirs = ([window for window in windows if window.arm.position == one] for one in (position, 0))
    known = [one.strangers for one in (*ours, *theirs) if one.strangers is not None]
    found = Device(
        looked=len(known),
        shared=sum(one > 0 for one in known),
        slowed=_both(ours, theirs, lambda one: _held_by(one, SLOWDOWNS)),
        capped=_both(ours, theirs, lambda one: _held_by(one, {POWER_CAP})),
        clock_mhz=_both(ours, theirs, lambda one: one.clock_mhz),
    )
    told = found.looked or found.slowed is not None or found.clock_mhz is not None
    return found if told else None


def _both(ours: Sequence[Window], theirs: Sequence[Window], seen: Callable[[Window], float | None]) -> Both | None:
    """The means of what is known; None where nothing is known of one of the arms."""
    first, second = ([value for one in side if (value := seen(one)) is not None] for side in (ours, theirs))
    return Both(treatment=fmean(first), reference=fmean(second)) if first and second else None


def _held_by(window: Window, reasons: AbstractSet[str]) -> float | None:
    """Whether any of these reasons held the clock down, as 0 or 1; None where it is not known."""
    return None if window.throttled is None else float(not reasons.isdisjoint(window.throttled))


def _in_shares(found: Both | None) -> str:
    if found is None:
        return ""
    ours, theirs = 100 * found.treatment, 100 * found.reference
    return f" in {ours:.0f} % of the windows and in {theirs:.0f} % of the reference's"


# Share of all cores that others took in a window, none being idle, beyond which it is left out: twice the mean that
# forbids a verdict. The kernel counts in hundredths of a second, so that a window of 0.1 s on two cores is read to
# within 0.1 (docs/decisions/crowding.md): no misreading of a calm window gets there.
OTHERS = 0.2
LIKE = 4  # changes between windows with the same samples, from which on they alone tell how restless a machine is
TOGETHER = 3  # neighbouring windows whose sum shows whether what is slow comes by turns
CONTENTION = "other processes took the cores"
SLOWED = "heat or a fault held the device's clock down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """What fresh processes of both arms say once."""

    log_ratio: float  # of the totals: the reference's seconds for the treatment's samples over the treatment's seconds
    window_pairs: tuple[float, ...]  # log ratios of single windows
    number: int = 0  # comparisons of one block have the same reference in replicates of the same number
    # Standard errors of `log_ratio` by the scatter of windows: of those that stand together in time, and of those that
    # hold the same samples.
    error: float = 0.0
    matched_error: float = 0.0
    freedom: int = 0  # degrees with which they are known; 0 where there is a single window
    # The same of sums over neighbouring windows, with its own freedom; 0 where there are too few windows.
    grouped_error: float = 0.0
    grouped_freedom: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What one comparison's windows say, before any statistics between replicates."""

    replicates: tuple[Replicate, ...]
    drift: float  # root mean square of the reference's own log change between windows with like samples
    contention: float = 0.0  # share of the cores that others took while none was idle: the larger mean of both arms
    in_turn: int = 0  # replicates whose arms were alive one after the other, because memory did not hold both
    device: Device | None = None  # how it was meanwhile, where a driver told
    windows: int = 0  # of both arms, with those that were left out
    left_out: tuple[tuple[str, int], ...] = ()  # reason -> windows
    spoilt: int = 0  # replicates that were left out, since others took the cores in most of their windows
    tainted: int = 0  # such replicates that stayed, since too few others remain
    tails: tuple[Tail | None, Tail | None] = (None, None)  # of the reference and of the treatment

    @property
    def log_ratios(self) -> tuple[tuple[float, ...], ...]:
        """Of single windows, one tuple for each replicate."""
        return tuple(one.window_pairs for one in self.replicates)

    @property
    def count(self) -> int:
        """How many pairs there are in all replicates together."""
        return sum(len(one.window_pairs) for one in self.replicates)


_Window = tuple[int, int]  # life and order, within one replicate
Spent = Callable[[Window], float]  # what a window took, of whatever there is less of the better


def seconds(window: Window) -> float:
    """What a rate is told in."""
    return window.wall_s


def pair(windows: Iterable[Window], position: int, spent: Spent = seconds) -> Pairs:
    """What the arm at `position` of one block gives beside its reference; all attempts of a replicate count together.

    A replicate whose arms were alive one after the other gives the ratio of their totals over all windows. One that was
    disturbed by other processes in most windows is left out where enough others remain (`Device` tells of heat).
    A total is in seconds or in whatever else is `spent`, which must not be 0 in any window.
    """
    windows, both = tuple(windows), {0, position}
    found: list[Replicate] = []
    kept: dict[int, list[Window]] = {}
    turned = set[int]()
    for replicate, own in together((one.arm.replicate, one) for one in windows).items():
        closing = {max(map(_window, attempt)) for attempt in _attempts(own).values()}
        kept[replicate] = undisturbed(own, position)
        mixed = _totals(_window_pairs(kept[replicate], position), closing, spent)
        apart = [_apart(ours, theirs, spent) for ours, theirs in in_turn(kept[replicate], position, own) if theirs]
        if apart:
            turned.add(replicate)
        if parts := [one for one in (mixed, *apart) if one]:
            found.append(replace(parts[0] if len(parts) == 1 else _joined(parts), number=replicate))
    found.sort(key=lambda one: one.number)
    tainted = {
        one.number
        for one in found
        if any(evidence_against(window) == CONTENTION for window in kept[one.number] if window.arm.position in both)
    }
    spoilt = tainted if len(found) - len(tainted) >= FEWEST_REPLICATES else set[int]()
    found = [one for one in found if one.number not in spoilt]
    # The reference also has windows of replicates that only others of its block were given.
    mine = {window.arm.replicate for window in windows if window.arm.position == position}
    windows = tuple(window for window in windows if window.arm.replicate in mine)
    counted = [window for number in sorted(mine - spoilt) for window in kept[number]]
    taken = together((one.arm.position, one.others) for one in counted if one.others is not None)
    return Pairs(
        replicates=tuple(found),
        spoilt=len(spoilt),
        tainted=len(tainted - spoilt),
        drift=_drift(counted, position, spent),
        contention=max((fmean(taken[one]) for one in both if one in taken), default=0.0),
        in_turn=len(turned - spoilt),
        device=device_of(windows, position),
        windows=sum(one.arm.position in both for one in windows),
        left_out=_left_out(windows, counted, both),
        tails=(tail(windows, 0), tail(windows, position)),
    )


def errors(pairs: Pairs) -> tuple[float, int]:
    """What windows say of a comparison: the variance of a single pair, with its degrees of freedom.

    Windows that stand together differ in samples, those with the same samples in time, and what comes at regular places
    of the samples falls into neighbouring windows by turns. Each way to look at them leaves more scatter than the ratio
    of totals has, where samples differ, where the machine drifts or where stalls are regular; the least counts.
    """
    known = [one for one in pairs.replicates if one.freedom]
    if not known:
        return 0.0, 0
    ways = [_pooled((one, one.error, one.freedom) for one in known)]
    ways.append(_pooled((one, one.matched_error, one.freedom) for one in known))
    if all(one.grouped_freedom for one in known):
        ways.append(_pooled((one, one.grouped_error, one.grouped_freedom) for one in known))
    return min(ways, key=lambda way: way[0] * float(stats.t.ppf(0.975, way[1])) ** 2)


def _pooled(known: Iterable[tuple[Replicate, float, int]]) -> tuple[float, int]:
    each = [(error**2 * len(one.window_pairs), freedom) for one, error, freedom in known]
    together = sum(freedom for _, freedom in each)
    return sum(variance * freedom for variance, freedom in each) / together, together


def log_totals(pairs: Pairs) -> Array:
    """The log ratio of totals of every replicate."""
    return np.array([one.log_ratio for one in pairs.replicates])


def evidence_against(window: Window) -> str | None:
    """Why a window tells of something else than its arm, by what was seen outside of it; never by its time."""
    if window.throttled is not None and not SLOWDOWNS.isdisjoint(window.throttled):
        return SLOWED
    if window.others is not None and window.others > OTHERS:
        return CONTENTION
    return None


def undisturbed(windows: Sequence[Window], position: int) -> list[Window]:
    """The windows of one replicate without those against which there is evidence.

    All of them where more than half of what they give would be lost: what remained would be a choice of moments.
    """
    kept = [one for one in windows if evidence_against(one) is None]
    return kept if 2 * _given(kept, position, windows) >= _given(windows, position, windows) else list(windows)


def _given(windows: Sequence[Window], position: int, among: Sequence[Window]) -> int:
    """How many ratios windows give: pairs, or as many as the arm that has fewer where each was alive alone."""
    turns = in_turn(windows, position, among)
    return len(_window_pairs(windows, position)) + sum(min(map(len, both)) for both in turns)


def _left_out(windows: Iterable[Window], kept: Iterable[Window], both: set[int]) -> tuple[tuple[str, int], ...]:
    still = {(one.arm, one.order) for one in kept}
    lost = (one for one in windows if one.arm.position in both and (one.arm, one.order) not in still)
    return tuple(sorted(Counter(reason for one in lost if (reason := evidence_against(one))).items()))


def _window_pairs(windows: Iterable[Window], position: int) -> list[WindowPair]:
    return [window_pair for attempt in _attempts(windows).values() for window_pair in window_pairs(attempt, position)]


def _window(window: Window) -> _Window:
    return window.arm.attempt, window.order


def _share(window_pair: WindowPair) -> float:
    """Where the treatment's turn stands between the reference's, from 0 to 1.

    Turns are counted, not seconds: a window's middle moves away when the window is slow, so that weights by time would
    count slow windows for less.
    """
    return (window_pair.treatment.order - window_pair.before.order) / (
        window_pair.after.order - window_pair.before.order
    )


def _expected(window_pair: WindowPair, spent: Spent) -> float:
    """What the reference would have spent on the treatment's samples at its moment."""
    before, after = (spent(one) / one.samples for one in (window_pair.before, window_pair.after))
    return window_pair.treatment.samples * (before + _share(window_pair) * (after - before))


def _totals(found: Sequence[WindowPair], closing: AbstractSet[_Window], spent: Spent) -> Replicate | None:
    """The ratio of totals of arms that took turns; None without a pair."""
    if not found:
        return None
    theirs = np.array([_expected(one, spent) for one in found])
    ours = np.array([spent(one.treatment) for one in found])
    count = len(found)
    error = matched = grouped = 0.0
    groups = count // TOGETHER
    if count > 1:
        # The ratio of two sums, linearised: how its parts scatter says how far other windows would have moved it.
        residuals = theirs / theirs.mean() - ours / ours.mean()
        error = math.sqrt(float(residuals.var(ddof=1)) / count * _overlap(found))
        added = _matched(found, closing, spent)
        matched = math.sqrt(float(added.var(ddof=1)) / count)
        if groups > 1:
            sums = [float(part.sum()) for part in np.array_split(added, groups)]  # 0 together
            grouped = math.sqrt(sum(one**2 for one in sums) * groups / (groups - 1)) / count
    return Replicate(
        log_ratio=math.log(float(theirs.sum() / ours.sum())),
        window_pairs=tuple(map(float, np.log(theirs / ours))),
        error=error,
        matched_error=matched,
        freedom=count - 1,
        grouped_error=grouped,
        grouped_freedom=max(0, groups - 1),
    )


def _weights(found: Sequence[WindowPair]) -> Mapping[_Window, float]:
    """How much each of the reference's windows counts, in pairs."""
    weights: dict[_Window, float] = defaultdict(float)
    for one in found:
        share = _share(one)
        weights[_window(one.before)] += 1 - share
        weights[_window(one.after)] += share
    return weights


def _overlap(found: Sequence[WindowPair]) -> float:
    """How much larger the variance of the mean is than pairs seem to say that share their reference's windows.

    Known from the weights of the windows alone, each as uncertain as any other: 1.3 to 1.4 for a treatment alone beside
    its reference, about 1.2 for four.
    """
    count = len(found)
    single = sum(1 + (1 - share) ** 2 + share**2 for share in map(_share, found))
    of_the_mean = sum(weight**2 for weight in _weights(found).values()) / count**2 + 1 / count
    return of_the_mean * count / ((single - count * of_the_mean) / (count - 1))


def _matched(found: Sequence[WindowPair], closing: AbstractSet[_Window], spent: Spent) -> Array:
    """What each treatment window and the reference windows with its samples add to the ratio, less their means.

    The reference's window before a treatment's holds the same samples, and its closing window those of the first.
    """
    owners: dict[_Window, int] = {}
    costs: dict[_Window, float] = {}
    for index, one in enumerate(found):
        owners[_window(one.before)] = index
        owners.setdefault(_window(one.after), index)
        costs |= {_window(side): spent(side) / side.samples for side in (one.before, one.after)}
    first = {one.treatment.arm.attempt: index for index, one in reversed(list(enumerate(found)))}
    weights = _weights(found)
    mean = sum(weights[one] * costs[one] for one in weights) / len(found)
    ours = np.array([spent(one.treatment) / one.treatment.samples for one in found])
    added: Array = 1 - ours / ours.mean()
    for window, index in owners.items():
        owner = first[window[0]] if window in closing else index
        added[owner] += weights[window] * (costs[window] / mean - 1)
    return added


def _apart(ours: Sequence[Window], theirs: Sequence[Window], spent: Spent) -> Replicate:
    """The ratio of arms that were alive one after the other; nothing pairs their windows."""
    each_s = [np.array([spent(one) / one.samples for one in side]) for side in (ours, theirs)]
    known = [one for one in each_s if len(one) > 1]
    ratio = math.log(_rate(ours, spent) / _rate(theirs, spent))
    error = math.sqrt(sum(float(one.var(ddof=1)) / len(one) / float(one.mean()) ** 2 for one in known))
    freedom = sum(len(one) - 1 for one in known) if len(known) == len(each_s) else 0
    return Replicate(log_ratio=ratio, window_pairs=(ratio,), error=error, matched_error=error, freedom=freedom)


def _joined(parts: Sequence[Replicate]) -> Replicate:
    """One replicate of what its attempts gave; where some held both arms and others one, each counts by its ratios."""
    count = sum(len(one.window_pairs) for one in parts)
    shared = [(len(one.window_pairs) / count, one) for one in parts]
    return Replicate(
        log_ratio=sum(share * one.log_ratio for share, one in shared),
        window_pairs=tuple(log for one in parts for log in one.window_pairs),
        error=math.hypot(*(share * one.error for share, one in shared)),
        matched_error=math.hypot(*(share * one.matched_error for share, one in shared)),
        freedom=sum(one.freedom for one in parts),
    )


def _rate(windows: Sequence[Window], spent: Spent) -> float:
    return sum(window.samples for window in windows) / sum(map(spent, windows))


def _attempts(windows: Iterable[Window]) -> Mapping[tuple[int, int], list[Window]]:
    return together(((one.arm.replicate, one.arm.attempt), one) for one in windows)


def _drift(windows: Iterable[Window], position: int, spent: Spent) -> float:
    """How restless the machine was, as the reference shows it by windows of one attempt that hold the same samples.

    Where samples differ from window to window and hardly any come again, the treatment's window with the same samples
    stands beside the reference's. What the two ratios have in common is no cost of samples; the calmer one counts.
    """
    attempts = [sorted(attempt, key=lambda window: window.order) for attempt in _attempts(windows).values()]
    references = [[window for window in attempt if window.arm.position == 0] for attempt in attempts]
    own = [change for attempt in references for change in _changes(_usual_logs(attempt, spent))]
    if len({window.first_step for attempt in references for window in attempt}) <= 1:
        return _root_mean_square(own)
    alike = [group for one in references for group in together(((w.first_step, w.steps), w) for w in one).values()]
    like = [change for group in alike for change in _changes(_usual_logs(group, spent))]
    if len(like) >= LIKE:
        return _root_mean_square(like)
    beside = [change for attempt in attempts for change in _changes(_beside(attempt, position, spent))]
    return min(map(_root_mean_square, (own, beside))) if beside else _root_mean_square(own)


def _root_mean_square(changes: Sequence[float]) -> float:
    return math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0


def _changes(logs: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(logs)]


def _usual_logs(windows: Iterable[Window], spent: Spent) -> list[float]:
    """Log rates of usual steps."""
    return [math.log(_rate([one], spent) / _unlike(one)) for one in windows]


def _beside(attempt: Sequence[Window], position: int, spent: Spent) -> list[float]:
    """Log ratios of the reference's windows and the treatment's windows with the same samples that follow them."""
    found: list[float] = []
    before: Window | None = None
    for window in attempt:
        if window.arm.position == 0:
            before = window
        elif window.arm.position == position and before and before.first_step == window.first_step:
            theirs, ours = _usual_logs((before, window), spent)
            found.append(theirs - ours)
    return found


def _unlike(window: Window) -> float:
    """A window's usual step over its mean step: stalls are the workload's own, and no restless machine."""
    if not window.slowest_s or len(window.slowest_s) >= window.steps:
        return 1.0
    usual_s = (window.wall_s - sum(window.slowest_s)) / (window.steps - len(window.slowest_s))
    return usual_s * window.steps / window.wall_s if usual_s > 0 else 1.0
