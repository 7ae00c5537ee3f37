"""A life: the arms of one block alive together, each in its process or all in one, and one of them running at a time.

All arms take the same number of steps in every window and begin with the same samples, so that what the samples cost is
no difference between them. Loader workers cannot be told where to go on: where an arm has them, the others leave out
the samples that it takes in its lead-in.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from harness.core.codec import decode, encode
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.protocol import SETTLING_STEPS, UNTIMED, Protocol
from harness.core.records import OUT_OF_MEMORY, TIMED_OUT, Arm, Fault, Lost, Ready, Record, Spent, Window
from harness.plan.schedule import INTERRUPTED, order_of_windows
from harness.run.arm import ArmLost, Bereft, BudgetSpent, Job, LiveArm, ProcessArm
from harness.run.sentinel import Sentinel
from harness.run.watching import Watcher

# Examinations: arms that only begin, to show their settings and first losses; several at a time, unlike windows.

NAMELESS = Arm(block="verify", replicate=0, attempt=0, position=0)


def untimed(steps: int) -> Protocol:
    """The protocol of an arm whose clock nobody reads; it may take as long as a compiler needs."""
    return replace(UNTIMED, loss_steps=steps, start_limit_s=1800.0, window_s=1e-3)


def examined(job: Job, sentinel: Sentinel) -> Ready | Lost:
    """What a job's arm showed."""
    arm = ProcessArm(job, sentinel)
    try:
        arm.arrive()
        return Ready(arm=NAMELESS, **arm.begin())
    except ArmLost as lost:
        return Lost(arm=NAMELESS, outcome=lost.outcome, reason=lost.reason, trace=lost.trace, kind=lost.kind)
    finally:
        arm.close()


# Room: how many arms the memory of host and device still holds, told by what those before them took.

Bytes = tuple[int, ...]  # of each kind of memory: the host's, then the device's where there is one

GROWTH = 1.2  # an arm may come to take so many times what it took when it was warm
# The same of a device where batches differ in shape: its allocator keeps blocks for each. A traced patches3d went up
# to four times.
VARYING_GROWTH = 5.0
SHORT = "its libraries found no memory on the device beside other arms, and may have taken slower kernels"
AMPLE = 8 << 30  # free bytes of the host with which arms may begin side by side


class NoRoom(Exception):
    """Memory does not hold a reference and one treatment at once."""


