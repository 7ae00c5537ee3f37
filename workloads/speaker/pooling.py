"""Pooling over time by attention: the mean alone (SAP), or mean and standard deviation (ASP, arXiv 1803.10963).

All take a picture (batch, width, mels, frames) and give a vector per sample.
"""

from typing import Literal

import torch
from torch import Tensor, nn

Statistics = Literal["sap", "asp"]
HIDDEN = 128  # of the attention over whole spectra


class FramePooling(nn.Module):
    """Pools the mean over mels; a frame's attention is a learned vector's product with what a linear layer sees.

    To (batch, width), or (batch, 2 width) with deviations.
    """

    def __init__(self, width: int, statistics: Statistics) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        self.attention = nn.Parameter(torch.empty(width, 1))
        nn.init.xavier_normal_(self.attention)
        self.deviations = statistics == "asp"
        self.leaving = width * (2 if self.deviations else 1)

    def forward(self, picture: Tensor) -> Tensor:
        """The statistics over time, each frame weighed by its own attention."""
        frames = picture.mean(dim=2).transpose(1, 2)
        weights = torch.softmax(torch.tanh(self.project(frames)) @ self.attention, dim=1)
        return _statistics(frames, weights, axis=1, deviations=self.deviations)


class SpectrumPooling(nn.Module):
    """Pools each band of each channel by an attention of its own, which a small network draws from all of them.

    To (batch, width x mels), or twice that with deviations.
    """

    def __init__(self, width: int, mels: int, statistics: Statistics) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.Conv1d(width * mels, HIDDEN, 1), nn.ReLU(), nn.BatchNorm1d(HIDDEN), nn.Conv1d(HIDDEN, width * mels, 1)
        )
        self.deviations = statistics == "asp"
        self.leaving = width * mels * (2 if self.deviations else 1)

    def forward(self, picture: Tensor) -> Tensor:
        """The statistics over time, each frame of each band weighed by its own attention."""
        bands = picture.flatten(1, 2)
        weights = torch.softmax(self.attention(bands), dim=2)
        return _statistics(bands, weights, axis=2, deviations=self.deviations)


def _statistics(features: Tensor, weights: Tensor, *, axis: int, deviations: bool) -> Tensor:
    mean = (features * weights).sum(dim=axis)
    if not deviations:
        return mean
    variance = (features.square() * weights).sum(dim=axis) - mean.square()
    return torch.cat([mean, variance.clamp(min=1e-5).sqrt()], dim=1)
