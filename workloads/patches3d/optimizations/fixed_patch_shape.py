"""Cut or pad every augmented patch back to one shape.

As found, zoom and stretch leave each patch with a shape of its own, from a third of the nominal volume to four times as
much. Then no two patches can be collated: the advice to raise the batch to 2 or 4, promised to be worth twice and four
times the speed, ended in an error. A compiler leaves sizes open, cuDNN searches anew, and the caching allocator keeps a
block for every size it has met.

It pays by what it makes possible: batches, `compile`, `cudnn_benchmark`. By itself it only makes a step's work even;
a patch has 1.28 times the nominal volume on average (1.48 times at sizes smoke and quick, whose patches may not become
smaller), so a step gets cheaper by that much. Zoomed-in patches lose their rim and zoomed-out ones get an empty one: it
changes what is learned.

    patch = np.pad(patch, missing)[middle]
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="fixed_patch_shape",
    title="All patches of one shape",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"patch_shape": "fixed"},
    proof={"patch_shape": "fixed"},
)
