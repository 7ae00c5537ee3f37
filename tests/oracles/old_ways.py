"""What older or careless ways of measuring say of the same oracles: what none of them fails proves nothing."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.pairing import log_totals, pair
from harness.core.records import Window
from tests.oracles.catalogue import Trial, added_up
from tests.oracles.judged import Judged
from tests.oracles.runner import PROTOCOL, Measured, measure

FAILS = 0.02  # by which a ratio must be false to be called so


@dataclass(frozen=True, slots=True, kw_only=True)
class OldWay:
    """One oracle measured in another way."""

    way: str
    experiment: str
    option: str
    true: float
    said: float
    half_width: float | None = None  # of the log, where the way gives an interval of its own

    @property
    def fails(self) -> bool:
        """Whether what it says is false."""
        off = abs(math.log(self.said / self.true))
        return off > (FAILS if self.half_width is None else self.half_width)


Windows = Sequence[Window]


def trimmed(windows: Windows, position: int) -> float:
    """The mean of the pairs' log ratios without the extreme 30 % at either end."""
    window_pairs = [stats.trim_mean(one.window_pairs, 0.3) for one in pair(windows, position).replicates]
    return math.exp(float(np.mean(window_pairs)))


def sequential(windows: Windows, position: int) -> float:
    """All of the reference, then all of the treatment: the first windows of one against the last of the other."""
    theirs, ours = (_of(windows, one) for one in (0, position))
    first = theirs[: max(1, len(theirs) // 3)]
    last = ours[-max(1, len(ours) // 3) :]
    return _rate(last) / _rate(first)


def by_steps(windows: Windows, position: int) -> float:
    """Steps a second, whatever a step holds."""
    theirs, ours = (_of(windows, one) for one in (0, position))
    pace = [sum(one.steps for one in side) / sum(one.wall_s for one in side) for side in (ours, theirs)]
    return pace[0] / pace[1]


def fastest(windows: Windows, position: int) -> float:
    """The best window of each arm."""
    theirs, ours = (max(one.samples / one.wall_s for one in _of(windows, one)) for one in (0, position))
    return ours / theirs


BRIEFLY = replace(PROTOCOL, rounds=20, window_s=0.1, window_steps=1, whole_s=0.0, lead_s=0.03)
WAYS: Mapping[str, Callable[[Windows, int], float]] = {
    "one arm after the other": sequential,
    "steps instead of samples": by_steps,
    "the best window": fastest,
}
ASKED = (
    ("one arm after the other", "a machine that drifts", "variant=copy"),
    ("steps instead of samples", "other batches", "keep_last_batch"),
    ("the best window", "windows that are parts of an epoch", "workers=2"),
)
SHORT = "windows of 0.1 s, trimmed"  # as version 0.2 had them on a CPU
ONE_PROCESS = "all arms in one process"
SABOTAGED = (
    (SHORT, "one item in 512 takes 3 s", "workers=1"),
    (SHORT, "one item in 512 takes 3 s", "workers=2"),
    (SHORT, "both faults", "workers=1"),
    (SHORT, "both faults", "workers=2"),
    ("no freezing", "54 ms of loading, 45 ms of computing", "workers=1"),
    ("no freezing", "54 ms of loading, 45 ms of computing", "workers=1+prefetch_factor=8"),
    ("no lead-in", "54 ms of loading, 45 ms of computing", "workers=1+prefetch_factor=8"),
    ("no lead-in", "arms that are alike", "variant=cold"),
    ("no lead-in", "arms that are alike", "variant=cool"),
    ("no common samples", "windows that are parts of an epoch", "workers=2"),
    ("no common samples", "windows that are parts of an epoch", "variant=copy"),
    ("the last evaluation in every epoch", "evaluations between epochs", "evaluation_interval=1"),
    ("neighbours' workers wake up too", "arms of one process", "workers=1+prefetch_factor=8"),
    ("settings as a neighbour left them", "arms of one process that compute", "variant=divided"),
    ("settings as a neighbour left them", "arms of one process that compute", "variant=threads"),
    (ONE_PROCESS, "beside two million lists", "variant=lists"),
    (ONE_PROCESS, "beside two million lists", "variant=tenth"),
)


def from_records(trials: Sequence[Trial], measured: Mapping[str, Measured], judged: Sequence[Judged]) -> list[OldWay]:
    """What other estimators say of the windows that were measured."""
    true = {(one.experiment, one.option): one.true for one in judged}
    found = []
    for way, experiment, option in ASKED:
        windows, position = _windows(_trial(trials, experiment), measured[experiment], option)
        said, truth = WAYS[way](windows, position), true[experiment, option]
        assert truth is not None
        found.append(OldWay(way=way, experiment=experiment, option=option, true=truth, said=said))
    return [*found, *_independent(trials, measured)]


def _independent(trials: Sequence[Trial], measured: Mapping[str, Measured]) -> list[OldWay]:
    """Student's t over all pairs, as if those of one process were independent of each other."""
    name = "processes that differ"
    one = _trial(trials, name)
    found = []
    for oracle in one.oracles:
        windows, position = _windows(one, measured[name], oracle.option)
        ratios = np.array([ratio for part in pair(windows, position).replicates for ratio in part.window_pairs])
        half = float(stats.t.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / math.sqrt(len(ratios)))
        stages = one.experiment.stages
        found.append(
            OldWay(
                way="windows as if independent",
                experiment=name,
                option=oracle.option,
                true=added_up(stages, "") / added_up(stages, oracle.option),
                said=math.exp(float(ratios.mean())),
                half_width=half,
            )
        )
    return found


def without_protections(trials: Sequence[Trial], judged: Sequence[Judged]) -> list[OldWay]:
    """The same oracles measured with a protection taken away: those that sleep side by side, then the others."""
    true = {(one.experiment, one.option): one.true for one in judged}
    pairs = sorted({(way, experiment) for way, experiment, _ in SABOTAGED})

    def run(way: str, name: str) -> Measured:
        experiment = replace(_trial(trials, name).experiment, options=_wanted(way, name))
        if way == SHORT:
            return measure(replace(experiment, protocol=BRIEFLY))
        if way == ONE_PROCESS:
            return measure(replace(experiment, shared=True))
        return measure(replace(experiment, sabotage=way))

    alone = [(way, name) for way, name in pairs if _trial(trials, name).alone]
    with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
        measured = {key: pool.submit(run, *key) for key in pairs if key not in alone}
        results = {key: one.result() for key, one in measured.items()}
    results |= {key: run(*key) for key in alone}
    found = []
    for way, name, option in SABOTAGED:
        position = _wanted(way, name).index(option) + 1
        windows = [one for one in results[way, name].records if isinstance(one, Window)]
        totals = math.exp(float(log_totals(pair(windows, position)).mean()))
        said = trimmed(windows, position) if way == SHORT else totals
        truth = true.get((name, option)) or _sum(trials, name, option)
        found.append(OldWay(way=way, experiment=name, option=option, true=truth, said=said))
    return found


def _sum(trials: Sequence[Trial], name: str, option: str) -> float:
    stages = _trial(trials, name).experiment.stages
    return added_up(stages, "") / added_up(stages, option)


def _wanted(way: str, name: str) -> list[str]:
    return [option for other, where, option in SABOTAGED if (other, where) == (way, name)]


def _trial(trials: Sequence[Trial], name: str) -> Trial:
    return next(one for one in trials if one.experiment.name == name)


def _windows(one: Trial, measured: Measured, option: str) -> tuple[list[Window], int]:
    position = [oracle.option for oracle in one.oracles].index(option) + 1
    return [record for record in measured.records if isinstance(record, Window)], position


def _of(windows: Windows, position: int) -> list[Window]:
    return [one for one in windows if one.arm.position == position]


def _rate(windows: Windows) -> float:
    return sum(one.samples for one in windows) / sum(one.wall_s for one in windows)
