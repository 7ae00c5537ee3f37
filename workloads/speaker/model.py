"""ResNetSE34L, the "Fast ResNet-34" of clovaai/voxceleb_trainer: a thin residual network over mel spectrograms."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchaudio.transforms import MelSpectrogram

from workloads.speaker.layout import SAMPLE_RATE

MELS = 64
EMBEDDING = 512
STAGES = ((3, 16, (1, 1)), (4, 32, (2, 2)), (6, 64, (2, 2)), (3, 128, (1, 1)))  # blocks, width, stride
REDUCTION = 8  # of squeeze-and-excitation


class SqueezeExcitation(nn.Module):
    """Weighs the channels of (batch, width, mels, frames) by what all of the picture holds (arXiv 1709.01507)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.Linear(width, width // REDUCTION), nn.ReLU(), nn.Linear(width // REDUCTION, width), nn.Sigmoid()
        )

    def forward(self, features: Tensor) -> Tensor:
        """The features, each channel scaled."""
        gates: Tensor = self.gate(features.mean(dim=(2, 3)))
        return features * gates[:, :, None, None]


class Block(nn.Module):
    """Residual block in this system's own order: conv, ReLU, BN, conv, BN, SE, add, ReLU."""

    def __init__(self, entering: int, width: int, stride: tuple[int, int]) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(entering, width, 3, stride, padding=1, bias=False),
            nn.ReLU(),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            SqueezeExcitation(width),
        )
        unchanged = entering == width and stride == (1, 1)
        self.shortcut = nn.Identity() if unchanged else _projection(entering, width, stride)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, entering, mels, frames) to (batch, width, mels / stride, frames / stride)."""
        return functional.relu(self.residual(features) + self.shortcut(features))


class AttentivePooling(nn.Module):
    """Self-attentive pooling over time: (batch, frames, width) to (batch, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        self.attention = nn.Parameter(torch.empty(width, 1))
        nn.init.xavier_normal_(self.attention)

    def forward(self, features: Tensor) -> Tensor:
        """The mean over time, each frame weighed by its own attention."""
        weights = torch.softmax(torch.tanh(self.project(features)) @ self.attention, dim=1)
        return (features * weights).sum(dim=1)


class FrontEnd(nn.Module):
    """Waveform (batch, samples) to normalised mel power (batch, mels, frames); 32,240 samples give 202 frames."""

    def __init__(self, *, log_input: bool) -> None:
        super().__init__()
        self.log_input = log_input
        self.mel = MelSpectrogram(
            SAMPLE_RATE, n_fft=512, win_length=400, hop_length=160, window_fn=torch.hamming_window, n_mels=MELS
        )
        self.norm = nn.InstanceNorm1d(MELS)

    # torchaudio's spectrogram cannot be traced: one clean break here leaves the whole trunk to the compiler.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, waveform: Tensor) -> Tensor:
        """Mel power without gradient and in full precision, whatever autocast says outside."""
        with torch.no_grad(), torch.autocast(waveform.device.type, enabled=False):
            power = self.mel(waveform) + 1e-6
            normalised: Tensor = self.norm(power.log() if self.log_input else power)
            return normalised


class ResNetSE34L(nn.Module):
    """Waveform (batch, samples) at 16 kHz to embedding (batch, 512); 1,437,078 parameters."""

    def __init__(self, embedding: int = EMBEDDING, *, log_input: bool = False) -> None:
        super().__init__()
        self.front_end = FrontEnd(log_input=log_input)
        width = STAGES[0][1]
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 7, stride=(2, 1), padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = _stages()
        self.pooling = AttentivePooling(STAGES[-1][1])
        self.head = nn.Linear(STAGES[-1][1], embedding)
        self.apply(_initialise)

    def forward(self, waveform: Tensor) -> Tensor:
        """Embeddings, not yet normalised."""
        picture = _picture(self.front_end(waveform), self.stem[0].get_parameter("weight"))
        features: Tensor = self.stages(self.stem(picture))
        embeddings: Tensor = self.head(self.pooling(features.mean(dim=2).transpose(1, 2)))
        return embeddings


def _picture(mels: Tensor, weight: Tensor) -> Tensor:
    # The picture is born here, where no caller can convert it. With one channel it is contiguous in both memory formats
    # at once, so that `to` and `contiguous` leave it alone and only its strides can tell which one is meant. After
    # `model.to(memory_format=torch.channels_last)` the weights have channel stride 1: moving a new last axis to the
    # channel's place gives the picture that stride too, without a copy, and all later layers keep the format.
    return mels.unsqueeze(-1).permute(0, 3, 1, 2) if weight.stride(1) == 1 else mels.unsqueeze(1)


def _stages() -> nn.Sequential:
    blocks = []
    entering = STAGES[0][1]
    for count, width, stride in STAGES:
        for number in range(count):
            blocks.append(Block(entering, width, stride if number == 0 else (1, 1)))
            entering = width
    return nn.Sequential(*blocks)


def _projection(entering: int, width: int, stride: tuple[int, int]) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(entering, width, 1, stride, bias=False), nn.BatchNorm2d(width))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
