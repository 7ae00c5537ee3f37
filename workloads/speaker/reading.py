"""The ways in which this workload reads sound: from files, from mapped files, and through a cache of whole ones.

All give the same numbers, and a log sees every read, so that what was opened and decoded can be counted.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import soundfile
import torch

from workloads.speaker.layout import SAMPLE_BYTES, Span, pcm_span
from workloads.speaker.network import Mount

SampleType = Literal["float64", "float32", "int16"]
Sound = npt.NDArray[Any]  # (samples,), floats within ±1 or int16
FULL_SCALE = 32_768


@dataclass(frozen=True, slots=True)
class Read:
    """One read: whether a file was opened for it, how many samples were decoded, and how many of them were wanted.

    And how many requests it took, if the file lies on a mount.
    """

    path: Path
    opened: bool
    decoded: int
    wanted: int
    sample_type: str
    requests: int = 0


class Windows(Protocol):
    """Whatever gives a stretch of a sound file."""

    def window(self, path: Path, begin: Callable[[int], int], samples: int) -> Sound:
        """So many samples from where `begin` says, which is told the file's length in samples."""


@dataclass(frozen=True, slots=True)
class Files:
    """Opens the file, reads all of it or just the window, and closes it again."""

    seek: bool
    sample_type: SampleType
    mount: Mount | None = None
    log: list[Read] | None = None

    def window(self, path: Path, begin: Callable[[int], int], samples: int) -> Sound:
        """So many samples from where `begin` says."""
        began = perf_counter()
        with soundfile.SoundFile(path) as audio:
            first = begin(audio.frames)
            if self.seek:
                audio.seek(first)
                return self._noted(path, audio.read(samples, self.sample_type), samples, began, first)
            return self._noted(path, audio.read(dtype=self.sample_type), samples, began)[first : first + samples]

    def whole(self, path: Path) -> Sound:
        """The whole file."""
        began = perf_counter()
        with soundfile.SoundFile(path) as audio:
            return self._noted(path, audio.read(dtype=self.sample_type), audio.frames, began)

    def _noted(self, path: Path, decoded: Sound, wanted: int, began: float, first: int = 0) -> Sound:
        place, size = first * SAMPLE_BYTES, len(decoded) * SAMPLE_BYTES
        requests = self.mount.waited(path, place, size, opened=True, began=began) if self.mount else 0
        if self.log is not None:
            kind = str(decoded.dtype)
            self.log.append(
                Read(path, opened=True, decoded=len(decoded), wanted=wanted, sample_type=kind, requests=requests)
            )
        return decoded


class Maps:
    """Maps every file into memory when it is first wanted, and cuts windows from there.

    The pages belong to the kernel's cache: all workers share them, and a mapping keeps no file descriptor.
    """

    def __init__(self, sample_type: SampleType, mount: Mount | None = None, log: list[Read] | None = None) -> None:
        self.sample_type, self.mount, self.log = sample_type, mount, log
        self.mapped: dict[Path, Sound] = {}

    def __reduce__(self) -> tuple[type["Maps"], tuple[SampleType, Mount | None, list[Read] | None]]:
        return Maps, (self.sample_type, self.mount, self.log)  # each process maps for itself

    def window(self, path: Path, begin: Callable[[int], int], samples: int) -> Sound:
        """So many samples from where `begin` says."""
        began, known = perf_counter(), path in self.mapped
        if not known:
            self.mapped[path] = mapped_pcm(path)
        whole = self.mapped[path]
        first = begin(len(whole))
        window = _as_read(whole[first : first + samples], self.sample_type)
        place, size = first * SAMPLE_BYTES, samples * SAMPLE_BYTES
        requests = self.mount.waited(path, place, size, opened=not known, began=began) if self.mount else 0
        if self.log is not None:
            self.log.append(Read(path, not known, len(window), samples, str(window.dtype), requests))
        return window


class Kept:
    """Keeps the sounds that were read last, whole, up to so many of them."""

    def __init__(self, files: Files, capacity: int, log: list[Read] | None = None) -> None:
        self.files, self.capacity, self.log = files, capacity, log
        self.sounds: OrderedDict[Path, Sound] = OrderedDict()

    def __reduce__(self) -> tuple[type["Kept"], tuple[Files, int, list[Read] | None]]:
        return Kept, (self.files, self.capacity, self.log)  # each process keeps its own

    def window(self, path: Path, begin: Callable[[int], int], samples: int) -> Sound:
        """So many samples from where `begin` says."""
        hit = path in self.sounds
        whole = self.sounds.pop(path) if hit else self.files.whole(path)
        self.sounds[path] = whole
        if len(self.sounds) > self.capacity:
            self.sounds.popitem(last=False)
        if self.log is not None:
            self.log.append(Read(path, not hit, 0 if hit else len(whole), samples, str(whole.dtype)))
        first = begin(len(whole))
        return whole[first : first + samples]


def mapped_pcm(path: Path) -> Sound:
    """The samples of a PCM-16 WAV file as int16 in mapped memory; changing them does not change the file."""
    with path.open("rb") as file:
        span = pcm_span(file.read(Span.SEARCHED))
    first, count = span.offset // SAMPLE_BYTES, span.samples
    mapped = torch.from_file(str(path), shared=False, size=first + count, dtype=torch.int16)
    return np.asarray(mapped.numpy()[first:])


def _as_read(stored: Sound, sample_type: SampleType) -> Sound:
    if sample_type == "int16":
        return stored.copy()
    return stored.astype(sample_type) / FULL_SCALE  # a power of two: exact in both types
