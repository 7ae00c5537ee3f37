"""Measurements: what arms report, as the lines of a run's record.

A *life* is the time for which the processes of one block are alive together. An arm is named by block, replicate,
life and position: position 0 is the reference, position n the block's n-th comparison.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.core.optimization import Timing
from harness.core.recipe import Value

# Faults: what ended an arm, as a word that a table can be sorted by; the sentence stands beside it.


class Fault(StrEnum):
    """What ended an arm before all its windows were taken."""

    DEVICE_MEMORY = "device_memory"  # the device had none left
    HOST_MEMORY = "host_memory"  # an allocation was refused
    OOM_KILLED = "oom_killed"  # the kernel ended a process because the host had none left
    SHARED_MEMORY = "shared_memory"  # /dev/shm is too small for the batches that travel through it
    DISK = "disk"  # the arm could not write what it needs, such as compiled kernels
    WORKER_DEATH = "worker_death"  # a loader worker ended, and nothing tells by whose doing
    LOADER_STALLED = "loader_stalled"  # no worker delivered a batch in time
    START_TIME_OUT = "start_time_out"
    COMPILE_TIME_OUT = "compile_time_out"
    WINDOW_TIME_OUT = "burst_time_out"
    COMPILER = "compiler"  # torch.compile gave up
    DIVERGED = "diverged"  # the loss is no finite number
    DEVICE_LOST = "device_lost"  # the device answers nobody any more
    DEVICE_ERROR = "device_error"  # a kernel of this arm did what it must not
    CRASHED = "crashed"  # a process was struck by a signal of its own making
    EXITED = "exited"  # the process ended itself
    KILLED = "killed"  # somebody else ended it
    SUSPENDED = "suspended"  # somebody else stopped it
    ERROR = "error"  # an exception that is none of the above


OUT_OF_MEMORY = frozenset({Fault.DEVICE_MEMORY, Fault.HOST_MEMORY, Fault.OOM_KILLED})
TIMED_OUT = frozenset({Fault.LOADER_STALLED, Fault.START_TIME_OUT, Fault.COMPILE_TIME_OUT, Fault.WINDOW_TIME_OUT})


# Throttling: why a device's clock was held down, by the names that records have for it.

POWER_CAP = "sw_power_cap"  # the limit of its power, which a large GPU under full load is meant to reach
# Heat or a fault: what is timed meanwhile is the machine's cooling, and no optimization.
SLOWDOWNS = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
# Bits of nvmlClocksEventReasons in nvml.h. Idling is no throttling, nor is a clock that somebody has set.
BITS: Mapping[int, str] = {
    0x04: POWER_CAP,
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits that are set, in their order; bits that mean no throttling have none."""
    return tuple(name for bit, name in BITS.items() if mask & bit)


