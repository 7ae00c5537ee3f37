"""Emptied cache: CUDA's cached memory is given back to the driver after every step.

PyTorch keeps the memory of freed tensors, because asking the driver for it is slow and waits for the device. Emptying
that cache frees nothing that the next step would not ask for again: each step then pays for every allocation, and the
host can no longer run ahead. The peak stays the same. It may help once, before another process or another phase needs
the device; in a training loop it is a habit that only costs.

    optimizer.step()
    torch.cuda.empty_cache()
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="empty_cache",
    title="Device memory given back after every step",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"empty_cache": True},
    proof={"emptied_cache": True},
    needs=(CUDA,),
    sought=False,
)
