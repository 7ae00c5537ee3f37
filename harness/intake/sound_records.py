"""Sound records: whether what was measured fits its plan, and whether time passes in it as it does elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.core.measurement import Arm, Burst, Lost, Ready, Record
from harness.core.plan import Block
from harness.core.throttling import BITS
from harness.intake.ranges import FASTEST, LONGEST_S, MOST, SHORTEST_S, SLOWEST, within
from harness.intake.refusal import Unfit, shown
from harness.store import MEASUREMENTS, Run

OUTCOMES = ("failed", "skipped", "interrupted")
MOST_SETTINGS, MOST_LOSSES, MOST_SENTENCES = 500, 10_000, 100
MOST_LIVES = 10_000
# A phase is read from other clocks than the burst it belongs to, and copies may run beside the computation.
LONGEST_PHASE = 2.0  # bursts
# Of what a driver tells: more than any device has, in the units of the names.
_OF_THE_DEVICE = {
    **dict.fromkeys(("clock_mhz", "memory_clock_mhz", "watts"), 1e6),
    **dict.fromkeys(("strangers", "process_bytes"), MOST),
    "temperature_c": 1e3,
}
NOTHING_MEASURED = "measure more: ./speedmatrix run with the same words continues it"


@dataclass(slots=True)
class _Course:
    """What has happened so far, record by record."""

    ready: set[Arm] = field(default_factory=set)
    lost: set[Arm] = field(default_factory=set)
    last: dict[tuple[str, int, int], Burst] = field(default_factory=dict)  # of each life


def check_records(run: Run, records: Iterable[Record]) -> None:
    """Raises Unfit with the line and the first thing in it that cannot be."""
    blocks = {block.identity: block for block in run.plan.blocks}
    course, number = _Course(), 0
    for number, record in enumerate(records, 1):
        where = f"{MEASUREMENTS}, line {number}:"
        _check_arm(record.arm, blocks, run.plan.protocol.most_restarts, where)
        if record.arm in course.lost:
            raise Unfit(f"{where} that arm was lost before")
        if isinstance(record, Ready):
            _check_ready(record, course, where)
        elif isinstance(record, Burst):
            _check_burst(record, course, blocks[record.arm.block], where)
        else:
            _check_lost(record, course, where)
    if number == 0:
        raise Unfit("nothing was measured in it yet", NOTHING_MEASURED)


def _check_arm(arm: Arm, blocks: dict[str, Block], restarts: int, where: str) -> None:
    block = blocks.get(arm.block)
    if block is None:
        raise Unfit(f"{where} the plan has no block '{shown(arm.block)}'")
    within(arm.position, 0, len(block.comparisons), f"{where} the position in block {shown(arm.block)}")
    within(arm.restart, 0, restarts - 1, f"{where} the restart")
    within(arm.life, 0, MOST_LIVES, f"{where} the life")


def _check_ready(ready: Ready, course: _Course, where: str) -> None:
    if ready.arm in course.ready:
        raise Unfit(f"{where} that arm was ready before")
    course.ready.add(ready.arm)
    for name in ("build_s", "warm_up_s", "step_s"):
        within(getattr(ready, name), 0.0, LONGEST_S, f"{where} {name}")
    within(ready.first_step_s, SHORTEST_S, LONGEST_S, f"{where} first_step_s")
    within(ready.warm_up_steps, 0, MOST, f"{where} warm_up_steps")
    for name in ("loader_rate", "compute_rate"):
        within(getattr(ready, name), SLOWEST, FASTEST, f"{where} {name}")
    for name in ("seed_spread", "repeat_spread"):
        if (getattr(ready, name) or 0.0) < 0:
            raise Unfit(f"{where} {name} is negative")
    within(ready.cycle_steps, 1, MOST, f"{where} cycle_steps")
    for name, count, most in (
        ("settings", len(ready.effective), MOST_SETTINGS),
        ("losses", len(ready.losses), MOST_LOSSES),
        ("sentences", len(ready.unengaged), MOST_SENTENCES),
    ):
        if count > most:
            raise Unfit(f"{where} it has {count:,} {name}, and {most:,} are the most")


def _check_burst(burst: Burst, course: _Course, block: Block, where: str) -> None:
    if burst.arm not in course.ready:
        raise Unfit(f"{where} a burst of an arm that never was ready, so that nobody saw what it had engaged")
    if burst.timing is not block.timing:
        raise Unfit(f"{where} a burst of {burst.timing}, and its block times {block.timing}")
    _check_times(burst, where)
    for name, least in (("steps", 1), ("samples", 1), ("order", 0), ("host_bytes", 1), ("device_bytes", 0)):
        within(getattr(burst, name), least, MOST, f"{where} {name}")
    within(burst.others, 0.0, 1.0, f"{where} others")
    _check_device(burst, where)
    _check_edges(burst, where)
    within(burst.rate, SLOWEST, FASTEST, f"{where} the rate in samples a second")
    life = (burst.arm.block, burst.arm.restart, burst.arm.life)
    before = course.last.get(life)
    if before is not None and burst.order <= before.order:
        raise Unfit(f"{where} order {burst.order} comes after order {before.order} of the same life")
    if before is not None and burst.began_s < before.began_s + before.wall_s:
        raise Unfit(f"{where} this burst began before the one before it had ended")
    course.last[life] = burst


def _check_edges(burst: Burst, where: str) -> None:
    for name in ("lead_steps", "batches", "produced", "slipped"):
        within(getattr(burst, name), 0, MOST, f"{where} {name}")
    within(burst.lead_s, 0.0, LONGEST_S, f"{where} lead_s")
    for seconds in (burst.first_half_s, *(burst.slowest_s or ())):
        within(seconds, 0.0, LONGEST_PHASE * burst.wall_s, f"{where} the time of some steps")
    if burst.slowest_s is not None and len(burst.slowest_s) > burst.steps:
        raise Unfit(f"{where} it tells of {len(burst.slowest_s):,} steps and has {burst.steps:,}")


def _check_device(burst: Burst, where: str) -> None:
    for name, most in _OF_THE_DEVICE.items():
        within(getattr(burst, name), 0.0, most, f"{where} {name}")
    within(burst.energy_j or None, 1e-3, 1e12, f"{where} energy_j")  # drivers count thousandths
    for one in burst.throttled or ():
        if one not in BITS.values():
            raise Unfit(f"{where} the throttling '{shown(one)}' is none of {', '.join(BITS.values())}")


def _check_times(burst: Burst, where: str) -> None:
    within(burst.wall_s, SHORTEST_S, LONGEST_S, f"{where} wall_s")
    within(burst.began_s, 0.0, LONGEST_S, f"{where} began_s")
    for name in ("wait_s", "copy_s", "device_s", "queue_s"):
        within(getattr(burst, name), 0.0, LONGEST_PHASE * burst.wall_s, f"{where} {name}")


def _check_lost(lost: Lost, course: _Course, where: str) -> None:
    course.lost.add(lost.arm)
    if lost.outcome not in OUTCOMES:
        raise Unfit(f"{where} the outcome '{shown(lost.outcome)}' is none of {', '.join(OUTCOMES)}")
    if not shown(lost.reason):
        raise Unfit(f"{where} an arm was lost without a reason")
