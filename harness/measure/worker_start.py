"""What a loader worker does first, where the recipe asks for more than PyTorch gives it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import multiprocessing

from harness.core.recipe import Recipe
from harness.measure.affinity import keep_to

STRATEGIES = ("file_descriptor", "file_system")  # how tensors are shared, numbered for `seen`


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A `worker_init_fn`: settles the worker, then writes what it finds where the trainer can read it."""

    threads: int
    sharing_strategy: str
    cores: frozenset[int]  # where it may run; empty for wherever the trainer may
    seen: Any  # shared integers, two for each worker: its threads and its sharing strategy

    def __call__(self, worker: int) -> None:
        """Runs in the worker, after PyTorch has set it to one thread and before the data set is used."""
        settle_worker(self)
        self.seen[2 * worker] = torch.get_num_threads()
        self.seen[2 * worker + 1] = STRATEGIES.index(multiprocessing.get_sharing_strategy())


def settle_worker(start: WorkerStart) -> None:
    """Sets cores, threads and the way of sharing; a spawned worker inherits none of them."""
    if start.cores:
        keep_to(start.cores)
    torch.set_num_threads(start.threads)
    if multiprocessing.get_sharing_strategy() != start.sharing_strategy:
        multiprocessing.set_sharing_strategy(start.sharing_strategy)


def worker_start(recipe: Recipe, cores: frozenset[int]) -> WorkerStart | None:
    """The start of the recipe's workers, or None where PyTorch's own does."""
    plain = Recipe()
    usual = (recipe.worker_threads, recipe.sharing_strategy) == (plain.worker_threads, plain.sharing_strategy)
    if not recipe.workers or (usual and not cores):
        return None
    return WorkerStart(
        threads=recipe.worker_threads,
        sharing_strategy=recipe.sharing_strategy,
        cores=cores,
        seen=multiprocessing.get_context(recipe.start_method).RawArray("i", 2 * recipe.workers),
    )
