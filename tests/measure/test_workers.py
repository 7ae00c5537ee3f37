"""Loader workers as they find themselves: their threads, their cores, and how they share what they made."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.configuration import inactive
from harness.core.mistake import Mistake
from harness.core.recipe import ImpossibleRecipe, Recipe
from harness.core.workload import Size
from harness.measure import observed_process as evidence
from harness.measure.devices import effective_backend, settle_backend
from harness.measure.feed import Feed, WorkerStart, open_feed
from tests.measure.settings import put_back

SIZE = Size(batch=4, epoch_steps=3, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=3)
SEVERAL = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPU cores")

COUNTS = {"fork": 2, "spawn": 1, "forkserver": 1}  # fresh interpreters take seconds to import


class Numbers(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full((64,), float(index)), torch.tensor(index)


@pytest.fixture(autouse=True)
def _settings_put_back() -> Iterator[None]:
    with put_back():
        yield


def opened(recipe: Recipe) -> Feed:
    settle_backend(recipe)
    return open_feed(Numbers(), SIZE, recipe, seed=5, endless=True)


def shown(feed: Feed) -> dict[str, Any]:
    first = feed.fetch()
    for _ in range(2 * feed.loader.num_workers):  # a batch of each worker, so that all have begun
        feed.fetch()
    found = evidence.of_feed(feed, pinned=False, non_blocking=False) | evidence.of_batch(feed, first)
    feed.close()
    return found


@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.thorough), "forkserver"])
def test_workers_tell_their_threads_and_how_they_share(way: Any) -> None:
    some = COUNTS[way]
    found = shown(opened(Recipe(workers=some, worker_threads=2, sharing_strategy="file_system", start_method=way)))
    assert found["worker_threads"] == 2
    assert found["sharing_strategy"] == found["worker_sharing"] == "file_system"


def test_plain_workers_start_as_pytorch_starts_them() -> None:
    feed = opened(Recipe(workers=1))
    assert feed.loader.worker_init_fn is None
    found = shown(feed)
    assert found["sharing_strategy"] == "file_descriptor"
    assert "worker_threads" not in found


@pytest.mark.parametrize(
    ("recipe", "proof"),
    [
        (Recipe(workers=1, worker_threads=2), {"worker_threads": 2}),
        (Recipe(workers=1, sharing_strategy="file_system"), {"sharing_strategy": "file_system"}),
        (Recipe(workers=1, pinned_cores=True), {"pinned_cores": True}),
    ],
)
def test_workers_that_were_never_settled_are_seen(
    recipe: Recipe, proof: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if recipe.pinned_cores and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPU cores")
    cores = os.sched_getaffinity(0)
    assert inactive(proof, shown(opened(recipe))) == ()
    os.sched_setaffinity(0, cores)
    monkeypatch.setattr("harness.measure.feed.settle_worker", left_as_spawned)
    (sentence,) = inactive(proof, shown(opened(recipe)))
    assert sentence.startswith(next(iter(proof)))


def left_as_spawned(_start: WorkerStart) -> None:
    """What a forked worker inherits of its trainer is undone."""
    torch.multiprocessing.set_sharing_strategy("file_descriptor")


def test_a_worker_that_has_not_reported_proves_nothing() -> None:
    feed = opened(Recipe(workers=2, worker_threads=2))
    start = feed.loader.worker_init_fn
    assert isinstance(start, WorkerStart)
    start.seen[0] = 2  # as if the second had not begun
    assert evidence.of_feed(feed, pinned=False, non_blocking=False)["worker_threads"] is None


def test_a_trainer_whose_threads_were_set_back_is_seen() -> None:
    settle_backend(Recipe(threads=2))
    assert inactive({"threads": 2}, effective_backend()) == ()
    torch.set_num_threads(1)
    assert inactive({"threads": 2}, effective_backend()) == ("threads is 1, not 2",)


@SEVERAL
@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_trainer_and_workers_run_on_different_cores(way: Any) -> None:
    threads = torch.get_num_threads()
    feed = opened(Recipe(workers=COUNTS[way], pinned_cores=True, start_method=way))
    assert len(os.sched_getaffinity(0)) == 1
    assert torch.get_num_threads() == threads
    assert shown(feed)["pinned_cores"] is True


@SEVERAL
def test_without_workers_the_trainer_alone_is_pinned() -> None:
    assert shown(opened(Recipe()))["pinned_cores"] is False
    assert shown(opened(Recipe(pinned_cores=True)))["pinned_cores"] is True


@SEVERAL
def test_a_trainer_that_was_moved_again_is_seen() -> None:
    cores = os.sched_getaffinity(0)
    feed = opened(Recipe(pinned_cores=True))
    os.sched_setaffinity(0, cores)
    assert inactive({"pinned_cores": True}, shown(feed)) == ("pinned_cores is False, not True",)


def test_one_core_cannot_be_shared_out() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with pytest.raises(Mistake, match="needs at least two CPU cores"):
        opened(Recipe(pinned_cores=True))


def test_a_fork_from_many_threads_into_many_is_refused() -> None:
    with pytest.raises(ImpossibleRecipe, match="hangs in its own: spawn it"):
        Recipe(threads=2, workers=1, worker_threads=2)
    assert Recipe(threads=2, workers=1, worker_threads=2, start_method="spawn")


SHARING = """
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader

def settle(worker):
    multiprocessing.set_sharing_strategy("file_system")

multiprocessing.set_sharing_strategy("file_system")
batches = iter(DataLoader(torch.ones(64, 1024), batch_size=4, num_workers=2, worker_init_fn=settle))
pids = [worker.pid for worker in batches._workers]
kept = list(batches)
print(*pids, flush=True)
input()
"""


def names_in_shared_memory(pids: list[str]) -> set[str]:
    names = {one.name for one in Path("/dev/shm").iterdir()}  # noqa: S108
    return {one for one in names if one.startswith(tuple(f"torch_{pid}_" for pid in pids))}


@pytest.mark.thorough
def test_a_killed_training_leaves_no_names_in_shared_memory() -> None:
    training = subprocess.Popen(
        [sys.executable, "-c", SHARING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert training.stdout is not None
    pids = training.stdout.readline().split()
    assert len(pids) == 2
    assert names_in_shared_memory(pids)
    os.killpg(training.pid, signal.SIGKILL)
    training.communicate()
    until = time.monotonic() + 60
    while names_in_shared_memory(pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not names_in_shared_memory(pids)
