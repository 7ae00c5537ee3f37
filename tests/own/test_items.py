"""Batches of collate functions: what can be made anew from tensors alone, and what is refused."""

from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler, WeightedRandomSampler

import speedmatrix as sm
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.feed import open_feed
from harness.own.items import Items, batch_of, leaves_of, shape_of
from harness.own.job import Job
from tests.own.trainings import Net, Pictures, named_loss, sgd


def collating(collate: Any) -> Job:
    return sm.job(model=Net, dataset=Pictures(), training_step=named_loss, optimizer=sgd, batch=8, collate=collate)


def longest(items: list[Any]) -> dict[str, Any]:
    return {"pad": 0, "longest": max(label for _, label in items), "ids": torch.zeros(len(items))}


def listed(items: list[Any]) -> tuple[tuple[Any, ...], ...]:
    """What detection does."""
    return tuple(zip(*[(picture, {"label": torch.tensor(label)}) for picture, label in items], strict=True))


@pytest.mark.parametrize(
    ("collate", "words"),
    [
        (longest, r"A batch holds a int.*makes a tensor of it, or put .*watch\(loader\)"),
        (listed, r"four items has other parts than one of 2.*watch\(loader\)"),
    ],
)
def test_a_batch_that_tensors_alone_do_not_make_is_refused(collate: Any, words: str) -> None:
    with pytest.raises(sm.Mistake, match=words):
        shape_of(collating(collate))


@pytest.mark.parametrize(("counts", "few"), [({2, 4, 8}, 2), ({2, 8}, 2), ({8}, 8)])
def test_a_collate_function_may_take_batches_of_some_sizes_alone(counts: set[int], few: int) -> None:
    def collate(items: list[Any]) -> dict[str, Tensor]:
        assert len(items) in counts, "no such batch"
        return {"picture": torch.stack([one for one, _ in items]), "label": torch.tensor([one for _, one in items])}

    assert shape_of(collating(collate)).few == few
    assert collating(collate).facts.batch == 8


def boxed(items: list[Any]) -> UserDict[str, Any]:
    return UserDict(none=None, inner=[UserDict(pictures=torch.stack([one for one, _ in items]))])


def test_mappings_of_any_class_are_looked_into_and_made_anew() -> None:
    shape = shape_of(collating(boxed))
    batch = boxed([Pictures()[0]])
    tensors = [one for one in leaves_of(batch) if isinstance(one, Tensor)]
    assert [one.shape for one in tensors] == [(1, 1, 8, 8)]
    again = batch_of(tensors, shape)
    assert type(again) is UserDict
    assert again["none"] is None
    assert torch.equal(again["inner"][0]["pictures"], batch["inner"][0]["pictures"])


class Lines(Dataset[tuple[Tensor, int]]):
    """Numbers in a file that is opened with the first item, as files of one position are in most data sets."""

    def __init__(self, path: Path) -> None:
        self.path, self.opened, self.listed = path, dict[str, TextIO](), list[TextIO | None]([None])
        self.file: TextIO | None = None

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.file is None:
            self.file = self.opened["lines"] = self.listed[0] = self.path.open()
        self.file.seek(8 * index)
        return torch.full((1, 8, 8), float(self.file.read(8))), index % 2


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{number:7}\n" for number in range(512)))
    return Lines(path)


def test_a_file_that_opens_with_the_first_item_is_left_closed_for_workers(lines: Lines) -> None:
    job = sm.job(model=Net, dataset=lines, optimizer=sgd, batch=8, loss=torch.nn.CrossEntropyLoss())
    for look in (lambda: shape_of(job), lambda: job.facts, lambda: sm.suggest_workers(lines, batch=8, workers=(0, 1))):
        look()
        assert lines.file is None
        assert not lines.opened, "nor where it lies in a dictionary"
        assert lines.listed == [None], "nor in a list"
    for batch, _ in DataLoader(lines, batch_size=8, num_workers=2):
        assert torch.equal(batch[:, 0, 0, 0].diff(), torch.ones(7))


class Blocks(Sampler[int]):
    """An order of the user's own."""

    def __iter__(self) -> Iterator[int]:
        yield from range(96)

    def __len__(self) -> int:
        return 96


def facts_with(**loading: Any) -> Any:
    loader = DataLoader(Pictures(), **({"batch_size": 8} | loading))
    return sm.job(model=Net, dataset=loader, optimizer=sgd, batch=8, loss=torch.nn.CrossEntropyLoss()).facts


def test_a_loader_that_does_not_shuffle_is_timed_so() -> None:
    assert facts_with(shuffle=False).in_order
    assert not facts_with(shuffle=True).in_order
    size = Size(
        batch=8, epoch_steps=12, evaluation_items=0, data_bytes=0, shape={}, original_epoch_steps=12, in_order=True
    )
    feed = open_feed(Pictures(), size, Recipe(), 0, endless=True)
    assert next(iter(feed.order)) == list(range(8))
    items = Items(range(10), 4, shape_of(collating(None)), seeded=False, file=None, draw=2, in_order=True)
    assert [items.place(index) for index in range(9)] == [2, 3, 4, 5, 6, 7, 8, 9, 0]


@pytest.mark.parametrize(
    ("loading", "words"),
    [
        ({"sampler": WeightedRandomSampler([1.0] * 96, 96)}, "the WeightedRandomSampler of your loader is left out"),
        ({"batch_sampler": BatchSampler(Blocks(), 8, False), "batch_size": 1}, "the Blocks of your loader"),
        ({"sampler": Blocks()}, "the Blocks of your loader is left out"),
        ({"worker_init_fn": print}, "that of your loader is not called"),
    ],
)
def test_what_is_left_out_of_a_loader_is_told(loading: dict[str, Any], words: str) -> None:
    assert any(words in one.found for one in facts_with(**loading).notes)
