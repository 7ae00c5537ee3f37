"""The truth of the pair: how many passes a step takes, counted where the work is done."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.precision import passes
from benchmarks.precision.told import PASSES, SETTINGS, counts, settings, telling
from benchmarks.precision.workload import SIZE, WORKLOAD, effective
from harness.core.recipe import Recipe
from harness.core.workload import Built


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in telling((21, 20), {"seconds": 0.5}).items():
        monkeypatch.setenv(name, value)
    passes.step.cache_clear()
    yield
    passes.step.cache_clear()


class Counted(torch.optim.SGD):
    """Counts its updates."""

    updates = 0

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        assert closure is None
        super().step()
        Counted.updates += 1


def test_a_step_takes_as_many_passes_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "optimizer_of", lambda parameters: Counted(parameters, lr=1e-4, foreach=False))
    for variant, count in ((0, 21), (1, 20)):
        Counted.updates = 0
        passes.step(variant)()
        assert Counted.updates == count


def test_every_pass_trains() -> None:
    torch.manual_seed(0)
    train = passes.one_pass()
    before = torch.random.get_rng_state()
    train()
    assert torch.equal(torch.random.get_rng_state(), before)  # so both arms of the harness see the same losses


def test_the_workload_takes_all_passes_but_the_harness_own() -> None:
    parts = WORKLOAD.parts()
    for count in (20, 21):
        recipe = Recipe(own=(("passes", count),))
        stage = parts.device_stage(Path(), SIZE, recipe, torch.device("cpu"))
        batch = [torch.zeros(8, 1, 32, 32), torch.zeros(8, dtype=torch.int64)]
        assert stage
        inputs, targets = stage(batch)
        assert inputs is batch[0]
        assert targets is batch[1]
        model, loss = parts.model(SIZE, recipe), parts.loss(SIZE, recipe)
        built = Built(
            dataset=parts.dataset(Path(), SIZE, recipe), model=model, loss=loss, device_stage=stage, batch=batch
        )
        assert effective(built) == {"passes": count}
        assert sum(one.numel() for one in model.parameters()) == WORKLOAD.parameters


def test_what_processes_are_told_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts() == (21, 20)
    assert settings() == {"seconds": 0.5}
    assert telling((20, 20), {"processes": 3})[PASSES] == "20,20"
    assert telling((20, 20), {})[SETTINGS] == "{}"
