"""Batches of encoded images, decoded and cropped on the device: by nvJPEG where that is a GPU."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2.functional import horizontal_flip, resized_crop

from workloads.imagenet.layout import Labelled
from workloads.imagenet.views import BILINEAR, MIRRORED, Normalization, draw_crop, generator

QUALITY = 95  # of what has to be written anew

EncodedBatch = tuple[Tensor, Tensor, Tensor]


class Reader(Protocol):
    """Reads the files of items."""

    def read(self, indices: Sequence[int]) -> Iterator[bytes]:
        """Their bytes, in their order."""


@dataclass(frozen=True, slots=True)
class EncodedBatches(Dataset[EncodedBatch]):
    """Whole batches: all encoded bytes (N,) uint8, a row (B, 6) for each image, class numbers (B,).

    A row is the image's number of bytes, the left, top, width and height of its crop, and whether it is mirrored.
    """

    files: tuple[Labelled, ...]
    reader: Reader
    collated: bool = True

    def __len__(self) -> int:
        """Images in one timed epoch."""
        return len(self.files)

    def __getitem__(self, index: int) -> EncodedBatch:
        """A batch of one."""
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> EncodedBatch:
        """The finished batch: nothing is decoded but the headers."""
        encoded = [_plain(one) for one in self.reader.read(indices)]
        rows = [_row(index, one) for index, one in zip(indices, encoded, strict=True)]
        labels = [self.files[index].label for index in indices]
        together = torch.frombuffer(bytearray().join(encoded), dtype=torch.uint8)
        return together, torch.tensor(rows), torch.tensor(labels)


@dataclass(frozen=True, slots=True)
class DeviceDecoding:
    """Makes inputs (B, 3, px, px) in float32 and targets (B,) of an encoded batch, whose labels lie on the device.

    The decoder takes bytes from host memory, and crops are cut by numbers of the host: neither travels.
    """

    on_host: ClassVar = (0, 1)
    px: int
    device: torch.device
    normalization: Normalization

    def __call__(self, batch: EncodedBatch) -> tuple[Tensor, Tensor]:
        """Decodes all images in one call."""
        together, table, labels = batch
        rows = table.tolist()
        encoded = together.split([row[0] for row in rows])
        images = self._decoded(list(encoded))
        views = [self._view(image, row[1:]) for image, row in zip(images, rows, strict=True)]
        return self.normalization(torch.stack(views)), labels

    def _decoded(self, encoded: list[Tensor]) -> list[Tensor]:
        """Images of these bytes, in memory that no kernel of the device still reads.

        nvJPEG writes on a stream that waits for no other, and PyTorch hands out memory as soon as the last kernel that
        reads it is queued. Memory of a stream of its own is handed out after those kernels have run.
        """
        if self.device.type != "cuda":
            return list(decode_jpeg(encoded, mode=ImageReadMode.RGB, device=self.device))
        apart, steps = _apart(self.device), torch.cuda.current_stream(self.device)
        with torch.cuda.stream(apart):
            images = list(decode_jpeg(encoded, mode=ImageReadMode.RGB, device=self.device))
        steps.wait_stream(apart)
        for image in images:
            image.record_stream(steps)
        return images

    def _view(self, image: Tensor, row: list[int]) -> Tensor:
        left, top, width, height, mirrored = row
        view: Tensor = resized_crop(image, top, left, height, width, [self.px, self.px], BILINEAR)
        return horizontal_flip(view) if mirrored else view


@cache
def _apart(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _row(index: int, encoded: bytes) -> list[int]:
    rng = generator(index)
    crop = draw_crop(*Image.open(io.BytesIO(encoded)).size, rng)
    return [len(encoded), crop.left, crop.top, crop.width, crop.height, int(rng.random() < MIRRORED)]


def _plain(encoded: bytes) -> bytes:
    """The same bytes, but for the few images that nvJPEG cannot take, such as CMYK: those are written anew in RGB."""
    image = Image.open(io.BytesIO(encoded))
    if image.format == "JPEG" and image.mode in {"RGB", "L"}:
        return encoded
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
