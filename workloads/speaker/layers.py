"""Building blocks of the ResNetSE models: squeeze-and-excitation and two residual blocks."""

from torch import Tensor, nn

REDUCTION = 8  # of squeeze-and-excitation
EXPANSION = 4  # of a bottleneck's width on its way out

Stride = tuple[int, int]  # of the mel axis and of the time axis


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

    expansion = 1

    def __init__(self, entering: int, width: int, stride: Stride) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(entering, width, 3, stride, padding=1, bias=False),
            nn.ReLU(),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            SqueezeExcitation(width),
        )
        self.shortcut = _shortcut(entering, width, stride)
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """(batch, entering, mels, frames) to (batch, width, mels / stride, frames / stride)."""
        joined: Tensor = self.activation(self.residual(features) + self.shortcut(features))
        return joined


class Bottleneck(nn.Module):
    """Residual block of three convolutions in the usual order: 1x1, 3x3, 1x1, each followed by BN; SE, add, ReLU."""

    expansion = EXPANSION

    def __init__(self, entering: int, width: int, stride: Stride) -> None:
        super().__init__()
        leaving = width * EXPANSION
        self.residual = nn.Sequential(
            nn.Conv2d(entering, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, leaving, 1, bias=False),
            nn.BatchNorm2d(leaving),
            SqueezeExcitation(leaving),
        )
        self.shortcut = _shortcut(entering, leaving, stride)
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """(batch, entering, mels, frames) to (batch, 4 width, mels / stride, frames / stride)."""
        joined: Tensor = self.activation(self.residual(features) + self.shortcut(features))
        return joined


def _shortcut(entering: int, leaving: int, stride: Stride) -> nn.Module:
    if entering == leaving and stride == (1, 1):
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))


def initialise(module: nn.Module) -> None:
    """Convolutions of pictures as the original does it: Kaiming, by what leaves them; the rest keeps torch's own."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
