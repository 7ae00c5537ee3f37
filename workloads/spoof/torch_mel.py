"""The same log-mel in torch and float32: for one clip inside a worker, or for a batch of clips on the device."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.spoof.mel import FFT, FLOOR, HOP, MELS, TOP_DB, filters, hann

PCM = 32_768  # what int16 counts to


class Spectrogram:
    """Mel power of sounds, with window and filters made once for a device."""

    def __init__(self, device: torch.device) -> None:
        self.window = torch.from_numpy(hann(np.float32)).to(device)
        self.filters = torch.from_numpy(filters()).to(device)

    def power(self, sounds: Tensor) -> Tensor:
        """(…, samples) to (…, 128, frames); centred and padded with zeros, as the original does it."""
        spectrum = torch.stft(
            sounds, FFT, HOP, window=self.window, center=True, pad_mode="constant", return_complex=True
        )
        parts = torch.view_as_real(spectrum)
        return self.filters @ parts.square().sum(-1)


def decibels(power: Tensor, loudest: Tensor) -> Tensor:
    """Power to dB below the loudest value of its clip, which broadcasts, and nothing lower than 80 dB below it."""
    level = 10.0 * power.clamp(min=FLOOR).log10() - 10.0 * loudest.clamp(min=FLOOR).log10()
    return level.clamp(min=-TOP_DB)


def log_mel(sound: Any) -> Tensor:
    """The features (128, frames) of one clip, an array (samples,) in float32."""
    power = _here().power(torch.from_numpy(sound))
    return decibels(power, power.max())


@cache
def _here() -> Spectrogram:
    return Spectrogram(torch.device("cpu"))


class DeviceMel:
    """Batches of sound, int16 or float32, to batches of features, on the device.

    The sounds are whole clips (batch, samples), zeros after their ends, so that each keeps the reference level of its
    whole clip although only the frames that the model sees become features.
    """

    def __init__(self, frames: int, device: torch.device) -> None:
        self.spectrogram = Spectrogram(device)
        self.seen = torch.arange(frames, device=device)

    def __call__(self, batch: Any) -> tuple[Tensor, Tensor]:
        """(sounds, lengths, first frames, labels) to features (batch, 128, frames) and labels (batch,)."""
        sounds, lengths, starts, labels = batch
        power = self.spectrogram.power(sounds if sounds.is_floating_point() else sounds.float() / PCM)
        frames = 1 + lengths[:, None] // HOP  # of each clip, the padding left out
        beyond = torch.arange(power.shape[2], device=power.device) >= frames
        loudest = power.masked_fill(beyond[:, None], 0.0).amax(dim=(1, 2), keepdim=True)
        columns = (starts[:, None] + self.seen) % frames  # a short clip begins again
        chosen = power.gather(2, columns[:, None].expand(-1, MELS, -1))
        return decibels(chosen, loudest), labels
