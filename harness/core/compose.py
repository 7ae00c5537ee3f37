"""Composition: switches into a recipe, or the reason why not; the only place where conflicts are decided."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.core.cell import Switch
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Level, Optimization
from harness.core.recipe import COMMON_FIELDS, ImpossibleRecipe, Recipe, Value, patched
from harness.core.workload import Workload

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
