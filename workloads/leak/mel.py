"""Log-mel spectra of short segments: 512 samples, no centring, so one frame of 64 mels."""

from functools import cache

import numpy as np
import numpy.typing as npt

from workloads.leak.signals import SAMPLE_RATE, FloatArray

FFT_SAMPLES, HOP_SAMPLES, MELS = 512, 128, 64
FLOOR = 1e-6  # power, so that silence has a logarithm


def log_mel(waveform: FloatArray) -> npt.NDArray[np.float16]:
    """Natural logarithm of mel power, shape (…, 64, 1), of segments (…, 512)."""
    window = np.hanning(FFT_SAMPLES + 1)[:-1].astype(np.float32)
    spectrum = np.fft.rfft(waveform * window)
    power = spectrum.real**2 + spectrum.imag**2
    mel: npt.NDArray[np.float16] = np.log(power @ mel_filters() + FLOOR).astype(np.float16)
    return mel[..., np.newaxis]


@cache
def mel_filters() -> FloatArray:
    """Triangles (257, 64) of height 1, evenly spaced in mel from 0 Hz to half the sample rate.

    mel = 2595 log10(1 + f / 700), O'Shaughnessy, Speech Communication, 1987.
    """
    top = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    frequency = np.fft.rfftfreq(FFT_SAMPLES, 1 / SAMPLE_RATE)[:, np.newaxis]
    rising = (frequency - corners[:-2]) / np.diff(corners[:-1])
    falling = (corners[2:] - frequency) / np.diff(corners[1:])
    return np.minimum(rising, falling).clip(min=0).astype(np.float32)
