"""Garbage collector off: Python does not look for unreachable objects while the training runs.

Now and then an allocation sets off a collection, and seldom one that walks over all objects: a pause of about a tenth
of a second in some step. On many GPUs that wait for each other one process's pause is everybody's, which is why
trainers of large models switch the collector off and collect at moments of their own. In one process the gain is small,
mostly in the slowest steps. patches3d is the exception, because its loss collects itself: there the option gains part
of what `deferred_loss_components` gains, and the two do not add up. Hurts where a step leaves rings of objects behind
that hold memory: nothing frees them any more. A script that calls the collector by hand still does so, but over its own
objects alone.

    gc.collect(); gc.freeze()      # what was imported is never looked at again
    gc.disable()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="garbage_collector_off",
    title="No automatic garbage collection",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"garbage_collector": "off"},
    proof={"automatic_collection": False, "frozen_objects": True},
)
