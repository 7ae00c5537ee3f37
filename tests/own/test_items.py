"""Batches of collate functions: what can be made anew from tensors alone, and what is refused."""

from collections import UserDict
from typing import Any

import pytest
import torch
from torch import Tensor

import speedmatrix as sm
from harness.own.items import batch_of, leaves_of, shape_of
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
        (longest, "A batch holds a int.*makes a tensor of it"),
        (listed, r"three items has other parts than a batch of two.*watch\(loader\)"),
    ],
)
def test_a_batch_that_tensors_alone_do_not_make_is_refused(collate: Any, words: str) -> None:
    with pytest.raises(sm.Mistake, match=words):
        shape_of(collating(collate))


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
