"""Measure the distance to the true surface in the loader, beside the labels, instead of in the loss.

The surface term needs two Euclidean distance transforms by scipy: of the prediction, which exists only in the step, and
of the target, which the loader knows. In the loss both stop the device. Caching the target's transform looks better
still, but augmentation makes another target of a volume each time, so that such a cache would never be hit in real
training; a benchmark that repeats its samples would show a gain that does not exist.

It pays where loader workers have time to spare and the step has none. It hurts where the loader is the bottleneck, as
here as found, and because the loss wants distances only once in sixteen calls, the fourth step, while the loader
measures for every item.

    target = np.stack([label, scipy.ndimage.distance_transform_edt(label == 0)])
"""

from harness.core.optimization import REAL_LOSS, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="loader_distance_transform",
    title="Distance to the true surface measured by the loader",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"target_distance": "loader"},
    proof={"target_distance": "loader"},
    needs=(REAL_LOSS,),
)
