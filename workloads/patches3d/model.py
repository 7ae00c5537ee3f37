"""The residual 3-D U-Net of this system, in the manner of nnU-Net (arXiv 1809.10486), with deep supervision.

Five encoder stages of 40, 80, 80, 160 and 160 channels with max-pooling between them, a bottleneck of 320 channels at
the last stage's resolution, four decoder stages of 160, 80, 80 and 40. Each stage is three residual blocks. The 3x3x3
convolutions have no bias, because a norm follows; projections and transposed convolutions have one. 33,671,604
parameters.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint_sequential

ENCODER = (40, 80, 80, 160, 160)
BOTTLENECK = 320
DECODER = (160, 80, 80, 40)
BLOCKS, SEGMENTS = 3, 2  # of a stage
DROPOUT = 0.15


class Prediction(NamedTuple):
    """Logits (batch, 1, depth, height, width), and those of the first three decoder stages, coarsest first."""

    logits: Tensor
    aux_logits: tuple[Tensor, ...]


class Block(nn.Module):
    """Conv, norm, Mish, conv, norm, dropout of whole channels; the input is added before the last Mish."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, padding=1, bias=False),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.Mish(),
            nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.Dropout3d(DROPOUT),
        )
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv3d(inputs, outputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, inputs, ...) to (batch, outputs, ...)."""
        return functional.mish(self.residual(features) + self.shortcut(features))


class Up(nn.Module):
    """Twice the resolution, brought to the skip's shape where that was odd, and the skip; then three blocks."""

    def __init__(self, inputs: int, skip: int, outputs: int) -> None:
        super().__init__()
        self.enlarge = nn.ConvTranspose3d(inputs, outputs, 2, stride=2)
        self.blocks = stage(outputs + skip, outputs)

    def forward(self, features: Tensor, skip: Tensor, *, in_segments: bool) -> Tensor:
        """(batch, inputs, d, h, w) and the skip (batch, skip, D, H, W) to (batch, outputs, D, H, W)."""
        return through(self.blocks, self._joined(features, skip), in_segments=in_segments)

    def _joined(self, features: Tensor, skip: Tensor) -> Tensor:
        larger = self.enlarge(features)
        if larger.shape[2:] != skip.shape[2:]:
            larger = functional.interpolate(larger, skip.shape[2:], mode="trilinear", align_corners=False)
        return torch.cat((larger, skip), 1)


class ResidualUNet3D(nn.Module):
    """Patches (batch, 1, depth, height, width) to a Prediction; pooled four times, so no side may be below 16."""

    def __init__(self, *, checkpointing: bool = False, narrowing: int = 1) -> None:
        """All stages have their channels divided by `narrowing`."""
        super().__init__()
        self.checkpointing = checkpointing
        encoder, decoder = ([channels // narrowing for channels in side] for side in (ENCODER, DECODER))
        deepest = BOTTLENECK // narrowing
        self.encoder = nn.ModuleList(map(stage, (1, *encoder[:-1]), encoder))
        self.pool = nn.MaxPool3d(2)
        self.bottleneck = stage(encoder[-1], deepest)
        self.decoder = nn.ModuleList(map(Up, (deepest, *decoder[:-1]), encoder[-2::-1], decoder))
        self.head = nn.Conv3d(decoder[-1], 1, 1)
        self.aux_heads = nn.ModuleList(nn.Conv3d(channels, 1, 1) for channels in decoder[:-1])

    def forward(self, patches: Tensor) -> Prediction:
        """The logits of the surface at four resolutions."""
        in_segments = self.checkpointing and self.training
        features, skips = patches, []
        for number, encoder in enumerate(self.encoder):
            features = encoder(self.pool(features) if number else features)
            skips.append(features)
        features, stages = through(self.bottleneck, features, in_segments=in_segments), []
        for up, skip in zip(self.decoder, reversed(skips[:-1]), strict=True):
            features = up(features, skip, in_segments=in_segments)
            stages.append(features)
        aux_logits = tuple(head(coarse) for head, coarse in zip(self.aux_heads, stages, strict=False))
        return Prediction(self.head(features), aux_logits)


def stage(inputs: int, outputs: int) -> nn.Sequential:
    """Three residual blocks; the first changes the channels."""
    return nn.Sequential(*(Block(outputs if number else inputs, outputs) for number in range(BLOCKS)))


def through(blocks: nn.Sequential, features: Tensor, *, in_segments: bool) -> Tensor:
    """A stage's output; of two segments torch computes all but the last again: the first block of three."""
    if in_segments:
        found: Tensor = checkpoint_sequential(blocks, SEGMENTS, features, use_reentrant=False)
    else:
        found = blocks(features)
    return found
