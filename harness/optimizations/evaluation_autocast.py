"""Mixed precision in evaluations: forward passes in half precision, where an evaluation is written without it.

Training code gets its autocast first, and evaluations are forgotten: they then run at the speed of float32. No
gradients, so nothing has to be scaled. Scores may move in the third digit, and a threshold may flip an item.

    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        scores = model(inputs)
"""

from harness.core.optimization import (
    CUDA,
    EVALUATION_OPTIONS,
    FAST_BFLOAT16,
    LEVEL,
    Need,
    Numerics,
    Optimization,
    Stage,
    Timing,
)

HALF_PRECISION = Need(  # GPUs before Ampere have float16 alone
    missing="needs a CUDA device, or a CPU with matrix units for bfloat16",
    met=lambda environment, workload: any(one.met(environment, workload) for one in (CUDA, FAST_BFLOAT16)),
)

OPTIMIZATION = Optimization(
    name="evaluation_autocast",
    title="Evaluation in mixed precision",
    stage=Stage.EVALUATION,
    numerics=Numerics.CLOSE,
    sets={"evaluation_autocast": LEVEL},
    proof={"evaluation_autocast": LEVEL},
    timed_on=Timing.EVALUATION,
    levels=("bfloat16", "float16"),
    usual=lambda environment: "float16" if float(environment.capability or 8) < 8 else "bfloat16",
    needs=(EVALUATION_OPTIONS, HALF_PRECISION),
    level_needs={"bfloat16": FAST_BFLOAT16, "float16": CUDA},
)
