"""Ranks: several processes train one model together, each on its part of every batch, by DistributedDataParallel.

Every process has a copy of the model; gradients are averaged over all of them in the backward pass, by NCCL between
GPUs and by gloo between CPUs. The samples of one update stay the same, so that the ratio against one process is strong
scaling; with `batch_scale` at the same level each rank has a whole usual batch, which is weak scaling. Batch
normalisation sees each rank's part alone, as it does with `gradient_accumulation`, and a loss that looks at a whole
batch takes its mean within each part. `compile` wraps the parallel model, whose graph PyTorch then splits where buckets
of gradients are reduced; `compile=regional` compiles blocks within it. Pays where every rank has a device of its own.
Two processes on two cores share caches and memory: their ratio rehearses the method and tells nothing of GPUs.

    dist.init_process_group("nccl")
    model = DistributedDataParallel(model)              # with a DistributedSampler for the loader
"""

from harness.core.optimization import A_DEVICE_EACH, LEVEL, Need, Numerics, Optimization, Stage


def _a_core_each(ranks: int) -> Need:
    return Need(
        missing=f"needs a CPU with at least {ranks} cores",
        met=lambda environment, _: environment.device != "cpu" or environment.cores >= ranks,
    )


OPTIMIZATION = Optimization(
    name="ranks",
    title="Several processes that train together",
    stage=Stage.RANKS,
    numerics=Numerics.DIFFERENT,
    sets={"ranks": LEVEL},
    proof={"ranks": LEVEL},
    levels=(2, 4, 8),
    needs=(A_DEVICE_EACH,),
    level_needs={4: _a_core_each(4), 8: _a_core_each(8)},
)
