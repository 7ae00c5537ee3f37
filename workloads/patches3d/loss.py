"""The composite loss at four scales, with the waits, the checks and the miscounted interval of the real system."""

import gc
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.patches3d import terms
from workloads.patches3d.model import Prediction

POSITIVE_WEIGHT = 2.8
AUX_WEIGHT = 0.5
WEIGHTS = {"bce": 0.35, "dice": 0.35, "centre_dice": 0.10, "skeleton": 0.08, "distance": 0.07, "topology": 0.05}
# "Every sixteenth step", the real system says; but its counter counts calls, one a scale, so that it is every fourth.
# A step's last call is that of the full scale. Here the first step measures, there the fourth.
DISTANCE_EVERY = 16
SCALES = 4

Components: TypeAlias = dict[str, Tensor]


@dataclass(slots=True)
class Counts:
    """What a loss has done so far."""

    steps: int = 0
    scales: int = 0  # composites worked out
    heavy: int = 0  # of these, with the terms that need skeletons, edges or distances
    measured: int = 0  # composites with distances
    transforms: int = 0  # distance transforms in the loss itself


class SurfaceLoss(nn.Module):
    """A Prediction and targets (batch, 1 or 2, depth, height, width) to a scalar.

    The first channel of the targets is the surface, the second, where a loader has measured it, the distance to it.
    """

    positive_weight: Tensor

    def __init__(self, *, heavy_everywhere: bool, read_back: bool) -> None:
        """`heavy_everywhere`: all terms at all scales; `read_back`: every component is waited for, as found."""
        super().__init__()
        self.heavy_everywhere = heavy_everywhere
        self.read_back = read_back
        self.register_buffer("positive_weight", torch.tensor(POSITIVE_WEIGHT))
        self.counts = Counts()
        self.components: dict[str, float | Tensor] = {}  # of the last composite

    def forward(self, prediction: Prediction, targets: Tensor) -> Tensor:
        """The composite at full scale, and half of it at each coarser one; raises FloatingPointError on NaN."""
        self.counts.steps += 1
        coarser = torch.zeros(())
        for logits in prediction.aux_logits:
            coarse = functional.interpolate(targets[:, :1], logits.shape[2:], mode="nearest")
            coarser = coarser + self._composite(logits.float(), coarse, heavy=self.heavy_everywhere)
        value = self._composite(prediction.logits.float(), targets, heavy=True) + AUX_WEIGHT * coarser
        if self.read_back and bool(torch.isnan(value) or torch.isinf(value)):
            raise FloatingPointError("the loss is not a number")
        return value

    def _composite(self, logits: Tensor, targets: Tensor, *, heavy: bool) -> Tensor:
        measuring = self.counts.scales % DISTANCE_EVERY == SCALES - 1
        self.counts.scales += 1
        surface = targets[:, :1]
        probabilities = torch.sigmoid(logits)
        components = {
            "bce": functional.binary_cross_entropy_with_logits(logits, surface, pos_weight=self.positive_weight),
            "dice": terms.dice(probabilities, surface),
        }
        if heavy:
            self.counts.heavy += 1
            components |= self._heavy(probabilities, targets, measuring=measuring)
        # As found, each component is fetched to the host for a log as soon as it is there.
        note = Tensor.item if self.read_back else Tensor.detach
        self.components = {name: note(one) for name, one in components.items()}
        return torch.stack([WEIGHTS[name] * one for name, one in components.items()]).sum()

    def _heavy(self, probabilities: Tensor, targets: Tensor, *, measuring: bool) -> Components:
        surface = targets[:, :1]
        return {
            "centre_dice": terms.centre_dice(probabilities, surface),
            "skeleton": terms.skeleton_difference(probabilities, surface),
            "distance": self._distant(probabilities, targets) if measuring else terms.edges(probabilities, surface),
            "topology": terms.topology(probabilities, surface),
        }

    def _distant(self, probabilities: Tensor, targets: Tensor) -> Tensor:
        surface = targets[:, :1]
        self.counts.measured += 1
        to_target = targets[:, 1:] if targets.shape[1] == 2 else self._measured(surface)
        value = terms.surface_distance(probabilities, surface, to_target, self._measured(probabilities))
        for _ in range(len(surface) if self.read_back else 0):
            gc.collect()  # as found, to free the arrays of each sample's distances
        return value

    def _measured(self, mask: Tensor) -> Tensor:
        self.counts.transforms += len(mask)
        return terms.distance(mask)
