"""Read through a mounted bucket, whose requests take as long as others measured at S3.

A condition, not an improvement. The stores of `cold_storage` and of the baseline answer each object in the same time; a
real one has a tail, and its median tells little of a batch that waits for the slowest of its objects. Here each file is
looked up by a HEAD and a LIST at once (14 ms in the middle, 1 in 100 above 35), as `mountpoint-s3` does before it
opens a file that it has not seen for a minute. In the first epoch its bytes are then fetched (26 ms for 128 KiB, one in
a hundred above 73); in later epochs a mount with a cache reads them from the local disk.

Use it as a reference, to see what prefetching, more workers or reading at once gain against a tail.

    mount-s3 --cache /local/cache bucket /mnt/bucket     # add --metadata-ttl indefinite, and nothing is looked up again

    ./speedmatrix run imagenet --reference mounted_storage=first_epoch --only prefetch_factor=4 --only concurrent_reads
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="mounted_storage",
    title="Bucket mounted as a folder, with a tail of latencies",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"s3_state": LEVEL},
    levels=("later_epochs", "first_epoch"),
    proof={"s3_state": LEVEL},
    sought=False,
)
