"""The front end of the speaker models: waveform to normalised mel power, inside the model and without gradient."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchaudio.transforms import MelSpectrogram

from workloads.speaker.layout import SAMPLE_RATE

MELS = 64
PRE_EMPHASIS = 0.97


class FrontEnd(nn.Module):
    """Waveform (batch, samples) to normalised mel power (batch, mels, frames); 32,240 samples give 202 frames."""

    def __init__(self, *, log_input: bool, pre_emphasis: bool = False) -> None:
        super().__init__()
        self.log_input = log_input
        self.pre_emphasis = pre_emphasis
        self.mel = MelSpectrogram(
            SAMPLE_RATE, n_fft=512, win_length=400, hop_length=160, window_fn=torch.hamming_window, n_mels=MELS
        )
        self.norm = nn.InstanceNorm1d(MELS)

    # torchaudio's spectrogram cannot be traced: one clean break here leaves the whole trunk to the compiler.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, waveform: Tensor) -> Tensor:
        """Mel power without gradient and in full precision, whatever autocast says outside."""
        with torch.no_grad(), torch.autocast(waveform.device.type, enabled=False):
            sound = emphasised(waveform) if self.pre_emphasis else waveform
            power = self.mel(sound) + 1e-6
            normalised: Tensor = self.norm(power.log() if self.log_input else power)
            return normalised


class LoopedFrontEnd(nn.Module):
    """The same front end for one utterance after another, as a loop in Python that nobody has vectorised."""

    def __init__(self, batched: nn.Module) -> None:
        super().__init__()
        self.batched = batched

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, waveform: Tensor) -> Tensor:
        """Waveform (batch, samples) to normalised mel power (batch, mels, frames), stacked at the end."""
        return torch.stack([self.batched(one[None])[0] for one in waveform])


def emphasised(waveform: Tensor) -> Tensor:
    """Each sample less 0.97 of the one before it; the first one's neighbour is the second, as in a mirror."""
    before = functional.pad(waveform, (1, 0), mode="reflect")[:, :-1]
    return waveform - PRE_EMPHASIS * before
