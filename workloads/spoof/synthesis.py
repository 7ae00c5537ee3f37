"""Voices from nothing, and what is left of them after a vocoder: float64 sounds within ±1.

A voice is a source and a filter: pulses and breath through three vowels of four resonances. A spoof is the same voice
through a short-time spectrum whose phases were thrown away, as a neural vocoder's input has none, and through the
lower bandwidth of the system that made it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, rfft
from scipy.signal import butter, lfilter, sosfilt

from workloads.spoof.layout import SAMPLE_RATE

Sound = npt.NDArray[np.float64]  # (samples,)

FORMANTS_HZ = ((250, 850), (900, 2300), (2300, 3200), (3300, 4200))
SYSTEMS = {f"A{number:02d}": cutoff_hz for number, cutoff_hz in enumerate((4800, 5300, 5800, 6200, 6600, 7000), 1)}
FRAME, HOP = 512, 128  # of the vocoder
NOISE_DB = (38.0, 46.0)  # of the room below the voice: sets what FLAC makes of a second, 15 to 20 KB as in ASVspoof


@dataclass(frozen=True, slots=True)
class Voice:
    """What is a speaker's own: pitch, tempo, breath and the denominators of his vowels' filters."""

    pitch_hz: float
    syllables_hz: float
    breath: float
    vowels: tuple[Sound, ...]


def voice(rng: np.random.Generator) -> Voice:
    """A new speaker."""
    return Voice(rng.uniform(80, 260), rng.uniform(3, 5), rng.uniform(0.02, 0.2), tuple(_vowel(rng) for _ in range(3)))


def bonafide(speaker: Voice, samples: int, rng: np.random.Generator) -> Sound:
    """Something said in a room."""
    return _in_a_room(_spoken(speaker, samples, rng), rng)


def spoof(speaker: Voice, system: str, samples: int, rng: np.random.Generator) -> Sound:
    """The same, as a system of SYSTEMS would say it."""
    flattened = _phases_dropped(_spoken(speaker, samples, rng))
    low = butter(8, SYSTEMS[system], fs=SAMPLE_RATE, output="sos")
    return _in_a_room(np.asarray(sosfilt(low, flattened)), rng)


def _spoken(speaker: Voice, samples: int, rng: np.random.Generator) -> Sound:
    beat = np.arange(samples) * (speaker.syllables_hz / SAMPLE_RATE)
    syllable = beat.astype(np.intp)
    count = int(syllable[-1]) + 1
    pitch_hz = (speaker.pitch_hz * rng.uniform(0.85, 1.15, count))[syllable]
    pulses = np.diff(np.floor(np.cumsum(pitch_hz / SAMPLE_RATE)), prepend=0)
    loudness = (rng.uniform(0.2, 1, count) * rng.binomial(1, 0.9, count))[syllable] * np.sin(np.pi * (beat % 1))
    excitation = (pulses + speaker.breath * rng.standard_normal(samples)) * loudness
    chosen = rng.integers(len(speaker.vowels), size=count)[syllable]
    tilted = lfilter([1, -rng.uniform(-0.5, 0.8)], [1], excitation)
    return np.asarray(sum(lfilter([1], vowel, tilted * (chosen == one)) for one, vowel in enumerate(speaker.vowels)))


def _phases_dropped(sound: Sound) -> Sound:
    # Every frame comes back as a pulse with the frame's spectrum, in its middle: right magnitudes, no true phase.
    window = np.hanning(FRAME + 1)[:-1]
    padded = np.pad(sound, FRAME)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    pulses = np.fft.fftshift(irfft(np.abs(rfft(frames * window))), axes=1) * window
    made = np.zeros(len(padded))
    for number, pulse in enumerate(pulses):
        made[number * HOP : number * HOP + FRAME] += pulse
    return made[FRAME : FRAME + len(sound)]


def _in_a_room(sound: Sound, rng: np.random.Generator) -> Sound:
    noise = rng.standard_normal(len(sound)) * (np.std(sound) + 1e-6) * 10 ** (-rng.uniform(*NOISE_DB) / 20)
    heard = sound + noise
    return np.asarray(heard * (rng.uniform(0.3, 0.9) / np.abs(heard).max()))


def _vowel(rng: np.random.Generator) -> Sound:
    denominator = np.ones(1)
    for low_hz, high_hz in FORMANTS_HZ:
        radius = np.exp(-np.pi * rng.uniform(60, 200) / SAMPLE_RATE)
        turn = np.cos(2 * np.pi * rng.uniform(low_hz, high_hz) / SAMPLE_RATE)
        denominator = np.convolve(denominator, [1, -2 * radius * turn, radius**2])
    return denominator
