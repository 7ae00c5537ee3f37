"""Batched fetch: the dataset hands over a whole batch at once instead of item by item.

DataLoader calls `__getitems__` with all indices of a batch when a dataset defines it. One vectorised read then replaces
thousands of Python calls, small tensors and a collation. Pays most where items are small; does nothing where one item
is expensive by itself, such as an image to be decoded. On leak it reads a memory map. That alone gives a part of the
gain (`memory_map`); over HDF5 it would gain far less.

    class Samples(Dataset):
        def __getitems__(self, indices):
            return torch.from_numpy(self.mel[indices]), self.labels[indices]
    loader = DataLoader(Samples(), batch_size=..., collate_fn=as_it_is)  # def as_it_is(batch): return batch
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="batched_fetch",
    title="Whole batches fetched at once",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"batched_fetch": True},
    proof={"batched_fetch": True},
    alone_on=Timing.LOADER,
    needs=(trait("batched_fetch", "needs a data set that can be indexed by many samples at once"),),
)
