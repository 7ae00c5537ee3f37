"""Deterministic cuDNN: only algorithms that give the same bits in every run.

Not a speed-up but a price: it forbids cuDNN the convolution kernels that add in no fixed order, some of which are the
fastest. Systems that had it on are measured with it; leaving it off is then what pays. It makes a run repeatable only
together with seeds, and only as far as no other operation is non-deterministic.

    torch.backends.cudnn.deterministic = True
"""

from harness.core.optimization import ANY_CONVOLUTIONS, CUDA, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="cudnn_deterministic",
    title="Deterministic cuDNN algorithms only",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"cudnn_deterministic": True},
    proof={"cudnn_deterministic": True},
    alone_on=Timing.COMPUTE,
    needs=(CUDA, ANY_CONVOLUTIONS),
    sought=False,
)
