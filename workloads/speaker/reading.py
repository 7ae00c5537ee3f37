"""The one way in which this workload reads sound, so that what was decoded can be counted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import soundfile

from workloads.speaker.synthesis import Sound

SAMPLE_BYTES = 2  # PCM-16


@dataclass(frozen=True, slots=True)
class Read:
    """One read: how many samples were decoded, and how many of them were wanted."""

    path: Path
    decoded: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads windows of WAV files as float64; a handle lives no longer than a call, and a log sees every read."""

    seek: bool
    log: list[Read] | None = None

    def window(self, path: Path, begin: Callable[[int], int], samples: int) -> Sound:
        """So many samples from where `begin` says, which is told the file's length in samples."""
        with soundfile.SoundFile(path) as audio:
            first = begin(audio.frames)
            if self.seek:
                audio.seek(first)
                return self._noted(path, audio.read(samples), samples)
            return self._noted(path, audio.read(), samples)[first : first + samples]

    def whole(self, path: Path) -> Sound:
        """The whole file."""
        with soundfile.SoundFile(path) as audio:
            return self._noted(path, audio.read(), audio.frames)

    def _noted(self, path: Path, decoded: Sound, wanted: int) -> Sound:
        if self.log is not None:
            self.log.append(Read(path, len(decoded), wanted))
        return decoded
