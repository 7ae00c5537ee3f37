"""The evaluation: long segments vote whether a file leaks, and the files are scored by the F1 of LEAK."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import ceil
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads._evaluation_reading import Reading
from workloads.leak.layouts import LABELS, MEL, VALIDATION
from workloads.leak.score import Verdicts, accuracy, f1, precision, recall

THRESHOLD = 0.5  # probability from which a long segment votes for a leak

Files = npt.NDArray[np.int64]  # numbers of files, rising
Probabilities = npt.NDArray[np.float32]  # (files, longs)
Loaded = Iterator[Tensor] | None  # blocks of files on the device; None: whoever judges reads them
Judged = Callable[["Judge", h5py.Dataset, Files, Loaded], Probabilities]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model that tells how likely each long segment is a leak."""

    model: nn.Module
    leak: int  # number of LEAK among the model's classes
    device: torch.device
    passes: list[int] = field(default_factory=list)  # files in each pass so far

    def __call__(self, mel: Tensor) -> Tensor:
        """Probabilities (files, longs) of mel (files, longs, shorts, …): the mean over both heads and the shorts."""
        self.passes.append(len(mel))
        logits, leak_logit = self.model(mel.reshape(-1, 1, *mel.shape[-2:]))
        shorts: Tensor = 0.5 * (logits.float().softmax(1)[:, self.leak] + leak_logit.float().sigmoid())
        return shorts.reshape(mel.shape[:3]).mean(2)


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, judge and score the validation files once, in the way that the recipe says."""
    judge = Judge(model=model, leak=1 if recipe.choice("classes") == "binary" else size.shape["leak"], device=device)
    judged = _way(recipe)
    reading = Reading(model=model, recipe=recipe, device=device, batches_read_once=True)
    with h5py.File(folder / VALIDATION, "r", libver="latest") as split, reading.mode():
        files = evenly_chosen(size.evaluation_items, len(split[LABELS]))
        loaded = Blocks(folder / VALIDATION, files, _chosen(recipe) if recipe.batched_evaluation else 1)
        longs = judged(judge, split[MEL], files, _loaded(reading, loaded))
        truth = split[LABELS][:][files] == size.shape["leak"]
    found = verdicts(longs)
    answers = tuple(longs.mean(1, dtype=np.float64).tolist())
    shown = {"files_per_batch": max(judge.passes, default=0), **reading.effective}
    scores = {one.__name__: one(found, truth) for one in (precision, recall, accuracy)}
    return Evaluation(items=len(files), score=f1(found, truth), answers=answers, scores=scores, effective=shown)


@dataclass(frozen=True, slots=True)
class Blocks:
    """So many files at a time for a loader, by the number of the part; each process opens the split itself."""

    path: Path
    files: Files
    together: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-len(self.files) // self.together)

    def __call__(self, number: int) -> Tensor:
        """One part, (files, longs, shorts, …) in float16."""
        chosen = self.files[number * self.together : (number + 1) * self.together]
        return torch.from_numpy(_read(_opened(self.path), chosen))


@lru_cache(maxsize=1)
def _opened_in(path: Path, _process: int) -> h5py.Dataset:
    return h5py.File(path, "r", libver="latest")[MEL]


def _opened(path: Path) -> h5py.Dataset:
    """The segments of a split, opened once in each process: a handle must not be shared with a forked one."""
    return _opened_in(path, os.getpid())


def _loaded(reading: Reading, blocks: Blocks) -> Iterator[Tensor] | None:
    """The parts on the device where a loader reads them; None where the trainer does."""
    if not (reading.recipe.evaluation_workers or reading.recipe.evaluation_pin_memory):
        return None
    return (reading.moved(one).float() for one in reading.parts(blocks, blocks.count))


def evenly_chosen(wanted: int, present: int) -> Files:
    """So many file numbers out of those present, evenly spaced, since real files may be sorted by class."""
    return np.arange(min(wanted, present)) * present // min(wanted, present)


def judged_one_by_one(judge: Judge, mel: h5py.Dataset, files: Files, loaded: Loaded = None) -> Probabilities:
    """As found: a read, a forward pass and a wait for the device for each long segment of each file."""
    found = np.zeros((len(files), mel.shape[1]), np.float32)
    for row, block in enumerate(loaded or _blocks(mel, files, judge.device)):
        for column, probability in enumerate(judge(block)[0]):
            found[row, column] = probability.item()
    return found


def judged_and_kept(judge: Judge, mel: h5py.Dataset, files: Files, loaded: Loaded = None) -> Probabilities:
    """The same reads and passes, without a wait: the probabilities stay on the device until the end."""
    blocks = loaded or _blocks(mel, files, judge.device)
    longs: Probabilities = torch.cat([judge(block) for block in blocks]).cpu().numpy()
    return longs


def judged_at_once(
    judge: Judge, mel: h5py.Dataset, files: Files, loaded: Loaded = None, *, together: int
) -> Probabilities:
    """The same as one tensor program: many files in a pass, and one wait at the end."""
    starts = range(0, len(files), together)
    read = (torch.from_numpy(_read(mel, files[start : start + together])) for start in starts)
    found = [judge(block) for block in loaded or (one.to(judge.device).float() for one in read)]
    longs: Probabilities = torch.cat(found).cpu().numpy()
    return longs


def verdicts(longs: Probabilities, threshold: float = THRESHOLD) -> Verdicts:
    """Whether each file leaks: at least half of its long segments reach the threshold."""
    votes: Verdicts = (longs >= threshold).sum(1) >= ceil(longs.shape[1] / 2)
    return votes


def _way(recipe: Recipe) -> Judged:
    if recipe.batched_evaluation:
        return partial(judged_at_once, together=_chosen(recipe))
    return judged_and_kept if recipe.device_results else judged_one_by_one


def _chosen(recipe: Recipe) -> int:
    return int(recipe.choice("files_per_batch") or 1)


def _blocks(mel: h5py.Dataset, files: Files, device: torch.device) -> Iterator[Tensor]:
    """The segments of one file after another, each (1, longs, shorts, …) on the device."""
    for file in files:
        yield torch.tensor(mel[file], dtype=torch.float32, device=device)[None]


def _read(mel: h5py.Dataset, files: Files) -> npt.NDArray[np.float16]:
    """Blocks of files; neighbours in one piece, because HDF5 takes a list of numbers one by one."""
    neighbours = files[-1] - files[0] == len(files) - 1
    blocks: npt.NDArray[np.float16] = mel[files[0] : files[-1] + 1] if neighbours else mel[files]
    return blocks
