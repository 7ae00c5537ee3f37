"""Deferred metrics: the running loss stays on the device until it is printed.

`loss.item()` in every step makes the host wait for the device, so that it cannot queue the next step's work. Pays on a
GPU when steps are short; on a CPU the loss is there anyway.

    total += loss.detach()          # and float(total) once in a while
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="deferred_metrics",
    title="No loss read back in each step",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"deferred_metrics": True},
    proof={"deferred_metrics": True},
)
