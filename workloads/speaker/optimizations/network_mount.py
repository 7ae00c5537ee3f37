"""Read from a folder that is mounted over the network, as the real system's data lie below `/mnt`.

A condition, not an improvement. Requests take as long as Amazon states of EFS at its best: 250 microseconds, 500 MiB a
second for a client, 128 KiB a request, which is what Linux reads ahead on NFS. Utterances always cross the network,
since 250 GB of them fit in no page cache. What makes the difference is the noise: with `noise_cached` its 11 GB have
been read once and stay in memory, and only its opening asks the server; with `uncached` memory is too small for them,
or the training has just begun, and a noise file of sixteen megabytes that is read whole crosses the network for two
seconds of sound. So a copy to a local disk pays where memory does not hold the noise. Reading less (`seek_read`) gains
more than the copy.

Use it as a reference, to see what reading less, more workers or a local disk gain. A larger read-ahead helps whole
reads alone:

    echo 15360 > /sys/class/bdi/$(mountpoint -d /mnt)/read_ahead_kb

    ./speedmatrix run speaker --reference network_mount=uncached --only seek_read --only workers
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="network_mount",
    title="Data on a network mount",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"network_mount": LEVEL},
    levels=("noise_cached", "uncached"),
    proof={"network_mount": LEVEL},
    alone_on=Timing.LOADER,
    sought=False,
)
