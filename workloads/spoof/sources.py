"""Where an item's features come from: computed from sound that is decoded for it, or read from the cache.

Everything that is read or computed can be noted in a log, which is how an arm proves what it really does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from harness.core.mistake import Mistake
from workloads.spoof.layout import Clip
from workloads.spoof.mel import Real
from workloads.spoof.view import View


@dataclass(slots=True)
class Log:
    """What was done for some items."""

    decoded: list[tuple[str, int]] = field(default_factory=list)  # precision and samples of each clip
    spectra: list[tuple[str, int]] = field(default_factory=list)  # kind and frames of each log-mel
    cached: list[tuple[str, int]] = field(default_factory=list)  # precision and frames of each that was read


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Clips as sound (samples,), decoded to a precision."""

    folder: Path
    precision: str  # float64, float32 or int16
    view: View
    augment: Callable[[Real, int], Real] | None = None
    log: Log | None = None

    def __call__(self, clip: Clip, index: int) -> Real:
        """The sound of an item: the whole clip, or what an early cut leaves of it."""
        sound, _rate = soundfile.read(self.folder / clip.path, dtype=self.precision)
        if self.log is not None:
            self.log.decoded.append((str(sound.dtype), len(sound)))
        if self.augment is not None:
            sound = self.augment(sound, index)
        return self.view.sound(sound, index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Log-mel features (128, any) worked out from the sound, clip by clip."""

    audio: Audio
    mel: Callable[[Real], Any]

    def __call__(self, clip: Clip, index: int) -> Any:
        """The features of an item, before they are cut."""
        features = self.mel(self.audio(clip, index))
        if (log := self.audio.log) is not None:
            kind = "numpy" if isinstance(features, np.ndarray) else "torch"
            log.spectra.append((f"{kind} {features.dtype}", features.shape[1]))
        return features if isinstance(features, np.ndarray) else features.numpy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """Log-mel features (128, any) of whole clips as float16, read from a file for each clip."""

    folder: Path
    log: Log | None = None

    def __call__(self, clip: Clip, _index: int) -> Real:
        """The features of a clip; raises Mistake where the cache was never written."""
        path = self.folder / clip.cached
        try:
            features: Real = np.load(path)
        except FileNotFoundError as error:
            raise Mistake(
                f"{path} is missing; write the feature cache with `python -m workloads.spoof.cache {self.folder}`."
            ) from error
        if self.log is not None:
            self.log.cached.append((str(features.dtype), features.shape[1]))
        return features
