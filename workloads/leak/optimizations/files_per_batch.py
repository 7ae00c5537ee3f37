"""Evaluate so many files in one pass, where a batched evaluation takes 16.

The real system's review asks for 16 files in a pass, which is 1280 segments and stays in the cache of a CPU; 8 stay in
a smaller one. A GPU with room may want more: the launches and the copy of a pass are then shared by more files. It
costs memory for the segments and their activations, and nothing is gained once a pass fills the device. No pass holds
more files than there are to validate, 12 at size `smoke` and 40 at `quick`: a higher level is not active there.

    for start in range(0, len(files), 256):
        scores.append(model(torch.from_numpy(mel[start : start + 256]).to(device)))
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="files_per_batch",
    title="Files in a pass of the evaluation",
    stage=Stage.EVALUATION,
    numerics=Numerics.CLOSE,
    sets={"files_per_batch": LEVEL},
    proof={"files_per_batch": LEVEL},
    timed_on=Timing.EVALUATION,
    levels=(8, 32, 256),
    usual=lambda environment: 256 if environment.accelerated else 8,
    requires=("batched_evaluation",),
)
