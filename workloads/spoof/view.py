"""What of a clip the model sees: so many frames, cut out of a long clip or repeated from a short one."""

from dataclasses import dataclass

import numpy as np

from workloads.spoof.mel import HOP, Real

SEED = 2019


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where items are cut: a function of their index alone, so that all processes and both arms see the same."""

    frames: int  # that the model sees
    early: bool  # the sound is cut before the mel, instead of the features after it
    centred: bool  # in the middle, as Fake-or-Real is cut; else anywhere, as ASVspoof is
    stream: int  # another one for each split

    @property
    def samples(self) -> int:
        """Samples that give the frames: 64,600 for 404, as in AASIST and its kin."""
        return self.frames * HOP - 40

    def sound(self, sound: Real, index: int) -> Real:
        """The samples that an early cut leaves of a clip, or all of them."""
        return _window(sound, self.samples, self._share(index)) if self.early else sound

    def features(self, features: Real, index: int) -> Real:
        """The frames (128, frames) of a clip's features (128, any)."""
        return _window(features, self.frames, self._share(index))

    def start(self, whole: int, index: int) -> int:
        """The first of the frames, of so many."""
        return _start(whole, self.frames, self._share(index))

    def _share(self, index: int) -> float:
        return 0.5 if self.centred else float(np.random.default_rng((SEED, self.stream, index)).random())


def _window(array: Real, count: int, share: float) -> Real:
    """So many of the last axis from a start; what is too short begins again, as often as it takes."""
    whole = array.shape[-1]
    if whole < count:
        return np.asarray(np.tile(array, -(-count // whole))[..., :count])
    first = _start(whole, count, share)
    return array[..., first : first + count]


def _start(whole: int, count: int, share: float) -> int:
    return int(share * (whole - count + 1)) if whole > count else 0
