"""Recordings of pipes, made up: a leak is stationary band noise, everything else is hum and transients.

A recording lasts 10 s at 4096 Hz and is cut into 40 long segments of two short ones, 512 samples each.
"""

import numpy as np
import numpy.typing as npt

from workloads.leak.classes import CLASSES, counts

SAMPLE_RATE = 4096  # Hz
LONGS, SHORTS, SHORT_SAMPLES = 40, 2, 512
LONG_SAMPLES = SHORTS * SHORT_SAMPLES
FILE_SAMPLES = LONGS * LONG_SAMPLES

HUM = np.array((0.04, 0.08, 0.08, 0.25, 0.15), dtype=np.float32)  # amplitude
TRANSIENTS = np.array((0.05, 0.80, 0.15, 0.20, 0.45))  # share of long segments that hold one
FLOOR_NOISE = np.float32(0.05)  # amplitude at 0 Hz
LEAK_NOISE = np.array((0.0, 0.0, 0.03, 0.0, 0.0), dtype=np.float32)  # amplitude inside the band

FloatArray = npt.NDArray[np.float32]
LabelArray = npt.NDArray[np.int16]


def draw_labels(files: int, generator: np.random.Generator) -> LabelArray:
    """Class numbers (files,) in random order, as near to the shares of the classes as whole files allow."""
    return generator.permutation(np.repeat(np.arange(len(CLASSES)), counts(files))).astype(np.int16)


def record(labels: LabelArray, generator: np.random.Generator) -> FloatArray:
    """Waveforms (files, 40, 2, 512), one recording for each label."""
    sound = _noise(labels, generator) + _hum(labels, generator) + _transients(labels, generator)
    return sound.reshape(-1, LONGS, SHORTS, SHORT_SAMPLES)


def _noise(labels: LabelArray, generator: np.random.Generator) -> FloatArray:
    """A floor that falls with frequency, and for a leak a band that starts above 300 Hz and ends below 1500 Hz."""
    frequency = np.fft.rfftfreq(FILE_SAMPLES, 1 / SAMPLE_RATE).astype(np.float32)
    low, high = generator.uniform((300, 900), (600, 1500), (len(labels), 2)).T[:, :, np.newaxis]
    in_band = (frequency >= low) & (frequency <= high)
    floor = FLOOR_NOISE / np.sqrt(1 + frequency / 50) * _loudness(len(labels), 0.5, generator)
    leak = LEAK_NOISE[labels, np.newaxis] * _loudness(len(labels), 1.0, generator)
    parts = generator.standard_normal((len(labels), 2 * len(frequency)), dtype=np.float32)
    spectrum = parts.view(np.complex64) * (floor + leak * in_band)
    return np.fft.irfft(spectrum, FILE_SAMPLES).astype(np.float32) * np.float32(np.sqrt(FILE_SAMPLES / 2))


def _hum(labels: LabelArray, generator: np.random.Generator) -> FloatArray:
    """Three harmonics of the mains at 50 Hz, each file with its own phases."""
    angle = 2 * np.pi * 50 / SAMPLE_RATE * np.outer((1, 2, 3), np.arange(FILE_SAMPLES))
    waves = np.concatenate((np.sin(angle), np.cos(angle))).astype(np.float32)
    mixture = generator.standard_normal((len(labels), len(waves)), dtype=np.float32)
    hum: FloatArray = np.matmul(HUM[labels, np.newaxis] * mixture, waves)
    return hum


def _transients(labels: LabelArray, generator: np.random.Generator) -> FloatArray:
    """At most one decaying ring in each long segment."""
    draws = (len(labels), LONGS, 1)
    present = generator.random(draws) < TRANSIENTS[labels, np.newaxis, np.newaxis]
    height = (present * generator.uniform(0.2, 1.0, draws)).astype(np.float32)
    onset = generator.integers(0, LONG_SAMPLES - 100, draws)
    pitch = generator.uniform(200, 1800, draws).astype(np.float32)  # Hz
    decay = generator.uniform(10, 60, draws).astype(np.float32)  # samples
    since = (np.arange(LONG_SAMPLES) - onset).clip(min=0).astype(np.float32)
    rings: FloatArray = height * np.exp(-since / decay) * np.sin(np.float32(2 * np.pi / SAMPLE_RATE) * pitch * since)
    return rings.reshape(len(labels), FILE_SAMPLES)


def _loudness(files: int, spread: float, generator: np.random.Generator) -> FloatArray:
    """Factors (files, 1) around 1 whose logarithms spread so far: some leaks are drowned by their background."""
    loudness: FloatArray = np.exp(np.float32(spread) * generator.standard_normal((files, 1), dtype=np.float32))
    return loudness
