"""The search for the best stack: which stacks to measure next, given what was measured and what a model says.

Stacks are ranked by what a model predicts for them. Beside the best guess a few proposals come from models drawn at
random from what the data allow (Thompson sampling, W. R. Thompson 1933), so that what is hardly known is tried too.
Where there are too many stacks to rank them all, they are reached from good ones by changing one or two options.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product, zip_longest
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from harness.core.configuration import Option
from harness.plan.designs import Space, Stack

Array = NDArray[np.float64]
LogTimes = Callable[[Sequence[Stack]], Array]  # log times of stacks, in the unit of those that were measured

RANKED = 20_000  # stacks that are all ranked; beyond, they are searched
NO_MODEL = "the stage model is not trusted here, so measurements decide: all together, and without what hurts in it"
STARTS = 4  # random stacks from which a search begins, beside the best that was measured
STACKS = 5  # to measure in one round
ROUNDS = 3  # after which a search ends
LEAST_GAIN = 0.01  # below it nothing more is sought


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What to measure next, the most promising first; or nothing, and why."""

    stacks: tuple[Stack, ...]
    gain: float  # the rate of the first over the best that was measured, less 1, as predicted
    finished: str | None


def propose(
    space: Space,
    measured: Mapping[Stack, float],
    models: Sequence[LogTimes],
    generator: np.random.Generator,
    *,
    least_gain: float = LEAST_GAIN,
) -> Proposal:
    """The next stacks to measure, given log times of those that were; `models` begins with the best guess.

    Raises ValueError without a measured stack or a model.
    """
    if not measured or not models:
        raise ValueError("a search needs a measured stack and a model at least")
    best = min(measured, key=lambda stack: measured[stack])
    first, *drawn = (ranked(space, measured, best, log_times, generator) for log_times in models)
    stacks = list(islice(first, STACKS))
    if not stacks:
        return Proposal(stacks=(), gain=0.0, finished="every stack has been measured")
    gain = float(np.expm1(models[0]([best])[0] - models[0](stacks[:1])[0]))
    if gain < least_gain:
        words = f"no other stack is predicted to be {100 * least_gain:.0f} % faster than the best measured one"
        return Proposal(stacks=(), gain=gain, finished=words)
    others = [stack for ranked in drawn for stack in islice(ranked, 1)]
    return Proposal(stacks=tuple(_in_turns(stacks, others))[:STACKS], gain=gain, finished=None)


def proposed(
    space: Space,
    measured: Mapping[Stack, float],
    models: Sequence[LogTimes],
    lighter: Iterable[Stack],
    generator: np.random.Generator,
) -> Proposal:
    """The stacks to measure next; without a trusted model, only the lighter ones.

    `lighter` are those without what hurts, in the first round alone. One of them is measured beside what models
    propose: a model believes in small harms less than was measured, and several of them add up to more than it looks
    for.
    """
    lighter = tuple(one for one in lighter if one not in measured)
    if not models:
        return Proposal(stacks=lighter[:STACKS], gain=0.0, finished=None if lighter else NO_MODEL)
    found = propose(space, measured, models, generator)
    light = next((one for one in lighter if one not in found.stacks), None)
    if light is None:
        return found
    return replace(found, stacks=(*found.stacks[: STACKS - 1], light), finished=None)


def gain_left(space: Space, measured: Mapping[Stack, float], model: LogTimes) -> float | None:
    """By how much the best unmeasured stack is predicted to beat the best measured one; None without such a stack."""
    found = propose(space, measured, [model], np.random.default_rng(0), least_gain=-inf)
    return found.gain if found.stacks else None


def narrowed(space: Space, barred: Container[Option], fits: Callable[[Stack], bool]) -> Space:
    """A space without options that must not be on and without stacks that do not fit."""
    levels = (tuple(one for one in alike if one not in barred) for alike in space.levels)
    return replace(
        space,
        levels=tuple(alike for alike in levels if alike),
        possible=lambda stack: fits(stack) and space.possible(stack),
    )


