"""Cells: what can be measured, and comparisons: what is measured against what."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import CUDA, LEVEL, Level, Need, Numerics, Optimization, Stage, Timing
from harness.core.recipe import COMMON_FIELDS, ImpossibleRecipe, Recipe, Value, patched
from harness.core.workload import Workload

_CELL = re.compile(r"(?P<workload>[^@#:]+)(@(?P<size>[a-z0-9_]+))?(#(?P<batch>[1-9][0-9]*))?(:(?P<stack>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Switch:
    """An optimization that is on, at a level if it has levels."""

    name: str
    level: int | str | None = None

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}={self.level}"


def parse_switch(text: str) -> Switch:
    """A switch from `name` or `name=level`; digits become an integer level."""
    name, _, level = text.strip().partition("=")
    return Switch(name=name, level=int(level) if level.isdecimal() else level or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload at one size with one set of optimizations."""

    workload: str
    size: str
    batch: int  # samples per optimizer step
    switches: tuple[Switch, ...] = ()  # sorted by name

    def __str__(self) -> str:
        stack = "+".join(str(switch) for switch in self.switches)
        return f"{self.workload}@{self.size}#{self.batch}" + (f":{stack}" if stack else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequest:
    """A cell as a user wrote it: size and batch may be missing, and the stack may name `as_found`."""

    workload: str
    size: str | None
    batch: int | None
    names: tuple[str, ...]


def parse_cell(text: str) -> CellRequest:
    """A request from `WORKLOAD[@SIZE][#BATCH][:NAME[=LEVEL]+…]`; raises Mistake when it reads otherwise."""
    match = _CELL.fullmatch(text)
    if not match:
        raise Mistake(
            f"'{text}' is not a cell: write WORKLOAD[@SIZE][:NAME[=LEVEL]+NAME…], for example leak:workers=2."
        )
    batch = match["batch"]
    names = tuple(name.strip() for name in (match["stack"] or "").split("+") if name.strip())
    return CellRequest(workload=match["workload"], size=match["size"], batch=int(batch) if batch else None, names=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A cell against its reference: one entry of the matrix."""

    subject: str  # what the matrix calls it: an optimization with its level, `as_found`, `everything`
    treatment: Cell
    reference: Cell
    timing: Timing
    copy: int = 0  # numbers repetitions of one comparison, for A/A


# Controls: delays of known length, by which a machine shows that it finds an effect which is there.
#
# They are switched on like optimizations, by name and level, so that they go through the same machinery. But nobody
# wants them: no list, no design but `calibration` and no stack of everything has them.

SHARES = (3, 10)  # per cent of a step
DELAY_S = "added_delay_s"  # the effective setting that says how long the pause of each step was found to be

_ITS_OWN_DEVICE = Need(missing="a CPU computes itself: host_delay is its control", met=CUDA.met)


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
    added = set(comparison.treatment.switches) - set(comparison.reference.switches)
    return next((one.level for one in added if one.name in CONTROLS and isinstance(one.level, int)), None)


def is_control(cells: Iterable[Cell]) -> bool:
    """Whether any of some cells holds a delay: what it says is about the machine, and about no optimization."""
    return any(switch.name in CONTROLS for cell in cells for switch in cell.switches)


# Composition: switches into a recipe, or the reason why not; the only place where conflicts are decided.

AUTO = "auto"


class Conflict(ValueError):
    """Two switches that cannot be on together; the message names both and the reason."""


def settings(optimization: Optimization, level: int | str | None) -> dict[str, Value]:
    """What a switch sets, its level filled in."""
    return {name: level if isinstance(value, Level) else value for name, value in optimization.sets.items()}


def expected(optimization: Optimization, level: int | str | None) -> dict[str, Value]:
    """The effective settings that prove a switch engaged, its level filled in."""
    return {name: level if isinstance(value, Level) else value for name, value in optimization.proof.items()}


def settled(switch: Switch, optimization: Optimization, environment: Environment) -> Switch:
    """The switch with its level spelt out: `auto` stands for the level that is usual on this machine."""
    if switch.level != AUTO or not optimization.levels:
        return switch
    return replace(switch, level=optimization.usual_level(environment))


def batch_scale(switches: Iterable[Switch], known: Mapping[str, Optimization]) -> int:
    """How many of the usual batches one batch of a stack stands for; raises Mistake for a level that is none."""
    for switch in switches:
        _check_level(known[switch.name], switch)
        if scale := settings(known[switch.name], switch.level).get("batch_scale"):
            return int(scale)
    return 1


def compose(workload: Workload, switches: Iterable[Switch], known: Mapping[str, Optimization]) -> Recipe:
    """The recipe of a stack; raises Conflict with the reason when it is impossible.

    Disjoint settings commute by construction; the same choice set to two values is a conflict that names both.
    """
    plain = Recipe(own=tuple(sorted(workload.own.items())))
    try:
        return patched(plain, _claimed(workload, tuple(switches), known))
    except ImpossibleRecipe as impossible:
        raise Conflict(str(impossible)) from impossible


def _claimed(workload: Workload, switches: tuple[Switch, ...], known: Mapping[str, Optimization]) -> dict[str, Value]:
    names = {switch.name for switch in switches}
    owner: dict[str, Switch] = {}
    claimed: dict[str, Value] = {}
    for switch in switches:
        optimization = known[switch.name]
        _check_level(optimization, switch)
        for other, reason in optimization.excludes.items():
            if other in names:
                raise Conflict(f"{switch} excludes {other}: {reason}")
        for name, value in settings(optimization, switch.level).items():
            if name in claimed and claimed[name] != value:
                raise Conflict(f"{owner[name]} and {switch} both set {name}")
            owner[name], claimed[name] = switch, value
    unknown = set(claimed) - COMMON_FIELDS - set(workload.own)
    if unknown:
        raise Conflict(f"{workload.name} has no choice named {min(unknown)}")
    return claimed


def _check_level(optimization: Optimization, switch: Switch) -> None:
    if optimization.levels and switch.level is None:
        shown = ", ".join(f"{switch.name}={level}" for level in optimization.levels)
        raise Mistake(f"{switch.name} needs a level: {shown}.")
    if switch.level is None:
        return
    numeric = all(isinstance(level, int) for level in optimization.levels)
    if not optimization.levels or not (switch.level in optimization.levels or (numeric and _positive(switch.level))):
        allowed = ", ".join(str(level) for level in optimization.levels) or "none; write the bare name"
        raise Mistake(f"{switch.name} has no level {switch.level}; its levels are {allowed}.")


def _positive(level: int | str) -> bool:
    return isinstance(level, int) and level > 0


def unmet(
    optimization: Optimization, environment: Environment, workload: Workload, level: int | str | None = None
) -> str | None:
    """Why an optimization cannot be tried here at a level or at all, in words, or None where it can."""
    if optimization.workload not in (None, workload.name):
        return f"belongs to {optimization.workload}"
    needs = [*optimization.needs, *(need for at, need in optimization.level_needs.items() if at == level)]
    return next((need.missing for need in needs if not need.met(environment, workload)), None)


def unengaged(proof: Mapping[str, Value], effective: Mapping[str, Value]) -> tuple[str, ...]:
    """The sentences that say which promised setting did not take effect; empty when all did."""
    return tuple(
        f"{name} is {effective.get(name, 'not reported')}, not {value}"
        for name, value in proof.items()
        if effective.get(name) != value
    )
