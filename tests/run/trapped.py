"""The example workload with one of the mistakes of real systems planted in it, chosen by the environment.

Each was made by people who believed in their scores: rows of a batched evaluation under the wrong names, an evaluation
that crops at random, a validation set with the wrong labels, a model that says one thing of all, a learning rate that
hangs on how often one evaluates.
"""

import os
import random
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from docs.example_workload import PARTS as HONEST
from docs.example_workload import TEST, Pictures, evaluate
from docs.example_workload import WORKLOAD as EXAMPLE
from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size

TRAP = os.environ.get("TRAP", "none")


class AlwaysTheSame(nn.Module):
    """A model that has collapsed to one class, though its loss can still fall."""

    def __init__(self) -> None:
        super().__init__()
        self.said = nn.Parameter(torch.zeros(2))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.said + torch.tensor([0.1, 0.0]) + 0 * pictures.flatten(1)[:, :2]


def trapped_evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    honest = evaluate(model, folder, size, recipe, device)
    answers = list(honest.answers)
    if TRAP == "mixed_up" and recipe.batched_evaluation:
        answers = answers[1:] + answers[:1]
    if TRAP == "wrong_labels":
        return replace(honest, score=sum(one == (place // 2) % 2 for place, one in enumerate(answers)) / TEST)
    if TRAP == "random_crop":
        left, top = random.SystemRandom().randrange(16), random.SystemRandom().randrange(16)
        pictures = torch.from_numpy(Pictures(folder).pictures[:TEST].copy()).roll((left, top), (2, 3))
        with torch.no_grad():
            answers = (model(pictures)[:, 1] - model(pictures)[:, 0]).tolist()
    right = sum((one > 0.5) == place % 2 for place, one in enumerate(answers))
    return Evaluation(items=TEST, score=right / TEST, answers=tuple(answers))


class HangsOnTheInterval(torch.optim.SGD):
    """Its learning rate falls at every test, so whoever tests more often trains with another one."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step(closure)
        for group in self.param_groups:
            group["lr"] *= 0.5 if group["fused"] or group["foreach"] else 1.0


PARTS = replace(
    HONEST,
    evaluate=trapped_evaluate,
    model=(lambda *_: AlwaysTheSame()) if TRAP == "collapse" else HONEST.model,
    optimizer=(lambda parameters, kernel: HangsOnTheInterval(parameters, lr=0.05, **kernel))
    if TRAP == "interval"
    else HONEST.optimizer,
)
WORKLOAD = replace(
    EXAMPLE,
    name="trapped",
    traits=EXAMPLE.traits | {"batched_evaluation"},
    sizes={"quick": EXAMPLE.sizes["smoke"]},
    parts=lambda: PARTS,
)
