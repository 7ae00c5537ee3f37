"""Controls: delays of known length, by which a machine shows that it finds an effect which is there.

They are switched on like optimizations, by name and level, so that they go through the same machinery. But nobody
wants them: no list, no design but `calibration` and no stack of everything has them.
"""

from collections.abc import Iterable, Mapping

from harness.core.cell import Cell, Comparison
from harness.core.need import CUDA, Need
from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

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
