"""The evaluation: every clip of the dev list is scored, the scores go through a file, and the file gives the rate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.spoof.data import Items, SoundItems, clip_at, device_stage, evaluation_items
from workloads.spoof.layout import BONAFIDE
from workloads.spoof.scoring import Scored, bonafide_mask, equal_error_rate, read_scores, write_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A model with all that brings clips to it, so many at a time."""

    model: nn.Module
    items: Items
    stage: Any  # of the device, or None
    device: torch.device
    together: int

    def __call__(self) -> list[Scored]:
        """One pass over all items; the host waits for each batch, as the original does."""
        scored: list[Scored] = []
        for first in range(0, len(self.items), self.together):
            rows = range(first, min(first + self.together, len(self.items)))
            scores = self._scores(list(rows)).tolist()
            scored += [Scored(clip_at(self.items, row).name, score) for row, score in zip(rows, scores, strict=True)]
        return scored

    def _batch(self, rows: list[int]) -> Sequence[Tensor]:
        items = self.items
        if isinstance(items, SoundItems):
            return items.__getitems__(rows)
        batch: Sequence[Tensor] = default_collate([items[row] for row in rows])
        return batch

    def _scores(self, rows: list[int]) -> Tensor:
        moved = [part.to(self.device) for part in self._batch(rows)]
        inputs, _ = self.stage(moved) if self.stage else moved
        _embedding, logits = self.model(inputs)
        bonafide: Tensor = logits[:, BONAFIDE].float().cpu()
        return bonafide


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Scores the dev clips as at the end of training; the equal error rate in percent."""
    items = evaluation_items(folder, size, recipe)
    together = size.shape["scored_together"] if recipe.batched_evaluation else 1
    stage = device_stage(folder, size, recipe, device)
    scorer = Scorer(model=model, items=items, stage=stage, device=device, together=together)
    with evaluating(model), torch.inference_mode() if recipe.inference_mode else torch.no_grad():
        scored = items.scoring(scorer)
    clips = items.listing.clips
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "scores.txt"
        write_scores(path, clips, scored)
        answers = read_scores(path, clips)
    rate, _threshold = equal_error_rate(answers, bonafide_mask(clips))
    return Evaluation(items=len(clips), score=100 * rate, answers=answers)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards in the mode it had."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
