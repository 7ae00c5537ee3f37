"""Augmentation of speech by foreign sounds and rooms, in the type of the samples; the original's is float64."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from workloads.speaker.reading import Sound

AUGMENTATIONS = ("none", "reverb", "music", "speech", "noise")
# As many of each number. The two decks of `quick` cost the same, as batches of a hundred nearly do: loader workers each
# take one of two batches for ever.
TALKERS = (5, 5, 3, 7, 4, 6, 3, 7, 4, 6)
POWER_FLOOR = 1e-4  # so that silence has a level in dB

Convolve = Callable[[Sound, Sound], Sound]


@dataclass(frozen=True, slots=True)
class Mixture:
    """How many foreign sounds are added, and how far each lies below the speech, in dB."""

    sounds: tuple[int, ...]
    snr_db: tuple[float, float]

    def count(self, deck: int) -> int:
        """How many sounds the items of a deck get: dealt like the augmentations, so that a short epoch is typical."""
        return self.sounds[deck % len(self.sounds)]


MIXTURES = {
    "music": Mixture((1,), (5, 15)),
    "speech": Mixture(TALKERS, (13, 20)),
    "noise": Mixture((1,), (0, 15)),
}


def mixed(speech: Sound, added: Iterable[tuple[Sound, float]]) -> Sound:
    """Speech with sounds of the same length added, each at its signal-to-noise ratio in dB."""
    level = _power_db(speech)
    return speech + sum(10 ** ((level - _power_db(sound) - snr_db) / 20) * sound for sound, snr_db in added)


def reverberated(speech: Sound, response: Sound, convolve: Convolve) -> Sound:
    """Speech in a room whose response is brought to energy one, cut to the length of the speech."""
    return np.asarray(convolve(speech, response / np.sqrt(np.square(response).sum()))[: len(speech)])


def _power_db(sound: Sound) -> float:
    return 10 * float(np.log10(np.square(sound).mean() + POWER_FLOOR))
