"""Measuring all oracles and holding what comes of them against the truth."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from scipy import stats

from harness.analyze.matrix import Row
from harness.core.optimization import Timing
from harness.run.processes import read_accounts, share_of_others
from tests.oracles.catalogue import ALLOWANCES, Oracle, Trial, added_up, parsed
from tests.oracles.runner import Experiment, Measured, measure, rows_of
from tests.oracles.stages import PLAIN, VARIABLE, Told
from tests.oracles.zygote import Zygote

LOOP_S = 2.0
RARE_S = 10.0  # of a loop in which Python goes through its heap in every second
LOOPS, CONTENDED = 4, 0.05  # at most, until others took no more of the cores than this
SIDE_BY_SIDE = 3  # trials that sleep; of ten, some start while others are timed, and intervals are ten times wider
LOOP = "tests.oracles.by_hand:loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One oracle, measured."""

    experiment: str
    option: str
    threat: str
    how: str  # the truth is known: as `Truth` says, or refused
    true: float | None
    ratio: float | None
    low: float | None
    high: float | None
    words: str  # the verdict, or why there is no ratio
    attempts: int = 1  # that were needed, those of earlier measurements among them, which `judge` does not know
    within: bool = True  # the bare interval of the first attempt holds the truth

    @property
    def half_width(self) -> float | None:
        """Of the log ratio's interval, where it has an end."""
        return math.log(self.high / self.low) / 2 if self.low and self.high else None

    @property
    def holds(self) -> bool:
        """Whether the truth lies in the interval, widened by what its construction may be off; or none was given."""
        if self.true is None:
            return self.ratio is None
        if self.low is None or self.high is None:
            return False
        allowance = ALLOWANCES[self.how]
        return self.low * (1 - allowance) <= self.true <= self.high * (1 + allowance)


def judge(
    trials: Sequence[Trial], zygote: Zygote, kept: dict[str, Measured] | None = None, at_once: int = SIDE_BY_SIDE
) -> list[Judged]:
    """Measures all trials once, and those in which an oracle does not hold once more with other turns.

    What the first attempts recorded is `kept`.
    """
    found = _measured(trials, zygote, kept, at_once)
    failed = [one for one in trials if not all(row.holds for row in found[one.experiment.name])]
    again = [replace(one, experiment=replace(one.experiment, seed=one.experiment.seed + 1)) for one in failed]
    if again:
        for name, rows in _measured(again, zygote, None, at_once).items():
            pairs = zip(found[name], rows, strict=True)
            found[name] = [
                first if first.holds else replace(second, attempts=2, within=first.within) for first, second in pairs
            ]
    return [row for one in trials for row in found[one.experiment.name]]


def _measured(
    trials: Sequence[Trial], zygote: Zygote, kept: dict[str, Measured] | None, at_once: int
) -> dict[str, list[Judged]]:
    """Those that compute one after the other, then all that sleep, so many at once."""
    measured: dict[str, Measured] = {}
    loops: dict[str, dict[str, float]] = {}
    for one in (one for one in trials if one.alone):
        before = _loops(one, zygote)
        measured[one.experiment.name] = measure(one.experiment)
        after = _loops(one, zygote)
        loops[one.experiment.name] = {stack: (seconds + after[stack]) / 2 for stack, seconds in before.items()}
    asleep = sorted((one for one in trials if not one.alone), key=_cost, reverse=True)  # the longest first
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        ahead = {one.experiment.name: pool.submit(_loops, one, zygote) for one in asleep}
        loops |= {name: one.result() for name, one in ahead.items()}
        running = {one.experiment.name: pool.submit(measure, one.experiment) for one in asleep}
        measured |= {name: one.result() for name, one in running.items()}
    if kept is not None:
        kept |= measured
    return dict(_judged(trials, measured, loops))


def _cost(one: Trial) -> float:
    """How long a trial takes, about, in whatever unit."""
    protocol, plain = one.experiment.protocol, one.experiment.stages[PLAIN]
    window_s = max(protocol.window_s, 8 * plain.step_s, min(protocol.whole_s, added_up(one.experiment.stages, "")))
    return protocol.replicates * (1 + protocol.rounds) * (1 + len(one.oracles)) * window_s


