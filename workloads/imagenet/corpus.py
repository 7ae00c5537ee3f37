"""Writes a stand-in of the subset: JPEG files of the real sizes, each a function of its place alone."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from harness.core.parallel import spread
from harness.core.workload import Size
from workloads.imagenet.layout import TRAIN, VALIDATION
from workloads.imagenet.shards import pack_all
from workloads.imagenet.synthesis import FIELD_PX, look, photograph

SEED = 2012
CHUNK = 25
# 1 % grey as in the real set; more CMYK than its few, so that it is met at all. Primes, so that all classes have their
# turn and none is grey alone.
GREY_EVERY, CMYK_EVERY = 101, 503
PORTRAIT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Picture:
    """One file to be written."""

    split: str
    place: int  # in its split, from 0
    classes: int

    @property
    def path(self) -> str:
        """`train/<wnid>/<wnid>_<number>.JPEG` or `val/<wnid>/ILSVRC2012_val_<number>.JPEG`."""
        wnid = f"n9{self.place % self.classes:07d}"  # no real one begins so
        name = f"{wnid}_{self.place}" if self.split == TRAIN else f"ILSVRC2012_val_{self.place + 1:08d}"
        return f"{self.split}/{wnid}/{name}.JPEG"


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Writes both splits, then the shards, in as many processes as there are cores; yields the share that is done."""
    shape = size.shape
    pictures = [
        Picture(split, place, shape["classes"])
        for split, files in ((TRAIN, shape["train_files"]), (VALIDATION, size.evaluation_items))
        for place in range(files)
    ]
    for parent in sorted({(folder / one.path).parent for one in pictures}):
        parent.mkdir(parents=True)
    for share in spread(partial(write, folder), pictures, CHUNK):
        yield 0.95 * share
    for share in pack_all(folder):
        yield 0.95 + 0.05 * share


def write(folder: Path, picture: Picture) -> None:
    """Writes the file of a picture."""
    (folder / picture.path).write_bytes(encoded(picture))


def encoded(picture: Picture) -> bytes:
    """The JPEG of a picture: 4:2:0, quality 85 to 95, sides log-normal around 500 by 375."""
    rng = np.random.default_rng((SEED, picture.split == TRAIN, picture.place))
    width, height = _sides(rng)
    image = photograph(look(picture.place % picture.classes), width, height, rng)
    buffer = io.BytesIO()
    quality = int(rng.integers(85, 96))
    _in_mode(image, picture.place).save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
    return buffer.getvalue()


def _sides(rng: np.random.Generator) -> tuple[int, int]:
    scale = min(rng.lognormal(0, 0.25), FIELD_PX / 500)
    long, short = round(500 * scale), round(375 * scale)
    return (short, long) if rng.random() < PORTRAIT_SHARE else (long, short)


def _in_mode(image: Image.Image, place: int) -> Image.Image:
    if place % CMYK_EVERY == CMYK_EVERY // 3:
        return image.convert("RGB").convert("CMYK")
    return image.convert("L") if place % GREY_EVERY == GREY_EVERY // 3 else image
