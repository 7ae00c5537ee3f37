"""Pairing: the ratio of totals that each replicate of a comparison gives, and how sure its own windows are of it.

What a user waits for is total time, so sums stand over sums: no window counts less for being slow, and none is left out
but on evidence from outside of the arms (docs/decisions/total-time.md). The reference's seconds per sample at a
treatment's moment lie on a line between the two reference windows around it, so that slow drift cancels.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from harness.analyze.device import Device, device_of
from harness.analyze.moderation import Array
from harness.analyze.tails import Tail, tail
from harness.core.bracket import Bracket, alone, brackets
from harness.core.measurement import Burst
from harness.core.throttling import SLOWDOWNS

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
    brackets: tuple[float, ...]  # log ratios of single windows
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
    interference: float  # root mean square of the reference's own log change between windows with like samples
    crowding: float = 0.0  # mean share of the cores that others took while none was idle
    in_turn: int = 0  # replicates whose arms were alive one after the other, because memory did not hold both
    device: Device | None = None  # how it was meanwhile, where a driver told
    windows: int = 0  # of both arms, with those that were left out
    left_out: tuple[tuple[str, int], ...] = ()  # reason -> windows
    tails: tuple[Tail | None, Tail | None] = (None, None)  # of the reference and of the treatment

    @property
    def log_ratios(self) -> tuple[tuple[float, ...], ...]:
        """Of single windows, one tuple for each replicate."""
        return tuple(one.brackets for one in self.replicates)

    @property
    def count(self) -> int:
        """How many brackets there are in all replicates together."""
        return sum(len(one.brackets) for one in self.replicates)


_Window = tuple[int, int]  # life and order, within one replicate
Spent = Callable[[Burst], float]  # what a window took, of whatever there is less of the better


def seconds(burst: Burst) -> float:
    """What a rate is told in."""
    return burst.wall_s


def pair(bursts: Iterable[Burst], position: int, spent: Spent = seconds) -> Pairs:
    """What the arm at `position` of one block gives beside its reference; all lives of a replicate count together.

    A replicate whose arms were alive one after the other gives the ratio of their totals over all windows.
    A total is in seconds or in whatever else is `spent`, which must not be 0 in any window.
    """
    bursts = tuple(bursts)
    found: list[Replicate] = []
    windows: list[Burst] = []
    in_turn = 0
    for own in _by_restart(bursts):
        kept = undisturbed(own, position)
        together, apart = _totals(_brackets(kept, position), _closing(own), spent), _in_turn(kept, position, spent)
        windows += kept
        in_turn += apart is not None
        if parts := [one for one in (together, apart) if one]:
            found.append(parts[0] if len(parts) == 1 else _joined(parts))
    both = {0, position}
    others = [one.others for one in windows if one.arm.position in both and one.others is not None]
    return Pairs(
        replicates=tuple(found),
        interference=_interference(windows, position, spent),
        crowding=sum(others) / len(others) if others else 0.0,
        in_turn=in_turn,
        device=device_of(bursts, position),
        windows=sum(one.arm.position in both for one in bursts),
        left_out=_left_out(bursts, windows, both),
        tails=(tail(bursts, 0), tail(bursts, position)),
    )


def errors(pairs: Pairs) -> tuple[float, int]:
    """What windows say of a comparison: the variance of a single bracket, with its degrees of freedom.

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
    each = [(error**2 * len(one.brackets), freedom) for one, error, freedom in known]
    together = sum(freedom for _, freedom in each)
    return sum(variance * freedom for variance, freedom in each) / together, together


def log_totals(pairs: Pairs) -> Array:
    """The log ratio of totals of every replicate."""
    return np.array([one.log_ratio for one in pairs.replicates])


def evidence_against(burst: Burst) -> str | None:
    """Why a window tells of something else than its arm, by what was seen outside of it; never by its time."""
    if burst.throttled is not None and not SLOWDOWNS.isdisjoint(burst.throttled):
        return SLOWED
    if burst.others is not None and burst.others > OTHERS:
        return CONTENTION
    return None


def undisturbed(bursts: Sequence[Burst], position: int) -> list[Burst]:
    """The windows of one replicate without those against which there is evidence.

    All of them where more than half of what they give would be lost: who is disturbed that much gets no verdict, and
    what remained would be a choice of moments.
    """
    kept = [one for one in bursts if evidence_against(one) is None]
    return kept if 2 * _given(kept, position) >= _given(bursts, position) else list(bursts)


