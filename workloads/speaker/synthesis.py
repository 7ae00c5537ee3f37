"""Sounds from nothing: voices that can be told apart, talk, music, noise and room responses, float64 within ±1."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from workloads.speaker.layout import SAMPLE_RATE

Sound = npt.NDArray[np.float64]  # (samples,)

# Multiples of these, less their whole parts, fill a square evenly: inverse powers of the root of x^3 = x + 1
# (M. Roberts, "The unreasonable effectiveness of quasirandom sequences").
SPREAD = 1.324717957244746 ** -np.arange(1, 3)

VOWELS = 3  # in a stretch
STRETCH = 20 * SAMPLE_RATE  # long sounds are made in stretches that fit a cache


@dataclass(frozen=True, slots=True)
class Voice:
    """What is a speaker's own: how he moves and how he sounds, each from 0 to 1.

    The model normalises every mel band over time, which erases a fixed spectrum; what is left to tell a speaker by is
    how his sound moves, and where.
    """

    pace: float  # from slow and flowing to fast and cut short
    colour: float  # from dark and sung to bright and breathed


def voice(number: int) -> Voice:
    """The speaker of that number; neighbours in number are far from each other, so that a few are unlike already."""
    pace, colour = np.modf(0.5 + number * SPREAD)[0]
    return Voice(float(pace), float(colour))


def utterance(speaker: Voice, samples: int, rng: np.random.Generator) -> Sound:
    """Something said over a channel with its own tilt and noise."""
    tilted = lfilter([1, -rng.uniform(-0.4, 0.6)], [1], _stretch(speaker, samples, rng))
    noise = rng.standard_normal(samples) * np.std(tilted) * 10 ** (-rng.uniform(15, 30) / 20)
    return _levelled(tilted + noise, rng)


def talk(samples: int, rng: np.random.Generator) -> Sound:
    """One unknown speaker for a long time."""
    speaker = voice(int(rng.integers(1000)))
    return _levelled(_stretched(samples, lambda count: _stretch(speaker, count, rng)), rng)


def music(samples: int, rng: np.random.Generator) -> Sound:
    """Chords of three decaying tones, two a second."""
    return _levelled(_stretched(samples, lambda count: _chords(count, rng)), rng)


def noise(samples: int, rng: np.random.Generator) -> Sound:
    """Noise through one resonance, swelling slowly."""
    resonance = _resonance(rng.uniform(200, 5000), rng.uniform(300, 2000))
    swell = 1 + 0.8 * np.sin(np.arange(samples) * (2 * np.pi * rng.uniform(0.1, 1) / SAMPLE_RATE))
    return _levelled(np.asarray(lfilter([1], resonance, rng.standard_normal(samples))) * swell, rng)


def room(samples: int, rng: np.random.Generator) -> Sound:
    """The response of a room that is silent again, 60 dB down, after so many samples."""
    tail = rng.standard_normal(samples) * 10 ** (-3 * np.arange(samples) / samples) * 0.3
    tail[0] = 1.0  # the direct sound
    return _levelled(tail, rng)


def _stretch(speaker: Voice, samples: int, rng: np.random.Generator) -> Sound:
    # Pitch and three vowels are drawn anew: they are what is said, and tell nothing of who says it.
    beat = np.arange(samples) * (2 * 4**speaker.pace / SAMPLE_RATE)  # two to eight syllables a second
    syllable = beat.astype(np.intp)
    count = int(syllable[-1]) + 1
    pitch_hz = rng.uniform(80, 260) * rng.uniform(0.85, 1.15, count)
    pulses = np.diff(np.floor(np.cumsum((pitch_hz / SAMPLE_RATE)[syllable])), prepend=0)
    hiss = rng.standard_normal(samples) * np.sqrt(pitch_hz.mean() / SAMPLE_RATE)  # as loud as the pulses are
    sounding = np.minimum(beat % 1 / (1 - 0.75 * speaker.pace), 1)  # the rest of a syllable's time is silent
    loudness = (rng.uniform(0.5, 1, count) * rng.binomial(1, 0.95, count))[syllable] * np.sin(np.pi * sounding)
    excitation = ((1 - speaker.colour) * pulses + speaker.colour * hiss) * loudness
    said = rng.integers(VOWELS, size=count)[syllable]
    spoken = sum(lfilter([1], _vowel(rng), excitation * (said == vowel)) for vowel in range(VOWELS))
    return _darkened(np.asarray(spoken), above_hz=500 * 16**speaker.colour)


def _darkened(sound: Sound, above_hz: float) -> Sound:
    # Two poles in the same place: 12 dB an octave.
    pole = float(np.exp(-2 * np.pi * above_hz / SAMPLE_RATE))
    return np.asarray(lfilter([(1 - pole) ** 2], [1, -2 * pole, pole**2], sound))


def _vowel(rng: np.random.Generator) -> Sound:
    denominator = np.ones(1)
    for low_hz, high_hz in ((250, 850), (900, 2300), (2300, 3200), (3300, 4200)):
        denominator = np.convolve(denominator, _resonance(rng.uniform(low_hz, high_hz), rng.uniform(60, 200)))
    return denominator


def _resonance(centre_hz: float, width_hz: float) -> Sound:
    radius = np.exp(-np.pi * width_hz / SAMPLE_RATE)
    denominator: Sound = np.array([1, -2 * radius * np.cos(2 * np.pi * centre_hz / SAMPLE_RATE), radius**2])
    return denominator


def _chords(samples: int, rng: np.random.Generator) -> Sound:
    beat = np.arange(samples) * (2 / SAMPLE_RATE)
    chord = beat.astype(np.intp)
    tones_hz = 110 * 2 ** (rng.integers(36, size=(3, int(chord[-1]) + 1)) / 12)
    phases = np.cumsum(tones_hz[:, chord] / SAMPLE_RATE, axis=1)
    return np.asarray(np.sin(2 * np.pi * phases).sum(axis=0) * np.exp(-2 * (beat % 1)))


def _stretched(samples: int, stretch: Callable[[int], Sound]) -> Sound:
    starts = range(0, samples, STRETCH)
    return np.concatenate([stretch(min(STRETCH, samples - start)) for start in starts])


def _levelled(sound: Sound, rng: np.random.Generator) -> Sound:
    return np.asarray(sound * (rng.uniform(0.3, 0.9) / np.abs(sound).max()))
