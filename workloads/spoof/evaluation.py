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
from workloads._evaluation_reading import Reading
from workloads.spoof.data import Items, SoundItems, clip_at, device_stage, evaluation_items
from workloads.spoof.layout import BONAFIDE
from workloads.spoof.scoring import (
    Scored,
    Verifier,
    accuracy_at,
    bonafide_mask,
    equal_error_rate,
    min_tandem_cost,
    read_scores,
    write_scores,
)


@dataclass(frozen=True, slots=True)
class Batches:
    """So many clips at a time, by the number of the batch."""

    items: Items
    together: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-len(self.items) // self.together)

    def __call__(self, number: int) -> Sequence[Tensor]:
        """One batch; the last may be smaller."""
        rows = list(range(len(self.items))[number * self.together : (number + 1) * self.together])
        if isinstance(self.items, SoundItems):
            return self.items.__getitems__(rows)
        batch: Sequence[Tensor] = default_collate([self.items[row] for row in rows])
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A model with all that brings clips to it, so many at a time."""

    batches: Batches
    reading: Reading
    stage: Any  # of the device, or None
    read: Callable[[Iterable[Tensor]], list[float]]  # the scores of batches, from the device

    def __call__(self) -> list[Scored]:
        """One pass over all items."""
        items = self.batches.items
        scores = self.read(map(self._scores, self.reading.parts(self.batches, self.batches.count)))
        return [Scored(clip_at(items, row).name, score) for row, score in zip(range(len(items)), scores, strict=True)]

    def _scores(self, batch: Sequence[Tensor]) -> Tensor:
        moved = [self.reading.moved(part) for part in batch]
        inputs, _ = self.stage(moved) if self.stage else moved
        _embedding, logits = self.reading.model(inputs)
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
    passes: list[list[Scored]] = []
    items = evaluation_items(folder, size, recipe)
    reading = Reading(model=model, recipe=recipe, device=device)
    scorer = Scorer(
        batches=Batches(items, size.shape["scored_together"] if recipe.batched_evaluation else 1),
        reading=reading,
        stage=device_stage(folder, size, recipe, device),
        read=read_once if recipe.device_results else read_each,
    )

    def once() -> list[Scored]:
        passes.append(scorer())
        return passes[-1]

    with reading.mode():
        scored = items.scoring(once)
    clips = items.listing.clips
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "scores.txt"
        write_scores(path, clips, scored)
        answers = read_scores(path, clips)
    bonafide = bonafide_mask(clips)
    rate, threshold = equal_error_rate(answers, bonafide)
    scores = {
        "accuracy at that threshold": 100 * accuracy_at(threshold, answers, bonafide),
        "min t-DCF beside a verifier that takes every spoof": min_tandem_cost(answers, bonafide, Verifier()),
    }
    shown = {"scored_times": len(passes), **reading.effective}
    return Evaluation(items=len(clips), score=100 * rate, answers=answers, scores=scores, effective=shown)
