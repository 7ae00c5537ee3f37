"""The rehearsal: arms that invent their times from known effects and seeded noise, without torch.

Everything else is real: plan, alternation, store, analysis and report. Because the effects are known, it shows
whether the intervals cover them.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from harness.core.configuration import CONTROLS, DELAY_S, Configuration, Option, is_control
from harness.core.optimization import Timing
from harness.core.records import quantiles

WINDOW_NOISE, REPLICATE_NOISE, DRIFT = 0.01, 0.007, 0.05  # standard deviations of log time; drift is common to all arms
STEP_S = 0.05  # of the baseline configuration
EPOCH_STEPS = 400  # 20 s of the baseline configuration, so that windows are no whole epochs

Slowed = Callable[[float, float, Random], float]  # undisturbed seconds, the moment, chance -> seconds that they take
Waits = Callable[[int, int], Sequence[float]]  # first step in an epoch, steps -> for how many usual steps each waits


@dataclass(slots=True)
class VirtualClock:
    """A clock that advances only when something is said to take time."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Seconds since the rehearsal began."""
        return self.now_s


@dataclass(frozen=True, slots=True)
class Effects:
    """What each option is worth, times faster; those not named get an effect drawn from their name."""

    named: dict[str, float] = field(default_factory=dict)

    def of(self, option: Option) -> float:
        """The known effect of an option: a third of them do nothing."""
        if option.name in self.named:
            return self.named[option.name]
        if option.name in CONTROLS and isinstance(option.level, int):
            return 1 / (1 + option.level / 100)
        draw = int(hashlib.sha256(str(option).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        return 1.0 if draw < 1 / 3 else 0.8 + draw

    def speedup(self, treatment: Configuration, reference: Configuration) -> float:
        """The true ratio of two configurations: effects multiply."""
        ours, theirs = set(treatment.options), set(reference.options)
        log = sum(math.log(self.of(one)) for one in ours - theirs) - sum(
            math.log(self.of(one)) for one in theirs - ours
        )
        return math.exp(log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds that pass without being measured."""

    imports_s: float = 3.0
    warm_up_s: float = 4.0
    resume_s: float = 0.02  # of every turn: to resume the arm, and to read its memory when it stands still


def no_waits(_first: int, steps: int) -> Sequence[float]:
    """Of steps that are all alike."""
    return [0.0] * steps


def drifting(work_s: float, now_s: float, random: Random) -> float:
    """Seconds that work takes on a machine that drifts slowly and is a little restless."""
    drift = DRIFT * math.sin(2 * math.pi * now_s / 400.0)
    return work_s * math.exp(drift + random.gauss(0.0, WINDOW_NOISE))


@dataclass(slots=True, kw_only=True)
class RehearsedArm:
    """An arm that needs no process; it answers in plain data, as one that does."""

    config: Configuration
    timing: Timing
    effects: Effects
    clock: VirtualClock
    random: Random
    luck: float = 0.0
    slowed: Slowed = drifting
    delays: Delays = Delays()
    differ: float = REPLICATE_NOISE  # standard deviation of the log time of its like
    # What steps wait for is the workload's own and takes the same seconds in every configuration, as a slow object of a
    # storage service does. The known effects are those on the whole: on usual steps alone they are larger.
    waits: Waits = no_waits
    mean_wait: float = 0.0  # of a step, in usual steps of the baseline configuration
    transient_steps: int = 1  # after a resumption, which a settling turn finds

    @property
    def begins_beside(self) -> bool:
        """Never: there is one clock."""
        return False

    def arrive(self) -> None:
        """Takes the time of the imports and draws the luck of this process."""
        self.clock.now_s += self.delays.imports_s
        self.luck = self.random.gauss(0.0, self.differ)

    def begin(self) -> dict[str, Any]:
        """Takes the time of a warm-up; everything engages and every loss is the same."""
        self.clock.now_s += self.delays.warm_up_s
        return {
            "build_s": 1.0,
            "first_step_s": 0.5,
            "warm_up_s": 2.5,
            "warm_up_steps": 20,
            "step_s": self._step_s(),
            "steady": True,
            "effective": {"uneven_steps": 1} | ({DELAY_S: self._delay_s()} if is_control([self.config]) else {}),
            "inactive": [],
            "losses": [1.0, 0.9, 0.8, 0.7],
            "seed_spread": 0.1,
            "loader_rate": 2.0 * self.config.batch / self._step_s(),
            "compute_rate": 1.25 * self.config.batch / self._step_s(),
            "score": None,
            "cycle_steps": EPOCH_STEPS,
        }

    def settle(self, steps: int, offset: int) -> int:
        """Takes the time of a turn without a clock; gives the steps that a resumption tells on."""
        self.clock.now_s += self.delays.resume_s
        self._take(offset - steps, steps)
        return self.transient_steps

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        """Takes the time that the known effects, this process's luck, its workload and the machine make."""
        self.clock.now_s += self.delays.resume_s
        lead_s = sum(self._take(start - lead, lead))
        each_s = self._take(start, steps)
        wall_s = sum(each_s)
        return {
            "timing": self.timing.value,
            "steps": steps,
            "samples": steps * self.config.batch,
            "wall_s": wall_s,
            "wait_s": 0.2 * wall_s,
            "copy_s": 0.0,
            "device_s": None,
            "host_bytes": 1 << 30,
            "host_peak_bytes": 1 << 30,
            "device_bytes": None,
            "first_step": start % EPOCH_STEPS if steps % EPOCH_STEPS else 0,
            "lead_steps": lead,
            "lead_s": lead_s,
            "first_half_s": sum(each_s[: steps // 2]),
            "slowest_s": sorted(each_s, reverse=True)[: 1 + steps // 50],
            "quantiles_s": quantiles(each_s),
        }

    def _take(self, first: int, steps: int) -> list[float]:
        """Takes steps from number `first` on; gives their seconds. Within a turn the machine slows all alike."""
        usual_s = self._step_s() - self.mean_wait * STEP_S
        each_s = [usual_s + STEP_S * one for one in self.waits(first % EPOCH_STEPS, steps)]
        work_s = sum(each_s)
        wall_s = self.slowed(work_s * math.exp(self.luck), self.clock.now_s, self.random)
        self.clock.now_s += wall_s
        return [one * wall_s / work_s for one in each_s]

    def close(self) -> None:
        """Nothing to end."""

    def _step_s(self) -> float:
        return self._seconds_of(self.config)

    def _delay_s(self) -> float:
        """What its controls add to a step: all that it takes longer than the same without them."""
        others = tuple(one for one in self.config.options if one.name not in CONTROLS)
        return self._step_s() - self._seconds_of(replace(self.config, options=others))

    def _seconds_of(self, config: Configuration) -> float:
        return (
            (1 + self.mean_wait) * STEP_S / self.effects.speedup(config, Configuration(workload="", size="", batch=1))
        )
