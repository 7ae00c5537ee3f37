"""Pinned memory: batches are copied into page-locked memory, from which the GPU can fetch them itself.

Makes the copy to the device faster and lets it overlap with work when it is also non-blocking. Does nothing without a
GPU; costs a copy, by a thread behind loader workers or by the trainer in its step where there are none, and memory that
cannot be swapped.

    DataLoader(dataset, batch_size=..., pin_memory=True)
"""

from harness.core.optimization import ASYNCHRONOUS, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="pin_memory",
    title="Pinned host memory",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"pin_memory": True},
    proof={"pinned_batches": True},
    needs=(ASYNCHRONOUS,),
)
