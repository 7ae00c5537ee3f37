"""The evaluation: every clip of the dev list is scored, the scores go through a file, and the file gives the rate."""

from collections.abc import Callable, Iterable, Sequence
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
    read: Callable[[Iterable[Tensor]], list[float]]  # the scores of batches, from the device

    def __call__(self) -> list[Scored]:
        """One pass over all items."""
        every = range(len(self.items))
        batches = [list(every[first : first + self.together]) for first in every[:: self.together]]
        scores = self.read(map(self._scores, batches))
        return [Scored(clip_at(self.items, row).name, score) for row, score in zip(every, scores, strict=True)]

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
        bonafide: Tensor = logits[:, BONAFIDE].float()
        return bonafide


def read_each(batches: Iterable[Tensor]) -> list[float]:
    """As found: the host waits for each batch before it makes the next."""
    return [score for batch in batches for score in batch.tolist()]


def read_once(batches: Iterable[Tensor]) -> list[float]:
    """The same scores with one wait, when all batches were made."""
    scores: list[float] = torch.cat(list(batches)).tolist()
    return scores


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Scores the dev clips as at the end of training; the equal error rate in percent."""
    items = evaluation_items(folder, size, recipe)
    together = size.shape["scored_together"] if recipe.batched_evaluation else 1
    stage = device_stage(folder, size, recipe, device)
    read = read_once if recipe.device_results else read_each
    scorer = Scorer(model=model, items=items, stage=stage, device=device, together=together, read=read)
    with torch.inference_mode() if recipe.inference_mode else torch.no_grad():
        scored = items.scoring(scorer)
    clips = items.listing.clips
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "scores.txt"
        write_scores(path, clips, scored)
        answers = read_scores(path, clips)
    rate, _threshold = equal_error_rate(answers, bonafide_mask(clips))
    return Evaluation(items=len(clips), score=100 * rate, answers=answers)