def _judged(
    trials: Sequence[Trial], measured: dict[str, Measured], loops: dict[str, dict[str, float]]
) -> Iterator[tuple[str, list[Judged]]]:
    pools: dict[tuple[str, Timing], list[Trial]] = defaultdict(list)
    for one in trials:
        pools[one.pool, one.experiment.timing].append(one)
    for together in pools.values():
        rows = iter(rows_of([measured[one.experiment.name] for one in together]))
        for one in together:
            name = one.experiment.name
            yield name, [_held(one.experiment, oracle, next(rows), loops[name]) for oracle in one.oracles]


def _held(experiment: Experiment, oracle: Oracle, row: Row, loops: dict[str, float]) -> Judged:
    estimate = row.estimate
    refused = oracle.refused or (oracle.refusable and estimate is None)
    true = None if refused else _truth(experiment, oracle, loops)
    judged = Judged(
        experiment=experiment.name,
        option=oracle.option,
        threat=oracle.threat,
        how="refused" if refused else oracle.truth,
        true=true,
        ratio=estimate.ratio if estimate else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate and math.isfinite(estimate.high) else None,
        words=str(estimate.verdict) if estimate else row.absence.words if row.absence else "",
    )
    inside = true is None or (estimate is not None and estimate.low <= true <= estimate.high)
    return replace(judged, within=inside)


def _truth(experiment: Experiment, oracle: Oracle, loops: dict[str, float]) -> float:
    if oracle.truth == "loop":
        return loops[experiment.reference] / loops[oracle.option]
    seconds = partial(added_up, experiment.stages, shuffled=oracle.truth == "shuffled")
    return seconds(experiment.reference) / seconds(oracle.option)


def _loops(one: Trial, zygote: Zygote) -> dict[str, float]:
    """Seconds for a sample of the reference and of every option whose truth is a loop's, twice, one after the other."""
    wanted = [oracle.option for oracle in one.oracles if oracle.truth == "loop" and not oracle.refused]
    if not wanted:
        return {}
    run = partial(_loop, one.experiment, zygote)
    stacks = [one.experiment.reference, *wanted]
    rounds = [[run(stack) for stack in stacks] for _ in range(2)]
    return {stack: fmean(times) for stack, times in zip(stacks, zip(*rounds, strict=True), strict=True)}


def _loop(experiment: Experiment, zygote: Zygote, stack: str) -> float:
    told, option = {VARIABLE: Told(variants=experiment.stages).to_json()}, parsed(stack)
    plain, rare = experiment.stages[PLAIN], any(one.objects for one in experiment.stages.values())
    epoch_s = added_up(experiment.stages, stack) * plain.samples
    argument = {
        "variant": option.variant,
        "workers": option.workers,
        "prefetch": option.prefetch,
        "passes": option.passes,
        "seconds": RARE_S if rare else min(LOOP_S, 4 * epoch_s) if plain.step == "sleep" else LOOP_S,
        "epochs": experiment.timing is Timing.EPOCH,
        "persistent": option.persistent,
        "pinned": option.pinned,
        "threads": option.threads,
        "start": option.start,
    }
    return min(_watched(lambda: float(zygote.call(LOOP, argument, told)["seconds_per_sample"])))[1]


def _watched(run: Callable[[], float]) -> Iterator[tuple[float, float]]:
    """The share of the cores that others took, with what the loop gave: again while that is too much for a truth."""
    for _ in range(LOOPS):
        before = read_accounts()
        seconds = run()
        others = share_of_others(before, read_accounts())
        yield (others if others > CONTENDED else 0.0), seconds
        if others <= CONTENDED:
            return


def most_misses(count: int, share: float = 0.05, point: float = 0.999) -> int:
    """How many of so many independent 95 % intervals may miss before chance is no excuse."""
    return int(stats.binom.ppf(point, count, share))


def timed(
    trials: Sequence[Trial], zygote: Zygote, kept: dict[str, Measured] | None = None, at_once: int = SIDE_BY_SIDE
) -> tuple[list[Judged], float]:
    """The judged oracles and the seconds that they took."""
    began_s = time.monotonic()
    judged = judge(trials, zygote, kept, at_once)
    return judged, time.monotonic() - began_s
