"""Promises: what analysis must know of an optimization, as plain data that outlives the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.core.cell import Cell, Comparison, Switch
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How an optimization may change losses, and which effective settings prove it."""

    numerics: Numerics
    proof: tuple[str, ...]


def promises(optimizations: Iterable[Optimization]) -> dict[str, Promise]:
    """The promises of optimizations by their names."""
    return {one.name: Promise(numerics=one.numerics, proof=tuple(sorted(one.proof))) for one in optimizations}


def numerics(comparison: Comparison, known: Mapping[str, Promise]) -> Numerics:
    """The loosest promise among the switches in which the two cells differ; raises Mistake for an unknown one."""
    differing = set(comparison.treatment.switches) ^ set(comparison.reference.switches)
    order = list(Numerics)
    found = (_promise(switch, known).numerics for switch in differing)
    return max(found, key=order.index, default=Numerics.EXACT)


def proved(cell: Cell, known: Mapping[str, Promise]) -> frozenset[str]:
    """The effective settings that a cell's switches promise; raises Mistake for an unknown switch."""
    return frozenset(name for switch in cell.switches for name in _promise(switch, known).proof)


def _promise(switch: Switch, known: Mapping[str, Promise]) -> Promise:
    if switch.name not in known:
        raise Mistake(f"These results use '{switch.name}', which is not known here: read them with their own version.")
    return known[switch.name]
