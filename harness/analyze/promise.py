"""What the switches in which two cells differ promise together."""

from collections.abc import Iterator, Mapping

from harness.core.cell import Cell, Comparison, Switch
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics
from harness.core.promise import Promise
from harness.core.recipe import Value


def numerics(comparison: Comparison, known: Mapping[str, Promise]) -> Numerics:
    """The loosest promise among the switches in which the two cells differ; raises Mistake for an unknown one."""
    differing = set(comparison.treatment.switches) ^ set(comparison.reference.switches)
    order = list(Numerics)
    found = (_promise(switch, known).numerics for switch in differing)
    return max(found, key=order.index, default=Numerics.EXACT)


def proved(cell: Cell, known: Mapping[str, Promise]) -> frozenset[str]:
    """The effective settings that a cell's switches promise; raises Mistake for an unknown switch."""
    return frozenset(name for switch in cell.switches for name in _promise(switch, known).proof)


def pointless(cell: Cell, known: Mapping[str, Promise], effective: Mapping[str, Value]) -> Iterator[str]:
    """Why a switch of a cell can gain nothing where such settings were seen: `layout contiguous: has no chunks`."""
    seen = {f"{name} {value}" for name, value in effective.items()}
    for switch in cell.switches:
        for setting, reason in _promise(switch, known).pointless_where.items():
            if setting in seen:
                yield f"{switch.name} has nothing to act on: {setting}, {reason}"


def _promise(switch: Switch, known: Mapping[str, Promise]) -> Promise:
    if switch.name not in known:
        raise Mistake(f"The plan switches on '{switch.name}' without saying what it promises; restore run.json.")
    return known[switch.name]