@dataclass(slots=True, kw_only=True)
class Room:
    """Free memory, watched while arms begin one after another."""

    free: Callable[[], Bytes]
    sizes: dict[int, Bytes] = field(default_factory=dict)  # what arms took that began alone, also in former attempts
    largest: Bytes = ()  # what the largest arm so far took, by kind
    before: Bytes = ()
    begun_arms: int = 0
    varying_shapes: bool = False  # of the batches of at least one of them

    @property
    def is_ample(self) -> bool:
        """Whether several arms may begin at once."""
        return self.free()[0] >= AMPLE

    def begins(self) -> None:
        """An arm is about to begin."""
        self.before = self.free()

    def begun(self, positions: Sequence[int], *, varying_shapes: bool = False) -> None:
        """Arms that began together are warm now; one of them may have taken what two of them took."""
        self.begun_arms += len(positions)
        self.varying_shapes |= varying_shapes
        share = max(1, len(positions) - 1)
        taken = tuple((before - after) // share for before, after in zip(self.before, self.free(), strict=True))
        self.largest = tuple(map(max, taken, self.largest or taken))
        if len(positions) == 1:
            self.sizes[positions[0]] = taken

    def fits(self, positions: Sequence[int], spare: int = 0) -> bool:
        """Whether these arms and so many others fit, if each takes what it took before, else what the largest took.

        Nothing is known of the first of all. On a device with varying shapes, those that have begun must still have
        room to grow as well.
        """
        wanted = [self.sizes.get(one, self.largest) for one in positions] + [self.largest] * spare
        if not all(wanted):
            return True
        sums = [sum(kind) for kind in zip(*wanted, strict=True)]
        grown = [GROWTH * one for one in sums]
        if self.varying_shapes and len(sums) > 1:
            grown[1] = VARYING_GROWTH * sums[1] + self.begun_arms * (VARYING_GROWTH - 1) * self.largest[1]
        return all(one <= left for one, left in zip(grown, self.free(), strict=True) if one > 0)

    def larger(self, positions: Iterable[int]) -> list[int]:
        """Those of some treatments that take more than the reference does, where both are known."""
        usual = self.sizes.get(0, ())
        sizes = ((one, self.sizes.get(one, ())) for one in positions)
        return [at for at, size in sizes if any(ours > theirs for ours, theirs in zip(size, usual, strict=False))]


STILL_S = 0.5  # that an arm stands still at least before it shows what a pause costs it
SPREAD = 0.618  # of an epoch between where one replicate begins and the next: however many there are, they lie apart
Kept = TypeVar("Kept", bound=Record)
SPENT = ("imports_s", "build_s", "evidence_s", "warm_up_s", "lead_s", "windows_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How windows lie over the samples, the same for every arm of an attempt but where it begins. In steps."""

    steps: int  # of a window
    leads: Mapping[int, int]  # position -> steps before each of its windows that are not timed, at least
    extra: Sequence[int]  # number of a window -> further such steps: what comes every so many steps is met by chance
    offsets: Mapping[int, int]  # position -> of its first window in an epoch: one sample, another in every replicate
    skipped: int  # steps between two windows, beside extra ones: arms with loader workers take them in their lead-in

    def lead(self, position: int, number: int) -> int:
        """Steps that lead an arm into window `number`."""
        return self.leads[position] + self.extra[number]

    def start(self, position: int, number: int) -> int:
        """The step with which an arm's window `number` begins."""
        between = (number + 1) * self.skipped + sum(self.extra[: number + 1]) if self.skipped else 0
        return self.offsets[position] + number * self.steps + between


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One life and what it needs from outside."""

    block: Block
    replicate: int
    number: int
    timetable: Protocol
    seed: str  # of the run: order of windows, steps between them
    start: Callable[[int], LiveArm]  # position -> a process that is starting
    record: Callable[[Record], None]
    watcher: Watcher
    clock: Callable[[], float]
    check_time: Callable[[], None]  # raises BudgetSpent
    room: Room | None = None  # where memory may not hold all arms
    turn: int | None = None  # of arms that are alive one after the other: the first of their attempts
    cores: int = 1  # on which arms may begin side by side
    first: float = 0.0  # share of an epoch behind which the first window of the first replicate begins
    leads: Mapping[int, int] = field(default_factory=dict)  # position -> steps that led it in in a former replicate
    reference_first: bool = False  # of those that begin: a large treatment that began before it left it no room
    rests: bool = False  # nothing of an arm without loader workers goes on while it stands still, nor on its device
    arms: dict[int, LiveArm] = field(default_factory=dict)
    put_off: list[int] = field(default_factory=list)  # treatments for which there was no room
    alone_next: list[int] = field(default_factory=list)  # what found no memory beside other arms
    timed_out: bool = False  # whether it waited for an arm in vain
    _ready: dict[int, Ready] = field(default_factory=dict)
    # Position -> when it was warm, and stood still.
    _still_since_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(lambda: -math.inf))
    _spent_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # by field of Spent

    @property
    def imports_s(self) -> float:
        """Seconds until all its processes stood ready."""
        return self._spent_s["imports_s"]

    def run(self, rounds: Mapping[int, int]) -> None:
        """Measures what is left for each treatment for which there is room; returns early when the reference is lost.

        Raises NoRoom when not even one treatment finds room beside the reference.
        """
        self.watcher.attempt_begins(self.block, self.replicate, rounds)
        random = Random(f"{self.seed} {self.block.identity} {self.replicate} {self.number}")
        # Where in memory and on which core a process settles depends on who settled before it. In another order in
        # every attempt, that is part of what differs between replicates and is seen in the interval.
        positions = random.sample([0, *rounds], len(rounds) + 1)
        if self.reference_first:
            positions.sort(key=bool)
        with self._accounted(0), ExitStack() as closing:
            self._start_all(positions, closing)
            self._begin_all([one for one in positions if one in self.arms])
            if 0 in self.arms:
                self._alternate({one: count for one, count in rounds.items() if one in self.arms}, random)

    def alone(self, position: int, count: int) -> None:
        """Times so many windows of one arm that has nobody beside it."""
        self.watcher.attempt_begins(self.block, self.replicate, {position: count} if position else {})
        random = Random(f"{self.seed} {self.block.identity} {self.replicate} {self.number}")
        with self._accounted(position), ExitStack() as closing:
            self._start_all([position], closing)
            if position in self.arms:
                self._begin(position)
            turns = self._settled({position: count}, random)
            began_s = self.clock()
            for order in range(count):
                if turns is None or position not in self.arms:
                    return
                self.check_time()
                self._window(position, order, began_s, turns, order)

    @contextmanager
    def _accounted(self, position: int) -> Iterator[None]:
        """Records where the time went, in the end or when it is up."""
        began_s = self.clock()
        try:
            yield
        except (BudgetSpent, NoRoom):
            self._account(position, began_s)
            raise
        self._account(position, began_s)

    def _account(self, position: int, began_s: float) -> None:
        parts = {name: self._spent_s[name] for name in SPENT}
        rest_s = max(0.0, self.clock() - began_s - sum(parts.values()))
        self._keep(Spent(arm=self._name(position), rest_s=rest_s, **parts))

    def _begin_all(self, waiting: list[int]) -> None:
        """Begins arms in their order while there is room, or for the reference; the rest is for another attempt."""
        while waiting and self._has_room(waiting):
            together = self._side_by_side(waiting)
            if self.room is not None and not self.room.fits(together, spare=1):
                together = [0 if 0 in waiting else waiting[0]]
            for position in together:
                waiting.remove(position)
            self._begin(*together)
        for position in waiting:
            self.arms.pop(position).close()
        self.put_off = [position for position in waiting if position]
        if waiting and (0 in waiting or set(self.arms) == {0}):
            # A treatment that leaves the reference no room is alive alone; the others may find room beside it.
            self.alone_next += self._too_large(waiting) if self.room is not None else []
            raise NoRoom

    def _has_room(self, waiting: Sequence[int]) -> bool:
        """Whether the next arm fits, or the reference does, which then begins before it."""
        return self.room is None or self.room.fits(waiting[:1]) or (0 in waiting and self.room.fits([0]))

    def _too_large(self, waiting: Sequence[int]) -> list[int]:
        """Treatments of known size beside which the reference has no room, or that have none beside it."""
        assert self.room is not None  # noqa: S101  somebody found too little of it
        if 0 in waiting:
            return self.room.larger(self.arms)
        return [one for one in waiting if one in self.room.sizes and not self.room.fits([one])]

    def _side_by_side(self, waiting: Sequence[int]) -> list[int]:
        """The next arm, and those that may begin meanwhile; before memory is known, no more of them than cores."""
        able = [position for position in waiting if self.arms[position].begins_beside]
        if waiting[0] not in able or self.cores < 2 or (self.room is not None and not self.room.is_ample):
            return [waiting[0]]
        return able[: self.cores] if self.room is not None and not self.room.largest else able

    def _start_all(self, positions: list[int], closing: ExitStack) -> None:
        began_s, started = self.clock(), list[LiveArm]()
        closing.callback(_close_all, started, 1 if self.block.shared else len(positions))
        for position in positions:
            self.arms[position] = self.start(position)
            started.append(self.arms[position])
        for position in positions:
            try:
                self.arms[position].arrive()
            except (ArmLost, Bereft) as lost:
                self._lose(position, lost)
        self._spent_s["imports_s"] += self.clock() - began_s

    def _begin(self, *positions: int) -> None:
        """Has some arms built and warmed up, as many at once as there are cores."""
        self.check_time()
        for position in positions:
            self.watcher.arm_begins(self.block, position)
        if self.room is not None:
            self.room.begins()
        began_s = self.clock()
        at_once = min(len(positions), self.cores)
        with ThreadPoolExecutor(max_workers=at_once) as pool:
            try:
                answers = list(pool.map(self._begun, positions))
            except BaseException:  # the time is up, or somebody interrupts: nobody waits for arms that begin
                for position in positions:
                    self.arms[position].close()
                raise
        took_s, varying = self.clock() - began_s, False
        self._still_since_s |= dict.fromkeys(positions, self.clock())
        for position, found in zip(positions, answers, strict=True):
            answer = ArmLost(Fault.DEVICE_MEMORY, SHORT) if self._went_without(position, found) else found
            if isinstance(answer, (ArmLost, Bereft)):
                self._lose(position, answer)
                continue
            varying |= answer["effective"].get("varying_shapes") is True
            self._ready[position] = self._keep(Ready(arm=self._name(position), **answer))
        ready = [self._ready[position] for position in positions if position in self._ready]
        if self.room is not None and ready:
            self.room.begun([one.arm.position for one in ready], varying_shapes=varying)
        self._spend_on_start(took_s, ready, at_once)

    def _went_without(self, position: int, answer: dict[str, Any] | ArmLost | Bereft) -> bool:
        """Whether an arm's libraries found too little of the device's memory, which others beside it took."""
        others = self.arms.keys() & self._ready.keys() - {position}
        refused = isinstance(answer, dict) and answer["effective"].get("memory_refusals")
        return bool(refused and others and not self.block.shared)

    def _begun(self, position: int) -> dict[str, Any] | ArmLost | Bereft:
        try:
            return self.arms[position].begin()
        except (ArmLost, Bereft) as lost:
            return lost

    def _spend_on_start(self, took_s: float, ready: Sequence[Ready], at_once: int) -> None:
        """Shares out the seconds in which some arms began, so many at once, by what they did in them."""
        if not ready:
            return
        parts = {name: sum(getattr(one, name) for one in ready) / at_once for name in ("build_s", "warm_up_s")}
        parts["evidence_s"] = max(0.0, took_s - sum(parts.values()))
        for name, seconds in parts.items():
            self._spent_s[name] += seconds

    def _alternate(self, rounds: Mapping[int, int], random: Random) -> None:
        turns = self._settled(rounds, random)
        began_s = self.clock()
        windows, was = numbered(order_of_windows(rounds, random), new=self._keeps_items), 0
        for order, (position, number) in enumerate(windows):
            if turns is None or 0 not in self.arms or len(self.arms) == 1:
                return
            if position and was == 0:  # what a treatment has begun, the reference may end
                self.check_time()
            was = position
            if position in self.arms:
                self._window(position, order, began_s, turns, number)

    def _settled(self, rounds: Mapping[int, int], random: Random) -> Turns | None:
        """Resumes arms once, without a clock, to learn how windows must be led in; None where none is left.

        A configuration without loader workers is led in as it was in a former replicate, and by one step where that is
        long and nothing of it can have gone on. Those that stood still longest come first, and what has hardly stood
        still by then has a second turn: a short pause costs less than those between windows.
        """
        if not self.arms:
            return None
        most = max(rounds.values(), default=1)
        windows = sum(rounds.values()) + most + 1
        steps = self._window_steps(windows)
        offsets = {position: self._offset(position, windows * (steps + self._lead_steps)) for position in self.arms}
        windows_steps = min(self._cycle, most * (steps + 2 * max(map(self._workers, self.arms))))
        leads, soon = dict[int, int](), list[int]()
        order = sorted(random.sample(sorted(self.arms), len(self.arms)), key=self._still_since_s.__getitem__)
        for position in order:
            least = self._least_lead(position)
            leads[position] = max(1, least, self.leads.get(position, 0))
            if self.timetable.discarded_rounds and self._pays_for_shapes(position):
                self.check_time()
                self._settle(position, windows_steps, offsets[position] + windows_steps)
            # Where loader workers fill a queue, every arm has to bring its own into the state of a long training.
            known = position in self.leads or (self.rests and self.block.timing is not Timing.EVALUATION and least == 1)
            settles = self.timetable.discarded_rounds and (self._workers(position) or not known)
            if settles and position in self.arms:
                self.check_time()
                soon += [position] if self.clock() - self._still_since_s[position] < STILL_S else []
                leads[position] = max(leads[position], self._lead_shown(position, offsets[position]))
        for position in soon if len(order) > 1 else ():
            if position in self.arms:
                leads[position] = max(leads[position], self._lead_shown(position, offsets[position]))
        ahead = [position for position in leads if self._workers(position)]
        skipped = max((max(leads[one], self._workers(one)) for one in ahead), default=0)
        if self._keeps_items and self.arms:
            steps = min(steps, self._window_steps(windows, skipped + 1))
        extra = [random.randrange(2) for _ in range(most + self._keeps_items * (sum(rounds.values()) + 1))]
        leads |= dict.fromkeys(ahead, skipped)
        return Turns(steps=steps, leads=leads, extra=extra, offsets=offsets, skipped=skipped)

    def _least_lead(self, position: int) -> int:
        return math.ceil(self.timetable.lead_s / self._step_s(position))

    def _lead_shown(self, position: int, offset: int) -> int:
        """Steps after which an arm that is resumed is as fast as later on."""
        return self._settle(position, max(SETTLING_STEPS, 4 * self._least_lead(position)), offset)

    def _offset(self, position: int, read: int) -> int:
        """The step of an epoch with which an arm's first window begins: one sample in all arms, whatever their batch.

        Another one in every replicate and run, so that what samples cost is part of what differs between them. Where no
        sample may be met twice, windows that have so many steps `read` lie in the half that no warm-up has read.
        """
        cycle, part = self._ready[position].cycle_steps or 1, (self.first + SPREAD * self.replicate) % 1
        if self._keeps_items:
            spare = 0 if any(map(self._workers, self.arms)) else cycle - cycle // 2 - read
            return cycle // 2 + round(part * max(0, spare))
        first = min(self.arms)
        sample = round(part * (self._ready[first].cycle_steps or 1)) * self.block.arms[first].batch
        return sample // self.block.arms[position].batch % cycle

    def _pays_for_shapes(self, position: int) -> bool:
        """Whether the first step on batches of a shape is dearer than later ones: a device's memory and its kernels.

        A treatment would pay that in all its windows, and the reference, which comes back to the same samples, in few.
        """
        varies = self._ready[position].effective.get("varying_shapes") is True
        has_memory = self.room is not None and len(self.room.largest) > 1
        return varies and has_memory and self.block.timing is Timing.STEP and not self._keeps_items

    @property
    def _keeps_items(self) -> bool:
        """Whether the user's data set keeps items, so that no window may hold what the arm has read before."""
        return any(self._ready[position].effective.get("keeps_items") is True for position in self.arms)

    def _settle(self, position: int, steps: int, offset: int) -> int:
        began_s = self.clock()
        try:
            return self.arms[position].settle(steps, offset)
        except (ArmLost, Bereft) as lost:
            self._lose(position, lost)
            return 0
        finally:
            self._spent_s["warm_up_s"] += self.clock() - began_s

    @property
    def _cycle(self) -> int:
        """Steps after which all arms see the same samples again; epochs of other batches have other lengths."""
        return math.lcm(*(self._ready[one].cycle_steps or 1 for one in self.arms))

    def _window_steps(self, windows: int, lead: int = 0) -> int:
        """Steps of every window, by the reference's speed; more where an arm is far faster than that.

        So many windows that may hold no sample twice share the half of an epoch that no warm-up has read, with what
        leads into each.
        """
        first = min(self.arms)
        group = math.lcm(*(self._workers(one) or 1 for one in self.arms))
        step_s, cycle = self._step_s(first), self._cycle
        steps = self.timetable.steps_of_windows(step_s, min(map(self._step_s, self.arms)), cycle, group)
        alike = math.lcm(group, *map(self._uneven, self.arms))
        whole = math.lcm(cycle if steps % cycle == 0 else 1, alike)
        steps = math.ceil(steps / whole) * whole
        if not self._keeps_items:
            return steps
        half = min(self._ready[one].cycle_steps or 1 for one in self.arms) // 2
        return min(steps, max(1, (half // windows - (lead or self._lead_steps)) // alike) * alike)

    @property
    def _lead_steps(self) -> int:
        """Steps that lead any arm into a window, as far as they are known, with the extra one."""
        least = map(self._least_lead, self.arms)
        return 1 + max(*least, *map(self._workers, self.arms), *(self.leads.get(one, 0) for one in self.arms))

    def _uneven(self, position: int) -> int:
        """Steps after which an arm's model and loss have done the same work again, where they work at all."""
        if self.block.timing in {Timing.LOADER, Timing.EVALUATION}:
            return 1
        steps = self._ready[position].effective.get("uneven_steps")
        return steps if isinstance(steps, int) else 1

    def _step_s(self, position: int) -> float:
        return max(self._ready[position].step_s, 1e-6)

    def _workers(self, position: int) -> int:
        if self.block.timing in {Timing.EVALUATION, Timing.COMPUTE}:
            return 0  # windows draw on none
        workers = self._ready[position].effective.get("workers")
        return workers if isinstance(workers, int) else 0

    def _window(self, position: int, order: int, began_s: float, turns: Turns, number: int) -> None:
        try:
            window = self.arms[position].window(
                turns.lead(position, number), turns.steps, turns.start(position, number)
            )
        except (ArmLost, Bereft) as lost:
            self._lose(position, lost)
            return
        # Steps that lead in, and windows that the arm threw away, come before what was timed.
        at_s = max(0.0, self.clock() - began_s - window["wall_s"])
        self._spent_s["windows_s"] += window["wall_s"]
        self._spent_s["lead_s"] += window.get("lead_s") or 0.0
        extra = turns.extra[number]
        self._keep(Window(arm=self._name(position), order=order, began_s=at_s, extra_steps=extra, **window))

    def _lose(self, position: int, lost: ArmLost | Bereft) -> None:
        """Records a loss; an arm that another one took with it is no loss, and is built anew in the next attempt."""
        self.arms.pop(position).close()
        if isinstance(lost, Bereft):
            return
        self.timed_out |= lost.kind in TIMED_OUT
        name, outcome, reason = self._name(position), lost.outcome, lost.reason
        if name.shared:  # whose fault it was is told by a process that it has for itself
            outcome, reason = INTERRUPTED, f"{reason}; next it gets a process of its own"
        elif crowded := self._crowded_out(position, lost):
            outcome, reason = INTERRUPTED, f"{reason}; next it gets the memory for itself"
            self.alone_next += crowded
        self._keep(Lost(arm=name, outcome=outcome, reason=reason, trace=lost.trace, kind=lost.kind))
        if lost.kind is Fault.DEVICE_LOST:  # every other arm would be lost to it too, and none by its own fault
            raise Mistake(f"{lost.reason}; what was measured is kept, and the same command continues.")

    def _crowded_out(self, position: int, lost: ArmLost) -> list[int]:
        """What found no memory beside other arms: the arm; for the reference the larger batches, or all treatments.

        None where the arm had nobody beside it: then there is no more memory to be had.
        """
        if lost.kind not in OUT_OF_MEMORY or self._ready.keys().isdisjoint(self.arms):
            return []
        usual = self.block.reference.batch
        batches = {at: one.treatment.batch for at, one in enumerate(self.block.comparisons, 1)}
        return [position] if position else [at for at, one in batches.items() if one > usual] or [*batches]

    def _keep(self, record: Kept) -> Kept:
        # An arm answers in plain data. What goes on from here must be what will be read again from the disk.
        record = decode(type(record), encode(record))
        self.record(record)
        self.watcher.recorded(self.block, record)
        return record

    def _name(self, position: int) -> Arm:
        return Arm(
            block=self.block.identity,
            replicate=self.replicate,
            attempt=self.number,
            position=position,
            shared=self.block.shared,
            turn=self.turn,
        )


def _close_all(arms: Sequence[LiveArm], at_once: int) -> None:
    """Ends arms side by side, so many at once: each waits until its process is gone."""
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        for _ in pool.map(lambda arm: arm.close(), arms):
            pass


def numbered(order: Sequence[int], *, new: bool = False) -> Iterator[tuple[int, int]]:
    """Positions with the number of the window that each is to take: the same number means the same samples.

    A treatment counts its own windows. The reference takes the number of the treatment that comes next, and ends with
    the one that it began with: over all pairs it then went through the samples that treatments went through. Where it
    must take `new` samples each time, it has the numbers behind all those of treatments in place of one it had before.
    """
    counts: dict[int, int] = defaultdict(int)
    taken, behind = set(), itertools.count(max((order.count(one) for one in set(order) if one), default=0))
    for index, position in enumerate(order):
        if position == 0:
            following = next((one for one in order[index + 1 :] if one), None)
            number = 0 if following is None else counts[following]
            number = next(behind) if new and number in taken else number
            taken.add(number)
            yield 0, number
        else:
            yield position, counts[position]
            counts[position] += 1
