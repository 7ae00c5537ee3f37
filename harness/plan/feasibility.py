"""Entries of a plan: a comparison that can be made on one workload and machine, or the words for why not."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from harness.core.claims import Claim
from harness.core.configuration import (
    Comparison,
    Configuration,
    Conflict,
    Option,
    at_hand,
    batch_of,
    batch_scale,
    compose,
    unmet,
)
from harness.core.emulation import is_emulated, step_named, without_time
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing
from harness.core.plan import NoResult
from harness.core.protocol import Protocol
from harness.core.recipe import Recipe
from harness.core.workload import Workload

Entry = Comparison | NoResult

# What is tried first when time is short: the stages in which most systems lose most.
STAGE_ORDER = (Stage.INPUT, Stage.DEVICE, Stage.EVALUATION, Stage.SYNC, Stage.HOST, Stage.LAUNCH, Stage.RANKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One workload on one machine, and what may be switched on there."""

    workload: Workload
    reference: Configuration
    optimizations: tuple[Optimization, ...]
    known: Mapping[str, Optimization]
    original: tuple[Option, ...]
    environment: Environment
    protocol: Protocol
    unserved: str | None = None  # why the workload's service cannot start here
    claims: tuple[Claim, ...] = ()  # the ledger's
    probe: Timing | None = None  # times every configuration on this instead of what its optimization asks for
    workloads: int = 1  # that the plan is about: some designs share out what a machine needs once
    chosen: tuple[Option, ...] = ()  # what designs that cross options are about; empty means all that go together


ALONE: Mapping[Timing | None, str] = {Timing.LOADER: "the loader", Timing.COMPUTE: "the step"}
PASSES: Mapping[Timing, str] = {Timing.EPOCH: "the ends of epochs", Timing.EVALUATION: "evaluations"}


def single(scope: Scope, optimization: Optimization, level: int | str | None) -> Entry:
    """One optimization on top of the reference and of what it requires, or the words for why not."""
    option = Option(name=optimization.name, level=level)
    if reason := hindrance(scope, optimization, level):
        return NoResult(workload=scope.workload.name, label=str(option), reason=reason)
    if option in scope.reference.options:
        return NoResult(workload=scope.workload.name, label=str(option), reason="on in the reference already")
    if scope.probe in ALONE and optimization.alone_on not in {None, scope.probe}:
        reason = f"changes {ALONE[optimization.alone_on]} alone, and this times {ALONE[scope.probe]}"
        return NoResult(workload=scope.workload.name, label=str(option), reason=reason)
    if scope.probe in ALONE and optimization.timed_on in PASSES:
        reason = f"acts on {PASSES[optimization.timed_on]}, and this times {ALONE[scope.probe]}"
        return NoResult(workload=scope.workload.name, label=str(option), reason=reason)
    below = with_required(scope, optimization)
    return compare(based_on(scope, below), str(option), stacked(below, option), optimization.timed_on)


def compare(scope: Scope, label: str, options: tuple[Option, ...], timing: Timing = Timing.STEP) -> Entry:
    """A stack against the scope's reference, or the words for why it is impossible."""
    try:
        treatment, reference = equal_samples(scope, options)
        _check_config(scope, treatment)
        _check_config(scope, reference)
    except Conflict as conflict:
        return NoResult(workload=scope.workload.name, label=label, reason=str(conflict))
    return Comparison(label=label, treatment=treatment, reference=reference, timing=scope.probe or timing)


def based_on(scope: Scope, options: tuple[Option, ...]) -> Scope:
    """The scope with another reference, its batch as large as those options make the usual one."""
    usual = scope.reference.batch // batch_scale(scope.reference.options, scope.known)
    batch = usual * batch_scale(options, scope.known)
    return replace(scope, reference=replace(scope.reference, options=options, batch=batch))


def equal_samples(scope: Scope, options: tuple[Option, ...]) -> tuple[Configuration, Configuration]:
    """A stack's configuration and its reference, with as many samples an update; raises Conflict where that cannot be.

    Where the stack's batch is larger, the reference takes the same samples in batches of its own size and adds up their
    gradients: see docs/decisions/batch-scale.md.
    """
    treatment, reference = based_on(scope, options).reference, scope.reference
    times, rest = divmod(treatment.batch, reference.batch)
    if times == 1 and not rest:
        return treatment, reference
    if rest or not times:
        raise Conflict(f"an update takes {treatment.batch} samples, in the reference {reference.batch}")
    return treatment, replace(reference, batch=treatment.batch, options=_in_parts(scope, times))


