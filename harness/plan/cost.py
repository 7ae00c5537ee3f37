"""The cost model: how long arms take to start and to be timed, for whoever plans, keeps a budget or shows what is left.

Against the records of this protocol in `results/` (version 0.3.0, 46 replicates of five workloads) the seconds of
windows come out with a median error of 13 % (tests/plan/test_cost.py). How long a start takes is not in any record.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean
from typing import TypeVar

from harness.core.configuration import Configuration
from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import FEWEST_REPLICATES, SETTLING_STEPS, Protocol
from harness.core.records import Ready, Record
from harness.plan.schedule import PER_WINDOW_PAIR, Kept, failures, pairs_of

IMPORTS_S = 2.5  # of what a replicate's arms are forked from, until it was seen how long that takes
SPARE = 1.25  # of a replicate of single windows, which cannot be cut shorter where it takes longer than thought
LONGEST_IMPORTS_S = 7.0  # whatever lasts longer is the arms' own
THERE_S = 0.3  # in place of imports, where a workload's processes of that replicate have been forked before
START_S = 0.7  # of an arm until its first step: process, model and data
CUDA_START_S = 1.5  # of it on a GPU, which sets up a context and loads kernels too: 1.2 to 1.5 s on an H200
USUAL_STEP_S = 0.3  # where nothing tells how long a step takes
# First steps of a later replicate; what is timed on anything else takes as many as in the first, and so do steps that
# do not take the host's cores.
LATER_STEPS = {Timing.LOADER: 0, Timing.STEP: 1, Timing.EPOCH: 1}
OBSERVED_STEPS = 2  # in which an arm shows its settings, in its first replicate
FIRST_OF_TWO = 0.5  # of the two replicates that give a ratio, one is the first
OTHER_SEEDS = 2  # whose first losses the reference takes too
WATCHED = 1.5  # times the seconds in which an arm is watched for a steady state: some are watched twice
RESUMED_S = 0.02  # of a window: to resume the arm, to pause it and to read its memory
EXTRA_STEPS = 0.5  # that lead into a window beside the least, on average
LEAST_PART = 0.02  # of a step that its loader takes, for planning
UNSEEN = 1.25  # a workload of which nothing is known may take so much longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the baseline steps of a workload are, about."""

    step_s: float = USUAL_STEP_S
    epoch_steps: float = math.inf
    cores: int = 1  # on which arms may begin side by side
    compute_s: float | None = None  # of a step, about what is not loading; None where nobody knows
    start_s: float = START_S
    steps_on_host: bool = True  # so that arms take fewer first steps in later replicates
    rests: bool = False  # whether nothing of an arm without loader workers goes on while it stands still
    meets_shapes: bool = False  # whether arms meet the samples of all windows before the first, for their shapes

    def of(self, timing: Timing) -> float:
        """Seconds of what is timed once a step."""
        if self.compute_s is None or timing not in PARTS_OF_A_STEP:
            return self.step_s
        return (
            self.compute_s if timing is Timing.COMPUTE else max(self.step_s - self.compute_s, LEAST_PART * self.step_s)
        )


USUAL = Pace()
Name = TypeVar("Name")


def expected_speedups(block: Block) -> list[float]:
    """By how much each treatment's step is faster than the reference's before any was timed: by its smaller batch."""
    return [block.reference.batch / one.treatment.batch for one in block.comparisons]


def replicate_s(
    block: Block, protocol: Protocol, pace: Pace, speedups: Sequence[float], first: float = FIRST_OF_TWO
) -> float:
    """Seconds of one replicate of a block: its reference and a treatment for each speedup, started and timed.

    A speedup is by how much a treatment's step is faster than the reference's, 1 where nobody knows. `first` is 1 for
    the first replicate, 0 for a later one, and their mean where nobody says which it is.
    """
    steps_s, timed_s = (
        tuple(one / speedup for speedup in (1.0, *speedups)) for one in (pace.step_s, pace.of(block.timing))
    )
    begin_s = start_s(protocol, steps_s, pace, first, block.timing, timed_s)
    shapes_s = _shapes_s(block, protocol, steps_s, pace.epoch_steps) if pace.meets_shapes else 0.0
    return begin_s + shapes_s + windows_s(block, protocol, timed_s, pace.epoch_steps)


