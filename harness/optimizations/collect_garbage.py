"""Garbage collected in every step: Python is told to look for unreachable objects after each update.

A full collection walks over every object that Python knows, a quarter of a million once torch is imported: about a
tenth of a second on the host, whatever the step does. It frees only objects that refer to each other in a ring; a
training step leaves few of them. It is often added in the hope of saving device memory. Where a GPU has enough work
queued the walk may hide behind it; on a CPU it is paid in full. On patches3d as found every fourth step does.

    optimizer.step()
    gc.collect()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="collect_garbage",
    title="Garbage collection in every step",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"garbage_collector": "every_step"},
    proof={"collection_each_step": True},
    sought=False,
)
