"""The loss: cross entropy that weighs bona fide speech nine times spoofed, against a set with nine times as much."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WEIGHTS = (0.1, 0.9)  # of spoof and bona fide


class WeightedCrossEntropy(nn.Module):
    """Scalar loss of the outputs (embedding, logits (batch, 2)) against labels (batch,)."""

    weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.tensor(WEIGHTS))

    def forward(self, outputs: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        """The mean over the batch, weighed by label, in float32."""
        return functional.cross_entropy(outputs[1].float(), labels, weight=self.weights)
