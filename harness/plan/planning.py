"""Planning: from what is asked to a plan for a machine, and back to the command that asks for one comparison."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from harness.core.catalogue import Catalogue
from harness.core.claims import Claim, options
from harness.core.configuration import (
    AUTO,
    Comparison,
    Configuration,
    ConfigurationRequest,
    Conflict,
    Option,
    at_hand,
    batch_of,
    batch_scale,
    compose,
    parse_option,
    settled,
    unmet,
)
from harness.core.emulation import is_emulated, step_named
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import PARTS_OF_A_STEP, Timing, promises
from harness.core.plan import BOTH_WAYS, STAGES, WINNER, Block, NoResult, Plan, Request
from harness.core.protocol import PROTOCOLS, REPLICATES_ALONE, Protocol
from harness.core.recipe import of_process
from harness.core.workload import Workload
from harness.plan.cost import (
    CUDA_START_S,
    IMPORTS_S,
    START_S,
    USUAL,
    Pace,
    expected_speedups,
    group_of,
    replicate_s,
)
from harness.plan.designs import CROSSED, DESIGNS, ClaimContext, Question, marked, questions
from harness.plan.feasibility import Entry, Scope, all_options, compare, equal_samples, single, with_batch
from harness.plan.schedule import blocks, in_their_own
from harness.plan.sharding import shard_of

# Stacks by name: what `all` and `original` stand for on this machine, in a configuration, a reference or a stack.
#
# Which optimizations go together is a design's answer, and the catalogue may not ask a design. Here, where both are
# known, the name becomes the options.


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a name's meaning depends on: everything there is, the machine, and how patient the protocol is."""

    catalogue: Catalogue
    environment: Environment
    protocol: Protocol

    def config(self, request: ConfigurationRequest) -> Configuration:
        """The configuration a user asked for, at the usual size where none is named; raises Mistake."""
        plain = self.catalogue.config(replace(request, names=()), USUAL_SIZE, self.environment)
        names = spelled_out(request.names, self.scope(self.catalogue.workload(request.workload), plain))
        return self.catalogue.config(replace(request, names=names), USUAL_SIZE, self.environment)

    def at_equal_samples(self, treatment: Configuration, reference: Configuration) -> Configuration:
        """The reference as it is measured, with as many samples for each update as the treatment; raises Conflict."""
        known = self.catalogue.known
        usual = treatment.batch // batch_scale(treatment.options, known)
        start = replace(reference, batch=usual * batch_scale(reference.options, known))
        scope = self.scope(self.catalogue.workload(treatment.workload), start)
        return equal_samples(scope, treatment.options)[1]

    def scope(self, workload: Workload, reference: Configuration) -> Scope:
        """The workload on this machine, for a design."""
        return Scope(
            workload=workload,
            reference=reference,
            optimizations=self.catalogue.of(workload),
            known=self.catalogue.known,
            original=self.catalogue.original(workload, self.environment),
            environment=self.environment,
            protocol=self.protocol,
            claims=self.catalogue.claims,
            unserved=workload.service.missing() if workload.service else None,
        )


def reference_request(name: str, workload: str, size: str | None, batch: int | None) -> ConfigurationRequest:
    """The request of a reference as it is named on the command line: `baseline`, `original`, `all` or a stack."""
    names = () if name == "baseline" else tuple(name.split("+"))
    return ConfigurationRequest(workload=workload, size=size, batch=batch, names=names)


# The size that is measured where none is named: files of the real sizes take longer to write than a first look takes.
USUAL_SIZE = "quick"


def spelled_out(names: Iterable[str], scope: Scope) -> tuple[str, ...]:
    """The names of a stack, those of whole stacks replaced by their options; an option that is named itself wins."""
    names = tuple(names)
    named = {parse_option(name).name for name in names}
    found: list[str] = []
    for name in names:
        whole = _whole_stack(name, scope)
        found += [name] if whole is None else [str(one) for one in whole if one.name not in named]
    return tuple(found)


