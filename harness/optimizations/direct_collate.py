"""Make batches with a function that knows what a sample is.

`default_collate` looks up how to join whatever it is given, part by part: tensors, arrays, numbers, mappings, nested
as deep as they come. A function for tuples of tensors and numbers stacks each column at once, in a worker straight into
shared memory as the general one does. It may pay where samples are tiny and many, because the questions are asked for
every batch; a batch of a few images does not notice. The bits of the batch are the same. Data sets that hand over
finished batches have nothing to collate.

    def collate(samples):
        inputs, targets = zip(*samples)
        return torch.stack(inputs), torch.tensor(targets)  # in a worker with out= in shared memory
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

COLLATED = ("batched_fetch", "data_on_device", "device_mel", "device_mixing", "gpu_decoding")
FINISHED = "the data set hands over finished batches, so nothing is left to collate"

OPTIMIZATION = Optimization(
    name="direct_collate",
    title="Collation without questions",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"collate": "direct"},
    proof={"collate": "direct"},
    alone_on=Timing.LOADER,
    excludes=dict.fromkeys(COLLATED, FINISHED),
)
