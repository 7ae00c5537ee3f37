"""Speaker verification on a trial list: embeddings of ten crops an utterance, scores of pairs, equal error rate."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.speaker.layout import TEST_WAVS, Trial, crop_samples, read_trials, trial_paths
from workloads.speaker.score import Measure, measured, measured_by_loops

CROPS = 10
CROP = crop_samples(300)
STACKED_TRIALS = 4096


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """One pass over all utterances and trials; the score is the equal error rate in percent, less is better.

    The trainer reads the utterances itself: so few files would not repay the start of loader workers. The detection
    cost is worked out beside it, as in the real system, and is not reported.
    """
    trials = read_trials(folder)
    paths = trial_paths(trials)
    if len(paths) != size.evaluation_items:
        raise Mistake(f"{folder} holds {len(paths)} test files, not {size.evaluation_items}; delete it and try again.")
    root, stacked = folder / TEST_WAVS, size.shape["stacked_utterances"]
    measure: Measure = measured if recipe.batched_evaluation else measured_by_loops
    with torch.inference_mode() if recipe.inference_mode else torch.no_grad():
        if recipe.batched_evaluation:
            scores = scores_batched(model, root, trials, device, stacked)
        elif recipe.device_results:
            scores = scores_read_once(model, root, trials, device)
        else:
            scores = scores_one_by_one(model, root, trials, device)
    verification = measure(scores, np.array([one.same for one in trials]))
    return Evaluation(items=len(paths), score=100 * verification.equal_error_rate, answers=tuple(scores))


def scores_one_by_one(model: nn.Module, root: Path, trials: Sequence[Trial], device: torch.device) -> list[float]:
    """As found: an utterance a forward pass, kept on the host; two copies, one small matrix and one wait a trial."""
    embeddings = {path: model(ten_crops(root / path).to(device)).cpu() for path in trial_paths(trials)}
    return [_score(embeddings[one.left].to(device), embeddings[one.right].to(device)) for one in trials]


def scores_read_once(model: nn.Module, root: Path, trials: Sequence[Trial], device: torch.device) -> list[float]:
    """The same passes and matrices without a wait: embeddings and distances stay on the device until the end.

    The mean over the crops stays the host's, so that no sum is added up in another order.
    """
    embeddings = {path: model(ten_crops(root / path).to(device)) for path in trial_paths(trials)}
    distances = torch.stack([_distances(embeddings[one.left], embeddings[one.right]) for one in trials]).cpu()
    scores: list[float] = torch.stack([-one.mean() for one in distances]).tolist()
    return scores


def scores_batched(
    model: nn.Module, root: Path, trials: Sequence[Trial], device: torch.device, stacked: int
) -> list[float]:
    """The same scores from so many utterances a forward pass and stacked trials, with one wait at the end."""
    paths = trial_paths(trials)
    embeddings = torch.cat([_embedded(model, crops.to(device)) for crops in _stacks(root, paths, stacked)])
    return similarities(embeddings, pair_rows(trials, paths).to(device)).tolist()


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


def _stacks(root: Path, paths: Sequence[str], stacked: int) -> Iterator[Tensor]:
    for start in range(0, len(paths), stacked):
        yield torch.stack([ten_crops(root / path) for path in paths[start : start + stacked]])


def _embedded(model: nn.Module, crops: Tensor) -> Tensor:
    # Crops lie next to each other in the stack, utterance by utterance, and come back under the same utterance.
    embeddings: Tensor = model(crops.flatten(0, 1))
    return embeddings.reshape(*crops.shape[:2], -1)
