"""In-memory data: the whole training set is read into memory once, before the first step.

Removes reading and opening from every item. Pays when reading is what an item costs and the set fits; does little when
the time goes into Python around the read, as with tiny items fetched one by one. Costs its size in memory and a
longer start.

On leak the arrays of a file are kept. On a training of your own finished items are, so that decoding and transforms are
saved too; it is left out where an item is another whenever it is read.

    mel = torch.from_numpy(h5py.File(path)["segments_mel"][:])  # leak: all of a file
    items = [dataset[index] for index in range(len(dataset))]   # a training of your own: DataLoader(items, ...)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="in_memory_data",
    title="Training set held in memory",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"in_memory_data": True},
    proof={"in_memory_data": True},
    alone_on=Timing.LOADER,
    needs=(trait("in_memory_data", "needs a training set that fits in memory"),),
)
