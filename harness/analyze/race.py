"""Races: the same training with and without some options, from the same first weights, until its score is reached."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from statistics import fmean, stdev

from scipy import stats

from harness.core.environment import Environment
from harness.core.workload import Goal, Trained

FEWEST = 3  # seeds, for an interval that says anything
CONFIDENCE = 0.975  # of Student's t on either side


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

    @property
    def key(self) -> str:
        """Names it among those of its workload: what was compared, and the goal."""
        asked = f"{self.size} {self.batch} {self.treatment} {self.reference} {self.goal}"
        return sha256((asked + " scheduled" * self.scheduled).encode()).hexdigest()[:8]

    @property
    def file_name(self) -> str:
        """Of its file: one that is begun later, or in another environment, has another."""
        began = self.began[:19].replace("-", "").replace(":", "")
        return f"{self.workload}-{self.key}-{began}-{self.environment.digest[:8]}.json"

    def reached(self) -> tuple[int, int]:
        """In how many heats the treatment reached the goal, and the reference."""
        both = [(one.treatment.reached, one.reference.reached) for one in self.heats]
        return sum(ours for ours, _ in both), sum(theirs for _, theirs in both)


def newest(races: Iterable[Race]) -> tuple[Race, ...]:
    """Of each question the last race in each environment, one with enough seeds if there is one.

    They come in the order of the questions.
    """
    in_turn = sorted(races, key=lambda one: (min(len(one.heats), FEWEST), one.began))
    found = {(one.workload, one.key, one.environment.digest): one for one in in_turn}
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sooner:
    """The reference's over the treatment's, with its 95 % interval over seeds; above 1 is sooner."""

    ratio: float
    low: float
    high: float


def sooner(race: Race, *, in_steps: bool = False) -> Sooner | None:
    """How many times sooner the treatment reaches the goal, in seconds of training or in steps.

    A score is asked for now and then, so the goal was reached between the last look and the one before: the ratio is
    that of the middles, and its interval reaches over all that the looks allow. Seeds that agree do not narrow that.
    None where a heat did not end at the goal, whose time nobody knows, and of too few heats.
    """
    if race.reached() != (len(race.heats),) * 2 or len(race.heats) < FEWEST:
        return None
    place = 0 if in_steps else 1
    spans = [(_span(heat.reference, place), _span(heat.treatment, place)) for heat in race.heats]
    middles = [math.log((theirs[0] + theirs[1]) / (ours[0] + ours[1])) for theirs, ours in spans]
    least = [math.log(theirs[0] / ours[1]) if theirs[0] else -math.inf for theirs, ours in spans]
    most = [math.log(theirs[1] / ours[0]) if ours[0] else math.inf for theirs, ours in spans]
    return Sooner(
        ratio=math.exp(fmean(middles)),
        low=0.0 if -math.inf in least else math.exp(fmean(least) - _half(least)),
        high=math.inf if math.inf in most else math.exp(fmean(most) + _half(most)),
    )


def _span(trained: Trained, place: int) -> tuple[float, float]:
    """Between which two looks a training reached its goal, by their place in a score: steps or seconds."""
    before, last = ((0, 0.0, 0.0), *trained.scores)[-2:]
    return float(before[place]), float(last[place])


def _half(logs: Sequence[float]) -> float:
    """Student's t of independent seeds; both trainings of one begin with the same weights and see the same samples."""
    return float(stats.t.ppf(CONFIDENCE, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
