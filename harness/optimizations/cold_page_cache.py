"""Read each epoch from storage: nothing of the data lies in the system's page cache when it begins.

A condition. A benchmark reads the same files again and again, so from the second pass on they come from memory. So
does any training whose files fit there, but for its first epoch; a set larger than memory never does. Here the files
are dropped before each window, which is one epoch, and read back after it, untimed, for the arm whose turn is next. It
shows how much of what a loader gains is gained because the disk is not asked. What a process has mapped or copied into
memory cannot be dropped: such data stay warm, and so do those on a file system that lives in memory.

    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="cold_page_cache",
    title="Data dropped from the page cache",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"page_cache": "cold"},
    proof={"page_cache": "cold"},
    timed_on=Timing.EPOCH,  # every file is read once: a share of an epoch would depend on how long the window is
    sought=False,
)
