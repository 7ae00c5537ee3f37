"""Training and validation items, read, decoded and cropped as the recipe says."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.imagenet.device_decoding import EncodedBatches
from workloads.imagenet.encoded import load
from workloads.imagenet.layout import TRAIN, VALIDATION, Labelled, chosen_files
from workloads.imagenet.mount import find_store
from workloads.imagenet.shards import open_shards
from workloads.imagenet.storage import Files, Source, running
from workloads.imagenet.views import View, generator, normalized

SEED = 1_281_167  # of the order
FULL_PX = 224  # of the real system; a size may show fewer

Item = tuple[Tensor, int]


@dataclass(frozen=True, slots=True)
class Images(Dataset[Item]):
    """Pairs of a view (3, px, px), in float32 or uint8, and a class number, one by one."""

    files: tuple[Labelled, ...]
    source: Source
    view: View
    finish: Callable[[Tensor], Tensor]  # the last step: from uint8 to what a batch is made of
    full_px: int  # the side of a view at this size where the real system shows 224
    origin: Source  # where the files lie, even if they were packed or loaded into memory
    store: Source | None = None  # the object store, whether or not it is read, where one is running
    training: bool = True

    def __len__(self) -> int:
        """Images in one timed epoch."""
        return len(self.files)

    def __getitem__(self, index: int) -> Item:
        """The item, a function of its index alone."""
        return self.made(index, self.source.read(self.files[index].path))

    def read(self, indices: Sequence[int]) -> Iterator[bytes]:
        """The files of these items, in their order."""
        return (self.source.read(self.files[index].path) for index in indices)

    def made(self, index: int, encoded: bytes) -> Item:
        """The item whose file was read already."""
        pixels = self.view.training(encoded, generator(index)) if self.training else self.view.validation(encoded)
        return self.finish(pixels), self.files[index].label


@dataclass(frozen=True, slots=True)
class ConcurrentImages(Dataset[Item]):
    """The same pairs, the files of a batch read on so many threads at once."""

    images: Images
    threads: int

    def __len__(self) -> int:
        """Images in one timed epoch."""
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        """One item, for who asks for one alone."""
        return self.images[index]

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """The items of a batch; one is decoded while the next are still on their way."""
        return [self.images.made(index, encoded) for index, encoded in zip(indices, self.read(indices), strict=True)]

    def read(self, indices: Sequence[int]) -> Iterator[bytes]:
        """The files of these items, in their order."""
        self.images.source.connect()
        paths = [self.images.files[index].path for index in indices]
        return _readers_of(os.getpid(), self.threads).map(self.images.source.read, paths)


def dataset(folder: Path, size: Size, recipe: Recipe) -> Images | ConcurrentImages | EncodedBatches:
    """The training items of one timed epoch, in a seeded order over all classes."""
    images = _images(folder, size, recipe, TRAIN)
    if recipe.choice("packing") == "shards":
        images = replace(images, source=open_shards(folder, [one.path for one in images.files]))
    if recipe.choice("encoded_cache") == "ram":
        images = replace(images, source=load(images.source, [one.path for one in images.files]))
    threads = recipe.choice("concurrent_reads")
    feeding = ConcurrentImages(images, int(threads)) if isinstance(threads, int) and threads > 1 else images
    return EncodedBatches(images.files, feeding) if recipe.choice("decoder") == "nvjpeg" else feeding


def validation(folder: Path, size: Size, recipe: Recipe) -> Images:
    """The validation images in the order of their classes and of the rule that chose them; never from the cache."""
    return _images(folder, size, recipe, VALIDATION)


def _images(folder: Path, size: Size, recipe: Recipe, split: str) -> Images:
    store = find_store(folder, recipe.choice("s3_state"))
    source: Source = Files(folder) if recipe.choice("storage") == "local" else running(store)
    listed = chosen_files(split, source.names(split))
    count = size.samples if split == TRAIN else size.evaluation_items
    if len(listed) < count:
        raise Mistake(
            f"{folder / split} holds {len(listed)} images where {count} are needed; choose a smaller size or more data."
        )
    order = np.random.default_rng(SEED).permutation(len(listed)) if split == TRAIN else np.arange(len(listed))
    return Images(
        files=tuple(listed[place] for place in order[:count]),
        source=source,
        view=_view(size, recipe),
        finish=_unchanged if recipe.choice("batch_dtype") == "uint8" else normalized,
        full_px=size.shape["image_px"],
        origin=source,
        store=store,
        training=split == TRAIN,
    )


def shown_px(size: Size, image_size: object) -> int:
    """The side of a view at this size, for a side given in pixels of the real system's 224."""
    if not isinstance(image_size, int):
        raise TypeError(f"image_size is {image_size!r}, not a number")
    return round(size.shape["image_px"] * image_size / FULL_PX)


def _view(size: Size, recipe: Recipe) -> View:
    decoder = str(recipe.choice("decoder"))
    return View(
        px=shown_px(size, recipe.choice("image_size")),
        # What the device decodes in training, the host decodes in validation.
        decoder="torchvision" if decoder == "nvjpeg" else decoder,
        draft=bool(recipe.choice("draft_decode")),
    )


def _unchanged(pixels: Tensor) -> Tensor:
    return pixels


@cache
def _readers_of(_process: int, threads: int) -> ThreadPoolExecutor:
    """The reading threads of one process: those of a parent do not survive a fork."""
    return ThreadPoolExecutor(threads)
