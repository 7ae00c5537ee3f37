"""ResNet-50 as torchvision builds it (v1.5: the stride sits in the 3x3 convolution), with a head of 100 classes."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torchvision.models import resnet50

from harness.core.workload import Size
from workloads.imagenet import EPOCHS
from workloads.imagenet.layout import CLASSES

# For small batches and no warm-up. The real system reaches 0.5 after an epoch of warm-up, with batches of 256; in
# proportion that is 0.016 for a batch of 8, at which the loss jumps from 4.4 to 14 and nothing was learned in 120
# steps. How large a step is does not change what it costs, so all sizes share one.
LEARNING_RATE = 0.005
MOMENTUM, WEIGHT_DECAY = 0.9, 2e-5
LABEL_SMOOTHING = 0.1


def build_model(size: Size) -> nn.Module:
    """Images (B, 3, px, px) to logits (B, 100), whatever number of classes lies on disk.

    23,712,932 parameters; 10,537,764 where the inner convolutions of all blocks have half of their channels.
    """
    model: nn.Module = resnet50(num_classes=CLASSES, width_per_group=size.shape["width_per_group"])
    return model


def build_loss() -> nn.CrossEntropyLoss:
    """Cross entropy with smoothed labels."""
    return nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING)


def build_optimizer(parameters: list[nn.Parameter], kernel: Mapping[str, Any]) -> torch.optim.SGD:
    """SGD with momentum, weight decay on whatever the real system's rule of names leaves it on."""
    named = list(zip(parameter_names(), parameters, strict=True))
    groups = [
        {"params": [one for name, one in named if decays(name)], "weight_decay": WEIGHT_DECAY},
        {"params": [one for name, one in named if not decays(name)], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=LEARNING_RATE, momentum=MOMENTUM, **kernel)


def build_schedule(optimizer: torch.optim.Optimizer, steps: int) -> SequentialLR:
    """Up in a straight line over one epoch of twenty, then down to nothing along a cosine."""
    rising = max(1, steps // EPOCHS)
    rise = LinearLR(optimizer, start_factor=1 / 100, total_iters=rising)
    return SequentialLR(optimizer, [rise, CosineAnnealingLR(optimizer, max(1, steps - rising))], milestones=[rising])


def decays(name: str) -> bool:
    """The real system's rule: biases and batch normalization are spared by name.

    The batch normalization of a shortcut is called `downsample.1`, so its weights decay; kept as found.
    """
    return "bn" not in name and "bias" not in name


@cache
def parameter_names() -> tuple[str, ...]:
    """The names of all parameters, in the order in which the model gives them; at any width they are the same."""
    with torch.device("meta"):
        return tuple(name for name, _ in resnet50(num_classes=CLASSES).named_parameters())
