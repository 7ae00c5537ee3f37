"""Legs: what each leg of a campaign measures, as plans that the commands for each alone would make too."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from harness.analyze.calibration import DESIGN
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.calibrating import TARGET
from harness.cli.candidates import Asked as Sought
from harness.cli.candidates import QualityClass, wish_of
from harness.cli.naming import protocol_named, usual_size
from harness.cli.planning import RESTARTS_ALONE, SMALLEST_POOL, Prepared, Wish, pace_of, plan_of, prepared
from harness.cli.spending import Asked
from harness.core.cell import Comparison
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.plan import Plan
from harness.plan import cost
from harness.plan.campaign import Kind, Want
from harness.plan.cost import Pace

# As many times what one comparison takes. A calibration is no condition; a search measures some stacks, then its winner
# in four restarts, and that against the system as it was found.
LIVES = {Kind.CALIBRATION: 0, Kind.BEST: 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a campaign is about, and where: everything there is, and the machine."""

    asked: Asked
    catalogue: Catalogue
    environment: Environment


def ground_of(asked: Asked, environment: Environment) -> Ground:
    """The ground of what the user named, all workloads and the usual size where none is; raises Mistake."""
    catalogue = read_catalogue()
    names, chosen = asked.workloads or tuple(sorted(catalogue.workloads)), asked.size or usual_size(environment)
    protocol_named(asked.protocol)
    for name in names:
        if chosen not in (sizes := catalogue.workload(name).sizes):
            raise Mistake(f"{name} has no size '{chosen}'; choose one of {', '.join(sizes)}.")
    named = replace(asked, workloads=tuple(dict.fromkeys(names)), size=chosen)
    return Ground(asked=named, catalogue=catalogue, environment=environment)


def wants_of(ground: Ground, bound_s: float, slower: float = 1.0) -> tuple[Want, ...]:
    """What every leg would measure, in the order of the legs; the calibration within a bound where it can be.

    Arms take so many times as long as they are guessed to.
    """
    names = ground.asked.workloads
    calibration = _calibration(ground, bound_s / slower)
    look = _want(Kind.FIRST_LOOK, names, ground)
    wants = (calibration, look, *(_want(kind, (name,), ground) for kind in list(Kind)[2:] for name in names))
    return tuple(replace(one, seconds=slower * one.seconds, least_s=slower * one.least_s) for one in wants)


def slowness(arm_s: Mapping[str, Mapping[str, float]], ground: Ground) -> float:
    """How many times as long as guessed the arms took that were seen (size -> workload -> seconds); 1 without any."""
    known, protocol = ground.catalogue.workloads, protocol_named(ground.asked.protocol)
    measured_s = {(size, name): seconds for size, found in arm_s.items() for name, seconds in found.items()}
    guessed_s = {
        (size, name): cost.arm_s(protocol, _pace(name, size, ground))
        for size, name in measured_s
        if name in known and size in known[name].sizes  # an account may be a stranger's
    }
    return cost.slowness(measured_s, guessed_s) or 1.0


def prepared_for(kind: Kind, workloads: tuple[str, ...], ground: Ground) -> Prepared | None:
    """The plan of a leg on this machine; None where nothing is left to ask. Raises Mistake for what cannot be."""
    if kind is Kind.CALIBRATION:
        return _prepared(replace(_wish(ground, workloads, DESIGN), size=_calibration_size(ground), target=TARGET))
    if kind is Kind.FIRST_LOOK:
        return _prepared(_wish(ground, workloads, "combined"))
    if kind is Kind.CLAIMS:
        return _open_claims(workloads, ground)
    return _prepared(search_of(workloads[0], ground))


def search_of(workload: str, ground: Ground) -> Wish:
    """The wish with which a search for the fastest stack begins: its matrix is the campaign's."""
    wish = _wish(ground, (workload,), "matrix")
    return wish_of(Sought(wish=wish, quality=QualityClass.CLOSE))


def against_as_found(workload: str, stack: Iterable[object], ground: Ground) -> Prepared | None:
    """The plan that holds a stack against the system as it was found; None where that had nothing switched on."""
    if not ground.catalogue.as_found(ground.catalogue.workload(workload), ground.environment):
        return None
    wish = _wish(ground, (workload,), "alone")
    return prepared(replace(wish, stack="+".join(map(str, stack)), reference="as_found"))


def _pace(name: str, size: str, ground: Ground) -> Pace:
    return pace_of(ground.catalogue.workload(name), size, ground.environment.device)