def _whole_stack(name: str, scope: Scope) -> tuple[Option, ...] | None:
    """The options that a name stands for; None for the name of a single optimization.

    A claim's name stands for the stack that it is about, such as a phase or a profile of a report.
    """
    if name == "all":
        return all_options(scope)
    if name == "original":
        return scope.original
    claim = next((one for one in scope.claims if one.name == name and one.treatment), None)
    return options(claim.treatment, scope.workload, scope.environment.device) if claim else None


def protocol_named(name: str) -> Protocol:
    """The protocol of that name; raises Mistake with the names there are."""
    if name not in PROTOCOLS:
        raise Mistake(f"There is no protocol '{name}'; choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


CALIBRATION_TARGET = "2%"  # intervals not much wider can tell a delay of 3 % from nothing

# Pacing: how many replicates a request asks for, and how narrow its intervals are to become.

NO_TARGET = "none"
WIDEST = 0.5  # half-width of a log ratio; a wider target would be met by everything


def paced(protocol: Protocol, replicates: int | None, rounds: int | None, target: str | None) -> Protocol:
    """The protocol with what was asked for; raises Mistake for a target that cannot be.

    Whoever says how many replicates or rounds there are has said how much is measured. Then there are no further
    replicates, unless a target is asked for too.
    """
    counted = replace(protocol, replicates=replicates or protocol.replicates)
    if rounds:
        counted = replace(counted, rounds=rounds, timed_s=None)
    if target is None:
        return counted if replicates is None and rounds is None else counted.fixed()
    width = target_of(target)
    if width is None:
        return counted.fixed()
    aimed = replace(counted, target=width)
    if aimed.replicates >= aimed.most_replicates:
        raise Mistake(
            f"After {aimed.replicates} replicates there is no look left at which --target could add more; "
            f"leave out --target, or give fewer --replicates."
        )
    return aimed


def target_of(text: str) -> float | None:
    """A half-width from `2%` or `0.5%`; None for `none`; raises Mistake for anything else."""
    if text == NO_TARGET:
        return None
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) ?%", text)
    width = float(match[1]) / 100 if match else 0.0
    if not 0 < width <= WIDEST:
        raise Mistake(f"'{text}' is no target; write 2% (at most {100 * WIDEST:.0f}%), or none for fixed replicates.")
    return width


def target_text(protocol: Protocol) -> str:
    """A protocol's target as the command line takes it."""
    return NO_TARGET if protocol.target is None else f"{100 * protocol.target:.10g}%"


SMALLEST_POOL = 4  # comparisons; fewer have no pool to borrow a variance from
PROBES = {"loader": Timing.LOADER, "compute": Timing.COMPUTE}


# Of a small copy's baseline on batches of a GPU, at most: 5, 26 and 49 ms on an H200. The real size says it of a GPU.
GPU_STEP_S = 0.02
LOADING_BESIDE_GPU = 1.8  # times as long as sizes say, on the 16 cores of that H200


def pace_of(workload: Workload, size: str, device: str, cores: int = 1) -> Pace:
    """What a size says of its steps, which it says of one core: what loads there does so beside any device.

    Beside a device that is emulated loading takes nearly all of a step, as it does on the core. Arms begin side by side
    on a CPU alone. A GPU keeps memory and kernels for every shape of a batch, which its arms meet first.
    """
    known, on_gpu = workload.sizes[size], device != "cpu" and not is_emulated(device)
    if is_emulated(device):
        emulated_s = step_named(device)
        step_s = max(known.step_s or USUAL.step_s, emulated_s or 0.0)
        compute_s = emulated_s or known.compute_s or step_s / 2
    elif device == "cpu":
        step_s = known.step_s or USUAL.step_s
        compute_s = known.compute_s or step_s / 2
    else:
        compute_s = known.compute_s or USUAL.step_s
        compute_s = compute_s if size == "standard" else min(GPU_STEP_S, compute_s)
        step_s = compute_s + LOADING_BESIDE_GPU * max(0.0, (known.step_s or USUAL.step_s) - known.compute_s)
    return Pace(
        step_s=step_s,
        compute_s=compute_s,
        epoch_steps=known.epoch_steps,
        cores=cores if device == "cpu" else 1,
        start_s=CUDA_START_S if on_gpu else START_S,
        steps_on_host=not on_gpu,
        rests=device == "cpu" and workload.path is None,
        meets_shapes=on_gpu
        and not known.keeps_items
        and not workload.traits.isdisjoint({"few_shapes", "varying_shapes"}),
    )


