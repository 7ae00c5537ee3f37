"""Batch normalisation over the samples of all ranks, where each usually sees its own part alone.

Every such layer exchanges sums with all other ranks, once in the forward pass and once in the backward pass, and each
exchange is waited for: a cost in speed. It is chosen for what is learned where a rank's part is only a few samples. At
the same global batch its statistics are those of one process, so a training on many GPUs repeats that of one. PyTorch's
layer has no code for CPUs. Not measured yet on any machine: ranks on several GPUs have not been tried.

    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)    # before DistributedDataParallel
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="synchronized_batch_norm",
    title="Batch normalisation over all ranks' samples",
    stage=Stage.RANKS,
    numerics=Numerics.DIFFERENT,
    sets={"synchronized_batch_norm": True},
    proof={"synchronized_batch_norm": True},
    needs=(CUDA,),
    requires=("ranks",),
    sought=False,
)
