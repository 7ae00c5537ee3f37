"""A short last batch: an epoch's samples are counted truly, and the batch is seen to arrive."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from harness.core.configuration import Comparison, Configuration, Option, inactive
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.core.protocol import BRIEF, UNTIMED
from harness.core.recipe import ImpossibleRecipe, Recipe
from harness.core.workload import Size
from harness.measure import observed_process as evidence
from harness.measure import trial
from harness.measure.feed import Feed, Order, open_feed
from harness.plan.feasibility import Scope, compare
from tests.analyze.synthetic import ENVIRONMENT
from tests.measure.tasks import CATALOGUE, task_of

SIZE = Size(batch=4, epoch_steps=3, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=3)


def opened(recipe: Recipe) -> Feed:
    return open_feed(TensorDataset(torch.arange(12)), SIZE, recipe, seed=0, endless=False)


def test_the_last_batch_is_half_of_the_others_in_every_epoch() -> None:
    feed = opened(Recipe(keep_last_batch=True))
    assert [len(feed.fetch()[0]) for _ in range(6)] == [4, 4, 2, 4, 4, 2]


@pytest.mark.parametrize("short", [True, False])
def test_the_samples_between_any_two_batches_are_those_that_they_hold(short: bool) -> None:
    order = Order(20, 5, seed=0, endless=True, short_last=short)
    batches = iter(order)
    lengths = [len(next(batches)) for _ in range(13)]
    assert lengths[:4] == ([5, 5, 5, 2] if short else [5, 5, 5, 5])
    for first in range(13):
        for last in range(first, 14):
            assert order.samples(first, last) == sum(lengths[first:last])


@pytest.mark.parametrize(("samples", "batch"), [(4, 1), (4, 4)])
def test_an_epoch_without_a_batch_to_shorten_is_a_mistake(samples: int, batch: int) -> None:
    with pytest.raises(Mistake, match="two batches or more"):
        Order(samples, batch, seed=0, endless=True, short_last=True)


def test_the_short_batch_is_seen_only_when_it_came() -> None:
    feed = opened(Recipe(keep_last_batch=True))
    for expected in ("full", "full", "short", "short"):
        feed.fetch()
        assert evidence.of_epoch(feed) == {"last_batch": expected}
    assert evidence.of_epoch(opened(Recipe())) == {}


def test_a_loader_that_drops_it_after_all_is_seen() -> None:
    feed = opened(Recipe(keep_last_batch=True))
    feed.order._batches.pop()
    for _ in range(6):
        feed.fetch()
    assert inactive({"last_batch": "short"}, evidence.of_epoch(feed)) == ("last_batch is full, not short",)


@pytest.mark.thorough
@pytest.mark.parametrize("timing", [Timing.EPOCH, Timing.STEP, Timing.LOADER, Timing.COMPUTE])
def test_bursts_count_the_samples_that_they_took(timing: Timing, smoke_data: dict[str, Path]) -> None:
    task = task_of("imagenet", smoke_data["imagenet"], ("local_copy", "keep_last_batch"))
    proof = {} if timing is Timing.COMPUTE else {"last_batch": "short"}
    begun, ready = trial.begin(task, timing, UNTIMED, dict(proof), other_seeds=False)
    assert ready["inactive"] == ()
    window = begun.window(lead=2, steps=6, start=3)
    batch, steps = task.size.batch, window["steps"]
    if timing is Timing.EPOCH:
        assert steps % task.size.epoch_steps == 0
        assert window["samples"] == steps * batch - steps // task.size.epoch_steps * (batch - batch // 2)
    elif timing is Timing.COMPUTE:
        assert window["samples"] == steps * batch
    else:  # the steps that led in are not counted
        after = begun.session.feed.taken
        assert (steps, after) == (6, 3 + 6), "it began where it was told to"
        assert window["samples"] == begun.session.feed.order.samples(after - steps, after)
    begun.session.feed.close()


def test_plain_bursts_count_whole_batches(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("gradient_accumulation=2",))
    begun, _ = trial.begin(task, Timing.STEP, UNTIMED, {}, other_seeds=False)
    window = begun.window(lead=1, steps=4)
    assert window["samples"] == window["steps"] * task.size.batch
    begun.session.feed.close()


def test_parts_of_half_a_batch_are_refused() -> None:
    with pytest.raises(ImpossibleRecipe, match="half a batch cannot be taken in equal parts"):
        Recipe(keep_last_batch=True, micro_batches=2)


def test_a_batch_of_one_is_refused_before_anything_starts() -> None:
    leak = CATALOGUE.workloads["leak"]
    scope = Scope(
        workload=leak,
        reference=Configuration(workload="leak", size="smoke", batch=1),
        optimizations=CATALOGUE.of(leak),
        known=CATALOGUE.optimizations,
        original=(),
        environment=ENVIRONMENT,
        protocol=BRIEF,
    )
    found = compare(scope, "keep_last_batch", (Option(name="keep_last_batch"),))
    assert isinstance(found, NoResult)
    assert "two samples in a batch and 8 batches in an epoch" in found.reason
    assert isinstance(compare(scope, "set_to_none", (Option(name="set_to_none"),)), Comparison)
