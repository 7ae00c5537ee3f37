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
    Numerics,
    Optimization,
    Stage,
    Timing,
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
    needs=(EVALUATION_OPTIONS, FAST_BFLOAT16),
    level_needs={"float16": CUDA},
)
