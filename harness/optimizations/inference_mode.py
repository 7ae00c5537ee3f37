"""Inference mode: an evaluation that keeps no record for gradients at all.

`torch.no_grad` already keeps none; inference mode also leaves out version counters and view tracking. A gain for many
tiny operations, invisible beside convolutions.

    with torch.inference_mode():
        scores = model(inputs)
"""

from harness.core.optimization import EVALUATION, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="inference_mode",
    title="Evaluation in inference mode",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"inference_mode": True},
    proof={"inference_mode": True},
    timed_on=Timing.EVALUATION,
    needs=(EVALUATION,),
)
