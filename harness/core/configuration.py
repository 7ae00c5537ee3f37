"""Configurations: what can be measured, and comparisons: what is measured against what."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.core.emulation import unknown_time
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import ASYNCHRONOUS, LEVEL, Level, Need, Numerics, Optimization, Stage, Timing
from harness.core.recipe import COMMON_FIELDS, ImpossibleRecipe, Recipe, Value, patched
from harness.core.workload import Workload

_CONFIG = re.compile(r"(?P<workload>[^@#:]+)(@(?P<size>[a-z0-9_]+))?(#(?P<batch>[1-9][0-9]*))?(:(?P<stack>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Option:
    """An optimization that is on, at a level if it has levels."""

    name: str
    level: int | str | None = None

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}={self.level}"


def parse_option(text: str) -> Option:
    """An option from `name` or `name=level`; digits become an integer level."""
    name, _, level = text.strip().partition("=")
    return Option(name=name, level=int(level) if level.isdecimal() else level or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One workload at one size with one set of optimizations."""

    workload: str
    size: str
    batch: int  # samples per optimizer step
    options: tuple[Option, ...] = ()  # sorted by name

    @property
    def stack(self) -> str:
        """What it switches on, as it is written on the command line; empty for nothing."""
        return "+".join(map(str, self.options))

    def __str__(self) -> str:
        return f"{self.workload}@{self.size}#{self.batch}" + (f":{self.stack}" if self.options else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRequest:
    """A configuration as a user wrote it: size and batch may be missing, and the stack may name `original`."""

    workload: str
    size: str | None
    batch: int | None
    names: tuple[str, ...]


# Names of whole stacks in versions before 0.3, as files and claims from then have them.
FORMER_NAMES = {"plain": "baseline", "as_found": "original", "everything": "all"}


def current_names(text: str) -> str:
    """A stack, a reference, a configuration or a matrix entry with the names that whole stacks have today."""
    return re.sub(r"[^@:+ ]+", lambda found: FORMER_NAMES.get(found[0], found[0]), text)


def parse_config(text: str) -> ConfigurationRequest:
    """A request from `WORKLOAD[@SIZE][#BATCH][:NAME[=LEVEL]+…]`; raises Mistake when it reads otherwise."""
    match = _CONFIG.fullmatch(text)
    if not match:
        raise Mistake(
            f"'{text}' is not a configuration: write WORKLOAD[@SIZE][:NAME[=LEVEL]+NAME…], for example leak:workers=2."
        )
    batch = match["batch"]
    names = tuple(name.strip() for name in (match["stack"] or "").split("+") if name.strip())
    return ConfigurationRequest(
        workload=match["workload"], size=match["size"], batch=int(batch) if batch else None, names=names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A configuration against its reference: one entry of the matrix."""

    label: str  # what the matrix calls it: an optimization with its level, `original`, `all`
    treatment: Configuration
    reference: Configuration
    timing: Timing
    copy: int = 0  # numbers repetitions of one comparison, for A/A

    @property
    def is_copy(self) -> bool:
        """Whether a configuration is compared with itself."""
        return self.treatment == self.reference

    @property
    def differing(self) -> tuple[str, ...]:
        """The names of the options in which the two configurations differ, in order; none of a copy."""
        return tuple(sorted({one.name for one in {*self.treatment.options} ^ {*self.reference.options}}))


# Batches: the same training with another batch, which learns otherwise from every sample and is labelled so.

_BATCH = re.compile(r"batch=(?:([1-9][0-9]{0,8})x)?([1-9][0-9]{0,8})")


def batch_of(label: str) -> tuple[int, int] | None:
    """How many parts an update adds up, and of how many samples: (1, 128) of `batch=128`, (4, 100) of `batch=4x100`.

    None for the label of anything else.
    """
    match = _BATCH.fullmatch(label.strip())
    return (int(match[1] or 1), int(match[2])) if match else None


def changes_batch(comparison: Comparison) -> bool:
    """Whether a comparison is of two batches, and its label says so."""
    found = batch_of(comparison.label)
    return found is not None and found[0] * found[1] == comparison.treatment.batch != comparison.reference.batch


# Controls: delays of known length, by which a machine shows that it finds an effect which is there.
#
# They are switched on like optimizations, by name and level, so that they go through the same machinery. But nobody
# wants them: no list, no design but `calibration` and no stack of everything has them.

SHARES = (3, 10)  # per cent of a step
DELAY_S = "added_delay_s"  # the effective setting that says how long the pause of each step was found to be

_ITS_OWN_DEVICE = Need(missing="a CPU computes itself: host_delay is its control", met=ASYNCHRONOUS.met)


def _control(place: str, stage: Stage, page: str, needs: tuple[Need, ...] = ()) -> Optimization:
    return Optimization(
        name=f"{place}_delay",
        title=f"A control: each step made longer in the {place}",
        stage=stage,
        numerics=Numerics.EXACT,
        sets={"added_delay": place, "delay_percent": LEVEL},
        proof={"added_delay": place},
        levels=SHARES,
        needs=needs,
        sought=False,
        page=page,
    )


CONTROLS: Mapping[str, Optimization] = {
    one.name: one
    for one in (
        _control("loader", Stage.INPUT, "Each batch comes later, by the level in per cent of a step."),
        _control("host", Stage.HOST, "The host spins at the end of each step, for the level in per cent of it."),
        _control(
            "device",
            Stage.DEVICE,
            "The device sleeps after each update, for the level in per cent of a step.",
            needs=(_ITS_OWN_DEVICE,),
        ),
    )
}


def planted(comparison: Comparison) -> int | None:
    """Per cent by which a comparison's treatment was made longer on purpose; None where it was not."""
    added = set(comparison.treatment.options) - set(comparison.reference.options)
    return next((one.level for one in added if one.name in CONTROLS and isinstance(one.level, int)), None)


def is_control(configs: Iterable[Configuration]) -> bool:
    """Whether any configuration holds a delay: what it says is about the machine, and about no optimization."""
    return any(option.name in CONTROLS for config in configs for option in config.options)


# Composition: options into a recipe, or the reason why not; the only place where conflicts are decided.

AUTO = "auto"


class Conflict(ValueError):
    """Two options that cannot be on together; the message names both and the reason."""


def settings(optimization: Optimization, level: int | str | None) -> dict[str, Value]:
    """What an option sets, its level filled in."""
    return {name: level if isinstance(value, Level) else value for name, value in optimization.sets.items()}


def expected(optimization: Optimization, level: int | str | None) -> dict[str, Value]:
    """The effective settings that prove an option active, its level filled in."""
    return {name: level if isinstance(value, Level) else value for name, value in optimization.proof.items()}


def settled(option: Option, optimization: Optimization, environment: Environment) -> Option:
    """The option with its level spelt out: `auto` stands for the level that is usual on this machine."""
    if option.level != AUTO or not optimization.levels:
        return option
    return replace(option, level=optimization.usual_level(environment))


def batch_scale(options: Iterable[Option], known: Mapping[str, Optimization]) -> int:
    """How many of the usual batches one batch of a stack stands for; raises Mistake for a level that is none."""
    for option in options:
        _check_level(known[option.name], option)
        if scale := settings(known[option.name], option.level).get("batch_scale"):
            return int(scale)
    return 1


def compose(workload: Workload, options: Iterable[Option], known: Mapping[str, Optimization]) -> Recipe:
    """The recipe of a stack; raises Conflict with the reason when it is impossible.

    Disjoint settings commute by construction; the same choice set to two values is a conflict that names both.
    """
    plain = Recipe(own=tuple(sorted(workload.own.items())))
    try:
        return patched(plain, _claimed(workload, tuple(options), known))
    except ImpossibleRecipe as impossible:
        raise Conflict(str(impossible)) from impossible


def _claimed(workload: Workload, options: tuple[Option, ...], known: Mapping[str, Optimization]) -> dict[str, Value]:
    names = {option.name for option in options}
    owner: dict[str, Option] = {}
    claimed: dict[str, Value] = {}
    for option in options:
        optimization = known[option.name]
        _check_level(optimization, option)
        for other, reason in optimization.excludes.items():
            if other in names:
                raise Conflict(f"{option} excludes {other}: {reason}")
        for name, value in settings(optimization, option.level).items():
            if name in claimed and claimed[name] != value:
                raise Conflict(f"{owner[name]} and {option} both set {name}")
            if name in workload.fixed:
                raise Conflict(f"{option}: {workload.fixed[name]}")
            owner[name], claimed[name] = option, value
    unknown = set(claimed) - COMMON_FIELDS - set(workload.own)
    if unknown:
        raise Conflict(f"{workload.name} has no choice named {min(unknown)}")
    return claimed


LARGEST_LEVEL = 1024  # of loader workers, parts of a batch and the like: beyond, a machine would only break down


def _check_level(optimization: Optimization, option: Option) -> None:
    if optimization.levels and option.level is None:
        shown = ", ".join(f"{option.name}={level}" for level in optimization.levels)
        raise Mistake(f"{option.name} needs a level: {shown}.")
    if option.level is None:
        return
    numeric = all(isinstance(level, int) for level in optimization.levels)
    other = numeric and isinstance(option.level, int) and 0 < option.level <= LARGEST_LEVEL
    if not optimization.levels or not (option.level in optimization.levels or other):
        allowed = ", ".join(str(level) for level in optimization.levels) or "none; write the bare name"
        beside = f", or another number up to {LARGEST_LEVEL}" if numeric and optimization.levels else ""
        raise Mistake(f"{option.name} has no level {option.level}; its levels are {allowed}{beside}.")


def unmet(
    optimization: Optimization, environment: Environment, workload: Workload, level: int | str | None = None
) -> str | None:
    """Why an optimization cannot be tried here at a level or at all, in words, or None where it can."""
    if optimization.workload not in (None, workload.name):
        return f"belongs to {optimization.workload}"
    needs = [*optimization.needs, *(need for at, need in optimization.level_needs.items() if at == level)]
    if missing := next((need.missing for need in needs if not need.met(environment, workload)), None):
        return missing
    if fixed := next((workload.fixed[one] for one in optimization.sets if one in workload.fixed), None):
        return fixed
    is_control = optimization.name in CONTROLS  # its pause is as long on a device that is emulated
    return unknown_time(optimization, environment.device) if environment.emulated and not is_control else None


def at_hand(workload: Workload, config: Configuration, known: Mapping[str, Optimization]) -> Workload:
    """The workload by which needs are judged in a configuration: what this changes may meet them."""
    if not config.options and config.batch == workload.sizes[config.size].batch:
        return workload
    try:
        return workload.under(compose(workload, config.options, known), config.batch)
    except Conflict:
        return workload  # whoever composes it for a run is told


def inactive(proof: Mapping[str, Value], effective: Mapping[str, Value]) -> tuple[str, ...]:
    """The sentences that say which promised setting did not take effect; empty when all did."""
    return tuple(
        f"{name} is {effective.get(name, 'not reported')}, not {value}"
        for name, value in proof.items()
        if effective.get(name) != value
    )
