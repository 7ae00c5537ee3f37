"""Collation: direct batches have the bits of the general ones, and pickled ones do not lie in shared memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from harness.core.configuration import Conflict, Option, compose
from harness.core.mistake import Mistake
from harness.core.recipe import ImpossibleRecipe, Recipe
from harness.core.workload import Size
from harness.measure import observed_process as evidence
from harness.measure.feed import Feed, Pickled, as_it_is, collate_directly, collate_of, open_feed
from tests.analyze.synthetic import ENVIRONMENT
from tests.measure.tasks import CATALOGUE, task_of

SIZE = Size(batch=4, epoch_steps=3, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=3)


class Numbers(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3, 2), float(index)), index


def opened(recipe: Recipe) -> Feed:
    return open_feed(Numbers(), SIZE, recipe, seed=5, endless=True)


def same(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    alike = [one.dtype == other.dtype and torch.equal(one, other) for one, other in pairs]  # equal shapes too
    return all(alike)


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_direct_batches_are_those_of_the_general_collation(name: str, smoke_data: dict[str, Path]) -> None:
    task = task_of(name, smoke_data[name], ())
    data: Any = task.parts.dataset(task.data, task.size, task.recipe)
    items = [data[index] for index in range(2 if task.size.batch > 1 else 1)]
    ours, theirs = collate_directly(items), default_collate(items)
    assert type(ours) is type(theirs) is list
    assert same(ours, theirs)


@pytest.mark.parametrize("column", [(1, 2), (1.5, 2.5), (True, False), (torch.ones(2), torch.zeros(2))])
def test_each_kind_of_part_keeps_its_type(column: tuple[Any, ...]) -> None:
    samples = [(one,) for one in column]
    assert same(collate_directly(samples), default_collate(samples))


def test_what_it_was_not_written_for_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="joins tensors, integers and floats, not str"):
        collate_directly([("a",), ("b",)])
    with pytest.raises(ValueError, match="shorter"):
        collate_directly([(1, 2), (1,)])


@pytest.mark.parametrize("recipe", [Recipe(collate="direct"), Recipe(collate="direct", workers=1)])
def test_the_direct_collation_is_seen_and_gives_the_same_batches(recipe: Recipe) -> None:
    feed, plain = opened(recipe), opened(Recipe())
    for _ in range(4):
        batch = feed.fetch()
        assert same(batch, plain.fetch())
    assert all(one.is_shared() for one in batch) == bool(recipe.workers)
    assert evidence.of_feed(feed, pinned=False, non_blocking=False)["collate"] == "direct"
    assert evidence.of_feed(plain, pinned=False, non_blocking=False)["collate"] == "default"
    feed.close()


def test_a_loader_that_collates_otherwise_after_all_is_seen() -> None:
    feed = opened(Recipe(collate="direct"))
    feed.loader.collate_fn = default_collate
    assert evidence.of_feed(feed, pinned=False, non_blocking=False)["collate"] == "default"


def test_finished_batches_leave_nothing_to_collate() -> None:
    assert collate_of(Recipe(), collated=True) is as_it_is
    assert collate_of(Recipe(), collated=False) is None
    with pytest.raises(Mistake, match="hands over finished batches"):
        collate_of(Recipe(collate="direct"), collated=True)


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_direct_collation_is_refused_wherever_batches_come_finished(name: str, smoke_data: dict[str, Path]) -> None:
    workload, known = CATALOGUE.workloads[name], CATALOGUE.optimizations
    parts, direct = workload.parts(), Option(name="direct_collate")
    for one in CATALOGUE.of(workload):
        names = (*one.requires, one.name)
        stack = tuple(Option(name=each, level=known[each].usual_level(ENVIRONMENT)) for each in names)
        data = parts.dataset(smoke_data[name], workload.sizes["smoke"], compose(workload, stack, known))
        if getattr(data, "collated", False):
            with pytest.raises(Conflict, match=f"excludes {one.name}"):
                compose(workload, (*stack, direct), known)


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_pickled_batches_hold_the_same_and_are_not_shared(start_method: Any) -> None:
    feed = opened(Recipe(workers=1, batch_transport="pickle", start_method=start_method))
    usual, plain = opened(Recipe(workers=1)), opened(Recipe())
    first = feed.fetch()
    assert same(first, plain.fetch())
    assert evidence.of_batch(feed, first)["batch_transport"] == "pickle"
    assert evidence.of_batch(usual, usual.fetch())["batch_transport"] == "shared_memory"
    first[0] += 1  # the trainer may write to it
    feed.close()
    usual.close()


def test_a_batch_that_is_shared_after_all_was_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.measure.feed.Pickling.__call__", lambda self, samples: self.inner(samples))
    feed = opened(Recipe(workers=1, batch_transport="pickle"))
    assert evidence.of_batch(feed, feed.fetch())["batch_transport"] == "shared_memory"
    feed.close()


def test_nothing_travels_without_workers() -> None:
    feed = opened(Recipe())
    assert evidence.of_batch(feed, feed.fetch())["batch_transport"] is None
    with pytest.raises(ImpossibleRecipe, match="batch_transport needs loader workers"):
        Recipe(batch_transport="pickle")


def test_a_loader_that_pins_finds_how_to_pin_a_pickled_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    batch = Pickled([torch.ones(2).numpy()]).pin_memory()
    assert [one.tolist() for one in batch.tensors()] == [[1.0, 1.0]]
    assert len(pinned) == 1
