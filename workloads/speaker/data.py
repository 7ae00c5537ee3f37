"""Training items: a random crop of an utterance, augmented by one of five means.

Where an item is cut and what is mixed in are drawn alike for every way of reading, and a drawn window of noise always
lies inside one five-second piece, so that whole-file and seeking reads, split and unsplit noise files give the same
bits and differ in cost alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.recipe import Recipe, Value
from harness.core.workload import Size
from workloads.speaker import layout
from workloads.speaker.augmentation import AUGMENTATIONS, MIXTURES, mixed, reverberated
from workloads.speaker.reading import SAMPLE_BYTES, Read, Reader
from workloads.speaker.synthesis import Sound

SEED = 2018
CROP = layout.crop_samples(200)


@dataclass(frozen=True, slots=True)
class Noise:
    """A recording of noise, music or talk, and its length in samples."""

    path: Path
    samples: int


@dataclass(frozen=True)
class Crops(Dataset[tuple[Tensor, int]]):
    """Pairs of a waveform (32240,) float32 and a speaker's number; item i belongs to deck i // 5 of augmentations."""

    items: int
    folder: Path
    utterances: tuple[layout.Utterance, ...]  # in training order
    labels: Mapping[str, int]
    noises: Mapping[str, tuple[Noise, ...]]  # by kind
    rooms: tuple[Path, ...]
    split_noise: bool
    reader: Reader

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The item, a function of its index alone."""
        if not 0 <= index < self.items:
            raise IndexError(index)
        rng = np.random.default_rng((SEED, index))
        utterance = self.utterances[index % len(self.utterances)]
        share = rng.random()
        path = self.folder / layout.TRAIN_WAVS / utterance.path
        speech = self.reader.window(path, lambda samples: int(share * (samples - CROP + 1)), CROP)
        sound = self._augmented(speech, index, rng)
        return torch.from_numpy(sound.astype(np.float32)), self.labels[utterance.speaker]

    def _augmented(self, speech: Sound, index: int, rng: np.random.Generator) -> Sound:
        deck, card = divmod(index, len(AUGMENTATIONS))
        kind = AUGMENTATIONS[card]
        if kind == "none":
            return speech
        if kind == "reverb":
            return reverberated(speech, self.reader.whole(self.rooms[rng.integers(len(self.rooms))]))
        return mixed(speech, self._added(kind, MIXTURES[kind].count(deck), rng))

    def _added(self, kind: str, count: int, rng: np.random.Generator) -> Iterator[tuple[Sound, float]]:
        for number in rng.choice(len(self.noises[kind]), count, replace=False):
            noise = self.noises[kind][number]
            piece = int(rng.integers(layout.pieces(noise.samples)))
            offset = int(rng.integers(layout.PIECE_SAMPLES - CROP + 1))
            yield self._noise(noise, piece, offset), rng.uniform(*MIXTURES[kind].snr_db)

    def _noise(self, noise: Noise, piece: int, offset: int) -> Sound:
        if self.split_noise:
            return self.reader.window(layout.piece_path(noise.path, piece), lambda _: offset, CROP)
        return self.reader.window(noise.path, lambda _: piece * layout.PIECE_STEP + offset, CROP)


def dataset(folder: Path, size: Size, recipe: Recipe) -> Crops:
    """The training items of one timed epoch, read as the recipe says."""
    listed = layout.read_utterances(folder)
    speakers = sorted({one.speaker for one in listed})
    return Crops(
        items=size.batch * size.epoch_steps,
        folder=folder,
        utterances=tuple(listed[number] for number in np.random.default_rng(SEED).permutation(len(listed))),
        labels={speaker: number for number, speaker in enumerate(speakers)},
        noises={kind: _noises(folder / layout.NOISES / kind) for kind in MIXTURES},
        rooms=tuple(sorted((folder / layout.ROOMS).glob("*/*/*.wav"))),
        split_noise=recipe.choice("noise_files") == "split",
        reader=Reader(seek=recipe.choice("audio_read") == "seek"),
    )


def effective(crops: Dataset[tuple[Tensor, int]]) -> Mapping[str, Value]:
    """How the items of one deck are really read, seen from the reads themselves."""
    crops = cast("Crops", crops)
    log: list[Read] = []
    deck = len(AUGMENTATIONS)
    watched = replace(crops, items=deck, reader=replace(crops.reader, log=log))
    for index in range(deck):
        watched[index]
    tops = {read.path.relative_to(crops.folder).parts[0] for read in log}
    windows = [read for read in log if crops.folder / layout.ROOMS not in read.path.parents]
    return {
        "audio_read": "seek" if all(read.decoded == read.wanted for read in windows) else "whole_file",
        "noise_files": "split" if layout.NOISE_PIECES in tops and layout.NOISES not in tops else "unsplit",
        "read_bytes_per_sample": round(sum(read.decoded for read in log) * SAMPLE_BYTES / deck),
    }


def _noises(folder: Path) -> tuple[Noise, ...]:
    return tuple(Noise(path, soundfile.info(path).frames) for path in sorted(folder.glob("*/*.wav")))
