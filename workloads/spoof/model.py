"""SE-ResNet over log-mel spectrograms: basic residual blocks with squeeze-and-excitation, then attentive statistics.

The architecture is that of `models/SEResNet.py` in gkibria121/ai-pipeline; its kin on this task is ASSERT (arXiv
1904.01120), its pooling that of attentive statistics (arXiv 1803.10963).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

WIDTHS = (64, 128, 256, 512)
DEPTHS = {"se_resnet18": (2, 2, 2, 2), "se_resnet34": (3, 4, 6, 3)}  # blocks in each stage
REDUCTION = 16  # of squeeze-and-excitation
ATTENTION = 128
EMBEDDING = 256
CLASSES = 2
DROPOUT = 0.3


class SqueezeExcitation(nn.Module):
    """Weighs the channels of (batch, width, mels, frames) by what all of the picture holds (arXiv 1709.01507)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.Linear(width, width // REDUCTION, bias=False),
            nn.ReLU(),
            nn.Linear(width // REDUCTION, width, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, features: Tensor) -> Tensor:
        """The features, each channel scaled."""
        gates: Tensor = self.gate(features.mean(dim=(2, 3)))
        return features * gates[:, :, None, None]


class Block(nn.Module):
    """Residual block: conv, BN, ReLU, conv, BN, SE, add, ReLU."""

    def __init__(self, entering: int, width: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(entering, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            SqueezeExcitation(width),
        )
        unchanged = entering == width and stride == 1
        self.shortcut = nn.Identity() if unchanged else _projection(entering, width, stride)
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """(batch, entering, mels, frames) to (batch, width, mels / stride, frames / stride)."""
        joined: Tensor = self.activation(self.residual(features) + self.shortcut(features))
        return joined


class AttentiveStatistics(nn.Module):
    """Mean and deviation over time, each frame weighed by its attention: (batch, width, frames) to (batch, 2 width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.Conv1d(width, ATTENTION, 1), nn.ReLU(), nn.Conv1d(ATTENTION, 1, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Statistics in float32: the floor under the variance, 1e-12, would be zero in half precision."""
        weights = torch.softmax(self.attention(features).float(), dim=2)
        features = features.float()
        mean = (features * weights).sum(dim=2)
        variance = (features.square() * weights).sum(dim=2) - mean.square()
        return torch.cat([mean, variance.clamp(min=1e-12).sqrt()], dim=1)


class SEResNet(nn.Module):
    """Log-mel (batch, 128, frames) to embedding (batch, 256) and logits (batch, 2) of spoof and bona fide.

    11,981,251 parameters with blocks (2, 2, 2, 2), 22,159,555 with (3, 4, 6, 3).
    """

    def __init__(self, depth: tuple[int, ...] = DEPTHS["se_resnet18"], *, narrowing: int = 1) -> None:
        """All stages have their channels divided by `narrowing`; what comes after the pooling keeps its width."""
        super().__init__()
        widths = [width // narrowing for width in WIDTHS]
        self.stem = nn.Sequential(
            nn.Conv2d(1, widths[0], 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = _stages(depth, widths)
        self.pooling = AttentiveStatistics(widths[-1])
        self.embed = nn.Sequential(*_dense(2 * widths[-1], 512), *_dense(512, EMBEDDING))
        self.head = nn.Linear(EMBEDDING, CLASSES)

    def forward(self, mels: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding and the logits; the one channel is added in here, as the original does."""
        picture = _picture(mels, self.stem[0].get_parameter("weight"))
        features: Tensor = self.stages(self.stem(picture))
        embedding: Tensor = self.embed(self.pooling(features.mean(dim=2)))
        return embedding, self.head(embedding)


def _picture(mels: Tensor, weight: Tensor) -> Tensor:
    # Born here, a picture of one channel is contiguous in both memory formats at once: only its strides can tell which
    # one is meant. A check for four dimensions at the model's door, as the original has, therefore never sees it. The
    # weights know: after `model.to(memory_format=torch.channels_last)` their channel stride is 1.
    return mels.unsqueeze(-1).permute(0, 3, 1, 2) if weight.stride(1) == 1 else mels.unsqueeze(1)


def _stages(depth: tuple[int, ...], widths: Sequence[int]) -> nn.Sequential:
    blocks = []
    entering = widths[0]
    for stage, (count, width) in enumerate(zip(depth, widths, strict=True)):
        for number in range(count):
            blocks.append(Block(entering, width, 2 if stage and not number else 1))
            entering = width
    return nn.Sequential(*blocks)


def _projection(entering: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(entering, width, 1, stride, bias=False), nn.BatchNorm2d(width))


def _dense(entering: int, width: int) -> tuple[nn.Module, ...]:
    return nn.Linear(entering, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(DROPOUT)
