"""Training items: crops that are augmented here on the host, or the raw ingredients for a device that augments them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy import signal
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.speaker.augmentation import Convolve, mixed, reverberated
from workloads.speaker.layout import crop_samples
from workloads.speaker.network import Mount
from workloads.speaker.reading import Files, Kept, Maps, Read, SampleType, Sound, Windows
from workloads.speaker.source import Cut, Draws, Ingredients, draws

CONVOLUTIONS: dict[str, Convolve] = {"convolve": signal.convolve, "fftconvolve": signal.fftconvolve}
CACHED_SHARE = 1000 / 1_092_009  # a cache of a thousand utterances, of those of VoxCeleb2; smaller sets keep the share
LARGEST = 32_767  # of int16
LONGEST_FRAMES = 300  # of a crop: three seconds, where VoxCeleb's shortest utterances have four


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the sound of an item comes from."""

    speech: Windows
    noise: Windows
    rooms: Files

    def crop(self, ingredients: Ingredients) -> Sound:
        """The crop of the utterance."""
        return self.speech.window(ingredients.speech, ingredients.begin, ingredients.samples)

    def added(self, ingredients: Ingredients) -> list[Sound]:
        """The noises of the item, each as long as the crop."""
        return [self.noise.window(one.path, one.at, ingredients.samples) for one in ingredients.noises]


@dataclass(frozen=True)
class Crops(Dataset[tuple[Tensor | int, ...]]):
    """Augmented waveforms (samples,) float32 and a speaker's number; with pairs (2, samples). As found, 32,240 samples.

    As int16 a waveform is scaled to its own peak, which comes second: (samples,) int16, (1,) float32, number.
    """

    draws: Draws
    sources: Sources
    convolve: Convolve
    as_int16: bool

    def __len__(self) -> int:
        return self.draws.items

    def __getitem__(self, item: int) -> tuple[Tensor | int, ...]:
        """The item, a function of its number alone."""
        sounds = [self._augmented(one) for one in self.draws.of(item)]
        sound = np.stack(sounds) if len(sounds) > 1 else sounds[0]
        label = self.draws.label(item)
        if not self.as_int16:
            return torch.from_numpy(sound.astype(np.float32)), label
        peak = np.maximum(np.abs(sound).max(axis=-1, keepdims=True), 1 / LARGEST)
        stored = np.rint(sound * (LARGEST / peak)).astype(np.int16)
        return torch.from_numpy(stored), torch.from_numpy(peak.astype(np.float32)), label

    def _augmented(self, ingredients: Ingredients) -> Sound:
        speech = self.sources.crop(ingredients)
        if ingredients.room:
            return reverberated(speech, self.sources.rooms.whole(ingredients.room), self.convolve)
        if not ingredients.noises:
            return speech
        ratios = (one.snr_db for one in ingredients.noises)
        return mixed(speech, zip(self.sources.added(ingredients), ratios, strict=True))


@dataclass(frozen=True)
class RawCrops(Dataset[tuple[Tensor, ...]]):
    """Batches of unmixed int16 sound, for a device that mixes them.

    The crops (rows, samples), the speakers' numbers (batch,), the noises of all rows (n, samples) with the row (n,) and
    the ratio in dB (n,) of each, the room responses (m, longest) padded with zeros, and the row (m,) of each. With
    pairs, rows is twice the batch and the two crops of a speaker lie next to each other.
    """

    draws: Draws
    sources: Sources
    collated = True

    def __len__(self) -> int:
        return self.draws.items

    def __getitem__(self, item: int) -> tuple[Tensor, ...]:
        """A batch of one."""
        return self.__getitems__([item])

    def __getitems__(self, items: Sequence[int]) -> tuple[Tensor, ...]:
        """The batch of these items."""
        rows = [one for item in items for one in self.draws.of(item)]
        noised = [(row, one.snr_db) for row, ingredients in enumerate(rows) for one in ingredients.noises]
        noises = [sound for ingredients in rows for sound in self.sources.added(ingredients)]
        rooms = [(row, self.sources.rooms.whole(one.room)) for row, one in enumerate(rows) if one.room]
        return (
            torch.from_numpy(np.stack([self.sources.crop(one) for one in rows])),
            torch.tensor([self.draws.label(item) for item in items]),
            torch.from_numpy(_padded(noises)),
            torch.tensor([row for row, _ in noised], dtype=torch.int64),
            torch.tensor([snr_db for _, snr_db in noised], dtype=torch.float32),
            torch.from_numpy(_padded([response for _, response in rooms])),
            torch.tensor([row for row, _ in rooms], dtype=torch.int64),
        )


def dataset(folder: Path, size: Size, recipe: Recipe) -> Crops | RawCrops:
    """The training items of one timed epoch, read and augmented as the recipe says."""
    on_device = recipe.choice("augmentation") == "device"
    drawn = draws(
        folder,
        size.samples,
        Cut(crop_samples(_frames(recipe)), split_noise=recipe.choice("noise_files") == "split"),
        pairs=recipe.choice("objective") != "aam_softmax",
    )
    sample_type = "int16" if on_device else cast("SampleType", recipe.choice("sample_type"))
    found = sources(recipe, sample_type, len(drawn.paths), folder)
    if on_device:
        return RawCrops(drawn, found)
    convolve = CONVOLUTIONS[str(recipe.choice("convolution"))]
    return Crops(drawn, found, convolve, as_int16=recipe.choice("transfer_type") == "int16")


def sources(recipe: Recipe, sample_type: SampleType, utterances: int, folder: Path) -> Sources:
    """The ways of reading a data folder that the recipe names, for so many utterances."""
    mounted = recipe.choice("network_mount")
    mount = None if mounted == "none" else Mount(folder, noise_cached=mounted == "noise_cached")
    files = Files(recipe.choice("audio_read") == "seek", sample_type, mount)
    cached = recipe.choice("utterance_cache") == "lru"
    return Sources(
        speech=Kept(files, max(1, round(CACHED_SHARE * utterances))) if cached else files,
        noise=Maps(sample_type, mount) if recipe.choice("noise_files") == "mapped" else files,
        rooms=files,
    )


def logging(found: Sources, log: list[Read]) -> Sources:
    """The same sources, fresh and with a log of every read."""
    files = replace(found.rooms, log=log)
    return Sources(
        speech=Kept(found.rooms, found.speech.capacity, log) if isinstance(found.speech, Kept) else files,
        noise=Maps(files.sample_type, files.mount, log) if isinstance(found.noise, Maps) else files,
        rooms=files,
    )


def _frames(recipe: Recipe) -> int:
    frames = recipe.choice("crop_length")
    if not isinstance(frames, int):
        raise TypeError(f"crop_length is {frames!r}, not a number")
    if frames > LONGEST_FRAMES:
        raise Mistake(
            f"Utterances hold no crops of {frames} frames for sure; choose crop_length={LONGEST_FRAMES} or less."
        )
    return frames


def _padded(sounds: Sequence[Sound]) -> Any:
    longest = max((len(sound) for sound in sounds), default=1)
    padded = np.zeros((len(sounds), longest), np.int16)
    for row, sound in zip(padded, sounds, strict=True):
        row[: len(sound)] = sound
    return padded
