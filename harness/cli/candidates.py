"""Candidates: which optimizations a search for the fastest stack may switch on, and the run that it begins with."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod

from harness.catalogue import Catalogue, read_catalogue
from harness.cli.foretelling import Ground, declared_of
from harness.cli.naming import Context, protocol_named, reference_request
from harness.cli.planning import Prepared, Wish
from harness.core.cell import Switch, parse_switch
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Timing
from harness.core.protocol import PROTOCOLS, Protocol
from harness.plan.crossed import space_of, varied
from harness.plan.entries import Scope, everything, hindrance

FEW = 16  # stacks that are all measured: a matrix of so few switches costs as much and tests no model


class QualityClass(StrEnum):
    """What the winner may do to losses."""

    EXACT = "exact"
    CLOSE = "close"
    ANY = "any"


ALLOWED = {
    QualityClass.EXACT: frozenset({Numerics.EXACT}),
    QualityClass.CLOSE: frozenset({Numerics.EXACT, Numerics.CLOSE}),
    QualityClass.ANY: frozenset(Numerics),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked for; the wish says nothing yet of a design."""

    wish: Wish
    quality: QualityClass


def quality_named(name: str) -> QualityClass:
    """The class of that name; raises Mistake with the names there are."""
    if name not in list(QualityClass):
        raise Mistake(f"There is no quality '{name}'; choose one of {', '.join(QualityClass)}.")
    return QualityClass(name)


def wish_of(asked: Asked) -> Wish:
    """The run with which a search begins: a matrix, or every stack of a few switches; raises Mistake."""
    catalogue = read_catalogue(asked.wish.own)
    scope = _scope(asked, catalogue)
    named = _named(asked, catalogue) if asked.wish.only else _willing(scope, asked.quality)
    name = scope.workload.name
    if not named:
        raise Mistake(f"No optimization of {name} can be sought here with --quality {asked.quality}; try another.")
    stacks = prod(1 + len(levels) for levels in varied(replace(scope, chosen=named)))
    return replace(
        asked.wish,
        workloads=(name,),
        design="factorial" if stacks <= FEW else "matrix",
        only=tuple(map(str, named)),
        target="none",  # time is for stacks; the winner gets restarts of its own
    )


def put_off(asked: Asked) -> Iterator[str]:
    """Sentences on what a more patient protocol would seek too; none where the switches were named. Raises Mistake."""
    if asked.wish.only:
        return
    scope = _scope(asked, read_catalogue(asked.wish.own))
    patient = replace(scope, protocol=PROTOCOLS["standard"])
    for one in scope.optimizations:
        is_sought = one.sought and one.timed_on is Timing.STEP and one.numerics in ALLOWED[asked.quality]
        if is_sought and not hindrance(patient, one) and (reason := hindrance(scope, one)):
            yield f"{one.name} is not sought: it {reason}."


def _scope(asked: Asked, catalogue: Catalogue) -> Scope:
    """What a search may choose from on this machine; raises Mistake where no workload is named or known."""
    name = next(iter(asked.wish.workloads), catalogue.own)
    if name is None:
        raise Mistake("Name the workload to search: ./speedmatrix best leak; ./speedmatrix list shows them all.")
    environment = asked.wish.surroundings()
    context = Context(catalogue=catalogue, environment=environment, protocol=_patience(asked.wish, environment))
    request = reference_request("plain", catalogue.workload(name).name, asked.wish.size, asked.wish.batch)
    return context.scope(catalogue.workload(name), context.cell(request))


def _patience(wish: Wish, environment: Environment) -> Protocol:
    """The protocol that says how slowly an optimization may start.

    On a GPU compiling takes seconds and is what one seeks. On a CPU it takes minutes
    for each arm of every second stack.
    """
    return PROTOCOLS["standard"] if environment.device == "cuda" else protocol_named(wish.protocol)


def _willing(scope: Scope, quality: QualityClass) -> tuple[Switch, ...]:
    """All that goes together, acts on training steps and lacks nothing that may not be switched on."""
    found = [one for one in everything(scope, ALLOWED[quality]) if scope.known[one.name].timed_on is Timing.STEP]
    names = {one.name for one in found}
    return tuple(one for one in found if names.issuperset(scope.known[one.name].requires))


def _named(asked: Asked, catalogue: Catalogue) -> tuple[Switch, ...]:
    """What was named; raises Mistake for what a search over training steps cannot take."""
    found = tuple(map(parse_switch, asked.wish.only))
    for switch in found:
        one = catalogue.optimization(switch.name)
        if one.numerics not in ALLOWED[asked.quality]:
            raise Mistake(
                f"{one.name} promises losses that are {one.numerics}, which --quality {asked.quality} rules out; "
                f"leave it out, or say --quality {'close' if one.numerics is Numerics.CLOSE else 'any'}."
            )
        if one.timed_on is not Timing.STEP:
            raise Mistake(f"{one.name} is timed on {one.timed_on}s, and best compares training steps; leave it out.")
    return found


def ground_in(wish: Wish, ready: Prepared) -> Ground:
    """The stacks that a search may propose: those of the switches in its first run."""
    context = Context(catalogue=ready.catalogue, environment=ready.environment, protocol=PROTOCOLS["standard"])
    reference = ready.plan.blocks[0].reference
    scope = context.scope(ready.catalogue.workload(reference.workload), reference)
    seen = {one for cell in ready.plan.comparisons for one in cell.treatment.switches}
    chosen = tuple(sorted(one for one in seen if one not in reference.switches and one.name in _names(wish)))
    scope = replace(scope, chosen=chosen)
    return Ground(scope=scope, space=space_of(scope, varied(scope)), declared=declared_of(ready.catalogue.known))


def _names(wish: Wish) -> set[str]:
    return {parse_switch(name).name for name in wish.only}
