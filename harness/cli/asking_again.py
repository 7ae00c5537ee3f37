"""Asking again: the command that measures one comparison of a run and nothing else.

Nothing is guessed: a command is shown only if planning it for the run's own environment gives that very comparison
under the same protocol and seed. Runs from before steps led into windows are asked again in today's windows.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from harness.catalogue import Catalogue
from harness.cli.pacing import target_text
from harness.cli.planning import PROBES, Wish, planned
from harness.core.cell import Cell, Comparison, parse_switch
from harness.core.mistake import Mistake
from harness.core.protocol import PROTOCOLS, Protocol
from harness.store import Run


def commands(
    run: Run, comparisons: Iterable[Comparison], catalogue: Catalogue, restarts: Mapping[Comparison, int] | None = None
) -> Mapping[Comparison, str]:
    """The command of every comparison that one alone asks for; none for real data and workloads unknown here.

    Where `restarts` names a number, the command asks for so many instead of the run's own.
    """
    counts = restarts or {}
    here = _without_services(catalogue)
    named = _protocol_of(run)
    if named is None:
        return {}
    found = {}
    for one in comparisons:
        if one.treatment.workload in here.workloads and one.treatment.workload not in run.plan.data:
            wishes = (wish for wish in _wishes(run, one, named) if _asks_for(wish, one, run, here))
            if wish := next(wishes, None):
                found[one] = in_words(replace(wish, restarts=counts[one], target=None) if one in counts else wish)
    return found


def _without_services(catalogue: Catalogue) -> Catalogue:
    """The same for a machine that can start every service, whatever this one can."""
    workloads = {name: replace(workload, service=None) for name, workload in catalogue.workloads.items()}
    return replace(catalogue, workloads=workloads)


def _protocol_of(run: Run) -> str | None:
    """The name from which restarts and rounds lead to a run's protocol; None for one of another version."""
    protocol = run.plan.protocol
    return next((name for name, one in PROTOCOLS.items() if _aimed(_paced(one, protocol), protocol) == protocol), None)


def _aimed(one: Protocol, like: Protocol) -> Protocol:
    counted = replace(one, restarts=like.restarts)
    return counted.fixed() if like.target is None else replace(counted, target=like.target)


def _wishes(run: Run, one: Comparison, protocol: str) -> Iterator[Wish]:
    """What might ask for a comparison, the shortest first."""
    theirs = run.plan.protocol
    chosen = theirs.lead_s > 0 and theirs.rounds != PROTOCOLS[protocol].rounds
    usual = Wish(
        workloads=(one.treatment.workload,), size=one.treatment.size, batch=None, design="alone", only=(), stack=None,
        reference="plain", probe=_probe(one), protocol=protocol, restarts=theirs.restarts,
        rounds=theirs.rounds if chosen else None,
        seed=run.plan.seed, device=run.environment.device, own=None, target=_target(theirs),
    )  # fmt: skip
    selections = ({"only": (str(parse_switch(one.subject)),)}, {"stack": _stack(one.treatment)})
    references = dict.fromkeys(("plain", _stack(one.reference) or "plain"))
    for selection, batch, reference in product(selections, (None, one.reference.batch), references):
        yield replace(usual, reference=reference, batch=batch, **selection)


def _target(protocol: Protocol) -> str | None:
    """What has to be said of the target where the restarts are named, which alone would fix them."""
    return None if protocol.target is None else target_text(protocol)


def _probe(one: Comparison) -> str | None:
    return next((name for name, timing in PROBES.items() if timing is one.timing), None)


def _stack(cell: Cell) -> str:
    return "+".join(map(str, cell.switches))


def _asks_for(wish: Wish, one: Comparison, run: Run, catalogue: Catalogue) -> bool:
    try:
        plan = planned(wish, catalogue, run.environment)
    except Mistake:
        return False
    asked = [(other.treatment, other.reference, other.timing) for other in plan.comparisons]
    alike = _paced(plan.protocol, run.plan.protocol) == run.plan.protocol and plan.seed == run.plan.seed
    return alike and asked == [(one.treatment, one.reference, one.timing)]


def _paced(one: Protocol, like: Protocol) -> Protocol:
    """The same with another's rounds; with its windows too where those are from before steps led into them."""
    paced = replace(one, rounds=like.rounds, timed_s=like.timed_s)
    if like.lead_s > 0:
        return paced
    return replace(
        paced,
        burst_s=like.burst_s,
        burst_steps=like.burst_steps,
        ceiling_s=like.ceiling_s,
        discarded_rounds=like.discarded_rounds,
        slow_s=like.slow_s,
        lead_s=like.lead_s,
        whole_s=like.whole_s,
    )


def in_words(wish: Wish) -> str:
    """The command line of a wish for one comparison, every default of another machine spelt out."""
    words = ["./speedmatrix", "run", *wish.workloads, "--size", str(wish.size)]
    chosen = {
        "--only": wish.only[0] if wish.only else None,
        "--stack": wish.stack,
        "--reference": None if wish.reference == "plain" else wish.reference,
        "--batch": wish.batch,
        "--probe": wish.probe,
        "--protocol": None if wish.protocol == "brief" else wish.protocol,
        "--restarts": wish.restarts,
        "--rounds": wish.rounds,
        "--target": wish.target,
        "--seed": wish.seed or None,
        "--device": wish.device,
        "--budget": "none",
    }
    given = (word for option, value in chosen.items() if value is not None for word in (option, str(value)))
    return shlex.join([*words, *given])
