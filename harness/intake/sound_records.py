"""Sound records: whether what was measured fits its plan, and whether time passes in it as it does elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from harness.core.cell import Cell
from harness.core.environment import Environment
from harness.core.measurement import Arm, Burst, Lost, Ready, Record
from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.recipe import Value
from harness.core.throttling import BITS
from harness.intake.ranges import FASTEST, LONGEST_S, MOST, SHORTEST_S, SLOWEST, within
from harness.intake.refusal import Unfit, shown
from harness.store import MEASUREMENTS, RUN, Run

OUTCOMES = ("failed", "skipped", "interrupted")
MOST_SETTINGS, MOST_LOSSES, MOST_SENTENCES = 500, 10_000, 100
MOST_LIVES = 10_000
# A phase is read from other clocks than the burst it belongs to, and copies may run beside the computation.
LONGEST_PHASE = 2.0  # bursts
ROUNDING = 1 + 1e-6  # of seconds that are sums and differences of others
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

    environment: Environment
    ready: dict[Arm, Ready] = field(default_factory=dict)
    lost: set[Arm] = field(default_factory=set)
    last: dict[tuple[str, int, int], Burst] = field(default_factory=dict)  # of each life


def check_records(run: Run, records: Iterable[Record]) -> None:
    """Raises Unfit with the line and the first thing in it that cannot be."""
    blocks = {block.identity: block for block in run.plan.blocks}
    course, number = _Course(run.environment), 0
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
    course.ready[ready.arm] = ready
    for name in ("build_s", "warm_up_s"):
        within(getattr(ready, name), 0.0, LONGEST_S, f"{where} {name}")
    for name in ("first_step_s", "step_s"):
        within(getattr(ready, name), SHORTEST_S, LONGEST_S, f"{where} {name}")
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
    within(burst.host_peak_bytes, burst.host_bytes, MOST, f"{where} host_peak_bytes")
    within(burst.others, 0.0, 1.0, f"{where} others")
    _check_device(burst, course.environment, where)
    _check_edges(burst, where)
    _check_steps(burst, where)
    within(burst.rate, SLOWEST, FASTEST, f"{where} the rate in samples a second")
    effective = course.ready[burst.arm].effective
    _check_samples(burst, _cell(burst.arm, block), effective, where)
    within(burst.first_step, 0, (course.ready[burst.arm].cycle_steps or MOST) - 1, f"{where} first_step")
    _check_batches(burst, effective, where)
    _check_turn(burst, course, where)


def _check_turn(burst: Burst, course: _Course, where: str) -> None:
    """Arms of a life take turns: a window and what leads into it lie after the window before."""
    life = (burst.arm.block, burst.arm.restart, burst.arm.life)
    before = course.last.get(life)
    if before is not None and burst.order <= before.order:
        raise Unfit(f"{where} order {burst.order} comes after order {before.order} of the same life")
    if before is not None and ROUNDING * burst.began_s < before.began_s + before.wall_s + (burst.lead_s or 0.0):
        raise Unfit(f"{where} began_s and lead_s say that it began before the one before it had ended")
    course.last[life] = burst


def _cell(arm: Arm, block: Block) -> Cell:
    return block.comparisons[arm.position - 1].treatment if arm.position else block.reference


def _check_samples(burst: Burst, cell: Cell, effective: dict[str, Value], where: str) -> None:
    """Every step has a batch of samples, but for the last one of an epoch where that is kept at half the size."""
    if burst.timing is Timing.EVALUATION:
        if burst.samples % burst.steps:
            raise Unfit(f"{where} samples is {burst.samples}, and {burst.steps} equal passes cannot have as many")
        return
    parts = 1 if burst.timing is Timing.COMPUTE else _count(effective, "micro_batches") or 1
    each = cell.batch // parts * parts
    missing = burst.steps * each - burst.samples
    short = each - each // 2 if _keeps_last_batch(cell, effective) else 0
    if missing and not (short and 0 < missing <= burst.steps * short and missing % short == 0):
        raise Unfit(
            f"{where} samples is {burst.samples}, and {burst.steps} steps of {each} samples have another number"
        )


def _keeps_last_batch(cell: Cell, effective: dict[str, Value]) -> bool:
    return effective.get("last_batch") == "short" or any(one.name == "keep_last_batch" for one in cell.switches)


def _count(effective: dict[str, Value], name: str) -> int | None:
    value = effective.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _check_batches(burst: Burst, effective: dict[str, Value], where: str) -> None:
    """What loader workers finished and what steps took may differ by what the queue holds, and no more."""
    if (burst.batches is None) is not (burst.produced is None):
        raise Unfit(f"{where} batches and produced are told together or not at all")
    if burst.batches is None or burst.produced is None:
        if burst.slipped is not None:
            raise Unfit(f"{where} slipped is told without batches")
        return
    workers, ahead = _count(effective, "workers"), _count(effective, "prefetch_factor")
    if workers == 0:
        raise Unfit(f"{where} batches is told of an arm without loader workers")
    parts = _count(effective, "micro_batches")
    if burst.batches % burst.steps or (parts and burst.batches != parts * burst.steps):
        raise Unfit(f"{where} batches is {burst.batches}, which {burst.steps} steps cannot take")
    if workers and ahead:
        queue = workers * ahead + 1  # and one on its way to the device
        within(burst.produced, burst.batches - queue, burst.batches + queue, f"{where} produced")
        within(burst.slipped, 0, queue, f"{where} slipped")


def _check_edges(burst: Burst, where: str) -> None:
    for name in ("lead_steps", "batches", "produced", "slipped"):
        within(getattr(burst, name), 0, MOST, f"{where} {name}")
    within(burst.lead_s, 0.0, LONGEST_S, f"{where} lead_s")
    if (burst.lead_steps is None) is not (burst.lead_s is None):
        raise Unfit(f"{where} lead_steps and lead_s are told together or not at all")
    if burst.lead_steps and not burst.lead_s:
        raise Unfit(f"{where} lead_s is 0, and {burst.lead_steps} steps led into it")


def _check_steps(burst: Burst, where: str) -> None:
    """What is told of single steps and of the first half fits the window's own time."""
    within(burst.first_half_s, 0.0, burst.wall_s, f"{where} first_half_s")
    slowest = burst.slowest_s
    if slowest is None:
        return
    if len(slowest) != min(burst.steps, 1 + burst.steps // 50):
        raise Unfit(f"{where} slowest_s tells of {len(slowest)} steps, which is another share of {burst.steps}")
    if not all(later <= sooner for sooner, later in pairwise(slowest)):
        raise Unfit(f"{where} slowest_s does not begin with the slowest step")
    for one in slowest:
        within(one, 0.0, ROUNDING * burst.wall_s, f"{where} slowest_s")
    others, half = burst.steps - len(slowest), burst.steps // 2
    least_s = burst.wall_s / ROUNDING - others * slowest[-1]
    within(sum(slowest), least_s, ROUNDING * burst.wall_s, f"{where} the sum of slowest_s")
    most_s = ROUNDING * half * slowest[0]
    least_s = burst.wall_s / ROUNDING - (burst.steps - half) * slowest[0]
    within(burst.first_half_s, max(0.0, least_s), most_s, f"{where} first_half_s")


def _check_device(burst: Burst, environment: Environment, where: str) -> None:
    for name, most in _OF_THE_DEVICE.items():
        within(getattr(burst, name), 0.0, most, f"{where} {name}")
    within(burst.energy_j or None, 1e-3, 1e12, f"{where} energy_j")  # drivers count thousandths
    for one in burst.throttled or ():
        if one not in BITS.values():
            raise Unfit(f"{where} the throttling '{shown(one)}' is none of {', '.join(BITS.values())}")
    for name in (*_OF_THE_DEVICE, "device_s", "device_bytes", "energy_j", "throttled"):
        if environment.device == "cpu" and getattr(burst, name) is not None:
            raise Unfit(f"{where} {name} is told of a device, and {RUN} was measured without one")
    for name in ("device_bytes", "process_bytes"):
        within(getattr(burst, name), 0, environment.accelerator_memory_bytes or MOST, f"{where} {name}")


def _check_times(burst: Burst, where: str) -> None:
    within(burst.wall_s, SHORTEST_S, LONGEST_S, f"{where} wall_s")
    within(burst.began_s, 0.0, LONGEST_S, f"{where} began_s")
    within(burst.wait_s, 0.0, ROUNDING * burst.wall_s, f"{where} wait_s")
    for name in ("copy_s", "device_s", "queue_s"):
        within(getattr(burst, name), 0.0, LONGEST_PHASE * burst.wall_s, f"{where} {name}")


def _check_lost(lost: Lost, course: _Course, where: str) -> None:
    course.lost.add(lost.arm)
    if lost.outcome not in OUTCOMES:
        raise Unfit(f"{where} the outcome '{shown(lost.outcome)}' is none of {', '.join(OUTCOMES)}")
    if not shown(lost.reason):
        raise Unfit(f"{where} an arm was lost without a reason")
