"""Sound plans: whether what a run says of itself holds together, before anybody computes with it."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from harness.core.cell import Cell, Comparison, parse_switch
from harness.core.environment import Environment
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.intake.ranges import MOST, within
from harness.intake.refusal import Unfit, shown
from harness.store import RUN, Run

LONGEST_NAME, LONGEST_FACT = 2000, 200  # characters; a stack of thirty switches has six hundred
# Beyond these a report would take minutes: the largest plan so far has 61 blocks and 238 comparisons.
MOST_BLOCKS, MOST_IN_BLOCK, MOST_COMPARISONS = 2000, 64, 10_000
MOST_HOLES, MOST_WORKLOADS, MOST_NAMED, MOST_PACKAGES = 10_000, 100, 5000, 200
MOST_LOOKS = 20
WHOLE = frozenset({"everything", "as_found", "plain", "itself"})  # stacks that do not name their switches
UNNAMEABLE = "folders are named in Latin letters and digits; if that is a real chip, tell who maintains speedmatrix"
TOO_EARLY = "set the clock of that machine and measure again"

_BEGAN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,39}")
_MACHINE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-?")
# What Windows takes for a device wherever it stands, so that nobody could clone a folder of that name.
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
    if environment.device not in {"cpu", "cuda"}:
        raise Unfit(f"{RUN} was measured on '{shown(environment.device)}', and cpu and cuda are known")
    facts = [environment.accelerator, environment.capability, environment.driver, environment.compiler]
    facts += [
        environment.cpu,
        environment.system,
        environment.python,
        *sum(environment.packages + environment.variables, ()),
        *(environment.cpu_flags or ()),
        *(environment.allocators or ()),
    ]
    for fact in facts:
        if fact is not None and (len(fact) > LONGEST_FACT or not fact.isprintable()):
            raise Unfit(f"{RUN} describes its machine as '{shown(fact, 40)}', which is too long or does not print")
    if len(environment.packages) > MOST_PACKAGES:
        raise Unfit(f"{RUN} names {len(environment.packages):,} packages, and {MOST_PACKAGES} are the most")
    if len(environment.variables) > MOST_PACKAGES:
        raise Unfit(f"{RUN} names {len(environment.variables):,} variables, and {MOST_PACKAGES} are the most")
    for several in (environment.cpu_flags or (), environment.allocators or ()):
        if len(several) > MOST_PACKAGES:
            raise Unfit(f"{RUN} names {len(several):,} flags or allocators, and {MOST_PACKAGES} are the most")
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
    workloads = {block.reference.workload for block in plan.blocks} | {hole.workload for hole in plan.holes}
    in_block = max((len(block.comparisons) for block in plan.blocks), default=0)
    counts = (
        ("blocks", len(plan.blocks), MOST_BLOCKS),
        ("comparisons in one block", in_block, MOST_IN_BLOCK),
        ("comparisons", len(plan.comparisons), MOST_COMPARISONS),
        ("holes", len(plan.holes), MOST_HOLES),
        ("workloads", len(workloads), MOST_WORKLOADS),
        ("names", len(plan.names) + len(plan.promises) + len(plan.data), MOST_NAMED),
    )
    for what, count, most in counts:
        if count > most:
            raise Unfit(f"{RUN} has {count:,} {what}, and {most:,} are the most")


def _names(plan: Plan) -> Iterator[str]:
    """Everything that stands in a table's heading or first column."""
    yield from (plan.design, *plan.names, *plan.names.values(), *plan.promises, *plan.data)
    yield from (name for hole in plan.holes for name in (hole.workload, hole.subject))
    for block in plan.blocks:
        yield block.identity
        yield from _names_of(block.reference)
        for comparison in block.comparisons:
            yield comparison.subject
            yield from _names_of(comparison.treatment)


def _names_of(cell: Cell) -> Iterator[str]:
    yield from (cell.workload, cell.size)
    yield from (str(switch) for switch in cell.switches)


def _check_protocol(protocol: Protocol) -> None:
    for name in ("burst_s", "floor_s", "settle_s", "ceiling_s", "start_allowance_s", "start_limit_s", "burst_limit_s"):
        within(getattr(protocol, name), 0.0, 1e9, f"{RUN}: {name}")
    for name in ("burst_steps", "floor_steps", "loss_steps", "discarded_rounds"):
        within(getattr(protocol, name), 0, 10**9, f"{RUN}: {name}")
    for name in ("restarts", "rounds", "lives", "treatments"):
        within(getattr(protocol, name), 1, 10**6, f"{RUN}: {name}")
    within(protocol.target, 1e-6, 1.0, f"{RUN}: target")
    for name in ("slow_s", "timed_s"):
        within(getattr(protocol, name), 0.0, 1e9, f"{RUN}: {name}")
    if len(protocol.looks) > MOST_LOOKS:
        raise Unfit(f"{RUN} plans {len(protocol.looks):,} looks, and {MOST_LOOKS} are the most")
    for look in protocol.looks:
        within(look, 1, 10**6, f"{RUN}: a look")


def _check_comparison(block: Block, comparison: Comparison, plan: Plan) -> None:
    treatment, reference = comparison.treatment, comparison.reference
    where = f"{RUN}, block {shown(block.identity, 40)}, '{shown(comparison.subject, 60)}'"
    if reference != block.reference or comparison.timing is not block.timing:
        raise Unfit(f"{where} is not compared with its block's reference, on what its block times")
    if (treatment.workload, treatment.size) != (reference.workload, reference.size):
        raise Unfit(f"{where} compares {_short(treatment)} with {_short(reference)}, which gives no ratio")
    within(block.rounds, 1, 10**6, f"{where}: rounds")
    within(comparison.copy, 0, 10**6, f"{where}: copy")
    for cell in (treatment, reference):
        _check_cell(cell, plan, where)
    _check_subject(comparison, where)


def _check_subject(comparison: Comparison, where: str) -> None:
    """A subject that is a stack, not words about one, names what its cells switch on: pages are found by it."""
    known = {*comparison.treatment.switches, *comparison.reference.switches}
    named = [] if " " in comparison.subject else comparison.subject.split("+")
    for part in named:
        if part not in WHOLE and parse_switch(part) not in known:
            raise Unfit(f"{where} is named after '{shown(part, 40)}', which neither of its cells switches on")


def _check_cell(cell: Cell, plan: Plan, where: str) -> None:
    within(cell.batch, 1, 10**9, f"{where}: batch")
    names = [switch.name for switch in cell.switches]
    if len(set(names)) < len(names):
        raise Unfit(f"{where} switches '{shown(max(names, key=names.count))}' on twice")
    for name in names:
        if name not in plan.promises:
            raise Unfit(f"{where} switches on '{shown(name)}' without saying what that promises")


def _short(cell: Cell) -> str:
    return shown(f"{cell.workload}@{cell.size}", 40)
