"""Augmentation in the worker: the pitch is shifted or the time stretched, by a phase vocoder as librosa's is.

Flanagan and Golden, Phase vocoder, Bell System Technical Journal, 1966.
"""

import numpy as np
from scipy.fft import irfft, rfft

from workloads.spoof.mel import Real

SEED = 30
FRAME, HOP = 2048, 512
SEMITONES = 2.0  # up or down at most
STRETCH = (0.9, 1.1)  # times as fast


def augmented(sound: Real, index: int) -> Real:
    """The sound of an item, of its own type: even items change their pitch, odd ones their length."""
    rng = np.random.default_rng((SEED, index))
    if index % 2:
        changed = stretched(sound, rng.uniform(*STRETCH))
    else:
        changed = shifted(sound, rng.uniform(-SEMITONES, SEMITONES))
    if np.issubdtype(sound.dtype, np.integer):
        limits = np.iinfo(sound.dtype)
        changed = np.clip(np.rint(changed), limits.min, limits.max)
    return changed.astype(sound.dtype)


def stretched(sound: Real, rate: float) -> Real:
    """The same pitch, `rate` times as fast."""
    window = np.hanning(FRAME + 1)[:-1]
    padded = np.pad(sound.astype(np.float64), (FRAME // 2, FRAME // 2 + HOP))
    spectrum = rfft(np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP] * window)
    times = np.arange(0, len(spectrum) - 1, rate)
    return _overlapped(_at(spectrum, times), window)[: round(len(sound) / rate)]


def shifted(sound: Real, semitones: float) -> Real:
    """The same length, so many semitones higher."""
    slowed = stretched(sound, 2 ** (-semitones / 12))
    return _resampled(slowed, len(sound))


def _resampled(sound: Real, samples: int) -> Real:
    spectrum = rfft(sound)
    return np.asarray(irfft(spectrum[: samples // 2 + 1], samples)) * (samples / len(sound))


def _at(spectrum: Real, times: Real) -> Real:
    """The spectrum (frames, bins) at other times, in frames: magnitudes between neighbours, phases running on."""
    before = times.astype(np.intp)
    share = (times - before)[:, None]
    magnitude = (1 - share) * np.abs(spectrum[before]) + share * np.abs(spectrum[before + 1])
    angles = np.angle(spectrum)
    expected = np.linspace(0, np.pi * HOP, spectrum.shape[1])
    deviation = angles[before + 1] - angles[before] - expected
    advance = expected + deviation - 2 * np.pi * np.round(deviation / (2 * np.pi))
    phase = angles[0] + np.cumsum(advance, axis=0) - advance
    return np.asarray(magnitude * np.exp(1j * phase))


def _overlapped(spectrum: Real, window: Real) -> Real:
    frames = irfft(spectrum) * window
    made = np.zeros(len(frames) * HOP + FRAME)
    weight = np.zeros_like(made)
    for number, frame in enumerate(frames):
        place = slice(number * HOP, number * HOP + FRAME)
        made[place] += frame
        weight[place] += window**2
    return (made / np.maximum(weight, 1e-3))[FRAME // 2 :]
