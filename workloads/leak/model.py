"""LeakCNNMulti: three convolutions over the mel axis and two heads, 618,758 parameters with five classes.

Architecture: eviltwinkie/AILH_MASTER, AI_DEV/dataset_trainer.py at f3718d4, written anew from its layer table.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size


class MiddleColumn(nn.Conv2d):
    """A 3x3 convolution with padding 1 over inputs one frame wide, by the middle column of its kernel.

    The outer columns see nothing but padding, so leaving them out changes no value. They stay parameters, so that the
    weights can be trained, stored and loaded as those of the original layer; their gradient is zero in both.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that torch gave it
        """A convolution along the mel axis: (B, C, mels, 1) to (B, D, mels, 1)."""
        return functional.conv2d(input, self.weight[..., 1:2], self.bias, padding=(1, 0))


class LeakCNNMulti(nn.Module):
    """Mel segments (B, 1, mels, frames) to class logits (B, classes) and one leak logit (B,)."""

    def __init__(self, classes: int, convolution: type[nn.Conv2d] = nn.Conv2d) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            convolution(1, 32, 3, padding=1),
            nn.ReLU(),
            convolution(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            convolution(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            nn.AdaptiveAvgPool2d((16, 1)),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(128 * 16, 256),
            nn.ReLU(),
        )
        self.class_head = nn.Linear(256, classes)
        self.leak_head = nn.Linear(256, 1)

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        """Both heads over one trunk."""
        features = self.trunk(mel)
        return self.class_head(features), self.leak_head(features).squeeze(1)


def build_model(size: Size, recipe: Recipe) -> LeakCNNMulti:
    """The network for the classes of this size; raises Mistake where a rewrite does not fit its inputs."""
    classes = 2 if recipe.choice("classes") == "binary" else size.shape["classes"]
    if recipe.choice("convolution") == "square":
        return LeakCNNMulti(classes)
    if size.shape["frames"] != 1:
        raise Mistake(f"conv1d_rewrite is exact for one frame only, and these segments have {size.shape['frames']}.")
    return LeakCNNMulti(classes, MiddleColumn)


def build_optimizer(parameters: list[nn.Parameter], kernel: Mapping[str, Any]) -> torch.optim.AdamW:
    """AdamW at the learning rate of the real system, with the kernel that the recipe chose."""
    return torch.optim.AdamW(parameters, lr=1e-3, **kernel)