def _in_parts(scope: Scope, times: int) -> tuple[Option, ...]:
    """The reference's options, and gradients added up over so many parts of a batch."""
    options = scope.reference.options
    parts = compose(scope.workload, options, scope.known).micro_batches
    if parts == times:
        return options
    if parts > 1:
        raise Conflict(f"the reference takes a batch in {parts} parts already, and would have to take {times}")
    return stacked(options, Option(name=_accumulating(scope), level=times))


def _accumulating(scope: Scope) -> str:
    """The optimization that adds up gradients over parts of a batch."""
    return next(name for name, one in scope.known.items() if dict(one.sets) == {"micro_batches": LEVEL})


# Another batch: the same configuration with other samples of an update. It is another training, and says so.

FEWEST_BATCHES = 8  # of an epoch, of whose last one half may be left out
MOST_LEFT_OUT = 0.1  # of the samples of an epoch, which both arms are to go through
ANY_BATCH = "an emulated device takes as long for each sample of any batch, which no real one does"


def with_batch(scope: Scope, label: str) -> Entry:
    """The reference with the batch of a label, in so many parts, against itself with its own; or why that cannot be."""
    asked = batch_of(label)
    if asked is None:
        raise Mistake(f"'{label}' is no batch; write batch=SAMPLES, or batch=PARTSxSAMPLES for parts that add up.")
    parts, each = asked
    reference, name = scope.reference, _accumulating(scope)
    options = tuple(one for one in reference.options if one.name != name)
    if parts > 1:
        options = stacked(options, Option(name=name, level=parts))
    treatment = replace(reference, batch=parts * each, options=options)
    try:
        if treatment.batch == reference.batch:
            raise Conflict("an update of the reference takes as many samples: gradient_accumulation compares those")
        if is_emulated(scope.environment.device):
            raise Conflict(ANY_BATCH)
        _check_config(scope, reference)
        _check_config(scope, treatment)
        _check_share(scope, treatment)
    except Conflict as conflict:
        return NoResult(workload=scope.workload.name, label=label, reason=str(conflict))
    return Comparison(label=label, treatment=treatment, reference=reference, timing=scope.probe or Timing.STEP)


def _check_share(scope: Scope, config: Configuration) -> None:
    """Raises Conflict where whole batches leave out so many samples that the two arms would not train on the same."""
    usual, size = scope.workload.sizes[config.size].samples, scope.workload.at(config.size, config.batch)
    if (left := usual - size.samples) > MOST_LEFT_OUT * usual:
        raise Conflict(f"whole batches of {config.batch} leave out {left} of the {usual} samples of an epoch")