def log_ratio(bracket: Bracket, spent: Spent = seconds) -> float:
    """Log of the reference's seconds for a sample, at the treatment's moment, over the treatment's."""
    return math.log(_expected(bracket, spent) / spent(bracket.treatment))


def _given(bursts: Sequence[Burst], position: int) -> int:
    """How many ratios windows give: brackets, or as many as the arm that has fewer where each was alive alone."""
    return len(_brackets(bursts, position)) + min(len(alone(bursts, one)) for one in (0, position))


def _left_out(bursts: Iterable[Burst], kept: Iterable[Burst], both: set[int]) -> tuple[tuple[str, int], ...]:
    still = {(one.arm, one.order) for one in kept}
    lost = (one for one in bursts if one.arm.position in both and (one.arm, one.order) not in still)
    return tuple(sorted(Counter(reason for one in lost if (reason := evidence_against(one))).items()))


def _brackets(bursts: Iterable[Burst], position: int) -> list[Bracket]:
    return [bracket for life in _lives(bursts).values() for bracket in brackets(life, position)]


def _window(burst: Burst) -> _Window:
    return burst.arm.life, burst.order


def _closing(bursts: Iterable[Burst]) -> AbstractSet[_Window]:
    """The last window of every life."""
    return {max(map(_window, life)) for life in _lives(bursts).values()}


def _share(bracket: Bracket) -> float:
    """Where the treatment's turn stands between the reference's, from 0 to 1.

    Turns are counted, not seconds: a window's middle moves away when the window is slow, so that weights by time would
    count slow windows for less.
    """
    return (bracket.treatment.order - bracket.before.order) / (bracket.after.order - bracket.before.order)


def _expected(bracket: Bracket, spent: Spent) -> float:
    """What the reference would have spent on the treatment's samples at its moment."""
    before, after = (spent(one) / one.samples for one in (bracket.before, bracket.after))
    return bracket.treatment.samples * (before + _share(bracket) * (after - before))


def _totals(found: Sequence[Bracket], closing: AbstractSet[_Window], spent: Spent) -> Replicate | None:
    """The ratio of totals of arms that took turns; None without a bracket."""
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
        brackets=tuple(map(float, np.log(theirs / ours))),
        error=error,
        matched_error=matched,
        freedom=count - 1,
        grouped_error=grouped,
        grouped_freedom=max(0, groups - 1),
    )


def _weights(found: Sequence[Bracket]) -> Mapping[_Window, float]:
    """How much each of the reference's windows counts, in brackets."""
    weights: dict[_Window, float] = defaultdict(float)
    for one in found:
        share = _share(one)
        weights[_window(one.before)] += 1 - share
        weights[_window(one.after)] += share
    return weights


def _overlap(found: Sequence[Bracket]) -> float:
    """How much larger the variance of the mean is than brackets seem to say that share their reference's windows.

    Known from the weights of the windows alone, each as uncertain as any other: 1.3 to 1.4 for a treatment alone beside
    its reference, about 1.2 for four.
    """
    count = len(found)
    single = sum(1 + (1 - share) ** 2 + share**2 for share in map(_share, found))
    of_the_mean = sum(weight**2 for weight in _weights(found).values()) / count**2 + 1 / count
    return of_the_mean * count / ((single - count * of_the_mean) / (count - 1))


def _matched(found: Sequence[Bracket], closing: AbstractSet[_Window], spent: Spent) -> Array:
    """What each treatment window and the reference windows with its samples add to the ratio, less their means.

    The reference's window before a treatment's holds the same samples, and its closing window those of the first.
    """
    owners: dict[_Window, int] = {}
    costs: dict[_Window, float] = {}
    for index, one in enumerate(found):
        owners[_window(one.before)] = index
        owners.setdefault(_window(one.after), index)
        costs |= {_window(side): spent(side) / side.samples for side in (one.before, one.after)}
    first = {one.treatment.arm.life: index for index, one in reversed(list(enumerate(found)))}
    weights = _weights(found)
    mean = sum(weights[one] * costs[one] for one in weights) / len(found)
    ours = np.array([spent(one.treatment) / one.treatment.samples for one in found])
    added: Array = 1 - ours / ours.mean()
    for window, index in owners.items():
        owner = first[window[0]] if window in closing else index
        added[owner] += weights[window] * (costs[window] / mean - 1)
    return added


