"""torch.compile: the model is traced and compiled into fused kernels.

Removes Python and launch overhead and the memory traffic between small operations. The first steps pay for it, from
half a minute to several; nothing is gained while the step waits for data. `reduce-overhead` adds CUDA graphs,
`max-autotune` searches kernels for minutes.

    model = torch.compile(model, mode="default")
"""

from harness.core.need import COMPILER
from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="compile",
    title="Compiled model",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"compile": LEVEL},
    proof={"compiled": True},
    levels=("default", "reduce-overhead", "max-autotune"),
    needs=(COMPILER,),
    start_s=90.0,
)