def start_s(
    protocol: Protocol,
    steps_s: Sequence[float],
    pace: Pace = USUAL,
    first: float = FIRST_OF_TWO,
    timing: Timing = Timing.STEP,
    timed_s: Sequence[float] | None = None,
) -> float:
    """Seconds until all arms are warm and settled, the reference first; `timed_s` is timed instead of steps."""
    is_part = timing in PARTS_OF_A_STEP
    judged = 1.0 if protocol.judged_again else first
    spread = 0.0 if is_part else judged * (1 if protocol.is_slow(steps_s[0]) else OTHER_SEEDS)
    fewer = pace.steps_on_host or timing is Timing.LOADER
    again = LATER_STEPS.get(timing, protocol.loss_steps) if fewer else protocol.loss_steps  # where none are judged
    taken = judged * protocol.loss_steps + (1 - judged) * again + first * OBSERVED_STEPS
    floor_s = sum(_warm_s(protocol, one) for one in timed_s or steps_s)
    bounds_s = 0.0 if is_part else (1 + first * (len(steps_s) - 1)) * protocol.upper_bound_s
    begin_s = (
        len(steps_s) * pace.start_s
        + taken * sum(steps_s)
        + spread * protocol.loss_steps * steps_s[0]
        + floor_s
        + bounds_s
    )
    side_by_side = 1 if protocol.settle_s else min(pace.cores, len(steps_s))
    return (
        IMPORTS_S
        + begin_s / side_by_side
        + first
        * sum(_settling_s(protocol, one) for one in timed_s or steps_s if not (pace.rests and one >= protocol.lead_s))
    )


def windows_s(block: Block, protocol: Protocol, steps_s: Sequence[float], epoch_steps: float) -> float:
    """Seconds of all windows of one replicate, and of what leads into them; longer where an arm is far faster."""
    steps = _window_steps(block, protocol, steps_s, epoch_steps)
    rounds, treatments = block.rounds or protocol.rounds, len(steps_s) - 1
    visits = (rounds * math.ceil(treatments / PER_WINDOW_PAIR) + 1, *[rounds] * treatments)
    lead = [_lead_steps(protocol, one) + EXTRA_STEPS for one in steps_s]
    each_s = [RESUMED_S + (steps + led) * one for led, one in zip(lead, steps_s, strict=True)]
    return sum(count * one for count, one in zip(visits, each_s, strict=True))


def _window_steps(block: Block, protocol: Protocol, steps_s: Sequence[float], epoch_steps: float) -> int:
    group = group_of(block.arms, block.timing)
    steps = protocol.of(block.timing).steps_of_windows(steps_s[0], min(steps_s), epoch_steps, group)
    if block.timing is Timing.EPOCH and math.isfinite(epoch_steps):
        steps = math.ceil(steps / epoch_steps) * int(epoch_steps)
    return steps


def group_of(arms: Iterable[Configuration], timing: Timing) -> int:
    """A common multiple of the loader workers of all arms: windows hold whole groups of as many steps."""
    if timing in {Timing.EVALUATION, Timing.COMPUTE}:
        return 1  # windows draw on none
    return math.lcm(*(_workers(one) or 1 for one in arms))


def _workers(config: Configuration) -> int:
    return next((one.level for one in config.options if one.name == "workers" and isinstance(one.level, int)), 0)


def _shapes_s(block: Block, protocol: Protocol, steps_s: Sequence[float], epoch_steps: float) -> float:
    """Seconds in which every arm goes through the samples of its windows once before they are timed."""
    if block.timing is not Timing.STEP or not protocol.discarded_rounds:
        return 0.0
    window = _window_steps(block, protocol, steps_s, epoch_steps) + 2 * max(map(_workers, block.arms))
    return min(epoch_steps, (block.rounds or protocol.rounds) * window) * sum(steps_s)


def _warm_s(protocol: Protocol, step_s: float) -> float:
    floor_steps = 1 if protocol.is_slow(step_s) else protocol.floor_steps
    return max(floor_steps * step_s, protocol.floor_s) + WATCHED * protocol.settle_s


def _settling_s(protocol: Protocol, step_s: float) -> float:
    steps = max(SETTLING_STEPS, 4 * _lead_steps(protocol, step_s)) if protocol.discarded_rounds else 0
    return steps * step_s


def _lead_steps(protocol: Protocol, step_s: float) -> int:
    return max(1, math.ceil(protocol.lead_s / step_s))


