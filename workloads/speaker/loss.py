"""Additive angular margin softmax (ArcFace, arXiv 1801.07698) with the margin 0.2 and the scale 30 of this system."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

MARGIN = 0.2  # radians
SCALE = 30.0


class AngularMarginLoss(nn.Module):
    """Embeddings (batch, size) and labels (batch,) to a scalar; holds a direction per class."""

    def __init__(self, classes: int, embedding: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, embedding))
        nn.init.xavier_normal_(self.weight)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the scaled cosines, the true class moved away by the margin."""
        cosine = functional.linear(functional.normalize(embeddings), functional.normalize(self.weight)).float()
        is_true = functional.one_hot(labels, len(self.weight)).bool()
        return functional.cross_entropy(SCALE * torch.where(is_true, _with_margin(cosine), cosine), labels)


def _with_margin(cosine: Tensor) -> Tensor:
    # cos(angle + margin), and beyond angle = pi - margin, where that would rise again, the tangent-like fallback of
    # the paper's authors. The clamp keeps the root's slope finite where half precision rounds a cosine up to one.
    sine = (1 - cosine.square()).clamp(min=1e-7).sqrt()
    moved = cosine * math.cos(MARGIN) - sine * math.sin(MARGIN)
    return torch.where(cosine > -math.cos(MARGIN), moved, cosine - MARGIN * math.sin(MARGIN))
