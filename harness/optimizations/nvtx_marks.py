"""NVTX marks: named ranges around fetch, transfer, forward, loss, backward and update, for a profiler's timeline.

A range is two calls into a small library that do next to nothing while no profiler listens, so marks are often left in
a script for good. With Nsight Systems attached each one is recorded, and costs more. Nothing is gained but sight; this
measures whether that is free. On a CPU-only build of PyTorch the calls raise an error.

    torch.cuda.nvtx.range_push("forward")
    outputs = model(inputs)
    torch.cuda.nvtx.range_pop()
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="nvtx_marks",
    title="Marks for a profiler around the parts of a step",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"nvtx": True},
    proof={"marked_parts": "fetch, transfer, forward, loss, backward, update"},
    needs=(CUDA,),
    sought=False,
)
