"""Writes stand-ins of ASVspoof 2019 LA and Fake-or-Real with their feature cache, each file from its number alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from harness.core.parallel import spread
from harness.core.workload import Size
from workloads.spoof import layout, synthesis
from workloads.spoof.cache import keep_features

SEED = 2019
SPEAKERS = {"train": 20, "dev": 10}  # in ASVspoof; no speaker is in both
SHORTEST_S, MEAN_S, LONGEST_S = 1.0, 3.4, 8.0  # of a clip in ASVspoof
LETTER = {"train": "T", "dev": "D"}


@dataclass(frozen=True, slots=True)
class Recording:
    """A clip to be written, who speaks, and what seeds its sound."""

    clip: layout.Clip
    samples: int
    speaker: int
    seed: tuple[int, ...]

    def sound(self) -> synthesis.Sound:
        """What is said."""
        voice = synthesis.voice(np.random.default_rng((SEED, 0, self.speaker)))
        rng = np.random.default_rng((SEED, 1, *self.seed))
        if self.clip.label == layout.BONAFIDE:
            return synthesis.bonafide(voice, self.samples, rng)
        systems = sorted(synthesis.SYSTEMS)
        system = self.clip.source
        if system not in systems:  # a fake of Fake-or-Real: those have the even numbers
            system = systems[self.seed[-1] // 2 % len(systems)]
        return synthesis.spoof(voice, system, self.samples, rng)


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Writes the protocols, then the clips and their features; yields the share that is done."""
    recordings = []
    for split in ("train", "dev"):
        rows = _asvspoof(split, size)
        speakers = ((f"LA_{row.speaker:04d}", row.clip) for row in rows)
        layout.write_protocol(folder, split, speakers)
        recordings += [*rows, *_fake_or_real(split, size)]
    for parent in {Path(row.clip.path).parent for row in recordings}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
        (folder / layout.FEATURES / parent).mkdir(parents=True, exist_ok=True)
    yield 0.0
    yield from spread(partial(_write, folder), recordings, chunk=8)


def _write(folder: Path, recording: Recording) -> None:
    path = folder / recording.clip.path
    sound = np.rint(recording.sound() * 32_767).astype(np.int16)
    soundfile.write(path, sound, layout.SAMPLE_RATE, subtype="PCM_16")
    keep_features(folder, recording.clip)


def _asvspoof(split: str, size: Size) -> list[Recording]:
    """The rows of a protocol: speaker by speaker, bona fide speech first, as the real ones are ordered."""
    stream = int(split == "dev")
    rng = np.random.default_rng((SEED, 2, stream))
    count, bonafide = size.shape[f"{split}_clips"], size.shape[f"{split}_bonafide"]
    lengths = [*_lengths(bonafide, rng), *_lengths(count - bonafide, rng)]  # alike on both sides: no clue
    recordings = []
    for number, samples in enumerate(lengths):
        label = layout.BONAFIDE if number < bonafide else layout.SPOOF
        source = "-" if label == layout.BONAFIDE else f"A{number % len(synthesis.SYSTEMS) + 1:02d}"
        clip = layout.asvspoof_clip(split, f"LA_{LETTER[split]}_{1_000_000 + number}", source, label)
        speaker = 79 + SPEAKERS["train"] * stream + int(rng.integers(SPEAKERS[split]))
        recordings.append(Recording(clip, samples, speaker, (2, stream, number)))
    return sorted(recordings, key=lambda row: (row.speaker, -row.clip.label, row.clip.name))


def _fake_or_real(split: str, size: Size) -> list[Recording]:
    stream = int(split == "dev")
    recordings = []
    for number in range(size.shape[f"fake_or_real_{split}"]):
        clip = layout.fake_or_real_clip(split, "real" if number % 2 else "fake", f"file{number + 1}.wav")
        samples = size.shape["fake_or_real_ms"] * layout.SAMPLE_RATE // 1000
        recordings.append(Recording(clip, samples, 1_000 + 1_000 * stream + number // 2, (3, stream, number)))
    return recordings


def _lengths(count: int, rng: np.random.Generator) -> list[int]:
    """Samples of so many clips: quantiles dealt in any order, so that few clips last as long as many on average."""
    spoken_s = SHORTEST_S + rng.gamma(2, (MEAN_S - SHORTEST_S) / 2, 10_000)
    quantiles = np.quantile(spoken_s, (rng.permutation(count) + 0.5) / count)
    return [round(one * layout.SAMPLE_RATE) for one in np.minimum(quantiles, LONGEST_S)]