def _in_turns(stacks: Iterable[Stack], others: Iterable[Stack]) -> Iterable[Stack]:
    """The best guess's, and after each of the first of them what a drawn model takes for the best."""
    turns = (one for turn in zip_longest(stacks, others) for one in turn if one is not None)
    return dict.fromkeys(turns)


def ranked(
    space: Space, measured: Container[Stack], best: Stack, log_times: LogTimes, generator: np.random.Generator
) -> Iterator[Stack]:
    """Stacks that were not measured, the fastest first, as one model has them.

    Where there are too many to rank them all, only those that are met on the way down from `best` and a few others.
    """
    if counted(space) <= RANKED:
        found: Iterable[Stack] = _sound(space)
    else:
        starts = [best, *(space.drawn(generator) for _ in range(STARTS))]
        found = (stack for start in starts for stack in _descent(space, start, log_times))
    left = list(dict.fromkeys(stack for stack in found if stack not in measured))
    order = np.argsort(log_times(left), kind="stable") if left else np.array([], dtype=np.intp)
    return (left[index] for index in order if space.possible(left[index]))


def counted(space: Space) -> int:
    """How many stacks there are at most; some of them may be impossible."""
    return prod(1 + len(levels) for levels in space.levels)


def every_stack(space: Space) -> Iterator[Stack]:
    """All stacks that are possible and lack nothing."""
    return filter(space.possible, _sound(space))


def _sound(space: Space) -> Iterator[Stack]:
    for picked in product(*((None, *levels) for levels in space.levels)):
        names = {one.name for one in picked if one}
        below = (one for one in space.below if one.name not in names)
        options = tuple(sorted((*below, *(one for one in picked if one))))
        if space.sound(options) == options:
            yield options


def _descent(space: Space, start: Stack, log_times: LogTimes) -> Iterator[Stack]:
    """The stacks on the way down from a start, each with its neighbours: one option changed, or two where one fails."""
    stack, time = start, float(log_times([start])[0])
    while True:
        for changes in (1, 2):
            near = [one for one in _neighbours(space, stack, changes) if space.possible(one)]
            yield from near
            times = log_times(near) if near else np.array([np.inf])
            if times.min() < time - 1e-9:
                stack, time = near[int(times.argmin())], float(times.min())
                break
        else:
            return


def _neighbours(space: Space, stack: Stack, changes: int) -> list[Stack]:
    found = []
    for picked in combinations(space.levels, changes):
        for levels in product(*((None, *one) for one in picked)):
            other = stack
            for alike, level in zip(picked, levels, strict=True):
                other = space.with_level(other, alike, level)
            found.append(other)
    return [one for one in dict.fromkeys(found) if one != stack]


def leaner(space: Space, stack: Stack, log_times: LogTimes, least_gain: float) -> Stack:
    """The stack without what gains nothing of its own in it, the least useful first.

    All that is dropped may cost `least_gain` together, as a share of the rate.
    """
    least = float(log_times([stack])[0])
    while True:
        on = [alike for alike in space.levels if any(level in stack for level in alike)]
        fewer = [space.with_level(stack, alike, None) for alike in on]
        fewer = [one for one in fewer if space.possible(one)]
        times = log_times(fewer) if fewer else np.array([np.inf])
        if times.min() > least + np.log1p(least_gain):
            return stack
        stack, least = fewer[int(times.argmin())], min(least, float(times.min()))


def without_what_hurts(
    space: Space, whole: Stack, first: Mapping[Option, float], last: Mapping[Option, float]
) -> tuple[Stack, ...]:
    """Stacks to measure where no model is trusted: all together without what hurts.

    `first` and `last` are log ratios of each option put on first and put on last. What costs time there is dropped:
    all that costs anything put on last, then all whose mean of both does, then the worst alone. Starting from
    everything is right, since behind a bottleneck most options gain nothing by themselves.
    """
    mean = {one: (first.get(one, gain) + gain) / 2 for one, gain in last.items()}
    harmful = sorted((one for one in last if last[one] < 0), key=lambda one: last[one])
    tried = (harmful, [one for one in mean if mean[one] < 0], harmful[:1])
    found = (space.sound(one for one in whole if one not in dropped) for dropped in tried if dropped)
    return tuple(stack for stack in dict.fromkeys(found) if space.possible(stack))
