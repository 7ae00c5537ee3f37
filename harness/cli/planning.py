"""`plan`: from what the user wishes to a plan for this machine."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.naming import Context, protocol_named, reference_request, spelled_out, usual_size
from harness.cli.pacing import paced
from harness.cli.real_data import adopted, described, roots
from harness.core.cell import Cell, Comparison, Switch, parse_switch
from harness.core.compose import AUTO, Conflict, compose, settled
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plain import encode
from harness.core.plan import Block, Hole, Plan
from harness.core.promise import promises
from harness.core.protocol import PROTOCOLS, Protocol
from harness.core.workload import Workload
from harness.measure.surroundings import read_environment, unused_gpu
from harness.plan.claimed import Ground, Question, marked, questions
from harness.plan.cost import USUAL, Pace, seconds_for
from harness.plan.designs import CROSSED, DESIGNS
from harness.plan.entries import Entry, Scope, compare, single
from harness.plan.schedule import blocks
from harness.report.words import looks

# Fewer comparisons have no pool to borrow a variance from; two restarts would then agree by luck too often.
SMALLEST_POOL, RESTARTS_ALONE = 4, 4
PROBES = {"loader": Timing.LOADER, "compute": Timing.COMPUTE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user asked for on the command line."""

    workloads: tuple[str, ...]
    size: str | None
    batch: int | None
    design: str
    only: tuple[str, ...]
    stack: str | None
    reference: str
    probe: str | None
    protocol: str
    restarts: int | None
    rounds: int | None
    seed: int
    device: str
    own: Path | None
    data_roots: tuple[str, ...] = ()
    target: str | None = None
    environment: Environment | None = None  # of the campaign that it belongs to; None: this machine's

    def surroundings(self) -> Environment:
        """The environment that is planned for; raises Mistake where the device is not there."""
        return self.environment or read_environment(self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A wish understood: the plan and what it was made from."""

    catalogue: Catalogue
    environment: Environment
    plan: Plan
    real_data: Mapping[str, Path]  # by workload

    @property
    def paces(self) -> dict[str, Pace]:
        """How fast the plain steps of the plan's workloads are, about."""
        cells = (block.reference for block in self.plan.blocks)
        device = self.environment.device
        return {cell.workload: pace_of(self.catalogue.workload(cell.workload), cell.size, device) for cell in cells}


def pace_of(workload: Workload, size: str, device: str) -> Pace:
    """What a size says of its steps, which it says of one core: on another device nobody knows."""
    known = workload.sizes[size]
    step_s = known.step_s if device == "cpu" else 0.0
    return Pace(step_s=step_s or USUAL.step_s, epoch_steps=known.epoch_steps)


def prepared(wish: Wish) -> Prepared:
    """The plan of a wish on this machine; raises Mistake for whatever cannot be."""
    catalogue = read_catalogue(wish.own)
    environment = wish.surroundings()
    real_data = roots(wish.data_roots, catalogue, chosen_workloads(wish, catalogue))
    catalogue = adopted(catalogue, real_data, _size(wish, environment))
    plan = planned(wish, catalogue, environment)
    data = {name: described(catalogue.workload(name).sizes[_size(wish, environment)]) for name in real_data}
    plan = replace(plan, data=data, blocks=tuple(_marked(plan.blocks, catalogue, environment)))
    return Prepared(catalogue=catalogue, environment=environment, plan=plan, real_data=real_data)


def tell_unused_gpu(chosen: str, environment: Environment) -> None:
    """Says once that a GPU is here and the CPU is measured in its place, unless the user chose the CPU."""
    if chosen == "auto" and environment.device == "cpu" and (sentence := unused_gpu()):
        sys.stderr.write(f"{sentence}\n")


def planned(wish: Wish, catalogue: Catalogue, environment: Environment) -> Plan:
    """The plan of a wish on a machine, whose real data, if any, the catalogue has adopted; raises Mistake."""
    protocol = _protocol(wish)
    context = Context(catalogue=catalogue, environment=environment, protocol=protocol)
    scopes = tuple(_scopes(wish, context))
    entries = [entry for scope in scopes for entry in _entries(wish, scope)]
    comparisons = [entry for entry in entries if not isinstance(entry, Hole)]
    if not comparisons:
        reasons = "; ".join(f"{hole.subject}: {hole.reason}" for hole in entries if isinstance(hole, Hole))
        raise Mistake(f"Nothing of this can be measured here ({reasons}); ./speedmatrix list shows what there is.")
    if wish.restarts is None and len(comparisons) < SMALLEST_POOL:
        protocol = replace(protocol, restarts=RESTARTS_ALONE)
    return Plan(
        design=wish.design,
        seed=wish.seed,
        protocol=protocol,
        blocks=tuple(_paced(block, catalogue, protocol) for block in blocks(comparisons, protocol.treatments)),
        holes=tuple(entry for entry in entries if isinstance(entry, Hole)),
        names=_names(wish, scopes, comparisons),
        promises=promises(catalogue.known[name] for name in sorted(_switched_on(comparisons))),
    )


def plan_of(design: str, comparisons: Sequence[Comparison], like: Plan, catalogue: Catalogue) -> Plan:
    """A plan of some comparisons as another plan would make them."""
    made = blocks(comparisons, like.protocol.treatments)
    return replace(
        like,
        design=design,
        blocks=tuple(_paced(block, catalogue, like.protocol) for block in made),
        holes=(),
        promises=promises(catalogue.known[name] for name in sorted(_switched_on(comparisons))),
    )


def chosen_workloads(wish: Wish, catalogue: Catalogue) -> tuple[str, ...]:
    """The workloads of a wish: those named, or the user's own, or all."""
    return wish.workloads or ((catalogue.own,) if catalogue.own else tuple(sorted(catalogue.workloads)))


def _size(wish: Wish, environment: Environment) -> str:
    return wish.size or usual_size(environment)


def _paced(block: Block, catalogue: Catalogue, protocol: Protocol) -> Block:
    """The block with as many rounds as its workload's steps allow."""
    cell = block.reference
    size = catalogue.workload(cell.workload).sizes[cell.size]
    rounds = protocol.rounds
    step_s = {Timing.STEP: size.step_s, Timing.COMPUTE: size.compute_s or size.step_s}.get(block.timing)
    if step_s:
        rounds = protocol.rounds_of(step_s, size.epoch_steps)
    return replace(block, rounds=rounds) if rounds < protocol.rounds else block


def _marked(planned_blocks: Iterable[Block], catalogue: Catalogue, environment: Environment) -> Iterator[Block]:
    """The blocks with what some claim tests, which comes first where time is short."""
    asked: dict[str, frozenset[Question]] = {}
    for block in planned_blocks:
        name = block.reference.workload
        if name not in asked:
            ground = Ground(workload=catalogue.workload(name), environment=environment, known=catalogue.optimizations)
            asked[name] = questions(catalogue.claims, ground)
        yield marked(block, asked[name])


def _names(wish: Wish, scopes: Iterable[Scope], comparisons: Iterable[Comparison]) -> dict[str, str]:
    """What cells are called: what was asked for as the reference, and the real system wherever it is one."""
    real = {scope.workload.name: tuple(sorted(scope.as_found)) for scope in scopes}
    references = {one.reference for one in comparisons}
    as_found = {str(one): "as_found" for one in references if one.switches and one.switches == real[one.workload]}
    return as_found | {str(scope.reference): wish.reference for scope in scopes}


def _switched_on(comparisons: Iterable[Comparison]) -> set[str]:
    cells = {cell for one in comparisons for cell in (one.treatment, one.reference)}
    return {switch.name for cell in cells for switch in cell.switches}


def _protocol(wish: Wish) -> Protocol:
    known = protocol_named(wish.protocol)
    return paced(known, wish.restarts, wish.rounds, wish.target)


def _scopes(wish: Wish, context: Context) -> Iterator[Scope]:
    if wish.probe is not None and wish.probe not in PROBES:
        raise Mistake(f"There is no probe '{wish.probe}'; choose one of {', '.join(PROBES)}.")
    catalogue = context.catalogue
    names = chosen_workloads(wish, catalogue)
    for name in names:
        workload = catalogue.workload(name)
        scope = context.scope(workload, _reference(wish, workload, context))
        yield replace(scope, probe=PROBES[wish.probe] if wish.probe else None, workloads=len(names))


def _reference(wish: Wish, workload: Workload, context: Context) -> Cell:
    cell = context.cell(reference_request(wish.reference, workload.name, wish.size, wish.batch))
    try:
        compose(workload, cell.switches, context.catalogue.known)
    except Conflict as conflict:
        raise Mistake(f"The reference {cell} is impossible: {conflict}.") from conflict
    return cell


def _entries(wish: Wish, scope: Scope) -> Iterator[Entry]:
    if wish.design not in DESIGNS:
        raise Mistake(f"There is no design '{wish.design}'; choose one of {', '.join(DESIGNS)}.")
    if wish.stack:
        yield _stack(wish.stack, scope)
    if wish.only:
        yield from _of_named(wish, scope)
    if not wish.stack and not wish.only:
        yield from DESIGNS[wish.design](scope)


def _of_named(wish: Wish, scope: Scope) -> Iterator[Entry]:
    """Each optimization that was named, alone; or all of them as the design crosses them."""
    chosen = tuple(dict.fromkeys(_leveled(name, scope) for name in wish.only))
    # Whoever names an optimization has accepted that it starts slowly.
    patient = replace(scope, protocol=PROTOCOLS["standard"], chosen=chosen)
    if wish.design in CROSSED:
        yield from DESIGNS[wish.design](patient)
    else:
        yield from (single(patient, scope.known[one.name], one.level) for one in chosen)


def _leveled(name: str, scope: Scope) -> Switch:
    """The switch of that name, at its usual level where none is named."""
    switch = _settled(name, scope)
    usual = scope.known[switch.name].usual_level(scope.environment)
    return switch if switch.level is not None else replace(switch, level=usual)


def _stack(text: str, scope: Scope) -> Entry:
    shown = "+".join(str(_settled(name, scope)) if name.endswith(f"={AUTO}") else name for name in text.split("+"))
    entry = compare(scope, shown, tuple(sorted(_settled(name, scope) for name in spelled_out(shown.split("+"), scope))))
    if isinstance(entry, Hole):
        raise Mistake(f"The stack {text} is impossible on {scope.workload.name}: {entry.reason}.")
    return entry


def _settled(name: str, scope: Scope) -> Switch:
    """The switch of that name, `auto` spelt out; raises Mistake when there is none."""
    switch = parse_switch(name)
    if switch.name not in scope.known:
        raise Mistake(f"There is no optimization '{switch.name}'; ./speedmatrix list shows them all.")
    return settled(switch, scope.known[switch.name], scope.environment)


def show_plan(wish: Wish, *, as_json: bool) -> None:
    """Prints the plan of a wish."""
    ready = prepared(wish)
    console = Console()
    if as_json:
        console.print_json(json.dumps({"version": __version__, "plan": encode(ready.plan)}))
        return
    table = Table("block", "workload", "timed on", "reference", "against it, in turns", title="What would be measured")
    for block in ready.plan.blocks:
        subjects = ", ".join(comparison.subject for comparison in block.comparisons)
        stack = "+".join(map(str, block.reference.switches)) or "plain"
        table.add_row(block.identity, block.reference.workload, block.timing, stack, subjects)
    console.print(table)
    for hole in ready.plan.holes:
        console.print(f"[dim]{hole.workload}: {hole.subject} — {hole.reason}[/dim]", highlight=False)
    protocol, count = ready.plan.protocol, len(ready.plan.comparisons)
    console.print(
        f"{count} comparisons, each in {protocol.restarts} restarts of {protocol.rounds} rounds: "
        f"about {seconds_for(ready.plan, ready.paces) / 60:.0f} minutes{looks(protocol)}; "
        "[bold]run[/bold] with the same words measures them.",
        highlight=False,
    )
