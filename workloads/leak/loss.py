"""The loss: class-weighted cross entropy, and half a binary cross entropy for leak or no leak."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.workload import Size
from workloads.leak.signals import LEAK, SHARES

LEAK_WEIGHT = 0.5


class LeakLoss(nn.Module):
    """Scalar loss of the outputs (logits (B, C), leak_logit (B,)) against class numbers (B,)."""

    class_weights: Tensor

    def __init__(self, class_weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("class_weights", class_weights)

    def forward(self, outputs: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Both terms in float32: half-precision logits do not match float32 class weights."""
        logits, leak_logit = (output.float() for output in outputs)
        classes = functional.cross_entropy(logits, target, weight=self.class_weights)
        leak = functional.binary_cross_entropy_with_logits(leak_logit, (target == LEAK).float())
        return classes + LEAK_WEIGHT * leak


def build_loss(size: Size) -> LeakLoss:
    """The loss with weights inverse to the shares of the classes, 1 on average over the samples."""
    shares = torch.tensor(SHARES[: size.shape["classes"]])
    return LeakLoss(1 / (len(shares) * shares))