def arm_s(protocol: Protocol, pace: Pace, timing: Timing = Timing.STEP) -> float:
    """Seconds for each arm of a replicate whose steps, or parts of them, are timed beside a single treatment."""
    config = Configuration(workload="", size="", batch=1)
    rounds = protocol.of(timing).rounds_of(pace.of(timing), pace.epoch_steps)
    block = Block(identity="", reference=config, timing=timing, comparisons=(), rounds=rounds)
    return replicate_s(block, protocol, pace, (1.0,)) / 2


def kind_of(block: Block) -> str:
    """Whose arms take alike: those of a workload, and of a part of its steps."""
    part = f" {block.timing}" if block.timing in PARTS_OF_A_STEP else ""
    return block.reference.workload + part


def seconds_for(plan: Plan, paces: Mapping[str, Pace]) -> float:
    """Seconds of the replicates that all comparisons of a plan get."""
    return sum(
        one.replicates_in(plan.protocol) * replicate_s(one, plan.protocol, _pace(one, paces), expected_speedups(one))
        for one in plan.blocks
    )


def first_ratios_s(plan: Plan, paces: Mapping[str, Pace]) -> dict[str, float]:
    """Seconds until there is a ratio of each workload: of its first comparison in as few replicates as give one."""
    first: dict[str, Block] = {}
    for block in plan.blocks:
        first.setdefault(block.reference.workload, _of(block, (1,)))
    return {
        name: FEWEST_REPLICATES * replicate_s(one, plan.protocol, _pace(one, paces), expected_speedups(one))
        for name, one in first.items()
    }


def _of(block: Block, positions: Sequence[int]) -> Block:
    """The block with these of its treatments alone; position 0 is its reference."""
    return replace(block, comparisons=tuple(block.comparisons[one - 1] for one in positions if one))


def slowness(measured_s: Mapping[Name, float], guessed_s: Mapping[Name, float]) -> float | None:
    """How many times as long as guessed arms take that were measured; None where none was."""
    ratios = [seconds / guessed_s[name] for name, seconds in measured_s.items() if name in guessed_s and seconds > 0]
    return geometric_mean(ratios) if ratios else None