def _in_turn(bursts: Sequence[Burst], position: int, spent: Spent) -> Replicate | None:
    """The ratio of arms that were alive one after the other, both for some windows; nothing pairs those."""
    ours, theirs = alone(bursts, position), alone(bursts, 0)
    if not ours or not theirs:
        return None
    each_s = [np.array([spent(one) / one.samples for one in side]) for side in (ours, theirs)]
    known = [one for one in each_s if len(one) > 1]
    ratio = math.log(_rate(ours, spent) / _rate(theirs, spent))
    error = math.sqrt(sum(float(one.var(ddof=1)) / len(one) / float(one.mean()) ** 2 for one in known))
    freedom = sum(len(one) - 1 for one in known) if len(known) == len(each_s) else 0
    return Replicate(log_ratio=ratio, brackets=(ratio,), error=error, matched_error=error, freedom=freedom)


def _joined(parts: Sequence[Replicate]) -> Replicate:
    """One replicate of what its lives gave; where some held both arms and others one, each counts by its ratios."""
    counts = [len(one.brackets) for one in parts]
    shares = [count / sum(counts) for count in counts]
    return Replicate(
        log_ratio=sum(share * one.log_ratio for share, one in zip(shares, parts, strict=True)),
        brackets=tuple(log for one in parts for log in one.brackets),
        error=math.hypot(*(share * one.error for share, one in zip(shares, parts, strict=True))),
        matched_error=math.hypot(*(share * one.matched_error for share, one in zip(shares, parts, strict=True))),
        freedom=sum(one.freedom for one in parts),
    )


def _rate(bursts: Sequence[Burst], spent: Spent) -> float:
    return sum(burst.samples for burst in bursts) / sum(map(spent, bursts))


def _by_restart(bursts: Sequence[Burst]) -> Iterator[list[Burst]]:
    for restart in sorted({burst.arm.restart for burst in bursts}):
        yield [burst for burst in bursts if burst.arm.restart == restart]


def _lives(bursts: Iterable[Burst]) -> Mapping[tuple[int, int], list[Burst]]:
    lives: dict[tuple[int, int], list[Burst]] = defaultdict(list)
    for burst in bursts:
        lives[burst.arm.restart, burst.arm.life].append(burst)
    return lives


def _interference(bursts: Iterable[Burst], position: int, spent: Spent) -> float:
    """How restless the machine was, as the reference shows it by windows that hold the same samples.

    Where samples differ from window to window and hardly any come again, the treatment's window with the same samples
    stands beside the reference's. What the two ratios have in common is no cost of samples; the calmer one counts.
    """
    lives = [sorted(life, key=lambda burst: burst.order) for life in _lives(bursts).values()]
    references = [[burst for burst in life if burst.arm.position == 0] for life in lives]
    own = [change for life in references for change in _changes(_usual_logs(life, spent))]
    if len({burst.first_step for life in references for burst in life}) <= 1:
        return _root_mean_square(own)
    alike: dict[tuple[int | None, int], list[Burst]] = defaultdict(list)
    for burst in (burst for life in references for burst in life):
        alike[burst.first_step, burst.steps].append(burst)
    like = [change for windows in alike.values() for change in _changes(_usual_logs(windows, spent))]
    if len(like) >= LIKE:
        return _root_mean_square(like)
    beside = [change for life in lives for change in _changes(_beside(life, position, spent))]
    return min(map(_root_mean_square, (own, beside))) if beside else _root_mean_square(own)


def _root_mean_square(changes: Sequence[float]) -> float:
    return math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0


def _changes(logs: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(logs)]


def _usual_logs(windows: Iterable[Burst], spent: Spent) -> list[float]:
    """Log rates of usual steps."""
    return [math.log(_rate([one], spent) / _unlike(one)) for one in windows]


def _beside(life: Sequence[Burst], position: int, spent: Spent) -> list[float]:
    """Log ratios of the reference's windows and the treatment's windows with the same samples that follow them."""
    found: list[float] = []
    before: Burst | None = None
    for burst in life:
        if burst.arm.position == 0:
            before = burst
        elif burst.arm.position == position and before and before.first_step == burst.first_step:
            theirs, ours = _usual_logs((before, burst), spent)
            found.append(theirs - ours)
    return found


def _unlike(burst: Burst) -> float:
    """A window's usual step over its mean step: stalls are the workload's own, and no restless machine."""
    if not burst.slowest_s or len(burst.slowest_s) >= burst.steps:
        return 1.0
    usual_s = (burst.wall_s - sum(burst.slowest_s)) / (burst.steps - len(burst.slowest_s))
    return usual_s * burst.steps / burst.wall_s if usual_s > 0 else 1.0
