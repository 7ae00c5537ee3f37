"""Validation: strict parsing of files from elsewhere, and checks that plan, records and numbers of a run can be."""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from harness.core.codec import stored
from harness.core.configuration import FORMER_NAMES, Comparison, Configuration, changes_batch, parse_option
from harness.core.environment import DEVICES, Environment
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.core.records import BITS, MOST_QUANTILES, Arm, Lost, Ready, Record, Spent, Window
from harness.store import MEASUREMENTS, RUN, Run

# Refusals: why something from a stranger is not taken in, in words that are safe to show.

SHOWN = 120  # characters of foreign text in a sentence
_SENTENCE = 400


class Unfit(Exception):
    """What is wrong with a run or a bundle; the caller adds which file it is and the usual remedy."""

    def __init__(self, words: str, remedy: str = "") -> None:
        super().__init__(words)
        self.words, self.remedy = words, remedy


def shown(text: str, most: int = SHOWN) -> str:
    """Foreign text on one line, without what does not print, and cut where it is long."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def sentence(label: str, unfit: Unfit, usual_remedy: str) -> str:
    """The whole sentence: which file it is, what is wrong with it, and what helps."""
    return f"{label}: {shown(unfit.words, _SENTENCE)}; {unfit.remedy or usual_remedy}."


# Ranges: what a number from a stranger may be, so that every ratio, logarithm and interval of it exists.
#
# The widest interval is that of two replicates whose log ratios lie 83 apart, as the rates allowed here can: its half-
# width is 12.7 times 41, and the exponential of that is still a number (docs/decisions/strangers-results.md).

MOST = 2**63 - 1  # bytes and every other count: what other programs can hold too
SHORTEST_S, LONGEST_S = 1e-6, 1e7  # no clock tells less, and nobody measures for four months
SLOWEST, FASTEST = 1e-6, 1e12  # samples a second


def within(value: float | None, low: float, high: float, where: str) -> None:
    """Raises Unfit for a number outside; None is no number and is left alone."""
    if value is not None and not low <= value <= high:  # nan is outside everything
        allowed = f"be at least {low:g}" if high >= MOST else f"lie between {low:g} and {high:g}"
        raise Unfit(f"{where} is {value:g}, and must {allowed}")


# Sound plans: whether what a run says of itself holds together, before anybody computes with it.

LONGEST_NAME, LONGEST_FACT = 2000, 200  # characters; a stack of thirty options has six hundred
# Beyond these a report would take minutes: the largest plan so far has 61 blocks and 238 comparisons.
MOST_BLOCKS, MOST_IN_BLOCK, MOST_COMPARISONS = 2000, 64, 10_000
MOST_NO_RESULTS, MOST_WORKLOADS, MOST_NAMED, MOST_PACKAGES = 10_000, 100, 5000, 200
MOST_LOOKS = 20
WHOLE = frozenset({*FORMER_NAMES, *FORMER_NAMES.values(), "itself"})  # stacks that do not name their options
UNNAMEABLE = "folders are named in Latin letters and digits; if that is a real chip, tell who maintains speedmatrix"
TOO_EARLY = "set the clock of that machine and measure again"

_BEGAN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,39}")
_CODE = re.compile(r"[0-9a-f]{0,64}")
_MACHINE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-?")
# What Windows takes for a device wherever it stands, so that nobody could clone a folder of that name.
_DEVICE = re.compile(r"[a-z]+(:[a-z0-9.]{1,24})?")
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


def check_run(run: Run, now: datetime) -> None:
    """Raises Unfit with the first thing in a run's description that cannot be."""
    if run.rehearsed:
        raise Unfit("it was rehearsed: its times are invented and prove nothing", "choose a run that was measured")
    _check_beginning(run.began, now)
    if not _VERSION.fullmatch(run.version):
        raise Unfit(f"{RUN} has '{shown(run.version)}' for a version")
    if not is_one_command(run.command):
        raise Unfit(f"{RUN} has a command that is no single call of speedmatrix: '{shown(run.command)}'")
    if not _CODE.fullmatch(run.code):
        raise Unfit(f"{RUN} has '{shown(run.code)}' for a digest of code")
    _check_environment(run.environment)
    _check_plan(run.plan)