# Isolation: whose arms may live in one process.

PROCESS, SHARED = "process", "shared"
OF_FILE = "a user's file: the data set, patches and threads that it makes would be those of all arms"
OF_PASSES = "epochs and evaluations: nobody has seen yet that sharing leaves their ratios as they are"


def own_process(comparison: Comparison, catalogue: Catalogue, device: str) -> str | None:
    """Why the arms of a comparison need processes of their own, in words; None where they may share one."""
    names = {one.name for config in (comparison.treatment, comparison.reference) for one in config.options}
    known = (one.reason for one in catalogue.apart if one.device == device and names.issuperset(one.names))
    of_passes = OF_PASSES if comparison.timing in {Timing.EPOCH, Timing.EVALUATION} else None
    return _by_its_recipes(comparison, catalogue) or of_passes or next(known, None)


def _by_its_recipes(comparison: Comparison, catalogue: Catalogue) -> str | None:
    workload = catalogue.workload(comparison.reference.workload)
    if workload.path is not None:
        return OF_FILE
    baseline, *recipes = (
        compose(workload, options, catalogue.known)
        for options in ((), comparison.treatment.options, comparison.reference.options)
    )
    return next(filter(None, (of_process(one, baseline, workload.of_process) for one in recipes)), None)


def _sharing(request: Request, catalogue: Catalogue, device: str) -> Callable[[Comparison], bool]:
    """Whether a comparison's arms may share a process; raises Mistake for a kind of isolation that there is not."""
    if request.isolation not in {PROCESS, SHARED}:
        raise Mistake(f"There is no isolation '{request.isolation}'; choose {PROCESS} or {SHARED}.")
    if is_emulated(device) and (request.isolation == SHARED or request.design == BOTH_WAYS):
        raise Mistake("An emulated device serves one arm of a process alone; leave out --isolation.")
    if request.design == BOTH_WAYS:
        return lambda one: one.copy == 0
    if request.isolation == PROCESS:
        return in_their_own
    return lambda one: own_process(one, catalogue, device) is None


def _both_ways(entries: Iterable[Entry], catalogue: Catalogue) -> Iterator[Entry]:
    """Every comparison twice, to be measured in a shared process and in processes of its own, and one with itself."""
    known = [one for one in entries if not isinstance(one, NoResult)]
    if known:
        first = known[0]
        known.insert(0, replace(first, label="itself", treatment=first.reference, timing=Timing.STEP))
    for one in known:
        if reason := _by_its_recipes(one, catalogue):
            yield NoResult(workload=one.reference.workload, label=one.label, reason=f"needs its own process: {reason}")
        else:
            yield from (one, replace(one, copy=1))


BESIDE = 3  # parts of a step that come first, for which a first look surely has time


def _hiding_copies(request: Request, scope: Scope, entries: Iterable[Entry]) -> list[Entry]:
    """The entries with copies of the reference among those that come first, at places that the seed decides.

    Each is timed on what its neighbour is timed on. Its ratio is 1, so that it shows by how much others err. Where
    nobody says how many, a first look has one, beside a part of a step, of which it costs little.
    """
    found, random = list(entries), Random(f"{request.seed} {scope.workload.name}")
    able = [one for one in found if isinstance(one, Comparison) and one.reference == scope.reference]
    count, able = request.copies, able[: scope.protocol.treatments]
    if count is None:
        is_first_look = (request.protocol, request.design) == (FIRST_LOOK, STAGES) and not (
            request.only or request.stack
        )
        parts = [one for one in found if isinstance(one, Comparison) and one.timing in PARTS_OF_A_STEP]
        count, able = int(is_first_look and not scope.probe), parts[:BESIDE]
    for copy in range(count if able else 0):
        beside = random.choice(able)
        itself = replace(beside, label="itself", treatment=scope.reference, copy=copy)
        found.insert(found.index(beside) + random.randrange(2), itself)
    return found


