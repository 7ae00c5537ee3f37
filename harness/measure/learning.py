"""Learning: a training without a clock, to see whether the model learns and whether its evaluation can be believed."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from harness.core.lesson import Learned
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.recipe import Recipe, Value
from harness.measure.session import Task
from harness.measure.trial import begin

# The arm begins as for a measurement, so that its settings are proved in the same way, but nothing waits for a clock.
UNTIMED = replace(BRIEF, loss_steps=1, floor_steps=1, floor_s=0.0, ceiling_s=0.01)


def learn(task: Task, slow: Recipe, proof: dict[str, Value], steps: int, show: Callable[[int, float], None]) -> Learned:
    """Trains for so many steps, then evaluates twice as the task's recipe says and once by the slow recipe."""
    trial, ready = begin(task, Timing.STEP, UNTIMED, proof, is_reference=False)
    session = trial.session
    step, losses = session.step(), []
    began = perf_counter()
    for number in range(1, steps + 1):
        losses.append(float(step()))
        show(number, losses[-1])
    train_s = perf_counter() - began
    evaluation, again = session.evaluate(), session.evaluate()
    as_found = session.evaluate(slow)
    session.feed.close()
    return Learned(
        losses=tuple(losses),
        evaluation=evaluation,
        again=again,
        as_found=as_found,
        unengaged=ready["unengaged"],
        train_s=train_s,
    )