# What becomes of the cache of a data set that keeps what it has read, before windows.
FILLED, STILL_FILLING = "filled before", "still filling"
IN_PART = "in part"  # an epoch was read, and not all of it was kept
EPOCH_READ = frozenset({FILLED, IN_PART})


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One configuration, alive in a process that is fresh in every replicate."""

    block: str
    replicate: int
    attempt: int
    position: int
    shared: bool = field(default=False, metadata={"since": "0.3.0"})  # its process hosted other arms too
    # Of an arm that was alive alone: the attempt with which its run of the command began to time arms in turn. What
    # another run timed is no pair to it: the machine may have been another one, or in another state.
    turn: int | None = field(default=None, metadata={"since": "0.3.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An arm has started, proved its settings and warmed up. Durations in seconds, rates in samples a second."""

    arm: Arm
    build_s: float  # model, data and optimizer, after the imports
    first_step_s: float
    warm_up_s: float
    warm_up_steps: int
    step_s: float  # of the last warm-up steps
    steady: bool
    effective: dict[str, Value]
    inactive: tuple[str, ...]
    losses: tuple[float, ...]  # first steps from the seeded start
    seed_spread: float | None  # mean spread of those losses over other seeds; the reference's alone
    # Upper bounds, samples a second: with the step left out, and on batches that already lie on the device. None where
    # the windows tell them, since nothing works ahead, and where something else than training is timed.
    loader_rate: float | None
    compute_rate: float | None
    score: float | None  # of the model after its first steps, where evaluation is what is timed
    # Of batches that are asked for one after another, in an arm without loader workers: what its loader does by itself.
    asked_rate: float | None = field(default=None, metadata={"since": "0.3.0"})
    cycle_steps: int | None = field(default=None, metadata={"since": "0.3.0"})  # until the same work comes round again
    epoch_steps: int | None = field(default=None, metadata={"since": "0.3.0"})  # after which the order begins anew
    # The same between runs from the arm's own seed: 0 where it repeats every bit, as an exact optimization then must.
    repeat_spread: float | None = field(default=None, metadata={"since": "0.3.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two upper bounds of an arm, as `Ready` tells them."""

    loader_rate: float | None
    compute_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive steps timed without interruption; phases in seconds, summed over the window."""

    arm: Arm
    order: int  # counts all windows of an attempt, the reference's too
    timing: Timing
    steps: int
    samples: int
    began_s: float  # since the attempt began
    wall_s: float
    wait_s: float  # for the next batch
    copy_s: float  # to the device
    device_s: float | None  # from the first kernel of each step to its last, gaps included; where events can tell
    # Resident in the arm and its loader workers when the window had ended; None where it shared its process.
    host_bytes: int | None
    device_bytes: int | None
    others: float | None = field(
        default=None, metadata={"since": "0.2.0"}
    )  # share of cores that others took, none idle
    # Of an NVIDIA device, by its driver when the window had ended; None on a CPU and wherever the driver does not tell.
    clock_mhz: float | None = field(default=None, metadata={"since": "0.2.0"})  # of the multiprocessors
    memory_clock_mhz: float | None = field(default=None, metadata={"since": "0.2.0"})
    throttled: tuple[str, ...] | None = field(default=None, metadata={"since": "0.2.0"})  # names of core/records.py
    watts: float | None = field(default=None, metadata={"since": "0.2.0"})  # mean of about the last second
    # That the device took in the window; beside a device that runs behind, its share of what the lead-in took too.
    energy_j: float | None = field(default=None, metadata={"since": "0.2.0"})
    temperature_c: float | None = field(default=None, metadata={"since": "0.2.0"})
    strangers: int | None = field(default=None, metadata={"since": "0.2.0"})  # processes on it that are none of ours
    process_bytes: int | None = field(default=None, metadata={"since": "0.2.0"})  # of it, by the arm's process in all

    # What led into the window and what its edges and its steps were like; None where nobody took note of it yet.
    lead_steps: int | None = field(default=None, metadata={"since": "0.3.0"})  # after a resumption, not timed
    lead_s: float | None = field(default=None, metadata={"since": "0.3.0"})
    extra_steps: int = field(default=0, metadata={"since": "0.3.0"})  # of `lead_steps`, by chance
    first_half_s: float | None = field(default=None, metadata={"since": "0.3.0"})  # of `wall_s`: of steps // 2 steps
    slowest_s: tuple[float, ...] | None = field(default=None, metadata={"since": "0.3.0"})  # 1 + steps // 50 of them
    batches: int | None = field(default=None, metadata={"since": "0.3.0"})  # taken from the loader in the window
    produced: int | None = field(default=None, metadata={"since": "0.3.0"})  # that loader workers finished in it
    slipped: int | None = field(
        default=None, metadata={"since": "0.3.0"}
    )  # that they finished while the arm stood still
    first_step: int | None = field(default=None, metadata={"since": "0.3.0"})  # of the cycle; 0 of whole cycles
    # The most that the arm and its loader workers held in the window and in what led into it; None where the kernel did
    # not tell, or nobody asked it yet.
    host_peak_bytes: int | None = field(default=None, metadata={"since": "0.3.0"})
    host_peak_since_start: bool = field(default=False, metadata={"since": "0.3.0"})  # where no peak could begin anew
    queue_s: float | None = field(default=None, metadata={"since": "0.3.0"})  # of `device_s`, on the host's clock
    quantiles_s: tuple[float, ...] | None = field(
        default=None, metadata={"since": "0.3.0"}
    )  # of its steps: `quantiles`

    @property
    def rate(self) -> float:
        """Samples a second: total samples over total time."""
        return self.samples / self.wall_s


MOST_QUANTILES = 21  # 0, 5, 10 … 100 %


def quantiles(times_s: Sequence[float]) -> tuple[float, ...]:
    """The times of a window's steps in order, the shortest first; of many steps every twentieth part, ends included."""
    ordered, last = sorted(times_s), len(times_s) - 1
    if len(ordered) <= MOST_QUANTILES:
        return tuple(ordered)
    return tuple(ordered[round(place * last / (MOST_QUANTILES - 1))] for place in range(MOST_QUANTILES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An arm that gave no more windows, and why."""

    arm: Arm
    outcome: str  # failed, skipped or interrupted
    reason: str
    trace: str = ""
    kind: Fault | None = field(default=None, metadata={"since": "0.2.0"})  # None where nobody knew kinds yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Where the time of one attempt went, in seconds of the launcher's clock; one that was killed tells nothing."""

    arm: Arm  # its reference, or the arm that was alive alone
    imports_s: float  # until all its processes stood ready
    build_s: float  # models, data and optimizers
    evidence_s: float  # first steps, settings that show, first losses of other seeds, upper bounds
    warm_up_s: float  # with the turn that shows how long a resumption tells
    lead_s: float  # steps that lead into windows
    windows_s: float
    rest_s: float  # resuming and pausing, memory that is read, processes that end


Record = Ready | Window | Lost | Spent


# Shared processes: a comparison is measured with both arms in one process, or each in its own, and never in both ways.


def is_apart(position: int, records: Iterable[Record]) -> bool:
    """Whether a treatment of a block has, or is to get, a process of its own although the block's arms share one.

    Whatever is lost in a shared process is tried again alone; where the reference was lost, that is all of its block.
    """
    return any(
        one.arm.position in {0, position} if isinstance(one, Lost) else one.arm.position == position
        for one in records
        if (isinstance(one, Lost) and one.arm.shared) or (isinstance(one, Ready) and not one.arm.shared)
    )


def is_shared(position: int, records: Iterable[Record]) -> bool:
    """Whether what counts for a treatment of a block was measured in a process that its arms shared."""
    records = tuple(records)
    return any(one.arm.shared for one in records) and not is_apart(position, records)


def of_one_kind(records: Iterable[Record], *, shared: bool) -> tuple[Record, ...]:
    """The records of arms that shared a process, or of those that did not; what was lost says why, and stays."""
    return tuple(one for one in records if one.arm.shared is shared or isinstance(one, Lost))


# Pairs: a treatment's window between the two windows of its reference that stand nearest in time.


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPair:
    """A treatment's window with its neighbours, all of one attempt."""

    treatment: Window
    before: Window
    after: Window


def in_turn(
    windows: Iterable[Window], position: int, among: Iterable[Window] | None = None
) -> tuple[tuple[tuple[Window, ...], tuple[Window, ...]], ...]:
    """The windows of a treatment and of its reference that were alive one after the other, of one replicate of a block.

    One pair of both for each run of the command that timed them in turn; either may be empty. Of windows that were
    chosen `among` others all of those tell who was alive alone.
    """
    windows = tuple(windows)
    every = windows if among is None else tuple(among)
    ours, theirs = _alone(windows, position, every), _alone(windows, 0, every)
    turns = dict.fromkeys(one.arm.turn for one in ours)
    return tuple(
        (tuple(one for one in ours if one.arm.turn == turn), tuple(one for one in theirs if one.arm.turn == turn))
        for turn in turns
    )


def _alone(windows: tuple[Window, ...], position: int, every: tuple[Window, ...]) -> tuple[Window, ...]:
    """The windows of the arm at `position` in attempts that timed no other arm."""
    shared = {window.arm.attempt for window in every if window.arm.position != position}
    return tuple(window for window in windows if window.arm.position == position and window.arm.attempt not in shared)


def window_pairs(windows: Iterable[Window], position: int) -> tuple[WindowPair, ...]:
    """All pairs of the arm at `position` in one attempt; a window without both neighbours belongs to none."""
    found = []
    before: Window | None = None
    waiting: list[Window] = []
    for window in sorted(windows, key=lambda window: window.order):
        if window.arm.position == 0:
            if before is not None:
                found += [WindowPair(treatment=one, before=before, after=window) for one in waiting]
            before, waiting = window, []
        elif window.arm.position == position:
            waiting.append(window)
    return tuple(found)


# Precision: how widely a comparison is known so far, and nothing of what it came to.


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The width of one estimate. It holds no ratio, so that whoever decides by it cannot be led by the answer."""

    half_width: float  # of the log ratio's interval; infinite where replicates disagree beyond all bounds
    outlying: bool  # its replicates disagree more than the pool's


Place = tuple[str, int]  # a block's identity and a position in it: one comparison
Precisions = Mapping[Place, Precision]  # of those that have an estimate
