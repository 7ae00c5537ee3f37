"""Yardsticks: our utterances and recordings of talk against white noise of the real sizes, read in both ways."""

import atexit
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import soundfile

from harness.core.workload import Size, Yardstick
from workloads.speaker import layout
from workloads.speaker.reading import Files, Read
from workloads.speaker.source import CROP

UTTERANCE_S = 7.8  # the mean of VoxCeleb2
TALK_S = 507.0  # the mean of MUSAN's speech: 60 hours in 426 files
HEADER_BYTES = 44
MOST = 20  # files of ours that are read in turn


@dataclass(frozen=True, slots=True)
class Windows:
    """Reads a crop from the middle of every file, as training does."""

    paths: Sequence[Path]
    files: Files

    def __call__(self) -> None:
        """One window of each file."""
        for path in self.paths:
            self.files.window(path, lambda samples: (samples - CROP) // 2, CROP)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: ours, and the real one's length and published costs in ms, whole and by seeking."""

    what: str
    paths: Sequence[Path]
    real_s: float
    scale: float
    published_ms: tuple[float, float]


def yardsticks(folder: Path, size: Size) -> Iterator[Yardstick]:
    """An utterance and a recording of talk, each read whole and by seeking."""
    utterances = [folder / layout.TRAIN_WAVS / one.path for one in layout.read_utterances(folder)[:MOST]]
    talks = sorted((folder / layout.NOISES / "speech").glob("*/*.wav"))[:MOST]
    talk_scale = min(1.0, size.shape["speech_s"] / TALK_S)  # only `smoke` has shorter ones
    utterance_scale = min(1.0, size.shape["utterance_ms"] / 1000 / UTTERANCE_S)
    yield from _of(Kind("an utterance of 7.8 s", utterances, UTTERANCE_S, utterance_scale, (0.31, 0.12)))
    yield from _of(Kind("a recording of talk of 507 s", talks, TALK_S, talk_scale, (53.6, 0.13)))


def _of(kind: Kind) -> Iterator[Yardstick]:
    folder = Path(mkdtemp(prefix="speaker-yardstick-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the file is wanted for as long as the process asks
    neutral = folder / "noise.wav"
    noise = np.random.default_rng(0).integers(-9000, 9000, round(kind.real_s * layout.SAMPLE_RATE), np.int16)
    soundfile.write(neutral, noise, layout.SAMPLE_RATE, subtype="PCM_16")
    alike = [neutral] * len(kind.paths)
    whole, crop = Files(seek=False, sample_type="float64"), Files(seek=True, sample_type="float64")
    yield Yardstick(
        what=f"{kind.what}, read whole",
        mean_bytes=float(np.mean([path.stat().st_size for path in kind.paths])),
        target_bytes=kind.real_s * layout.SAMPLE_RATE * layout.SAMPLE_BYTES + HEADER_BYTES,
        work=Windows(kind.paths, whole),
        like=Windows(alike, whole),
        units=len(kind.paths),
        published_ms=kind.published_ms[0],
        scale=kind.scale,
    )
    yield Yardstick(
        what=f"{kind.what}, a crop of two seconds by seeking",
        mean_bytes=_decoded_bytes(kind.paths),
        target_bytes=_decoded_bytes(alike),
        work=Windows(kind.paths, crop),
        like=Windows(alike, crop),
        units=len(kind.paths),
        published_ms=kind.published_ms[1],
    )


def _decoded_bytes(paths: Sequence[Path]) -> float:
    log: list[Read] = []
    Windows(paths, Files(seek=True, sample_type="float64", log=log))()
    return float(np.mean([read.decoded for read in log])) * layout.SAMPLE_BYTES
