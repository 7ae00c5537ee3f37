"""A network file system that is mounted as a folder, as the real system's data lie on one below /mnt.

Whoever may not mount anything cannot have a real one, so the bytes come from the local files and a read lasts as long
as it would there. Opening a file asks the server once, whatever the page cache holds (close-to-open consistency); what
the page cache does not hold is asked for in pieces of the kernel's read-ahead, one after the other. Decoding goes on
meanwhile, as it does while the kernel reads ahead, so that a read takes the longer of both.

The times are those that Amazon states of EFS: 250 microseconds a request at best, and 500 MiB/s for a client. A busier
server is slower. Each loader worker has the client's rate here; a real one is shared by all that read at once.
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from workloads.speaker.layout import TRAIN_WAVS

REQUEST_S, BYTES_PER_S = 250e-6, 500 * 2**20  # docs.aws.amazon.com/efs/latest/ug/performance.html
# Of Linux for NFS, in RHEL 8.3 and Ubuntu since 18.04: learn.microsoft.com/azure/azure-netapp-files/ and there
# performance-linux-nfs-read-ahead.
READ_AHEAD = 128 * 1024


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount of the data folder, and whether the page cache holds all but the utterances: noises, pieces and rooms."""

    folder: Path
    noise_cached: bool

    def waited(self, path: Path, first: int, size: int, *, opened: bool, began: float) -> int:
        """Waits until a read of so many bytes from the first on is over; gives how many requests it took.

        Bytes come in pieces at fixed places, and whoever opens a file reads its header, in the first of them.
        """
        crosses = not self.noise_cached or path.is_relative_to(self.folder / TRAIN_WAVS)
        places = {0} if opened else set[int]()
        places.update(range(first // READ_AHEAD, (first + size - 1) // READ_AHEAD + 1))
        pieces = len(places) if crosses else 0
        lasting_s = seconds(opened + pieces, size if crosses else 0)
        sleep(max(0.0, began + lasting_s - perf_counter()))
        return opened + pieces


def seconds(requests: int, size: int, bytes_per_s: float = BYTES_PER_S) -> float:
    """Seconds of so many requests, one after the other, that bring so many bytes."""
    return requests * REQUEST_S + size / bytes_per_s
