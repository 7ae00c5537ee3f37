"""Send batches through the pipe between worker and trainer, byte by byte, instead of leaving them in shared memory.

A harm, to show what PyTorch saves. A tensor from a worker is moved to shared memory and only its handle is sent; the
trainer maps it and copies nothing. An array, or a list of numbers or arrays, is pickled: the worker pickles it and
writes it to a pipe; the trainer reads it and builds it anew, in turn for all workers. Loaders that return NumPy arrays
or lists pay this without knowing. It costs in proportion to the bytes of a batch; tiny batches may even gain, because
mapping memory has a price of its own.

    def collate(samples):
        inputs, targets = default_collate(samples)
        return inputs.numpy(), targets.numpy()  # arrays: their bytes go through the pipe
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="pickled_batches",
    title="Batches pickled through a pipe",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"batch_transport": "pickle"},
    proof={"batch_transport": "pickle"},
    requires=("workers",),
    sought=False,
)
