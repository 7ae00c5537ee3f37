"""Races: the same training with and without some options, from the same first weights, until its score is reached."""

import math
from collections.abc import Sequence
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

    @property
    def key(self) -> str:
        """Names it among those of its workload: what was compared, and the goal."""
        asked = f"{self.size} {self.batch} {self.treatment} {self.reference} {self.goal}"
        return sha256((asked + " scheduled" * self.scheduled).encode()).hexdigest()[:8]

    def reached(self) -> tuple[int, int]:
        """In how many heats the treatment reached the goal, and the reference."""
        both = [(one.treatment.reached, one.reference.reached) for one in self.heats]
        return sum(ours for ours, _ in both), sum(theirs for _, theirs in both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sooner:
    """The reference's over the treatment's, with its 95 % interval over seeds; above 1 is sooner."""

    ratio: float
    low: float
    high: float


def sooner(race: Race, *, in_steps: bool = False) -> Sooner | None:
    """How many times sooner the treatment reaches the goal, in seconds of training or in steps.

    None where a heat did not end at the goal, whose time nobody knows, and of too few heats.
    """
    if race.reached() != (len(race.heats),) * 2 or len(race.heats) < FEWEST:
        return None
    place = 0 if in_steps else 1
    logs = [math.log(one.reference.scores[-1][place] / one.treatment.scores[-1][place]) for one in race.heats]
    return _interval(logs)


def _interval(logs: Sequence[float]) -> Sooner:
    """Student's t of independent seeds; both trainings of one begin with the same weights and see the same samples."""
    half = float(stats.t.ppf(CONFIDENCE, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    middle = fmean(logs)
    return Sooner(ratio=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))