def _pace(block: Block, paces: Mapping[str, Pace]) -> Pace:
    return paces.get(block.reference.workload, USUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How long what is left of a plan is going to take, by the cost model and by what was measured so far."""

    plan: Plan
    kept: Kept  # goes on growing
    paces: Mapping[str, Pace]
    arm_s: dict[str, float]  # workload -> seconds for each arm, as `arm_s` guesses them; grows too
    _guesses_s: dict[str, float] = field(init=False)
    _imports_s: dict[str, float] = field(init=False, default_factory=dict)  # of a workload's latest replicate
    _learned_s: list[float] = field(init=False, default_factory=list)  # of all replicates: the longest are of new roots

    def __post_init__(self) -> None:
        """Guesses once what every question asks for."""
        guesses_s = {
            kind_of(one): arm_s(self.plan.protocol, _pace(one, self.paces), one.timing) for one in self.plan.blocks
        }
        for name in self.workloads:
            guesses_s.setdefault(name, arm_s(self.plan.protocol, self.paces.get(name, USUAL)))
        object.__setattr__(self, "_guesses_s", guesses_s)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those of the plan, in its order."""
        return tuple(dict.fromkeys(block.reference.workload for block in self.plan.blocks))

    def replicate_s(self, block: Block, positions: Sequence[int], replicate: int | None = None) -> float:
        """Seconds of one replicate of these treatments, started and timed beside their reference; None: the mean."""
        guess_s, spare = self._guess_s(block, positions, replicate), SPARE if block.rounds == 1 else 1.0
        return spare * self._slower(block) * (guess_s - IMPORTS_S) + self._imports_of(block, replicate)

    def _imports_of(self, block: Block, replicate: int | None) -> float:
        """Seconds until the arms of a replicate can be forked.

        Its first block has a root of its own, which imports torch anew; the first block of a workload imports the rest.
        """
        name, begun = block.reference.workload, {place for place, found in self.kept.items() if found}
        if replicate is not None and replicate not in {one for _, one in begun}:
            return max(self._learned_s, default=IMPORTS_S)
        wanted = range(FEWEST_REPLICATES) if replicate is None else (replicate,)
        own = [one.identity for one in self.plan.blocks if one.reference.workload == name]
        if all(any((identity, one) in begun for identity in own) for one in wanted):
            return THERE_S
        return self._imports_s.get(name, IMPORTS_S)

    def learn(
        self,
        block: Block,
        positions: Sequence[int],
        seconds: float,
        replicate: int | None = None,
        imports_s: float = IMPORTS_S,
    ) -> None:
        """Takes note of how long a replicate took; what is not timed on steps says little of those that are.

        Imports are kept apart: the first workload pays for what all fork from, and that says nothing of others.
        """
        kind, imports_s = kind_of(block), min(imports_s, LONGEST_IMPORTS_S)
        if imports_s > THERE_S:  # else they were there before
            self._imports_s[block.reference.workload] = imports_s
        self._learned_s.append(imports_s)
        if block.timing in {Timing.STEP, Timing.LOADER, Timing.COMPUTE} or kind not in self.arm_s:
            guess_s = self._guess_s(block, positions, replicate) - IMPORTS_S
            self.arm_s[kind] = self._guesses_s[kind] * max(0.0, seconds - imports_s) / guess_s

    def first_ratios(self) -> list[tuple[Block, int]]:
        """For each workload without a ratio the comparison that is to give the first one, the cheapest first."""
        waiting = [self._first_of(name) for name in self.workloads if not self.has_ratio_of(name)]
        return sorted((one for one in waiting if one), key=lambda place: self.first_ratio_s(*place))

    def first_ratio_s(self, block: Block, position: int) -> float:
        """Seconds until a comparison has as few replicates as give a ratio."""
        missing = range(self.timed(block, position), FEWEST_REPLICATES)
        return sum(self.replicate_s(block, (position,), replicate) for replicate in missing)

    @property
    def has_ratio(self) -> bool:
        """Whether there is a ratio of any workload."""
        return any(map(self.has_ratio_of, self.workloads))

    def has_ratio_of(self, workload: str) -> bool:
        """Whether there is a ratio of a workload."""
        return any(self.timed(*place) >= FEWEST_REPLICATES for place in self._places(workload))

    def _first_of(self, workload: str) -> tuple[Block, int] | None:
        return next((place for place in self._places(workload) if not self._has_failed(*place)), None)

    def _places(self, workload: str) -> list[tuple[Block, int]]:
        blocks = [block for block in self.plan.blocks if block.reference.workload == workload]
        return [(block, position) for block in blocks for position in range(1, len(block.comparisons) + 1)]

    def timed(self, block: Block, position: int) -> int:
        """Replicates in which a comparison was timed."""
        return sum(pairs_of(position, records) > 0 for records in self._records(block))

    def _has_failed(self, block: Block, position: int) -> bool:
        failed = failures(one for records in self._records(block) for one in records)
        return not failed.isdisjoint({(block.identity, 0), (block.identity, position)})

    def _records(self, block: Block) -> list[list[Record]]:
        most = block.most_replicates_in(self.plan.protocol)
        return [self.kept.get((block.identity, one), []) for one in range(most)]

    def _slower(self, block: Block) -> float:
        """How many times as long as guessed arms of a block take: as measured, or as those most like them do."""
        kind = kind_of(block)
        part = kind.partition(" ")[2]
        alike = {one: seconds for one, seconds in self.arm_s.items() if one.partition(" ")[2] == part}
        if kind in self.arm_s:
            return slowness({kind: self.arm_s[kind]}, self._guesses_s) or UNSEEN
        # That others were faster than guessed promises nothing: arms for which there is no time give no ratio.
        return max(1.0, slowness(alike or self.arm_s, self._guesses_s) or UNSEEN)

    def _guess_s(self, block: Block, positions: Sequence[int], replicate: int | None = None) -> float:
        speedups = [self._speedup(block, one) for one in positions]
        pace, first = (
            self.paces.get(block.reference.workload, USUAL),
            FIRST_OF_TWO if replicate is None else replicate == 0,
        )
        return replicate_s(_of(block, positions), self.plan.protocol, pace, speedups, first)

    def _speedup(self, block: Block, position: int) -> float:
        """By how much a treatment's steps are faster than the reference's, as far as it is known."""
        ready = {r.arm.position: r.step_s for records in self._records(block) for r in records if isinstance(r, Ready)}
        return (
            ready[0] / ready[position]
            if ready.get(0) and ready.get(position)
            else [1.0, *expected_speedups(block)][position]
        )
