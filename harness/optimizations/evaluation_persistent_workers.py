"""Evaluation workers that stay from one evaluation to the next.

Without it the workers of an evaluation's loader start anew in every epoch, open their files anew and end again. It
saves that start, which may take longer than a short evaluation; the workers hold their memory meanwhile.

    loader = DataLoader(validation_set, batch_size=..., num_workers=2, persistent_workers=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="evaluation_persistent_workers",
    title="Workers of the evaluation kept from pass to pass",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"evaluation_persistent_workers": True},
    proof={"evaluation_persistent_workers": True},
    timed_on=Timing.EVALUATION,
    requires=("evaluation_workers",),
)
