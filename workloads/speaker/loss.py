"""The objectives of the speaker models: angular margin softmax, angular prototypical, and softmax + prototypical."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.speaker.model import EMBEDDING

MARGIN = 0.2  # radians
SCALE = 30.0


class AngularMarginLoss(nn.Module):
    """Additive angular margin softmax (ArcFace, arXiv 1801.07698); holds a direction per class.

    Embeddings (batch, size) and labels (batch,) to a scalar.
    """

    def __init__(self, classes: int, embedding: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, embedding))
        nn.init.xavier_normal_(self.weight)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the scaled cosines, the true class moved away by the margin."""
        cosine = functional.linear(functional.normalize(embeddings), functional.normalize(self.weight)).float()
        is_true = functional.one_hot(labels, len(self.weight)).bool()
        return functional.cross_entropy(SCALE * torch.where(is_true, _with_margin(cosine), cosine), labels)


class AngularPrototypicalLoss(nn.Module):
    """Which of the batch's speakers is it? (arXiv 2003.11982) Has two parameters: a scale and an offset of cosines.

    Embeddings (2 batch, size), two of each speaker next to each other, and labels (batch,) to a scalar.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.offset = nn.Parameter(torch.tensor(-5.0))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of every first utterance against all second ones."""
        first, second = functional.normalize(embeddings).float().unflatten(0, (-1, 2)).unbind(1)
        logits = first @ second.T * self.scale.clamp(min=1e-6) + self.offset
        own = torch.arange(len(labels), device=labels.device)
        # The original draws no speaker twice for a batch. Here one may come twice: he is not his own impostor.
        same_speaker = (labels[:, None] == labels) & (own[:, None] != own)
        return functional.cross_entropy(logits.masked_fill(same_speaker, -math.inf), own)


class SoftmaxPrototypicalLoss(nn.Module):
    """Plain softmax over all speakers of the training set, plus the angular prototypical loss; shapes as there."""

    def __init__(self, classes: int, embedding: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(embedding, classes)
        self.prototypical = AngularPrototypicalLoss()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The sum of both."""
        softmax = functional.cross_entropy(self.classifier(embeddings).float(), labels.repeat_interleave(2))
        together: Tensor = softmax + self.prototypical(embeddings, labels)
        return together


def build_loss(size: Size, recipe: Recipe) -> nn.Module:
    """The objective that the recipe names."""
    speakers = size.shape["speakers"]
    match recipe.choice("objective"):
        case "aam_softmax":
            return AngularMarginLoss(speakers, EMBEDDING)
        case "angular_prototypical":
            return AngularPrototypicalLoss()
        case "softmax_prototypical":
            return SoftmaxPrototypicalLoss(speakers, EMBEDDING)
        case unknown:
            raise ValueError(unknown)


def _with_margin(cosine: Tensor) -> Tensor:
    # cos(angle + margin), and beyond angle = pi - margin, where that would rise again, the tangent-like fallback of
    # the paper's authors. The clamp keeps the root's slope finite where half precision rounds a cosine up to one.
    sine = (1 - cosine.square()).clamp(min=1e-7).sqrt()
    moved = cosine * math.cos(MARGIN) - sine * math.sin(MARGIN)
    return torch.where(cosine > -math.cos(MARGIN), moved, cosine - MARGIN * math.sin(MARGIN))
