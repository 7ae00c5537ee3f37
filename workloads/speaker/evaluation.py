"""Speaker verification on a trial list: embeddings of ten crops an utterance, scores of pairs, equal error rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads._evaluation_reading import Reading
from workloads.speaker.layout import TEST_WAVS, Trial, crop_samples, read_trials, trial_paths
from workloads.speaker.score import Measure, measured, measured_by_loops

CROPS = 10
CROP = crop_samples(300)
STACKED_TRIALS = 4096


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """One pass over all utterances and trials; the score is the equal error rate in percent, less is better.

    The trainer reads the utterances itself unless the recipe gives the evaluation workers of its own.
    """
    trials = read_trials(folder)
    paths = trial_paths(trials)
    if len(paths) != size.evaluation_items:
        raise Mistake(f"{folder} holds {len(paths)} test files, not {size.evaluation_items}; delete it and try again.")
    root, stacked = folder / TEST_WAVS, size.shape["stacked_utterances"]
    measure: Measure = measured if recipe.batched_evaluation else measured_by_loops
    reading = Reading(model=model, recipe=recipe, device=device, batches_read_once=True)
    with reading.mode():
        if recipe.batched_evaluation:
            scores = scores_batched(reading, root, trials, stacked)
        elif recipe.device_results:
            scores = scores_read_once(reading, root, trials)
        else:
            scores = scores_one_by_one(reading, root, trials)
    verification = measure(scores, np.array([one.same for one in trials]))
    return Evaluation(
        items=len(paths),
        score=100 * verification.equal_error_rate,
        answers=tuple(scores),
        scores={"min DCF": verification.detection_cost},
        effective=reading.effective,
    )


@dataclass(frozen=True, slots=True)
class Utterances:
    """Ten crops of an utterance, by its number."""

    root: Path
    paths: Sequence[str]

    def __call__(self, number: int) -> Tensor:
        """One utterance."""
        return ten_crops(self.root / self.paths[number])


@dataclass(frozen=True, slots=True)
class Stacks:
    """Crops of so many utterances at a time, by the number of the stack."""

    utterances: Utterances
    stacked: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-len(self.utterances.paths) // self.stacked)

    def __call__(self, number: int) -> Tensor:
        """One stack; the last may be smaller."""
        every = range(len(self.utterances.paths))
        return torch.stack(
            [self.utterances(one) for one in every[number * self.stacked : (number + 1) * self.stacked]]
        )  # fmt: skip


def scores_one_by_one(reading: Reading, root: Path, trials: Sequence[Trial]) -> list[float]:
    """As found: an utterance a forward pass, kept on the host; two copies, one small matrix and one wait a trial."""
    device = reading.device
    embeddings = {path: one.cpu() for path, one in _each(reading, root, trials)}
    return [_score(embeddings[one.left].to(device), embeddings[one.right].to(device)) for one in trials]


def scores_read_once(reading: Reading, root: Path, trials: Sequence[Trial]) -> list[float]:
    """The same passes and matrices without a wait: embeddings and distances stay on the device until the end.

    The mean over the crops stays the host's, so that no sum is added up in another order.
    """
    embeddings = dict(_each(reading, root, trials))
    distances = torch.stack([_distances(embeddings[one.left], embeddings[one.right]) for one in trials]).cpu()
    scores: list[float] = torch.stack([-one.mean() for one in distances]).tolist()
    return scores


def scores_batched(reading: Reading, root: Path, trials: Sequence[Trial], stacked: int) -> list[float]:
    """The same scores from so many utterances a forward pass and stacked trials, with one wait at the end."""
    paths = trial_paths(trials)
    stacks = Stacks(Utterances(root, paths), stacked)
    found = [_embedded(reading.model, reading.moved(crops)) for crops in reading.parts(stacks, stacks.count)]
    return similarities(torch.cat(found), pair_rows(trials, paths).to(reading.device)).tolist()


def pair_rows(trials: Sequence[Trial], paths: Sequence[str]) -> Tensor:
    """For each trial the rows of its two utterances: (trials, 2)."""
    row = {path: number for number, path in enumerate(paths)}
    return torch.tensor([(row[one.left], row[one.right]) for one in trials])


def similarities(embeddings: Tensor, pairs: Tensor) -> Tensor:
    """Minus the mean distance between all crops of a pair: (utterances, crops, size), (trials, 2) to (trials,)."""
    units = functional.normalize(embeddings, dim=2)
    stacks = pairs.split(STACKED_TRIALS)
    return torch.cat([-torch.cdist(units[rows[:, 0]], units[rows[:, 1]]).mean(dim=(1, 2)) for rows in stacks])


def ten_crops(path: Path) -> Tensor:
    """Ten crops of 300 frames, evenly spread over the whole utterance: (10, 48240) float32."""
    sound, _ = soundfile.read(path)
    starts = np.linspace(0, len(sound) - CROP, CROPS).astype(int)
    return torch.from_numpy(np.stack([sound[start : start + CROP] for start in starts]).astype(np.float32))


def _score(left: Tensor, right: Tensor) -> float:
    return -float(_distances(left, right).cpu().mean())


def _distances(left: Tensor, right: Tensor) -> Tensor:
    return torch.cdist(functional.normalize(left), functional.normalize(right))


def _each(reading: Reading, root: Path, trials: Sequence[Trial]) -> Iterator[tuple[str, Tensor]]:
    """Every utterance's path and embeddings, a forward pass each."""
    paths = trial_paths(trials)
    for path, crops in zip(paths, reading.parts(Utterances(root, paths), len(paths)), strict=True):
        yield path, reading.model(reading.moved(crops)).float()


def _embedded(model: nn.Module, crops: Tensor) -> Tensor:
    # Crops lie next to each other in the stack, utterance by utterance, and come back under the same utterance.
    embeddings: Tensor = model(crops.flatten(0, 1)).float()
    return embeddings.reshape(*crops.shape[:2], -1)
