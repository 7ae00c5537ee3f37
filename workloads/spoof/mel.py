"""Log-mel spectrograms as the original makes them with librosa 0.10: whole clip, Slaney scale and norm, top_db 80.

Written out in numpy so that no arm pays for importing librosa (seconds). The order of work is librosa's: filters are
made anew for every clip, and the power is the square of an absolute value. A test holds the filters against torchaudio.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import rfft

from workloads.spoof.layout import SAMPLE_RATE

Real = npt.NDArray[Any]  # of float32 or float64

MELS, FFT, HOP = 128, 512, 160
BLOCK_FRAMES = 63
TOP_DB = 80.0
FLOOR = 1e-10  # power


def frames_of(samples: int) -> int:
    """Frames of a centred spectrogram: 64,600 samples give 404."""
    return 1 + samples // HOP


def log_mel(sound: Real) -> Real:
    """Mel power (128, frames) of a clip (samples,) in dB below the clip's loudest value, from -80 to 0."""
    return decibels(mel_power(sound))


def mel_power(sound: Real) -> Real:
    """Mel power (128, frames) in the precision of the sound."""
    return np.asarray(filters().astype(sound.dtype) @ (np.abs(spectrum(sound)) ** 2.0).T)


def spectrum(sound: Real) -> npt.NDArray[Any]:
    """Short-time spectrum (frames, 257); by blocks of frames that stay in a CPU's cache, as librosa does it."""
    padded = np.pad(sound, FFT // 2)  # centred: librosa pads with zeros since 0.10
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    window = hann(sound.dtype)
    found = np.empty((len(windows), FFT // 2 + 1), dtype=np.result_type(sound.dtype, np.complex64))
    for first in range(0, len(windows), BLOCK_FRAMES):
        block = slice(first, first + BLOCK_FRAMES)
        found[block] = rfft(windows[block] * window)
    return found


def decibels(power: Real) -> Real:
    """Power to dB with the loudest value as reference, nothing lower than 80 dB below it."""
    level = 10.0 * np.log10(np.maximum(power, FLOOR))
    level -= 10.0 * np.log10(np.maximum(power.max(), FLOOR))
    return np.asarray(np.maximum(level, level.max() - TOP_DB))


def hann(kind: npt.DTypeLike) -> Real:
    """The periodic Hann window (512,)."""
    return np.hanning(FFT + 1)[:-1].astype(kind)


def filters() -> npt.NDArray[np.float32]:
    """Triangles (128, 257) of equal area, evenly spaced on Slaney's scale from 0 Hz to half the sample rate.

    Malcolm Slaney, Auditory Toolbox, Interval Research, 1998.
    """
    corners = hertz(np.linspace(0.0, mel_of(SAMPLE_RATE / 2), MELS + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, FFT // 2 + 1)
    weights = np.zeros((MELS, len(bins)), dtype=np.float32)
    for band in range(MELS):
        low, centre, high = corners[band : band + 3]
        rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
        weights[band] = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low))
    return weights


LINEAR_HZ, KNEE_HZ = 200.0 / 3.0, 1000.0  # Hz a mel below the knee; above it 27 mels are a factor of 6.4
LOG_STEP = np.log(6.4) / 27.0


def mel_of(frequency_hz: float) -> float:
    """A frequency above the knee on Slaney's scale."""
    return float(KNEE_HZ / LINEAR_HZ + np.log(frequency_hz / KNEE_HZ) / LOG_STEP)


def hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Slaney's scale back to frequencies."""
    knee = KNEE_HZ / LINEAR_HZ
    return np.where(mels < knee, mels * LINEAR_HZ, KNEE_HZ * np.exp(LOG_STEP * np.maximum(mels - knee, 0.0)))
