"""LeakCNNMulti: three convolutions over the mel axis and two heads, 618,758 parameters with five classes.

Architecture: eviltwinkie/AILH_MASTER, AI_DEV/dataset_trainer.py at f3718d4, written anew from its layer table.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from harness.core.workload import Size


class LeakCNNMulti(nn.Module):
    """Mel segments (B, 1, 64, 1) to class logits (B, classes) and one leak logit (B,)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            nn.Conv2d(64, 128, 3, padding=1),
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


def build_model(size: Size) -> LeakCNNMulti:
    """The network for the classes of this size."""
    return LeakCNNMulti(size.shape["classes"])


def build_optimizer(parameters: list[nn.Parameter], kernel: Mapping[str, Any]) -> torch.optim.AdamW:
    """AdamW at the learning rate of the real system, with the kernel that the recipe chose."""
    return torch.optim.AdamW(parameters, lr=1e-3, **kernel)
