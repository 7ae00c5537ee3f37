"""Stacks by name: what `everything` and `as_found` stand for on this machine, in a cell, a reference or a stack.

Which optimizations go together is a design's answer, and the catalogue may not ask a design. Here, where both are
known, the name becomes the switches.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.catalogue import Catalogue
from harness.core.cell import Cell, CellRequest, Switch, parse_switch
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.protocol import PROTOCOLS, Protocol
from harness.core.workload import Workload
from harness.plan.entries import Scope, everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a name's meaning depends on: everything there is, the machine, and how patient the protocol is."""

    catalogue: Catalogue
    environment: Environment
    protocol: Protocol

    def cell(self, request: CellRequest) -> Cell:
        """The cell a user asked for, at the machine's usual size where none is named; raises Mistake."""
        size = usual_size(self.environment)
        plain = self.catalogue.cell(replace(request, names=()), size, self.environment)
        names = spelled_out(request.names, self.scope(self.catalogue.workload(request.workload), plain))
        return self.catalogue.cell(replace(request, names=names), size, self.environment)

    def scope(self, workload: Workload, reference: Cell) -> Scope:
        """The workload on this machine, for a design."""
        return Scope(
            workload=workload,
            reference=reference,
            optimizations=self.catalogue.of(workload),
            known=self.catalogue.known,
            as_found=self.catalogue.as_found(workload, self.environment),
            environment=self.environment,
            protocol=self.protocol,
            claims=self.catalogue.claims,
            unserved=workload.service.missing() if workload.service else None,
        )


def reference_request(name: str, workload: str, size: str | None, batch: int | None) -> CellRequest:
    """The request of a reference as it is named on the command line: `plain`, `as_found`, `everything` or a stack."""
    names = () if name == "plain" else tuple(name.split("+"))
    return CellRequest(workload=workload, size=size, batch=batch, names=names)


def usual_size(environment: Environment) -> str:
    """The size that is measured where none is named."""
    return "standard" if environment.device == "cuda" else "quick"


def spelled_out(names: Iterable[str], scope: Scope) -> tuple[str, ...]:
    """The names of a stack, those of whole stacks replaced by their switches; a switch that is named itself wins."""
    names = tuple(names)
    named = {parse_switch(name).name for name in names}
    found: list[str] = []
    for name in names:
        whole = _whole_stack(name, scope)
        found += [name] if whole is None else [str(one) for one in whole if one.name not in named]
    return tuple(found)


def _whole_stack(name: str, scope: Scope) -> tuple[Switch, ...] | None:
    """The switches that a name stands for; None for the name of a single optimization."""
    if name == "everything":
        return everything(scope)
    return scope.as_found if name == "as_found" else None


def protocol_named(name: str) -> Protocol:
    """The protocol of that name; raises Mistake with the names there are."""
    if name not in PROTOCOLS:
        raise Mistake(f"There is no protocol '{name}'; choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
