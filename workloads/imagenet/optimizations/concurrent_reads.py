"""Read the objects of a batch on several threads at once.

An object store answers many requests as fast as one: what a read costs is waiting. A loader worker that waits for each
object in turn needs a process for every request under way; threads do the same in one process, because waiting holds
no interpreter lock. DataLoader hands a data set all indices of a batch when it defines `__getitems__`; the batch is
then read at once, and decoded as it arrives.

It pays from storage with latency until the server, the network or decoding is the limit. It does nothing from memory
or a local disk, where there is nothing to wait for, and it needs as many connections as threads: with `mountpoint-s3`
and other mounted stores the mount decides how many there are. No more reads are under way than a batch has images.

    def __getitems__(self, indices):
        encoded = self.pool.map(self.read, indices)      # ThreadPoolExecutor, one for each process
        return [self.decode(one) for one in encoded]
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="concurrent_reads",
    title="Objects of a batch read at once",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"concurrent_reads": LEVEL},
    levels=(8, 16),
    proof={"concurrent_reads": LEVEL},
    alone_on=Timing.LOADER,
    pointless_where={
        "storage local": "where no read waits long enough to be worth a thread",
        "encoded_cache ram": "which answers at once",
    },
)
