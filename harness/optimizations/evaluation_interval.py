"""Evaluation interval: after every so many epochs the evaluation set is gone through before the training goes on.

The price of knowing how good the model is while it trains. An evaluation is written once and rarely looked at again, so
it may take longer than the epoch that it follows; each doubling of the interval halves that share. What is lost is
sight: the best weights are known only to the interval, and early stopping comes later.

The clock runs through training and evaluation, and samples are those that were trained on, which is what a user waits
for. A window covers whole intervals and so is long, with few rounds, where an evaluation is slow.

    if (epoch + 1) % 3 == 0:
        evaluate(model, validation_loader)
"""

from harness.core.optimization import EVALUATION, LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="evaluation_interval",
    title="Evaluation after every so many epochs",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"evaluation_epochs": LEVEL},
    proof={"evaluation_epochs": LEVEL},
    timed_on=Timing.EPOCH,
    levels=(1, 3, 5),
    needs=(EVALUATION,),
    sought=False,
)