def is_one_command(text: str) -> bool:
    """Whether a shell that is given this text calls speedmatrix and nothing else: reports ask readers to type it."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    return words[:1] == ["speedmatrix"] and shlex.join(words) == text and text.isprintable()


def _check_beginning(began: str, now: datetime) -> None:
    try:
        moment = datetime.fromisoformat(began) if _BEGAN.fullmatch(began) else None
    except ValueError:  # the 31st of February
        moment = None
    if moment is None:
        raise Unfit(f"{RUN} began at '{shown(began)}', which is no time in UTC such as 2026-11-20T21:24:07+00:00")
    if moment > now + timedelta(days=1):
        raise Unfit(f"{RUN} began at {began}, which is still to come", TOO_EARLY)


def _check_environment(environment: Environment) -> None:
    if environment.kind not in DEVICES or not _DEVICE.fullmatch(environment.device):
        raise Unfit(f"{RUN} was measured on '{shown(environment.device)}', and {', '.join(DEVICES)} are known")
    facts = [environment.accelerator, environment.capability, environment.driver, environment.compiler]
    facts += [
        environment.cpu,
        environment.cpu_design,
        environment.system,
        environment.python,
        *sum(environment.packages + environment.variables, ()),
        *(environment.cpu_flags or ()),
        *(environment.allocators or ()),
    ]
    for fact in facts:
        if fact is not None and (len(fact) > LONGEST_FACT or not fact.isprintable()):
            raise Unfit(f"{RUN} describes its machine as '{shown(fact, 40)}', which is too long or does not print")
    for what, several in (
        ("packages", environment.packages),
        ("variables", environment.variables),
        ("flags or allocators", environment.cpu_flags or ()),
        ("flags or allocators", environment.allocators or ()),
    ):
        if len(several) > MOST_PACKAGES:
            raise Unfit(f"{RUN} names {len(several):,} {what}, and {MOST_PACKAGES} are the most")
    for name in ("cores", "memory_bytes", "accelerator_memory_bytes"):
        within(getattr(environment, name), 1, MOST, f"{RUN}: {name}")
    if not _MACHINE.fullmatch(environment.machine) or environment.machine in _DEVICES:
        chip = environment.accelerator or environment.cpu
        raise Unfit(f"its chip is called '{shown(chip, 40)}', which gives no name for a folder", UNNAMEABLE)


def _check_plan(plan: Plan) -> None:
    _check_counts(plan)
    for name in _names(plan):
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise Unfit(f"{RUN} has a name that is empty, too long or does not print: '{shown(name, 40)}'")
    _check_protocol(plan.protocol)
    identities = Counter(block.identity for block in plan.blocks)
    for identity, count in identities.items():
        if count > 1:
            raise Unfit(f"{RUN} has {count} blocks named '{shown(identity)}'")
    for block in plan.blocks:
        for comparison in block.comparisons:
            _check_comparison(block, comparison, plan)


def _check_counts(plan: Plan) -> None:
    workloads = {block.reference.workload for block in plan.blocks} | {
        no_result.workload for no_result in plan.no_results
    }
    in_block = max((len(block.comparisons) for block in plan.blocks), default=0)
    counts = (
        ("blocks", len(plan.blocks), MOST_BLOCKS),
        ("comparisons in one block", in_block, MOST_IN_BLOCK),
        ("comparisons", len(plan.comparisons), MOST_COMPARISONS),
        ("missing results", len(plan.no_results), MOST_NO_RESULTS),
        ("workloads", len(workloads), MOST_WORKLOADS),
        ("names", len(plan.names) + len(plan.promises) + len(plan.data), MOST_NAMED),
    )
    for what, count, most in counts:
        if count > most:
            raise Unfit(f"{RUN} has {count:,} {what}, and {most:,} are the most")


def _names(plan: Plan) -> Iterator[str]:
    """Everything that stands in a table's heading or first column."""
    yield from (plan.design, *plan.names, *plan.names.values(), *plan.promises, *plan.data)
    yield from (name for no_result in plan.no_results for name in (no_result.workload, no_result.label))
    for block in plan.blocks:
        yield block.identity
        yield from _names_of(block.reference)
        for comparison in block.comparisons:
            yield comparison.label
            yield from _names_of(comparison.treatment)


def _names_of(config: Configuration) -> Iterator[str]:
    yield from (config.workload, config.size)
    yield from (str(option) for option in config.options)


