"""Measurements: what arms report, as the lines of a run's record.

A *life* is the time for which the processes of one block are alive together. An arm is named by block, restart,
life and position: position 0 is the reference, position n the block's n-th comparison.
"""

from dataclasses import dataclass, field

from harness.core.fault import Fault
from harness.core.optimization import Timing
from harness.core.recipe import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One cell, alive in its own fresh process."""

    block: str
    restart: int
    life: int
    position: int


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
    unengaged: tuple[str, ...]
    losses: tuple[float, ...]  # first steps from the seeded start
    seed_spread: float | None  # mean spread of those losses over other seeds; the reference's alone
    # Upper bounds, samples a second: with the step left out, and on batches that already lie on the device. None where
    # the windows tell them, since nothing works ahead, and where something else than training is timed.
    loader_rate: float | None
    compute_rate: float | None
    score: float | None  # of the model after its first steps, where evaluation is what is timed
    cycle_steps: int | None = field(default=None, metadata={"since": "0.3.0"})  # until the same work comes round again
    # The same between runs from the arm's own seed: 0 where it repeats every bit, as an exact optimization then must.
    repeat_spread: float | None = field(default=None, metadata={"since": "0.3.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Consecutive steps timed without interruption; phases in seconds, summed over the burst."""

    arm: Arm
    order: int  # counts all bursts of a life, the reference's too
    timing: Timing
    steps: int
    samples: int
    began_s: float  # since the life began
    wall_s: float
    wait_s: float  # for the next batch
    copy_s: float  # to the device
    device_s: float | None  # from the first kernel of each step to its last, gaps included; where events can tell
    host_bytes: int  # resident in the arm and its loader workers when the burst had ended
    device_bytes: int | None
    others: float | None = field(
        default=None, metadata={"since": "0.2.0"}
    )  # share of cores that others took, none idle
    # Of an NVIDIA device, by its driver when the burst had ended; None on a CPU and wherever the driver does not tell.
    clock_mhz: float | None = field(default=None, metadata={"since": "0.2.0"})  # of the multiprocessors
    memory_clock_mhz: float | None = field(default=None, metadata={"since": "0.2.0"})
    throttled: tuple[str, ...] | None = field(default=None, metadata={"since": "0.2.0"})  # names of core/throttling.py
    watts: float | None = field(default=None, metadata={"since": "0.2.0"})  # mean of about the last second
    energy_j: float | None = field(default=None, metadata={"since": "0.2.0"})  # that the device took in the burst
    temperature_c: float | None = field(default=None, metadata={"since": "0.2.0"})
    strangers: int | None = field(default=None, metadata={"since": "0.2.0"})  # processes on it that are none of ours
    process_bytes: int | None = field(default=None, metadata={"since": "0.2.0"})  # of it, by the arm's process in all

    # What led into the window and what its edges and its steps were like; None where nobody took note of it yet.
    lead_steps: int | None = field(default=None, metadata={"since": "0.3.0"})  # after a resumption, not timed
    lead_s: float | None = field(default=None, metadata={"since": "0.3.0"})
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

    @property
    def rate(self) -> float:
        """Samples a second: total samples over total time."""
        return self.samples / self.wall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An arm that gave no more bursts, and why."""

    arm: Arm
    outcome: str  # failed, skipped or interrupted
    reason: str
    trace: str = ""
    kind: Fault | None = field(default=None, metadata={"since": "0.2.0"})  # None where nobody knew kinds yet


Record = Ready | Burst | Lost
