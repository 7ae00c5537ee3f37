"""Optimizations broken on purpose, as real systems had them: each is caught by what the arm shows or by its losses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.analyze.quality import verified
from harness.core.configuration import expected
from harness.core.optimization import Numerics, Timing
from harness.core.protocol import UNTIMED
from harness.core.records import Arm, Ready
from harness.measure import session, step
from harness.measure.feed import Feed
from harness.measure.step import Bound
from harness.measure.trial import begin
from tests.measure.tasks import CATALOGUE, task_of

STEPS = 4
NAMELESS = Arm(block="test", replicate=0, attempt=0, position=0)


def begun(name: str, folder: Path, *names: str, other_seeds: bool = False) -> Ready:
    task, proof = task_of(name, folder, names), {}
    for one in names:
        known, _, level = one.partition("=")
        proof |= expected(CATALOGUE.optimizations[known], int(level) if level else None)
    trial, fields = begin(task, Timing.LOADER, replace(UNTIMED, loss_steps=STEPS), proof, other_seeds=other_seeds)
    trial.session.feed.close()
    return Ready(arm=NAMELESS, **fields)


def found(name: str, folder: Path, one: str, promised: Numerics, breaks: Callable[[], None]) -> tuple[str, str]:
    """Status and sentence of an optimization that is broken only after its reference was seen."""
    reference = begun(name, folder, other_seeds=True)
    assert verified(begun(name, folder, one), reference, promised, Timing.STEP)[0] in {
        "same bits",
        "close",
        "another training",
    }
    breaks()
    return verified(begun(name, folder, one), reference, promised, Timing.STEP)


def test_a_stale_batch_is_caught(smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefetcher that hands over the batch before: the same samples, one step late."""
    fetch = Feed.fetch

    def late(feed: Feed) -> Any:
        held.append(fetch(feed))
        return held[-2] if len(held) > 1 else held[-1]

    held: list[Any] = []
    status, sentence = found(
        "leak", smoke_data["leak"], "batched_fetch", Numerics.EXACT, lambda: monkeypatch.setattr(Feed, "fetch", late)
    )
    assert status == "differs"
    assert sentence.startswith("losses differ from step 2")


@pytest.mark.thorough
def test_gradients_scaled_and_never_scaled_back_are_caught(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that skips the scaler: on plain gradient descent the weights jump."""
    update_of = session.update_of

    def without(optimizer: Any, recipe: Any, scaler: Any, *others: Any) -> Callable[[], None]:
        del scaler
        return update_of(optimizer, recipe, None, *others)

    status, _ = found(
        "imagenet",
        smoke_data["imagenet"],
        "gradient_scaling",
        Numerics.CLOSE,
        lambda: monkeypatch.setattr(session, "update_of", without),
    )
    assert status in {"differs", "nan"}


def test_a_micro_batch_that_is_dropped_is_caught(smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts are fetched, but the last one's gradient is lost."""

    def forgetful(bound: Bound) -> Callable[[], Tensor]:
        def dropping() -> Tensor:
            total = torch.zeros(())
            for part in range(bound.micro_batches):
                inputs, targets = bound.transfer(bound.fetch())
                value = bound.loss(bound.model(inputs), targets) / bound.micro_batches
                if part < bound.micro_batches - 1:
                    bound.backward(value)
                total = total + value.detach()
            bound.update()
            return total

        return dropping

    status, sentence = found(
        "leak",
        smoke_data["leak"],
        "gradient_accumulation=4",
        Numerics.DIFFERENT,
        lambda: monkeypatch.setattr(step, "accumulating_step", forgetful),
    )
    assert (status, sentence) == ("not active", "micro_batches is 3, not 4")


@pytest.mark.thorough
def test_an_optimization_that_reorders_samples_is_caught(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs and labels that no longer belong together train to about the same loss at first, but not to the bit."""
    arriving = session.arriving

    def shifted(transfer: Any, stage: Any) -> Callable[[Any], Any]:
        arrived = arriving(transfer, stage)

        def moved(batch: Any) -> Any:
            inputs, targets = arrived(batch)
            return inputs, targets.roll(1, 0)

        return moved

    status, _ = found(
        "spoof",
        smoke_data["spoof"],
        "set_to_none",
        Numerics.EXACT,
        lambda: monkeypatch.setattr(session, "arriving", shifted),
    )
    assert status == "differs"
