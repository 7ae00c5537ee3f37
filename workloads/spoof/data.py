"""Training and evaluation items: features of clips with their labels, or sound for a log-mel on the device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.spoof import torch_mel
from workloads.spoof.augmentation import augmented
from workloads.spoof.layout import CORPORA, SAMPLE_RATE, Clip
from workloads.spoof.mel import frames_of, log_mel
from workloads.spoof.scoring import Scoring
from workloads.spoof.sources import Audio, Cached, Computed
from workloads.spoof.view import SEED, View

STREAMS = {"train": 0, "dev": 1}
MEL = {"float64": log_mel, "float32": log_mel, "torch": torch_mel.log_mel}
PRECISION = {"float64": "float64", "float32": "float32", "torch": "float32", "device": "int16"}


@dataclass(frozen=True)
class Listing:
    """The clips of a list in the order of use; each process reads the list for itself, a pickle carries no clip."""

    folder: Path
    corpus: str
    split: str
    wanted: int  # of the dev list, evenly spaced; the train list is shuffled and taken whole

    @cached_property
    def clips(self) -> tuple[Clip, ...]:
        """The clips, in the order of their numbers."""
        listed = CORPORA[self.corpus](self.folder, self.split)
        if self.split == "train":
            rows = np.random.default_rng(SEED).permutation(len(listed))
        elif len(listed) >= self.wanted:
            rows = np.linspace(0, len(listed) - 1, self.wanted).astype(np.intp)
        else:
            raise Mistake(
                f"{self.folder} lists {len(listed)} clips of {self.split}, not {self.wanted}; "
                "delete it and try again, or choose a smaller size."
            )
        return tuple(listed[row] for row in rows)

    def __reduce__(self) -> tuple[type["Listing"], tuple[Path, str, str, int]]:
        return Listing, (self.folder, self.corpus, self.split, self.wanted)


@dataclass(frozen=True)
class FeatureItems(Dataset[tuple[Tensor, int]]):
    """Pairs of features (128, frames) in float32 and a label, 1 for bona fide; an item depends on its index alone."""

    listing: Listing
    items: int
    view: View
    source: Computed | Cached
    scoring: Scoring  # how the last evaluation will go, for the evidence

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The item at an index; beyond the list the clips come round again, cut elsewhere."""
        clip = clip_at(self, index)
        seen = self.view.features(self.source(clip, index), index)
        return torch.from_numpy(seen.astype(np.float32)), clip.label


@dataclass(frozen=True)
class SoundItems(Dataset[Any]):
    """The same items as sound: clips padded to the longest, their lengths, first frames and labels, collated.

    Sound travels as the int16 that it is stored in, or as float32 if it was augmented: that is no longer whole numbers.
    """

    listing: Listing
    items: int
    view: View
    source: Audio
    scoring: Scoring
    collated = True

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[Tensor, int, int, int]:
        """The sound (samples,) at an index, its length, the first frame that the model sees and its label."""
        clip = clip_at(self, index)
        sound = self.source(clip, index)
        return torch.from_numpy(sound), len(sound), self.view.start(frames_of(len(sound)), index), clip.label

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, ...]:
        """A batch: sounds (B, samples), then lengths, first frames and labels, each (B,) int64."""
        sounds, *numbers = zip(*(self[index] for index in indices), strict=True)
        lengths = numbers[0]
        # Whole seconds: a transform for few lengths is planned a few times, one for any length in every batch.
        padded = torch.zeros(len(indices), -(-max(lengths) // SAMPLE_RATE) * SAMPLE_RATE, dtype=sounds[0].dtype)
        for row, sound in zip(padded, sounds, strict=True):
            row[: len(sound)] = sound
        return padded, *(torch.tensor(one) for one in numbers)


Items = FeatureItems | SoundItems


def clip_at(items: Items, index: int) -> Clip:
    """The clip of an item; raises IndexError beyond the last."""
    if not 0 <= index < items.items:
        raise IndexError(index)
    clips = items.listing.clips
    return clips[index % len(clips)]


def dataset(folder: Path, size: Size, recipe: Recipe) -> Items:
    """The training items of one timed epoch, as the recipe makes them."""
    return _items(folder, size, recipe, "train")


def evaluation_items(folder: Path, size: Size, recipe: Recipe) -> Items:
    """The items of the evaluation, in the order of the list; cut as in training, but alike in every pass."""
    return _items(folder, size, recipe, "dev")


def device_stage(
    folder: Path, size: Size, recipe: Recipe, device: torch.device
) -> Callable[[Any], tuple[Tensor, Tensor]] | None:
    """The log-mel on the device, where the recipe wants it there."""
    if recipe.choice("features") != "device":
        return None
    return torch_mel.DeviceMel(_frames(folder, size, recipe), device)


def _items(folder: Path, size: Size, recipe: Recipe, split: str) -> Items:
    corpus, features = str(recipe.choice("corpus")), str(recipe.choice("features"))
    items = size.samples if split == "train" else size.evaluation_items
    listing = Listing(folder, corpus, split, size.evaluation_items)
    view = View(
        frames=_frames(folder, size, recipe),
        early=recipe.choice("cut") == "sound",
        centred=corpus == "fake_or_real",
        stream=STREAMS[split],
    )
    scoring = Scoring(_number(recipe, "scoring_passes"))
    if features == "cached":
        return FeatureItems(listing, items, view, Cached(folder=folder), scoring)
    augment = augmented if split == "train" and recipe.choice("augmentation") else None
    precision = "float32" if augment and features == "device" else PRECISION[features]
    audio = Audio(folder=folder, precision=precision, view=view, augment=augment)
    if features == "device":
        return SoundItems(listing, items, view, audio, scoring)
    return FeatureItems(listing, items, view, Computed(audio=audio, mel=MEL[features]), scoring)


def _frames(folder: Path, size: Size, recipe: Recipe) -> int:
    """Frames that the model sees: the original's number, or those of a clip where short clips are not repeated."""
    usual = size.shape["frames"]
    if recipe.choice("tiling"):
        return usual
    if recipe.choice("corpus") != "fake_or_real":
        raise Mistake("Clips that are not repeated must be clips of one length, or they make no batch; use no_tiling.")
    first = CORPORA["fake_or_real"](folder, "train")[0]
    return min(usual, frames_of(soundfile.info(folder / first.path).frames))


def _number(recipe: Recipe, name: str) -> int:
    value = recipe.choice(name)
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, not a number")
    return value