def _check_protocol(protocol: Protocol) -> None:
    limits = ("start_allowance_s", "start_limit_s", "window_limit_s")
    for name in ("window_s", "floor_s", "settle_s", "upper_bound_s", *limits):
        within(getattr(protocol, name), 0.0, 1e9, f"{RUN}: {stored(name)}")
    for name in ("window_steps", "floor_steps", "loss_steps", "discarded_rounds"):
        within(getattr(protocol, name), 0, 10**9, f"{RUN}: {stored(name)}")
    for name in ("replicates", "rounds", "attempts", "treatments"):
        within(getattr(protocol, name), 1, 10**6, f"{RUN}: {stored(name)}")
    within(protocol.target, 1e-6, 1.0, f"{RUN}: target")
    for name in ("slow_s", "timed_s", "lead_s", "whole_s", "part_s"):
        within(getattr(protocol, name), 0.0, 1e9, f"{RUN}: {name}")
    if len(protocol.looks) > MOST_LOOKS:
        raise Unfit(f"{RUN} plans {len(protocol.looks):,} looks, and {MOST_LOOKS} are the most")
    for look in protocol.looks:
        within(look, 1, 10**6, f"{RUN}: a look")


def _check_comparison(block: Block, comparison: Comparison, plan: Plan) -> None:
    treatment, reference = comparison.treatment, comparison.reference
    where = f"{RUN}, block {shown(block.identity, 40)}, '{shown(comparison.label, 60)}'"
    if reference != block.reference or comparison.timing is not block.timing:
        raise Unfit(f"{where} is not compared with its block's reference, on what its block times")
    if (treatment.workload, treatment.size) != (reference.workload, reference.size):
        raise Unfit(f"{where} compares {_short(treatment)} with {_short(reference)}, which gives no ratio")
    within(block.rounds, 1, 10**6, f"{where}: rounds")
    within(block.replicates, 1, 10**4, f"{where}: replicates")
    within(comparison.copy, 0, 10**6, f"{where}: copy")
    for config in (treatment, reference):
        _check_config(config, plan, where)
    _check_label(comparison, where)


def _check_label(comparison: Comparison, where: str) -> None:
    """A label that is no phrase names options of its comparison, since readers look pages up by it."""
    if changes_batch(comparison):
        return
    known = {*comparison.treatment.options, *comparison.reference.options}
    named = [] if " " in comparison.label else comparison.label.split("+")
    for part in named:
        if part not in WHOLE and parse_option(part) not in known:
            raise Unfit(f"{where} is named after '{shown(part, 40)}', which neither of its configurations switches on")


def _check_config(config: Configuration, plan: Plan, where: str) -> None:
    within(config.batch, 1, 10**9, f"{where}: batch")
    names = [option.name for option in config.options]
    if len(set(names)) < len(names):
        raise Unfit(f"{where} switches '{shown(max(names, key=names.count))}' on twice")
    for name in names:
        if name not in plan.promises:
            raise Unfit(f"{where} switches on '{shown(name)}' without saying what that promises")


def _short(config: Configuration) -> str:
    return shown(f"{config.workload}@{config.size}", 40)


# Strict JSON: bytes from a stranger as plain data, without anything that two readers would understand differently.

DEEPEST = 16  # our own files nest to seven
LONGEST_TEXT = 1 << 14  # characters; a trace has four thousand