def _check_config(scope: Scope, config: Configuration) -> None:
    """Raises Conflict where a configuration cannot be run, whatever it is compared with."""
    recipe = compose(scope.workload, config.options, scope.known)
    try:
        size = scope.workload.at(config.size, config.batch)
    except Mistake as mistake:
        raise Conflict(str(mistake).rstrip(".")) from mistake
    parts = recipe.micro_batches * recipe.ranks
    if config.batch % parts:
        raise Conflict(f"a batch of {config.batch} cannot be taken in {parts} equal parts")
    if recipe.keep_last_batch and (config.batch < 2 or size.epoch_steps < FEWEST_BATCHES):
        raise Conflict(
            f"a shorter last batch needs two samples in a batch and {FEWEST_BATCHES} batches in an epoch: of fewer it "
            "leaves out much of what the reference trains on"
        )
    least = scope.workload.least_samples
    if config.batch // (parts * (1 + recipe.keep_last_batch)) < least:
        raise Conflict(f"{scope.workload.name} normalises over {least} samples at least, so it cannot train on fewer")
    if reason := scope.workload.unstackable(recipe, config.batch // parts):
        raise Conflict(reason)
    device = scope.environment.device
    if is_emulated(device) and step_named(device) is None and config.batch != scope.workload.sizes[config.size].batch:
        raise Conflict(ANY_BATCH)
    if is_emulated(device) and (reason := without_time(device, scope.workload, config.size, size, recipe)):
        raise Conflict(reason)
    _check_service(scope, recipe)


def _check_service(scope: Scope, recipe: Recipe) -> None:
    service = scope.workload.service
    if service and scope.unserved and service.wanted(recipe):
        raise Conflict(scope.unserved)


KEEPING_THE_TASK = frozenset({Numerics.EXACT, Numerics.CLOSE})


def all_options(scope: Scope, allowed: frozenset[Numerics] = KEEPING_THE_TASK) -> tuple[Option, ...]:
    """All optimizations of the training step that keep the task, stacked in order of their stages.

    `allowed` says what they may do to losses. One that others supersede stays off, and so does one that conflicts with
    those before it.
    """
    willing = [one for one in ordered(scope) if not hindrance(scope, one) and _is_wanted(scope, one, allowed)]
    superseded = {name for one in willing for name in one.supersedes}
    seconded = sorted(willing, key=lambda one: bool(one.excludes))
    wanted = (one for one in seconded if one.name not in superseded)
    return together(scope, (Option(name=one.name, level=one.usual_level(scope.environment)) for one in wanted))


def together(scope: Scope, options: Iterable[Option]) -> tuple[Option, ...]:
    """The reference's options and these in turn; one that conflicts with those before it stays off."""
    stack = scope.reference.options
    for option in options:
        further = stacked(stack, option)
        try:
            compose(scope.workload, further, scope.known)
        except Conflict:
            continue
        stack = further
    return stack


def _is_wanted(scope: Scope, optimization: Optimization, allowed: frozenset[Numerics]) -> bool:
    sought = _is_sought(scope, optimization) and optimization.timed_on is not Timing.EVALUATION
    return sought and optimization.numerics in allowed


def _is_sought(scope: Scope, optimization: Optimization) -> bool:
    """Whether it may be a gain on this machine."""
    stacked_if = optimization.stacked_if
    return optimization.sought and (stacked_if is None or stacked_if.met(scope.environment, scope.workload))


def stacked(options: tuple[Option, ...], option: Option) -> tuple[Option, ...]:
    """The options with one more; another level of the same optimization is replaced."""
    return tuple(sorted((*(one for one in options if one.name != option.name), option)))


def with_required(scope: Scope, optimization: Optimization) -> tuple[Option, ...]:
    """The reference's options and those without which the optimization makes no sense."""
    options = scope.reference.options
    for name in optimization.requires:
        if name not in {option.name for option in options}:
            level = scope.known[name].usual_level(scope.environment)
            options = stacked(options, Option(name=name, level=level))
    return options


def ordered(scope: Scope) -> list[Optimization]:
    """What the workload wants seen first, its other own ones, then one of each stage in turn.

    Last come those that cannot run here, need others, or are no gain that anybody seeks here: bfloat16 may take twenty
    times as long as float32 where nothing computes in it.
    """
    turns: dict[tuple[bool, Stage], Iterator[int]] = defaultdict(count)
    later = {
        one.name: bool(hindrance(scope, one) or one.requires or not _is_sought(scope, one))
        for one in scope.optimizations
    }
    alone = [one for one in scope.optimizations if one.stage is not Stage.RANKS]  # those have a design of their own
    by_name = sorted(alone, key=lambda one: (later[one.name], one.name))
    turn = {one.name: next(turns[one.workload is None, one.stage]) for one in by_name}
    first = {name: place for place, name in enumerate(scope.workload.first_look)}
    return sorted(
        by_name,
        key=lambda one: (
            first.get(one.name, len(first)),
            later[one.name],
            one.workload is None,
            turn[one.name],
            STAGE_ORDER.index(one.stage),
        ),
    )


def hindrance(scope: Scope, optimization: Optimization, level: int | str | None = None) -> str | None:
    """Why an optimization cannot be tried here, in words, or None where it can."""
    reason = unmet(optimization, scope.environment, scope.workload, level)
    if reason and unmet(optimization, scope.environment, at_hand(scope.workload, scope.reference, scope.known), level):
        return reason
    for name in optimization.requires:
        if reason := unmet(scope.known[name], scope.environment, scope.workload):
            return f"{reason}, for {name}"
    if optimization.start_s > scope.protocol.start_allowance_s:
        return f"starts too slowly for a first look (about {optimization.start_s:.0f} s): --protocol standard tries it"
    return None
