"""Device results: what the model says of each item stays on the device, and is read back once, at the end.

Evaluation loops often ask for every result as soon as it is there. Each question waits until the device has done all
that was queued, so that the host can prepare nothing in the meantime and the device is idle while the host reads the
next item. Kept results are a few bytes an item; the forward passes stay what they are, one item at a time.

It pays on a GPU where an item takes little longer than a wait does. It gains nothing on a CPU, where a result is there
when the call returns, and little where an evaluation is batched: that reads back once a batch, or once at all. It hurts
where results are large, such as whole segmentations: all of them then lie in the device's memory at once.

    scores = [model(item) for item in items]         # nothing is asked for
    scores = torch.cat(scores).tolist()              # one wait
"""

from harness.core.optimization import EVALUATION, Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="device_results",
    title="Results of an evaluation read back once",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"device_results": True},
    proof={"device_results": True},
    timed_on=Timing.EVALUATION,
    pointless_where={"batched_results read once": "batches of this evaluation are read back once by themselves"},
    needs=(EVALUATION, trait("device_results", "needs an evaluation with a small result for each item")),
)
