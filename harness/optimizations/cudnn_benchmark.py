"""cuDNN benchmark: the first batch of each shape tries several convolution algorithms and keeps the fastest.

Pays when shapes stay the same; is a great loss when they vary, because each new shape is searched again. The choice may
differ from run to run, and with it the last bits.

    torch.backends.cudnn.benchmark = True
"""

from harness.core.optimization import ANY_CONVOLUTIONS, CUDA, NEW_SHAPES, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="cudnn_benchmark",
    title="cuDNN algorithm search",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"cudnn_benchmark": True},
    proof={"cudnn_benchmark": True},
    alone_on=Timing.COMPUTE,
    needs=(CUDA, ANY_CONVOLUTIONS, NEW_SHAPES),
)