@cache  # a matrix takes a while to plan, and three legs begin with it
def _prepared(wish: Wish) -> Prepared:
    return prepared(wish)


def _wish(ground: Ground, workloads: tuple[str, ...], design: str) -> Wish:
    asked = ground.asked
    return Wish(
        workloads=workloads, size=asked.size, batch=None, design=design, only=(), stack=None, reference="plain",
        probe=None, protocol=asked.protocol, restarts=None, rounds=None, seed=asked.seed,
        device=ground.environment.device, own=None, environment=ground.environment,
    )  # fmt: skip


def _open_claims(workloads: tuple[str, ...], ground: Ground) -> Prepared | None:
    """The ledger's questions that neither the first look nor the matrix asks."""
    known = {_question(one) for one in _asked_before(workloads, ground)}
    ready = _prepared(_wish(ground, workloads, "claims"))
    still = [one for one in ready.plan.comparisons if _question(one) not in known]
    if not still:
        return None
    return replace(ready, plan=_without_others(ready.plan, still, ground.catalogue))


def _asked_before(workloads: tuple[str, ...], ground: Ground) -> Iterator[Comparison]:
    for kind in (Kind.FIRST_LOOK, Kind.MATRIX):
        try:
            found = prepared_for(kind, workloads, ground)
        except Mistake:  # then that leg is left out with these words, and asks nothing
            continue
        yield from found.plan.comparisons if found else ()


def _question(one: Comparison) -> tuple[object, ...]:
    return one.treatment, one.reference, one.timing


def _without_others(plan: Plan, still: list[Comparison], catalogue: Catalogue) -> Plan:
    few = len(still) < SMALLEST_POOL
    protocol = replace(plan.protocol, restarts=RESTARTS_ALONE) if few else plan.protocol
    return replace(plan_of(plan.design, still, replace(plan, protocol=protocol), catalogue), holes=plan.holes)


def _want(kind: Kind, workloads: tuple[str, ...], ground: Ground) -> Want:
    """What a leg would measure, or the words for why it cannot."""
    try:
        ready = prepared_for(kind, workloads, ground)
    except Mistake as mistake:
        reason = str(mistake).rstrip(".")
        return Want(kind=kind, workloads=workloads, comparisons=0, seconds=0.0, problem=reason)
    if ready is None:
        words = "the matrix asks all that is claimed"
        return Want(kind=kind, workloads=workloads, comparisons=0, seconds=0.0, problem=words)
    count, firsts_s = len(ready.plan.comparisons), cost.first_ratios_s(ready.plan, ready.paces)
    return Want(
        kind=kind,
        workloads=workloads,
        comparisons=0 if kind is Kind.BEST else count,
        seconds=math.inf if kind is Kind.BEST else cost.seconds_for(ready.plan, ready.paces),
        least_s=LIVES.get(kind, 1) * sum(firsts_s.values()),
    )


def _calibration(ground: Ground, bound_s: float) -> Want:
    """The calibration on as many workloads with short steps as the bound allows, and on one at least."""
    names = _short_steps(ground)
    if not names:
        words = f"every workload's step is slow at size {_calibration_size(ground)}"
        return Want(kind=Kind.CALIBRATION, workloads=(), comparisons=0, seconds=0.0, problem=words)
    found = [_want(Kind.CALIBRATION, names[:count], ground) for count in range(1, len(names) + 1)]
    return next((one for one in reversed(found) if not one.problem and one.seconds <= bound_s), found[0])


def _short_steps(ground: Ground) -> tuple[str, ...]:
    """Workloads that show many pairs in little time, the shortest steps first; others than asked if need be."""
    protocol, size = protocol_named(ground.asked.protocol), _calibration_size(ground)
    sizes = {name: one.sizes[size] for name, one in ground.catalogue.workloads.items() if size in one.sizes}
    known = sorted((one.step_s or cost.USUAL.step_s, name) for name, one in sizes.items())
    short = [(step_s, name) for step_s, name in known if not protocol.is_slow(step_s)]
    asked = [name for _, name in short if name in ground.asked.workloads]
    return tuple(asked or [name for _, name in short[:1]])


def _calibration_size(ground: Ground) -> str:
    """A plain step of the real size loads a whole real batch; what a machine can tell is the same at a smaller one."""
    return "quick" if ground.asked.size == "standard" else ground.asked.size
