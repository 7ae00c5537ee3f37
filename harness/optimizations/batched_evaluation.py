"""Batched evaluation: many items go through the model together, and their scores are worked out in one piece.

Evaluation loops are often written for one item at a time, with a read-back for each. Batches use the device as training
does. The danger is in putting results back in the right rows: a fast evaluation that mixes them up is a wrong one.

    scores = torch.cat([model(batch) for batch in loader])      # one read-back at the end
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="batched_evaluation",
    title="Evaluation in batches",
    stage=Stage.EVALUATION,
    numerics=Numerics.CLOSE,
    sets={"batched_evaluation": True},
    proof={"batched_evaluation": True},
    timed_on=Timing.EVALUATION,
    needs=(trait("batched_evaluation", "needs an evaluation that can be batched"),),
)
