"""The protocol: how long and how often things are timed."""

import math
from dataclasses import dataclass, field, replace

from harness.core.optimization import PARTS_OF_A_STEP, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The numbers of a measurement, stated with every result. Durations in seconds."""

    replicates: int = 2  # fresh processes of both arms: the unit of every interval
    rounds: int = 12  # windows of each treatment in one replicate
    window_s: float = 1.0  # a window's length in the reference; every arm beside it takes as many steps
    window_steps: int = 8  # at least
    floor_steps: int = 20  # warm-up, at least
    floor_s: float = 3.0  # warm-up, at least
    settle_s: float = 3.0  # watched for a steady state after the floor
    upper_bound_s: float = 1.0
    loss_steps: int = 8  # first steps whose losses are compared
    discarded_rounds: int = 1  # turns of every arm that no clock counts: they show how long a resumption tells
    attempts: int = 3  # an arm that is ended from outside so often is given up
    treatments: int = 4  # alive beside the reference in one block
    start_allowance_s: float = 600.0  # optimizations that start more slowly are left out, with words
    start_limit_s: float = 1200.0  # imports, compilation and warm-up of one arm
    window_limit_s: float = 300.0
    # Half-width of a log ratio's interval beyond which a comparison gets further replicates; None: none does.
    target: float | None = field(default=None, metadata={"since": "0.2.0"})
    looks: tuple[int, ...] = field(default=(), metadata={"since": "0.2.0"})  # replicates at which widths are looked at
    slow_s: float | None = field(default=None, metadata={"since": "0.2.0"})  # a step is slow beyond; None: `burst_s`
    # About the seconds of windows that an arm gets in a replicate; where windows are long, they become fewer. None: as
    # many rounds as there are, however long.
    timed_s: float | None = field(default=None, metadata={"since": "0.2.0"})
    lead_s: float = field(default=0.0, metadata={"since": "0.3.0"})  # steps that lead into a window, at least one
    whole_s: float = field(default=0.0, metadata={"since": "0.3.0"})  # epochs up to this long are timed as a whole
    judged_again: bool = field(default=True, metadata={"since": "0.3.0"})  # first losses, in every replicate
    # A window's length where the loader or the step alone is timed, whose ratio counts by its share. None: `window_s`.
    part_s: float | None = field(default=None, metadata={"since": "0.3.0"})

    @property
    def most_replicates(self) -> int:
        """Replicates beyond which no comparison gets more, however wide its interval."""
        return self.replicates if self.target is None else max((self.replicates, *self.looks))

    def look_from(self, replicates: int) -> int:
        """The first planned look at so many replicates or more; the last one where there is none."""
        return min((one for one in (self.replicates, *self.looks) if one >= replicates), default=self.most_replicates)

    def fixed(self) -> "Protocol":
        """The same for as many replicates of every comparison, however widely it is known."""
        return replace(self, target=None, looks=())

    def of(self, timing: Timing) -> "Protocol":
        """The same with the windows that are taken of such a part of a step, which are no whole epochs."""
        if self.part_s is None or timing not in PARTS_OF_A_STEP:
            return self
        return replace(self, window_s=self.part_s, whole_s=0.0)

    @property
    def _is_of_part(self) -> bool:
        """Whether its windows are those of a part of a step, as `of` gives them."""
        return self.window_s == self.part_s

    def is_slow(self, step_s: float) -> bool:
        """Whether a step is so long that an arm takes fewer of every kind."""
        return step_s > (self.window_s if self.slow_s is None else self.slow_s)

    def steps_of(self, step_s: float, epoch_steps: float = math.inf, group: int = 1) -> int:
        """Steps of a window: about `window_s` of them, whole groups, two at least, and whole epochs if those are short.

        Loader workers finish side by side, so steps come in groups of as many; `group` is a common multiple of those
        of all arms that are compared. Samples differ in cost: whole epochs hold the same ones wherever they begin.
        Where both would take long, groups stay whole: 15 steps of 8 workers hold one wait for a group or two, and never
        the 15/8 that a training has. Windows of a part of a step are not lengthened to an epoch: those of one number
        hold the same samples in all arms anyway.
        """
        least = 2 if self.is_slow(step_s) else self.window_steps
        wanted = max(math.ceil(self.window_s / step_s), least, 2 * group if group > 1 else 1)
        wanted = math.ceil(wanted / group) * group
        if epoch_steps == math.inf:
            return wanted
        whole = math.lcm(int(epoch_steps), group)
        if whole * step_s > self.whole_s and whole > (wanted if self._is_of_part else 2 * wanted):
            return wanted
        return max(1, round(wanted / whole)) * whole

    def steps_of_windows(self, step_s: float, fastest_s: float, epoch_steps: float = math.inf, group: int = 1) -> int:
        """Steps of every window, by the reference's speed; more where an arm is far faster than that.

        Not of a part of a step where no workers finish in groups: it is led in by as much time, the clock is exact to
        microseconds, and what so fast a part still takes is next to nothing of a step.
        """
        stays = self._is_of_part and group == 1
        longer = 1.0 if stays else min(MOST_LONGER, step_s / fastest_s / SHORTEST)
        return self.steps_of(step_s / max(1.0, longer), epoch_steps, group)

    def rounds_of(self, step_s: float, epoch_steps: float = math.inf) -> int:
        """Rounds for steps that take about so long: fewer where that makes windows long, but no fewer than three."""
        length_s = self.steps_of(step_s, epoch_steps) * step_s
        timed_s = self.rounds * self.window_s if self.timed_s is None else self.timed_s
        return min(self.rounds, max(FEWEST_ROUNDS, round(timed_s / length_s)))


FEWEST_REPLICATES = 2  # without which there is no ratio
REPLICATES_ALONE = 4  # where no pool lends a variance: two would agree by luck too often
SHORTEST = 8  # times shorter than the reference's a window may be; beyond, all arms take more steps
MOST_LONGER = 2  # times the steps that the reference's speed asks for
FEWEST_ROUNDS = 3  # whose scatter tells how sure a replicate's own ratio is
SETTLING_STEPS = 4  # at least, of the turn in which an arm shows how long a resumption tells
LONGEST_SETTLING = 8  # times the steps asked for, in which a transient has to be over
LOOKS = (2, 3, 4, 6, 8)
STANDARD = Protocol(target=0.02, looks=(*LOOKS, 12), lead_s=0.1, whole_s=5.0, part_s=0.5)
# For a first look on a small machine: the same order of things, shorter. Intervals widen by themselves.
BRIEF = Protocol(
    rounds=3,
    window_s=0.5,
    window_steps=2,
    floor_steps=1,
    floor_s=0.1,
    settle_s=0.0,
    upper_bound_s=0.4,
    loss_steps=3,
    treatments=9,  # eight options of a loader and a hidden copy of the reference
    start_allowance_s=10.0,
    start_limit_s=180.0,
    window_limit_s=60.0,
    target=0.05,
    looks=LOOKS,
    slow_s=0.4,
    lead_s=0.1,
    whole_s=2.0,
    part_s=0.25,
    judged_again=False,
)
PROTOCOLS = {"standard": STANDARD, "brief": BRIEF}
# Of arms whose clock nobody reads, for their settings and first losses.
UNTIMED = replace(BRIEF, loss_steps=1, floor_steps=1, floor_s=0.0, upper_bound_s=0.01)
