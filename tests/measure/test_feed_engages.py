"""What acts on the feed and on the launch engages in a whole arm, and keeps the losses that it promises to keep."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.core.configuration import expected, parse_option
from harness.core.optimization import Numerics, Timing
from harness.core.protocol import UNTIMED, Protocol
from harness.measure.trial import begin
from tests.measure.settings import put_back
from tests.measure.tasks import CATALOGUE, task_of

THREE_STEPS: Protocol = replace(UNTIMED, loss_steps=3)
STACKS = [
    ("direct_collate",),
    ("direct_collate", "workers=1"),
    ("pickled_batches", "workers=1"),
    ("pickled_batches", "workers=1", "batched_fetch"),
    ("sharing_strategy=file_system", "workers=2", "prefetch_factor=2"),
    ("cpu_pinning",),
    ("cpu_pinning", "workers=2"),
    ("worker_threads=2", "workers=1"),
    ("trainer_threads=2",),
    ("worker_threads=2", "workers=1", "sharing_strategy=file_system", "cpu_pinning", "pickled_batches"),
]


@pytest.fixture(autouse=True)
def _settings_put_back() -> Iterator[None]:
    with put_back():
        yield


def ready_of(folder: Path, stack: tuple[str, ...]) -> dict[str, Any]:
    proof: dict[str, Any] = {}
    for option in map(parse_option, stack):
        proof |= expected(CATALOGUE.optimizations[option.name], option.level)
    trial, ready = begin(task_of("leak", folder, stack), Timing.STEP, THREE_STEPS, proof, other_seeds=False)
    trial.session.feed.close()
    return ready


@cache
def plain_losses(folder: Path) -> tuple[float, ...]:
    losses: tuple[float, ...] = ready_of(folder, ())["losses"]
    return losses


@pytest.mark.parametrize("stack", STACKS, ids="+".join)
def test_it_engages_and_keeps_its_word(stack: tuple[str, ...], smoke_data: dict[str, Path]) -> None:
    if {"cpu_pinning"} & set(stack) and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPU cores; would check that trainer and workers run on different ones")
    ready = ready_of(smoke_data["leak"], stack)
    assert ready["inactive"] == ()
    with put_back():
        plain = plain_losses(smoke_data["leak"])
    numerics = {CATALOGUE.optimizations[parse_option(name).name].numerics for name in stack}
    exact = numerics == {Numerics.EXACT}
    assert ready["losses"] == (plain if exact else pytest.approx(plain, rel=1e-3))
