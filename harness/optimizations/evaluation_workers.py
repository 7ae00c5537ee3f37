"""Evaluation workers: processes of a loader of the evaluation's own read ahead while the model judges.

Evaluations are often written as a loop that reads an item, then judges it. Where reading takes as long as judging,
workers halve the pass; where a pass is short, starting them costs more than they save. Each is a copy of the trainer,
so that memory grows with them.

    loader = DataLoader(validation_set, batch_size=..., num_workers=2)
"""

from harness.core.optimization import EVALUATION_OPTIONS, LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="evaluation_workers",
    title="Loader workers of the evaluation",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"evaluation_workers": LEVEL},
    proof={"evaluation_workers": LEVEL},
    timed_on=Timing.EVALUATION,
    levels=(1, 2, 4, 8),
    usual=lambda environment: min(2, environment.cores),
    needs=(EVALUATION_OPTIONS,),
)
