"""Races: the same training with and without some options, from the same first weights, until its score is reached."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from statistics import fmean, stdev

from harness.analyze.estimate import half_width_of
from harness.core.environment import Environment
from harness.core.workload import Goal, Trained

FEWEST = 3  # seeds, for an interval that says anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """Both trainings from one seed."""

    seed: int
    treatment: Trained
    reference: Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """All heats, and what they were about."""

    version: str
    began: str  # UTC, ISO 8601
    environment: Environment
    workload: str
    size: str
    batch: int
    treatment: str  # options, or baseline
    reference: str
    names: tuple[str, str]  # of both, as they were asked for
    goal: Goal
    steps: int  # at most
    heats: tuple[Heat, ...]
    # Whether the learning rate followed the system's schedule over those steps.
    scheduled: bool = field(default=False, metadata={"since": "0.3.0"})
    score: str = field(default="", metadata={"since": "0.3.0"})  # what the goal's number is
    # What real data were trained on, or whose code; empty for the suite's own.
    data: str = field(default="", metadata={"since": "0.3.0"})
    seeds: int | None = field(default=None, metadata={"since": "0.3.0"})  # that were to be trained from

    @property
    def key(self) -> str:
        """Names it among those of its workload: what was compared, on what, and the goal."""
        asked = f"{self.size} {self.batch} {self.treatment} {self.reference} {self.goal}"
        asked += f" scheduled {self.steps}" if self.scheduled else ""
        asked += f" {self.data}" if self.data else ""
        return sha256(asked.encode()).hexdigest()[:8]

    @property
    def file_name(self) -> str:
        """Of its file: one that is begun later, or in another environment, has another."""
        began = self.began[:19].replace("-", "").replace(":", "")
        return f"{self.workload}-{self.key}-{began}-{self.environment.digest[:8]}.json"

    @property
    def is_complete(self) -> bool:
        """Whether it went through all seeds; of earlier ones nobody knows how many those were."""
        return self.seeds is None or len(self.heats) >= self.seeds

    @property
    def trainings(self) -> tuple[Trained, ...]:
        """Those of all heats."""
        return tuple(one for heat in self.heats for one in (heat.treatment, heat.reference))

    @property
    def counts_start(self) -> bool:
        """Whether seconds to the goal hold start-up and compilation, of which earlier races tell nothing."""
        return all(one.start_s is not None for one in self.trainings if one.failed is None)

    def reached(self) -> tuple[int, int]:
        """In how many heats the treatment reached the goal, and the reference."""
        both = [(one.treatment.reached, one.reference.reached) for one in self.heats]
        return sum(ours for ours, _ in both), sum(theirs for _, theirs in both)


def newest(races: Iterable[Race]) -> tuple[Race, ...]:
    """Of each question the last race in each environment, one that is complete with enough seeds if there is one.

    They come in the order of the questions.
    """
    in_turn = sorted(races, key=lambda one: (one.is_complete, min(len(one.heats), FEWEST), one.began))
    found = {(one.workload, one.key, one.environment.digest): one for one in in_turn}
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sooner:
    """The reference's over the treatment's, with its 95 % interval over seeds; above 1 is sooner."""

    ratio: float
    low: float
    high: float


def sooner(race: Race, *, in_steps: bool = False) -> Sooner | None:
    """How many times sooner the treatment reaches the goal, in steps or in seconds, those of its start included.

    A score is asked for now and then, so the goal was reached between the last look and the one before: the ratio is
    that of the middles, and its interval reaches over all that the looks allow. Seeds that agree do not narrow that.
    None where a heat did not end at the goal, whose time nobody knows, where seeds are missing, and of too few heats.
    """
    if race.reached() != (len(race.heats),) * 2 or len(race.heats) < FEWEST or not race.is_complete:
        return None
    look = _steps if in_steps else _seconds if race.counts_start else _seconds_of_steps
    spans = [(look(heat.reference), look(heat.treatment)) for heat in race.heats]
    middles = [math.log((theirs[0] + theirs[1]) / (ours[0] + ours[1])) for theirs, ours in spans]
    least = [math.log(theirs[0] / ours[1]) if theirs[0] else -math.inf for theirs, ours in spans]
    most = [math.log(theirs[1] / ours[0]) if ours[0] else math.inf for theirs, ours in spans]
    return Sooner(
        ratio=math.exp(fmean(middles)),
        low=0.0 if -math.inf in least else math.exp(fmean(least) - _half(least)),
        high=math.inf if math.inf in most else math.exp(fmean(most) + _half(most)),
    )


def _steps(trained: Trained) -> tuple[float, float]:
    """Between which two looks a training reached its goal, in steps."""
    before, last = ((0, 0.0, 0.0), *trained.scores)[-2:]
    return float(before[0]), float(last[0])


def _seconds(trained: Trained) -> tuple[float, float]:
    """The same in seconds since its start."""
    before_s, last_s = _seconds_of_steps(trained)
    start_s = trained.start_s or 0.0
    return start_s + before_s, start_s + last_s


def _seconds_of_steps(trained: Trained) -> tuple[float, float]:
    """The same in seconds of its steps alone."""
    before, last = ((0, 0.0, 0.0), *trained.scores)[-2:]
    return before[1], last[1]


def _half(logs: Sequence[float]) -> float:
    """Student's t of independent seeds; both trainings of one begin with the same weights and see the same samples."""
    return half_width_of(stdev(logs), len(logs))
