"""The loss: class-weighted cross entropy or a focal loss, and half a binary cross entropy for leak or no leak."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.leak.classes import shares

LEAK_WEIGHT = 0.5
FOCUS = 2.0  # gamma of the focal loss
FOCAL_LEAK_SHARE = 0.75  # alpha of LEAK; the other classes share the rest

ClassLoss = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits (B, C), class numbers (B,), weights (C,) to a scalar


class LeakLoss(nn.Module):
    """Scalar loss of the outputs (logits (B, C), leak_logit (B,)) against class numbers (B,).

    With two outputs the class head tells leaks (1) from everything else (0), whatever the classes of the data.
    """

    class_weights: Tensor

    def __init__(self, class_loss: ClassLoss, class_weights: Tensor, leak: int, *, binary: bool) -> None:
        super().__init__()
        self.class_loss = class_loss
        self.leak = leak  # number of LEAK among the classes of the data
        self.binary = binary
        self.register_buffer("class_weights", class_weights)

    def forward(self, outputs: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Both terms in float32: half-precision logits do not match float32 class weights."""
        logits, leak_logit = (output.float() for output in outputs)
        leaks = target == self.leak
        classes = self.class_loss(logits, leaks.long() if self.binary else target, self.class_weights)
        return classes + LEAK_WEIGHT * functional.binary_cross_entropy_with_logits(leak_logit, leaks.float())


def cross_entropy(logits: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Cross entropy, averaged with the weight of each sample's class."""
    return functional.cross_entropy(logits, target, weight=weights)


def focal(logits: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Cross entropy in which a sample counts less the surer the model is of it; Lin et al., ICCV 2017."""
    log_probability = logits.log_softmax(1).gather(1, target[:, None]).squeeze(1)
    return (weights[target] * (1 - log_probability.exp()) ** FOCUS * -log_probability).mean()


def build_loss(size: Size, recipe: Recipe) -> LeakLoss:
    """The loss that the recipe names, for the classes of this size."""
    leak, binary = size.shape["leak"], recipe.choice("classes") == "binary"
    share = torch.tensor(shares(size.shape))
    if binary:
        share = torch.stack((1 - share[leak], share[leak]))
    if recipe.choice("class_loss") == "focal":
        weights = torch.full_like(share, (1 - FOCAL_LEAK_SHARE) / (len(share) - 1))
        weights[1 if binary else leak] = FOCAL_LEAK_SHARE
        return LeakLoss(focal, weights, leak, binary=binary)
    inverse = 1 / (len(share) * share)  # 1 on average over the samples
    return LeakLoss(cross_entropy, inverse, leak, binary=binary)
