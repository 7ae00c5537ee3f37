"""Validation: fixed patches of the volumes that are held out, and how well their surface was found."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads._evaluation_reading import Reading
from workloads.patches3d import layout
from workloads.patches3d.cache import VolumeCache
from workloads.patches3d.data import fitted, patch_shape, volumes
from workloads.patches3d.preparation import Box, Shape, Volume
from workloads.patches3d.score import dice, dice_of_each, intersection_over_union

Patch: TypeAlias = tuple[Tensor, Tensor]  # normalised grey levels and the true surface, (1, depth, height, width) each


@dataclass(frozen=True, slots=True)
class Course:
    """The patches of one pass: evenly spread over all that tile the held-out volumes, volume by volume."""

    identifiers: tuple[str, ...]
    volumes: VolumeCache
    shape: Shape
    items: int

    @property
    def each(self) -> int:
        """Patches that are wanted of a volume; a small one may have fewer."""
        return -(-self.items // len(self.identifiers))

    @property
    def parts(self) -> int:
        """Volumes of which a pass consists, unless some are too small."""
        return -(-self.items // self.each)

    def patches(self, reading: Reading) -> Iterator[Patch]:
        """All patches in an order without chance; a loader's worker brings those of a volume, which nobody else reads.

        The loader gives all that it was asked for, or it could not tell whether its workers stay.
        """
        left = self.items
        for patches in reading.parts(self.of_volume, self.parts):
            yield from patches[:left]
            left = max(0, left - len(patches))
        further = map(self.of_volume, range(self.parts, len(self.identifiers)))
        yield from islice(chain.from_iterable(further), left)

    def of_volume(self, number: int) -> list[Patch]:
        """The patches of a held-out volume, which is prepared anew in each pass.

        A pass asks for each volume once, and so few would all be kept by workers that stay. The real system holds out
        many: where one comes round again, others have taken its place.
        """
        identifier, each = self.identifiers[number], self.each
        self.volumes.kept.pop(identifier, None)
        volume = self.volumes[identifier]
        boxes = list(tiles(volume.label.shape, self.shape))
        if each < len(boxes):
            boxes = [boxes[(2 * place + 1) * len(boxes) // (2 * each)] for place in range(each)]
        return [self._cut(volume, box) for box in boxes]

    def _cut(self, volume: Volume, box: Box) -> Patch:
        image, label = fitted(volume.patch(box), self.shape), fitted(volume.label[box], self.shape)
        return torch.from_numpy(np.ascontiguousarray(image))[None], torch.from_numpy(label > 0)[None]


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """One pass; an answer is a patch's Dice at probability one half, the score is their mean, more is better."""
    course = course_of(folder, size, recipe)
    reading = Reading(model=model, recipe=recipe, device=device)
    with reading.mode():
        if recipe.batched_evaluation:
            answers = answers_in_stacks(reading, course, size.shape["stacked_patches"])
        else:
            answers = answers_one_by_one(reading, course)
    scores = {"intersection over union": fmean(map(intersection_over_union, answers))}
    return Evaluation(
        items=len(answers),
        score=sum(answers) / len(answers),
        answers=tuple(answers),
        scores=scores,
        effective={"evaluation_parts": course.parts, **reading.effective},
    )


def course_of(folder: Path, size: Size, recipe: Recipe) -> Course:
    """The pass over the volumes of a folder that are held out."""
    held_out = layout.split(layout.read_identifiers(folder)).validation
    return Course(held_out, volumes(folder, len(held_out), recipe), patch_shape(size), size.evaluation_items)


def answers_one_by_one(reading: Reading, course: Course) -> list[float]:
    """As found: a forward pass, a copy back and the metric in numpy for each patch."""
    answers = []
    for image, true in course.patches(reading):
        logits = reading.model(reading.moved(image[None])).logits.float().cpu().numpy()
        answers.append(dice(logits[0] > 0, true.numpy()))
    return answers


def answers_in_stacks(reading: Reading, course: Course, stacked: int) -> list[float]:
    """Several patches a forward pass, the metric where they lie, and one copy back at the end."""
    answers = []
    for images, true in stacks(course.patches(reading), stacked):
        answers.append(dice_of_each(reading.model(reading.moved(images)).logits > 0, reading.moved(true)))
    return torch.cat(answers).tolist()


def stacks(patches: Iterator[Patch], stacked: int) -> Iterator[Patch]:
    """Patches so many at a time; the last stack may be smaller."""
    while stack := list(islice(patches, stacked)):
        images, true = map(_stack, zip(*stack, strict=True))
        yield images, true


def _stack(parts: tuple[Tensor, ...]) -> Tensor:
    """One tensor of several, in pinned memory where they are."""
    first = parts[0]
    whole = torch.empty((len(parts), *first.shape), dtype=first.dtype, pin_memory=first.is_pinned())
    return torch.stack(parts, out=whole)


def tiles(whole: Sequence[int], shape: Shape) -> Iterator[Box]:
    """Boxes of the shape that cover the whole, the last of each row moved back so that it does not stick out."""
    for begins in product(*(_begins(have, want) for have, want in zip(whole, shape, strict=True))):
        depth, height, width = (slice(begin, begin + want) for begin, want in zip(begins, shape, strict=True))
        yield depth, height, width


def _begins(have: int, want: int) -> list[int]:
    return [min(begin, max(0, have - want)) for begin in range(0, max(1, have), want)]
