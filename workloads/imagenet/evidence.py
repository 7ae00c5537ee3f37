"""Evidence: how the first items are really read, decoded and handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import sleep
from typing import Any

from torch import Tensor

from harness.core.recipe import Value
from harness.core.workload import Built
from workloads.imagenet.data import FULL_PX, ConcurrentImages, Images
from workloads.imagenet.decoding import Decoded
from workloads.imagenet.device_decoding import DeviceDecoding, EncodedBatches
from workloads.imagenet.encoded import watched
from workloads.imagenet.mount import Mounted
from workloads.imagenet.storage import OBJECT_S, Read

PROBED = 8  # items, read and decoded once more
STORE_PROBED = 3  # objects, read from the store whether the items come from there or not
HELD, HELD_S = 64, 0.05  # reads, about, that are held for so long, to see how many are held at once


def effective(built: Built) -> Mapping[str, Value]:
    """What the dataset, the device stage and the first batch show."""
    feeding = built.dataset.reader if isinstance(built.dataset, EncodedBatches) else built.dataset
    images = feeding.images if isinstance(feeding, ConcurrentImages) else feeding
    if not isinstance(images, Images):
        raise TypeError(f"{images!r} holds no images of this workload")
    on_device = isinstance(built.device_stage, DeviceDecoding)
    return {
        **_of_reading(images),
        **_of_decoding(images, built if on_device else None),
        "concurrent_reads": most_held(feeding, len(built.batch[-1])) if isinstance(feeding, ConcurrentImages) else 1,
        "batch_dtype": "encoded" if on_device else str(built.batch[0].dtype).removeprefix("torch."),
        "image_size": round(_shown(built).shape[-1] * FULL_PX / images.full_px),
    }


def _of_reading(images: Images) -> dict[str, Value]:
    reads: list[Read] = []
    probe = replace(images, source=watched(images.source, reads))
    for _ in probe.read(_first(images)):
        pass
    sources = sorted({read.source for read in reads})
    return {
        # What lies in memory was loaded from somewhere; what is not in memory is read from there.
        "storage": images.origin.name,
        "s3_state": store_state(images),
        "packing": "shards" if sources == ["shards"] else "files",
        "encoded_cache": "ram" if sources == ["ram"] else "none",
        "cache_hit_rate": sum(read.source == "ram" for read in reads) / len(reads),
        "object_gets": sum(read.source == "s3" for read in reads),
        "local_opens": sum(read.source == "local" for read in reads),
        "packed_reads": sum(read.source == "shards" for read in reads),
        "object_ms": round(1000 * sum(read.seconds for read in reads) / len(reads), 1),
        "quickest_object_ms": round(1000 * min(read.seconds for read in reads), 1),
    }


def store_state(images: Images) -> str | None:
    """What reads of some objects show; None where no object store is there.

    Of the plain store the clock says whether it is cold or warm. A mount says whether it fetched the objects or had
    kept them.
    """
    if images.store is None:
        return None
    reads: list[Read] = []
    probe = watched(images.store, reads)
    for index in _first(images)[:STORE_PROBED]:
        probe.read(images.files[index].path)
    if isinstance(probe, Mounted):
        kept = sum(read.source == "kept" for read in reads)
        return {0: "first_epoch", len(reads): "later_epochs"}.get(kept, "partly kept")
    return "cold" if min(read.seconds for read in reads) >= OBJECT_S["cold"] else "warm"


def _of_decoding(images: Images, on_device: Built | None) -> dict[str, Value]:
    if on_device is not None:
        # torchvision hands a list of JPEGs to nvJPEG where it decodes on a GPU, and to libjpeg elsewhere.
        return {"decoder": "nvjpeg" if _shown(on_device).is_cuda else "torchvision", "draft_decode": False}
    decoded: list[Decoded] = []
    probe = replace(images, view=replace(images.view, log=decoded))
    for index in _first(images):
        probe[index]
    libraries = [one.by for one in decoded]
    usual = max(sorted(set(libraries)), key=libraries.count)
    return {
        "decoder": usual,
        "decoded_by_others": sum(one != usual for one in libraries),
        "draft_decode": any(one.share < 1 for one in decoded),
        "decoded_pixels": round(sum(one.share for one in decoded) / len(decoded), 3),
    }


def _shown(built: Built) -> Tensor:
    if isinstance(built.device_stage, DeviceDecoding):
        return built.device_stage(built.batch)[0]
    shown: Tensor = built.batch[0]
    return shown


@dataclass(slots=True)
class Holding:
    """A source that holds every read for a while and counts how many it holds at once."""

    held: int = 0
    most: int = 0
    lock: Any = field(default_factory=Lock)
    name: str = "holding"

    def read(self, _path: str) -> bytes:
        """Nothing, after a while."""
        with self.lock:
            self.held += 1
            self.most = max(self.most, self.held)
        sleep(HELD_S)
        with self.lock:
            self.held -= 1
        return b""

    def names(self, _split: str) -> Mapping[str, Sequence[str]]:
        """Nothing."""
        return {}

    def connect(self) -> None:
        """It needs no connection."""


def most_held(feeding: ConcurrentImages, batch: int) -> int:
    """How many reads are under way at once while batches of so many images are fetched, one after another."""
    holding = Holding()
    probe = replace(feeding, images=replace(feeding.images, source=holding))
    together = min(batch, max(HELD, feeding.threads))  # of a larger batch a part shows as much
    for _ in range(-(-HELD // together)):
        for _ in probe.read([0] * together):
            pass
    return holding.most


def _first(images: Images) -> list[int]:
    return list(range(min(PROBED, len(images))))
