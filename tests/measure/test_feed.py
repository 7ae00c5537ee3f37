"""The feed: real loaders with real worker processes."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from timeit import repeat

import psutil
import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, Dataset, RandomSampler, Sampler, SequentialSampler

from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.feed import Feed, Order, open_feed

SIZE = Size(batch=4, epoch_steps=3, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=3)


class Numbers(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor([float(index)]), torch.tensor(index)


class Drawn(Sampler[int]):
    """Indices as RandomSampler gives them once it has drawn them."""

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        yield from self.indices


def opened(recipe: Recipe, *, endless: bool = True) -> Feed:
    return open_feed(Numbers(), SIZE, recipe, seed=5, endless=endless)


def taken(feed: Feed, count: int) -> list[list[int]]:
    return [feed.fetch()[1].tolist() for _ in range(count)]


def test_every_window_of_an_epoch_s_length_holds_the_same_samples() -> None:
    batches = iter(Order(12, 4, seed=1, endless=True))
    seen = [next(batches) for _ in range(9)]
    for first in range(6):
        assert sorted(index for batch in seen[first : first + 3] for index in batch) == list(range(12))


def test_parts_of_a_step_go_to_one_worker_after_the_other() -> None:
    batches = iter(Order(12, 2, seed=1, endless=True, parts=2))
    epochs = [[tuple(next(batches)) for _ in range(6)] for _ in range(2)]
    for first in range(0, 6, 2):
        assert {*epochs[0][first : first + 2]} == {*epochs[1][first : first + 2]}, "a step has the same samples"
    of_one_worker = {*epochs[0][::2], *epochs[1][::2]}
    assert of_one_worker == {*epochs[0]}, "each of two workers comes to load them all"


def test_an_epoch_ends_unless_it_is_endless() -> None:
    assert len(list(Order(12, 4, seed=1, endless=False))) == len(Order(12, 4, seed=1, endless=False)) == 3


@pytest.mark.parametrize("seed", [1, None])
def test_an_epoch_is_that_of_torch_s_own_samplers(seed: int | None) -> None:
    items = range(12)
    shuffled = RandomSampler(items, generator=torch.Generator().manual_seed(1))
    theirs = BatchSampler(SequentialSampler(items) if seed is None else shuffled, 4, drop_last=False)
    assert list(Order(12, 4, seed, endless=False)) == list(theirs)


def test_a_rank_takes_its_part_of_every_batch() -> None:
    whole = list(Order(12, 4, seed=1, endless=False))
    first, second = (list(Order(12, 4, seed=1, endless=False, part=(rank, 2))) for rank in (0, 1))
    assert [one + other for one, other in zip(first, second, strict=True)] == whole


@pytest.mark.alone
def test_an_index_costs_what_it_costs_in_torch_s_own_samplers() -> None:
    order = Order(1 << 18, 256, seed=1, endless=False)
    theirs = BatchSampler(Drawn([index for batch in order for index in batch]), 256, drop_last=False)

    def seconds(batches: Iterable[list[int]]) -> float:
        return min(repeat(lambda: deque(batches, maxlen=0), number=1, repeat=5))

    assert 0.5 < seconds(order) / seconds(theirs) < 2


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_workers_change_nothing_in_the_order(start_method: str) -> None:
    recipe = Recipe(workers=2, prefetch_factor=1, start_method=start_method)  # type: ignore[arg-type]
    feed, plain = opened(recipe), opened(Recipe())
    assert taken(feed, 4) == taken(plain, 4)
    assert feed.live_workers == 2
    pids = next(iter(feed.worker_pids))
    feed.close()
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=60)
    assert not [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


def test_a_worker_that_aborts_while_it_ends_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of torch's own threads makes it do so now and then, too seldom to wait for."""
    feed = opened(Recipe(workers=1, start_method="fork"))
    taken(feed, 3)
    iterator, ending = feed.iterator, feed.iterator._shutdown_workers

    def aborted() -> None:
        monkeypatch.undo()  # a second call finds nothing left to end
        ending()
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Aborted.")

    monkeypatch.setattr(iterator, "_shutdown_workers", aborted)
    (worker,) = iterator._workers
    feed.close()
    assert not worker.is_alive()


@pytest.mark.parametrize(("persistent", "generations"), [(False, 2), (True, 1)])
def test_workers_live_as_long_as_they_were_asked_to(persistent: bool, generations: int) -> None:
    feed = opened(Recipe(workers=1, persistent_workers=persistent), endless=False)
    taken(feed, 4)  # one batch into the second epoch
    assert len(feed.worker_pids) == 2
    assert len(frozenset().union(*feed.worker_pids)) == generations
    feed.close()


def test_micro_batches_are_parts_of_the_same_batches() -> None:
    whole = taken(opened(Recipe()), 2)
    parts = taken(opened(Recipe(micro_batches=2)), 4)
    assert [parts[0] + parts[1], parts[2] + parts[3]] == whole


def test_a_batch_of_several_epochs_holds_each_sample_as_often() -> None:
    usual, twice = Order(6, 2, seed=0, endless=True), Order(6, 12, seed=0, endless=True, passes=2)
    epoch = [index for batch in itertools.islice(usual, 3) for index in batch]
    assert next(iter(twice)) == epoch * 2
    assert (len(twice), twice.samples(0, 3)) == (1, 36)


def test_the_model_s_random_numbers_do_not_depend_on_the_loader() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    for workers in (0, 1):
        torch.manual_seed(0)
        feed = opened(Recipe(workers=workers))
        feed.fetch()
        assert torch.rand(1) == expected
        feed.close()