def _readable(scope: Scope, entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries; where the workload's files can be neither written nor read, the words for that in their place."""
    reason = scope.workload.unread
    if reason is None:
        return entries
    labels = dict.fromkeys(one.label for one in entries)
    return [NoResult(workload=scope.workload.name, label=label, reason=reason) for label in labels]


def planned(request: Request, catalogue: Catalogue, environment: Environment) -> Plan:
    """The plan of a request on a machine, whose real data, if any, the catalogue has adopted; raises Mistake."""
    protocol = _protocol(request)
    context = Context(catalogue=catalogue, environment=environment, protocol=protocol)
    scopes = tuple(_scopes(request, context))
    found = (_readable(scope, _hiding_copies(request, scope, _entries(request, scope, catalogue))) for scope in scopes)
    entries = [entry for of_workload in found for entry in of_workload]
    comparisons = [entry for entry in entries if not isinstance(entry, NoResult)]
    if not comparisons:
        unread = {scope.workload.name for scope in scopes if scope.workload.unread}
        reasons = dict.fromkeys(
            f"{one.workload if one.workload in unread else one.label}: {one.reason}"
            for one in entries
            if isinstance(one, NoResult)
        )
        words = "; ".join(reasons)
        raise Mistake(f"Nothing of this can be measured here ({words}); ./speedmatrix list shows what there is.")
    shortly = (
        (request.protocol, environment.device) == (FIRST_LOOK, "cpu")
        and request.design in SHORT_DESIGNS
        and not (request.replicates or request.rounds)
    )
    plan = Plan(
        design=request.design,
        seed=request.seed,
        protocol=protocol,
        blocks=_in_blocks(
            comparisons,
            protocol,
            catalogue,
            environment,
            _sharing(request, catalogue, environment.device),
            in_order=request.design in {STAGES, BOTH_WAYS},
            shortly=shortly,
        ),
        no_results=tuple(entry for entry in entries if isinstance(entry, NoResult)),
        names=_names(request, scopes, comparisons),
        promises=promises(catalogue.known[name] for name in sorted(_switched_on(comparisons))),
        epochs=(epochs := _epochs(comparisons, catalogue)),
        trainings={name: whole for name in epochs if (whole := catalogue.workload(name).original_epochs)},
    )
    if request.shard:
        plan = shard_of(plan, paces_of(plan, catalogue, environment), request.shard)
    real = [one for one in plan.comparisons if not one.is_copy]
    few = request.replicates is None and len(real or plan.comparisons) < SMALLEST_POOL
    return _of_few(plan, catalogue, environment.device) if few else plan


def _of_few(plan: Plan, catalogue: Catalogue, device: str) -> Plan:
    """The same in more replicates, and none of them cut short: nothing else lends its comparisons a variance."""
    protocol = replace(plan.protocol, replicates=REPLICATES_ALONE)
    whole = (replace(one, replicates=None, rounds=None) for one in plan.blocks)
    return replace(plan, protocol=protocol, blocks=tuple(_paced(one, catalogue, protocol, device) for one in whole))


def _epochs(comparisons: Iterable[Comparison], catalogue: Catalogue) -> dict[str, int]:
    """Samples in an epoch of the real system, where the steps measured are those of its own size."""
    found = {}
    for config in sorted({one.reference for one in comparisons}, key=str):
        sizes = catalogue.workload(config.workload).sizes
        size = sizes[config.size]
        if size == sizes.get(REAL_SIZE):
            found[config.workload] = size.original_epoch_steps * size.batch
    return found


def paces_of(plan: Plan, catalogue: Catalogue, environment: Environment) -> dict[str, Pace]:
    """How fast the baseline steps of a plan's workloads are, about."""
    sizes = {block.reference.workload: block.reference.size for block in plan.blocks}
    here = environment.device, environment.cores
    return {name: pace_of(catalogue.workload(name), size, *here) for name, size in sizes.items()}


def plan_of(
    design: str, comparisons: Sequence[Comparison], like: Plan, catalogue: Catalogue, environment: Environment
) -> Plan:
    """A plan of some comparisons as another plan would make them."""
    isolation = SHARED if any(block.shared for block in like.blocks) else PROCESS
    shares = _sharing(Request(isolation=isolation), catalogue, environment.device)
    return replace(
        like,
        design=design,
        # A winner and its leaner twin are held against each other over one reference.
        blocks=_in_blocks(comparisons, like.protocol, catalogue, environment, shares, together=design == WINNER),
        no_results=(),
        promises=promises(catalogue.known[name] for name in sorted(_switched_on(comparisons))),
    )


FEW_WORKERS = 2  # whose groups make no window much longer


CLEARLY = 0.95  # times as long at most: a block of its own separates what is timed first


def _in_blocks(
    comparisons: Sequence[Comparison],
    protocol: Protocol,
    catalogue: Catalogue,
    environment: Environment,
    shares: Callable[[Comparison], bool],
    *,
    in_order: bool = False,
    shortly: bool = False,
    together: bool = False,
) -> tuple[Block, ...]:
    """The comparisons in blocks; those with different numbers of loader workers apart, where that takes less time.

    All windows of a block hold whole groups of its loader workers: beside 5 of one arm and 8 of another, 80 steps each.
    A block of its own costs another reference.
    """

    def seconds(part: Sequence[Comparison]) -> float:
        config = part[0].reference
        one = Block(identity="", reference=config, timing=part[0].timing, comparisons=tuple(part))
        one = _paced(one, catalogue, protocol, environment.device, shortly=shortly)
        workload = catalogue.workload(config.workload)
        pace = pace_of(workload, config.size, environment.device, environment.cores)
        return replicate_s(one, protocol, pace, expected_speedups(one)) - IMPORTS_S  # which all blocks share

    def split(group: Sequence[Comparison]) -> Iterable[Sequence[Comparison]]:
        parts: dict[int, list[Comparison]] = {}
        for one in group:
            count = group_of((one.reference, one.treatment), one.timing)
            parts.setdefault(count if count > FEW_WORKERS else 1, []).append(one)
        apart = not together and len(parts) > 1 and sum(map(seconds, parts.values())) < CLEARLY * seconds(group)
        return parts.values() if apart else (group,)

    made = blocks(comparisons, protocol.treatments, shares, split, in_order=in_order)
    return tuple(_paced(block, catalogue, protocol, environment.device, shortly=shortly) for block in made)


def chosen_workloads(request: Request, catalogue: Catalogue) -> tuple[str, ...]:
    """The workloads of a request: those named, or the user's own, or all."""
    return request.workloads or ((catalogue.own,) if catalogue.own else tuple(sorted(catalogue.workloads)))


def short_steps(catalogue: Catalogue, size: str, protocol: Protocol) -> tuple[str, ...]:
    """Workloads that show many pairs in little time at a size, the shortest steps first."""
    sizes = {name: one.sizes[size] for name, one in catalogue.workloads.items() if size in one.sizes}
    known = sorted((one.step_s or USUAL.step_s, name) for name, one in sizes.items())
    return tuple(name for step_s, name in known if not protocol.is_slow(step_s))


REAL_SIZE = "standard"
FIRST_LOOK = "brief"
# Of whole steps in a first look: fresh processes differ more than windows of one do, so that about as many windows tell
# more in more of them (docs/decisions/first-looks.md).
SHORT_REPLICATES, SHORT_ROUNDS = 4, 1
SHORT_DESIGNS = (STAGES, "alone")


def _paced(block: Block, catalogue: Catalogue, protocol: Protocol, device: str, *, shortly: bool = False) -> Block:
    """The block with as many rounds as its steps on a device allow; whole steps `shortly` in more replicates."""
    if shortly and block.timing is Timing.STEP:
        return replace(block, replicates=SHORT_REPLICATES, rounds=SHORT_ROUNDS)
    config = block.reference
    workload, rounds = catalogue.workload(config.workload), protocol.rounds
    size = workload.sizes[config.size]
    step_s = pace_of(workload, config.size, device).of(block.timing) if size.step_s else 0.0
    if step_s and block.timing in {Timing.STEP, Timing.LOADER, Timing.COMPUTE}:
        rounds = protocol.of(block.timing).rounds_of(step_s, size.epoch_steps)
    return replace(block, rounds=rounds) if rounds < protocol.rounds else block


def first_what_is_claimed(
    planned_blocks: Iterable[Block], catalogue: Catalogue, environment: Environment
) -> Iterator[Block]:
    """The blocks with what some claim tests, which comes first where time is short."""
    asked: dict[str, frozenset[Question]] = {}
    for block in planned_blocks:
        name = block.reference.workload
        if name not in asked:
            context = ClaimContext(
                workload=catalogue.workload(name), environment=environment, known=catalogue.optimizations
            )
            asked[name] = questions(catalogue.claims, context)
        yield marked(block, asked[name])


def _names(request: Request, scopes: Iterable[Scope], comparisons: Iterable[Comparison]) -> dict[str, str]:
    """What configurations are called: what was asked for as the reference, and the real system wherever it is one."""
    real = {scope.workload.name: tuple(sorted(scope.original)) for scope in scopes}
    references = {one.reference for one in comparisons}
    original = {str(one): "original" for one in references if one.options and one.options == real[one.workload]}
    return original | {str(scope.reference): request.reference for scope in scopes}


def _switched_on(comparisons: Iterable[Comparison]) -> set[str]:
    configs = {config for one in comparisons for config in (one.treatment, one.reference)}
    return {option.name for config in configs for option in config.options}


# What numbers of a request may be, both ends included.
BOUNDS = {"replicates": (2, 100), "rounds": (1, 1000), "seed": (0, 2**31 - 1), "copies": (0, 20)}


def _protocol(request: Request) -> Protocol:
    for name, (low, high) in BOUNDS.items():
        value = getattr(request, name)
        if value is not None and not low <= value <= high:
            raise Mistake(f"--{name} cannot be {value}; choose {low:,} to {high:,}.")
    known = protocol_named(request.protocol)
    return paced(known, request.replicates, request.rounds, request.target)


def _scopes(request: Request, context: Context) -> Iterator[Scope]:
    if request.probe is not None and request.probe not in PROBES:
        raise Mistake(f"There is no probe '{request.probe}'; choose one of {', '.join(PROBES)}.")
    catalogue = context.catalogue
    names = chosen_workloads(request, catalogue)
    for name in names:
        workload = catalogue.workload(name)
        scope = context.scope(workload, _reference(request, workload, context))
        yield replace(scope, probe=PROBES[request.probe] if request.probe else None, workloads=len(names))


def _reference(request: Request, workload: Workload, context: Context) -> Configuration:
    config = context.config(reference_request(request.reference, workload.name, request.size, request.batch))
    try:
        compose(workload, config.options, context.catalogue.known)
    except Conflict as conflict:
        raise Mistake(f"The reference {config} is impossible: {conflict}.") from conflict
    seen = at_hand(workload, config, context.catalogue.known)
    for one in config.options:
        if reason := unmet(context.catalogue.known[one.name], context.environment, seen, one.level):
            raise Mistake(f"The reference {config} is impossible here: {one} {reason}.")
    return config


def _entries(request: Request, scope: Scope, catalogue: Catalogue) -> Iterator[Entry]:
    if request.design == BOTH_WAYS:
        yield from _both_ways(_entries(replace(request, design=STAGES), scope, catalogue), catalogue)
        return
    if request.design not in DESIGNS:
        raise Mistake(f"There is no design '{request.design}'; choose one of {', '.join(DESIGNS)}.")
    if request.design == CLAIMS and (named := _claims_named(request.only, catalogue)):
        yield from DESIGNS[CLAIMS](replace(scope, claims=named))
        return
    beside = request.only and request.design in CROSSED
    if request.stack and not beside and request.design not in SINGLES:
        raise Mistake(f"--stack asks one question of its own; leave out --design {request.design}.")
    if request.stack:
        yield _stack(request.stack, scope)
    if request.only:
        yield from _of_named(request, scope)
    if not request.stack and not request.only:
        yield from DESIGNS[request.design](scope)


CLAIMS = "claims"
SINGLES = {STAGES, "alone", "combined"}  # designs whose place --only and --stack take


def _claims_named(names: Sequence[str], catalogue: Catalogue) -> tuple[Claim, ...]:
    """The claims of those names; none where no claim was named; raises Mistake where only some are claims."""
    known = {one.name: one for one in catalogue.claims}
    found = [known[name] for name in names if name in known]
    if found and (strange := [name for name in names if name not in known]):
        raise Mistake(f"There is no claim '{strange[0]}'; ./speedmatrix claims shows them all.")
    return tuple(found)


def _of_named(request: Request, scope: Scope) -> Iterator[Entry]:
    """Each optimization that was named, alone; or what a design has of it, or crosses of all. And each batch."""
    crossed = request.design in CROSSED
    batches = () if crossed else tuple(name for name in request.only if batch_of(name))
    chosen = tuple(dict.fromkeys(_leveled(name, scope) for name in request.only if name not in batches))
    # Whoever names an optimization has accepted that it starts slowly.
    patient = replace(scope, protocol=PROTOCOLS["standard"], chosen=chosen)
    if crossed:
        yield from DESIGNS[request.design](patient)
    elif request.design not in SINGLES:
        entries = tuple(DESIGNS[request.design](replace(patient, chosen=scope.chosen)))
        for name in request.only:
            found = [one for one in entries if _is_about(one, name)]
            reason = f"is no part of the design {request.design}"
            yield from found or [NoResult(workload=scope.workload.name, label=name, reason=reason)]
    else:
        yield from (single(patient, scope.known[one.name], one.level) for one in chosen)
        yield from (with_batch(patient, name) for name in batches)


def _is_about(entry: Entry, name: str) -> bool:
    """Whether an entry adds what was named: an optimization at any level, or at one, or a batch."""
    if isinstance(entry, NoResult):
        return name in {entry.label, entry.label.partition("=")[0]}
    added = set(entry.treatment.options) - set(entry.reference.options)
    return name == entry.label or any(name in {one.name, str(one)} for one in added)


def _leveled(name: str, scope: Scope) -> Option:
    """The option of that name, at its usual level where none is named."""
    option = _settled(name, scope)
    usual = scope.known[option.name].usual_level(scope.environment)
    return option if option.level is not None else replace(option, level=usual)


def _stack(text: str, scope: Scope) -> Entry:
    shown = "+".join(str(_settled(name, scope)) if name.endswith(f"={AUTO}") else name for name in text.split("+"))
    options = tuple(sorted(_settled(name, scope) for name in spelled_out(shown.split("+"), scope)))
    asked = {scope.known[one.name].timed_on for one in options if one not in scope.reference.options}
    timing = next((one for one in (Timing.EVALUATION, Timing.EPOCH) if asked == {one}), Timing.STEP)
    entry = compare(scope, shown, options, timing)
    if isinstance(entry, NoResult):
        raise Mistake(f"The stack {text} is impossible on {scope.workload.name}: {entry.reason}.")
    seen = at_hand(scope.workload, entry.treatment, scope.known)
    for one in entry.treatment.options:
        if reason := unmet(scope.known[one.name], scope.environment, seen, one.level):
            raise Mistake(f"The stack {text} is impossible on {scope.workload.name}: {one} {reason}.")
    return entry


def _settled(name: str, scope: Scope) -> Option:
    """The option of that name, `auto` spelt out; raises Mistake when there is none."""
    option = parse_option(name)
    if option.name not in scope.known:
        raise Mistake(f"There is no optimization '{option.name}'; ./speedmatrix list shows them all.")
    return settled(option, scope.known[option.name], scope.environment)


# Asking again: the command that measures one comparison of a run and nothing else.
#
# Nothing is guessed: a command is shown only if planning it for the run's own environment gives that very comparison
# under a protocol of the same name and seed. Runs of earlier versions are asked again in today's windows.


# The fields of a protocol that may differ between versions of it; the others tell one protocol from another.
VERSIONED = (
    "rounds", "timed_s", "window_s", "window_steps", "floor_steps", "floor_s", "treatments", "upper_bound_s",
    "discarded_rounds", "slow_s", "lead_s", "whole_s", "part_s",
    "judged_again",
)  # fmt: skip


def commands(
    plan: Plan,
    environment: Environment,
    comparisons: Iterable[Comparison],
    catalogue: Catalogue,
    replicates: Mapping[Comparison, int] | None = None,
) -> Mapping[Comparison, str]:
    """The command of every comparison that one alone asks for; none for real data and workloads unknown here.

    Where `replicates` names a number, the command asks for so many instead of the run's own.
    """
    counts = replicates or {}
    here = _without_services(catalogue)
    named = _protocol_of(plan)
    if named is None:
        return {}
    found = {}
    for one in comparisons:
        workload = here.workloads.get(one.treatment.workload)
        if workload and plan.data.get(workload.name, "") == workload.source:  # made by the suite, or this very code
            asked = _requests(plan, one, named, environment.device)
            if request := next((it for it in asked if _asks_for(it, one, (plan, environment), here)), None):
                exact = replace(request, replicates=counts[one], target=None) if one in counts else request
                found[one] = exact.command
    return found


def _without_services(catalogue: Catalogue) -> Catalogue:
    """The same for a machine that can start every service, whatever this one can."""
    workloads = {name: replace(workload, service=None) for name, workload in catalogue.workloads.items()}
    return replace(catalogue, workloads=workloads)


def _protocol_of(plan: Plan) -> str | None:
    """The name from which replicates and rounds lead to a run's protocol; None for one of another version."""
    protocol = plan.protocol
    return next(
        (name for name, one in PROTOCOLS.items() if _aimed(_protocol_words(one, protocol), protocol) == protocol), None
    )


def _aimed(one: Protocol, like: Protocol) -> Protocol:
    counted = replace(one, replicates=like.replicates)
    return counted.fixed() if like.target is None else replace(counted, target=like.target)


def _requests(plan: Plan, one: Comparison, protocol: str, device: str) -> Iterator[Request]:
    """What might ask for a comparison, the shortest first."""
    theirs = plan.protocol
    chosen = theirs.lead_s > 0 and theirs.rounds != PROTOCOLS[protocol].rounds
    usual = Request(
        workloads=(one.treatment.workload,),
        size=one.treatment.size,
        probe=next((name for name, timing in PROBES.items() if timing is one.timing), None),
        protocol=protocol,
        replicates=theirs.replicates,
        rounds=theirs.rounds if chosen else None,
        target=None if theirs.target is None else target_text(theirs),  # named replicates alone would fix them
        seed=plan.seed,
        device=device,
    )
    selections = ({"only": (str(parse_option(one.label)),)}, {"stack": one.treatment.stack})
    references = dict.fromkeys(("baseline", one.reference.stack or "baseline"))
    for selection, batch, reference in product(selections, (None, one.reference.batch), references):
        yield replace(usual, reference=reference, batch=batch, **selection)


def _asks_for(request: Request, one: Comparison, run: tuple[Plan, Environment], catalogue: Catalogue) -> bool:
    theirs, environment = run
    try:
        plan = planned(request, catalogue, environment)
    except Mistake:
        return False
    asked = [(other.treatment, other.reference, other.timing) for other in plan.comparisons]
    alike = _protocol_words(plan.protocol, theirs.protocol) == theirs.protocol and plan.seed == theirs.seed
    return alike and asked == [(one.treatment, one.reference, one.timing)]


def _protocol_words(one: Protocol, like: Protocol) -> Protocol:
    """The same with another's rounds and windows, in which versions of a protocol differ."""
    return replace(one, **{name: getattr(like, name) for name in VERSIONED})
