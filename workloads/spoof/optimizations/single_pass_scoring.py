"""Score the evaluation clips once and reuse the scores for every report.

When training ends, the real system, from its commit 3280eb0 on, scores the dev clips for the score file and scores them
again for its plots. The scores are the same numbers: the second pass can read them from the first. This workload's
evaluation is that last one, so that half of it can be saved at most; the evaluations after each epoch were single
passes already.

It pays twofold on the last evaluation and nothing else: in a training of ten epochs one dev pass of eleven. It hurts
nowhere.

    scores = score_all(model, dev_loader)
    write_score_file(scores); plot_curves(scores)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="single_pass_scoring",
    title="Scores of one pass reused by all reports",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"scoring_passes": 1},
    proof={"scoring_passes": 1},
    timed_on=Timing.EVALUATION,
)