def parsed(content: bytes, where: str) -> Any:
    """The data; raises Unfit that names the place and what is wrong there."""
    try:
        data = json.loads(
            content.decode("utf-8"),
            parse_constant=_constant,
            parse_float=_finite,
            parse_int=_bounded,
            object_pairs_hook=_unique,
        )
        _check(data, 0)
    except Unfit as unfit:
        raise Unfit(f"{where} {unfit.words}") from unfit
    except UnicodeDecodeError as error:
        raise Unfit(f"{where} is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise Unfit(f"{where} is not JSON ({error.msg}, character {error.pos})") from error
    except RecursionError as error:
        raise Unfit(f"{where} is nested too deeply") from error
    return data


def _constant(text: str) -> None:
    raise Unfit(f"has {text}, which is not JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise Unfit(f"has {shown(text, 24)}, a number too large to be one")
    return number


def _bounded(text: str) -> int:
    # Counted before it is converted: turning a million digits into a number takes minutes.
    if len(text) > len(str(-MOST)) or abs(number := int(text)) > MOST:
        raise Unfit(f"has {shown(text, 24)}, an integer of more than 64 bits")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Unfit(f"has the name '{shown(twice)}' twice in one object")
    return found


def _check(data: Any, depth: int) -> None:
    """Raises Unfit for nesting and for texts that no file of ours would have."""
    if depth > DEEPEST:
        raise Unfit("is nested too deeply")
    if isinstance(data, str):
        _check_text(data)
    elif isinstance(data, dict):
        for name, one in data.items():
            _check_text(name)
            _check(one, depth + 1)
    elif isinstance(data, list):
        for one in data:
            _check(one, depth + 1)


def _check_text(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise Unfit(f"has a text of {len(text):,} characters ('{shown(text, 24)}'), and {LONGEST_TEXT:,} are the most")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Unfit("has half a character (a surrogate), which no text may hold")


OUTCOMES = ("failed", "skipped", "interrupted")
MOST_SETTINGS, MOST_LOSSES, MOST_SENTENCES = 500, 10_000, 100
MOST_ATTEMPTS = 10_000
# A phase is read from other clocks than the window it belongs to, and copies may run beside the computation.
LONGEST_PHASE = 2.0  # windows
ROUNDING = 1 + 1e-6  # of seconds that are sums and differences of others
COLLECTED = 0.5  # of a window: what its share of collections that it did not meet may be
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
    last: dict[tuple[str, int, int], Window] = field(default_factory=dict)  # of each attempt


def check_records(run: Run, records: Iterable[Record]) -> None:
    """Raises Unfit with the line and the first thing in it that cannot be."""
    blocks = {block.identity: block for block in run.plan.blocks}
    course, number = _Course(run.environment), 0
    for number, record in enumerate(records, 1):
        where = f"{MEASUREMENTS}, line {number}:"
        _check_arm(record.arm, blocks, run.plan.protocol, where)
        if isinstance(record, Spent):
            for one in (one.name for one in fields(record) if one.name != "arm"):
                within(getattr(record, one), 0.0, LONGEST_S, f"{where} {one}")
            continue
        if record.arm in course.lost:
            raise Unfit(f"{where} that arm was lost before")
        if isinstance(record, Ready):
            _check_ready(record, course, where)
        elif isinstance(record, Window):
            _check_window(record, course, blocks[record.arm.block], where)
        else:
            _check_lost(record, course, where)
    if number == 0:
        raise Unfit("nothing was measured in it yet", NOTHING_MEASURED)


def _check_arm(arm: Arm, blocks: dict[str, Block], protocol: Protocol, where: str) -> None:
    block = blocks.get(arm.block)
    if block is None:
        raise Unfit(f"{where} the plan has no block '{shown(arm.block)}'")
    within(arm.position, 0, len(block.comparisons), f"{where} the position in block {shown(arm.block)}")
    within(arm.replicate, 0, block.most_replicates_in(protocol) - 1, f"{where} the replicate")
    within(arm.attempt, 0, MOST_ATTEMPTS, f"{where} the attempt")


def _check_ready(ready: Ready, course: _Course, where: str) -> None:
    if ready.arm in course.ready:
        raise Unfit(f"{where} that arm was ready before")
    course.ready[ready.arm] = ready
    for name in ("build_s", "warm_up_s", "first_step_s"):  # an arm that loads alone takes no step
        within(getattr(ready, name), 0.0, LONGEST_S, f"{where} {name}")
    within(ready.step_s, SHORTEST_S, LONGEST_S, f"{where} step_s")
    within(ready.warm_up_steps, 0, MOST, f"{where} warm_up_steps")
    for name in ("loader_rate", "compute_rate", "asked_rate"):
        within(getattr(ready, name), SLOWEST, FASTEST, f"{where} {name}")
    for name in ("seed_spread", "repeat_spread"):
        if (getattr(ready, name) or 0.0) < 0:
            raise Unfit(f"{where} {name} is negative")
    within(ready.cycle_steps, 1, MOST, f"{where} cycle_steps")
    within(ready.epoch_steps, 1, MOST, f"{where} epoch_steps")
    for name, count, most in (
        ("settings", len(ready.effective), MOST_SETTINGS),
        ("losses", len(ready.losses), MOST_LOSSES),
        ("sentences", len(ready.inactive), MOST_SENTENCES),
    ):
        if count > most:
            raise Unfit(f"{where} it has {count:,} {name}, and {most:,} are the most")


def _check_window(window: Window, course: _Course, block: Block, where: str) -> None:
    if window.arm not in course.ready:
        raise Unfit(f"{where} a window of an arm without a record that it was ready, which would tell its settings")
    if window.timing is not block.timing:
        raise Unfit(f"{where} a window of {window.timing}, and its block times {block.timing}")
    _check_times(window, where)
    for name, least in (("steps", 1), ("samples", 1), ("order", 0), ("host_bytes", 1), ("device_bytes", 0)):
        within(getattr(window, name), least, MOST, f"{where} {name}")
    within(window.host_peak_bytes, window.host_bytes or 0, MOST, f"{where} host_peak_bytes")
    within(window.others, 0.0, 1.0, f"{where} others")
    _check_device(window, course.environment, where)
    _check_edges(window, where)
    _check_steps(window, where)
    within(window.rate, SLOWEST, FASTEST, f"{where} the rate in samples a second")
    effective = course.ready[window.arm].effective
    position = window.arm.position
    config = block.comparisons[position - 1].treatment if position else block.reference
    _check_samples(window, config, effective, where)
    within(window.first_step, 0, (course.ready[window.arm].cycle_steps or MOST) - 1, f"{where} first_step")
    _check_batches(window, effective, where)
    _check_turn(window, course, where)


def _check_turn(window: Window, course: _Course, where: str) -> None:
    """Arms of an attempt take turns: a window and what leads into it lie after the window before."""
    attempt = (window.arm.block, window.arm.replicate, window.arm.attempt)
    before = course.last.get(attempt)
    if before is not None and window.order <= before.order:
        raise Unfit(f"{where} order {window.order} comes after order {before.order} of the same attempt")
    # A window's share of collections that it did not meet is no time that passed.
    passed_s = 0.0 if before is None else (1 - COLLECTED) * before.wall_s
    if before is not None and ROUNDING * window.began_s < before.began_s + passed_s + (window.lead_s or 0.0):
        raise Unfit(f"{where} began_s and lead_s say that it began before the one before it had ended")
    course.last[attempt] = window


def _check_samples(window: Window, config: Configuration, effective: dict[str, Value], where: str) -> None:
    """Every step has a batch of samples, but for the last one of an epoch where that is kept at half the size."""
    if window.timing is Timing.EVALUATION:
        if window.samples % window.steps:
            raise Unfit(f"{where} samples is {window.samples}, and {window.steps} equal passes cannot have as many")
        return
    parts = 1 if window.timing is Timing.COMPUTE else _count(effective, "micro_batches") or 1
    each = config.batch // parts * parts
    missing = window.steps * each - window.samples
    is_kept = effective.get("last_batch") == "short" or any(one.name == "keep_last_batch" for one in config.options)
    short = each - each // 2 if is_kept else 0
    if missing and not (short and 0 < missing <= window.steps * short and missing % short == 0):
        raise Unfit(
            f"{where} samples is {window.samples}, and {window.steps} steps of {each} samples have another number"
        )


def _count(effective: dict[str, Value], name: str) -> int | None:
    value = effective.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _check_batches(window: Window, effective: dict[str, Value], where: str) -> None:
    """What loader workers finished and what steps took may differ by what the queue holds, and no more."""
    if (window.batches is None) is not (window.produced is None):
        raise Unfit(f"{where} batches and produced are told together or not at all")
    if window.batches is None or window.produced is None:
        if window.slipped is not None:
            raise Unfit(f"{where} slipped is told without batches")
        return
    workers, ahead = _count(effective, "workers"), _count(effective, "prefetch_factor")
    if workers == 0:
        raise Unfit(f"{where} batches is told of an arm without loader workers")
    parts = _count(effective, "micro_batches")
    if window.batches % window.steps or (parts and window.batches != parts * window.steps):
        raise Unfit(f"{where} batches is {window.batches}, which {window.steps} steps cannot take")
    if workers and ahead:
        queue = workers * ahead + 1  # and one on its way to the device
        within(window.produced, window.batches - queue, window.batches + queue, f"{where} produced")
        within(window.slipped, 0, queue, f"{where} slipped")


def _check_edges(window: Window, where: str) -> None:
    for name in ("lead_steps", "batches", "produced", "slipped"):
        within(getattr(window, name), 0, MOST, f"{where} {name}")
    within(window.lead_s, 0.0, LONGEST_S, f"{where} lead_s")
    if (window.lead_steps is None) is not (window.lead_s is None):
        raise Unfit(f"{where} lead_steps and lead_s are told together or not at all")
    within(window.extra_steps, 0, window.lead_steps or 0, f"{where} extra_steps")
    if window.lead_steps and not window.lead_s:
        raise Unfit(f"{where} lead_s is 0, and {window.lead_steps} steps led into it")


def _check_steps(window: Window, where: str) -> None:
    """What is told of single steps and of the first half fits the window's own time."""
    within(window.first_half_s, 0.0, window.wall_s, f"{where} first_half_s")
    _check_quantiles(window, where)
    slowest = window.slowest_s
    if slowest is None:
        return
    if len(slowest) != min(window.steps, 1 + window.steps // 50):
        raise Unfit(f"{where} slowest_s tells of {len(slowest)} steps, which is another share of {window.steps}")
    if not all(later <= sooner for sooner, later in pairwise(slowest)):
        raise Unfit(f"{where} slowest_s does not begin with the slowest step")
    for one in slowest:
        within(one, 0.0, ROUNDING * window.wall_s, f"{where} slowest_s")
    others, half = window.steps - len(slowest), window.steps // 2
    least_s = window.wall_s / ROUNDING - others * slowest[-1]
    within(sum(slowest), least_s, ROUNDING * window.wall_s, f"{where} the sum of slowest_s")
    most_s = ROUNDING * half * slowest[0]
    least_s = window.wall_s / ROUNDING - (window.steps - half) * slowest[0]
    within(window.first_half_s, max(0.0, least_s), most_s, f"{where} first_half_s")


def _check_quantiles(window: Window, where: str) -> None:
    """As many as its steps allow, in order, and none longer than the slowest step or the window."""
    found = window.quantiles_s
    if found is None:
        return
    if len(found) != min(window.steps, MOST_QUANTILES):
        raise Unfit(f"{where} quantiles_s has {len(found)} times, which is another count than of {window.steps} steps")
    if not all(sooner <= later for sooner, later in pairwise(found)):
        raise Unfit(f"{where} quantiles_s does not begin with the shortest step")
    within(found[0], 0.0, ROUNDING * window.wall_s / window.steps, f"{where} the shortest of quantiles_s")
    longest_s = max(window.slowest_s) if window.slowest_s else window.wall_s
    least_s = window.wall_s / ROUNDING / window.steps
    within(found[-1], least_s, ROUNDING * longest_s, f"{where} the longest of quantiles_s")


def _check_device(window: Window, environment: Environment, where: str) -> None:
    for name, most in _OF_THE_DEVICE.items():
        within(getattr(window, name), 0.0, most, f"{where} {name}")
    within(window.energy_j or None, 1e-3, 1e12, f"{where} energy_j")  # drivers count thousandths
    for one in window.throttled or ():
        if one not in BITS.values():
            raise Unfit(f"{where} the throttling '{shown(one)}' is none of {', '.join(BITS.values())}")
    for name in (*_OF_THE_DEVICE, "device_s", "device_bytes", "energy_j", "throttled"):
        if not environment.accelerated and getattr(window, name) is not None:
            raise Unfit(f"{where} {name} is told of a device, and {RUN} was measured without one")
    for name in ("device_bytes", "process_bytes"):
        within(getattr(window, name), 0, environment.accelerator_memory_bytes or MOST, f"{where} {name}")


def _check_times(window: Window, where: str) -> None:
    within(window.wall_s, SHORTEST_S, LONGEST_S, f"{where} wall_s")
    within(window.began_s, 0.0, LONGEST_S, f"{where} began_s")
    within(window.wait_s, 0.0, ROUNDING * window.wall_s, f"{where} wait_s")
    for name in ("copy_s", "device_s", "queue_s"):
        within(getattr(window, name), 0.0, LONGEST_PHASE * window.wall_s, f"{where} {name}")


def _check_lost(lost: Lost, course: _Course, where: str) -> None:
    course.lost.add(lost.arm)
    if lost.outcome not in OUTCOMES:
        raise Unfit(f"{where} the outcome '{shown(lost.outcome)}' is none of {', '.join(OUTCOMES)}")
    if not shown(lost.reason):
        raise Unfit(f"{where} an arm was lost without a reason")
