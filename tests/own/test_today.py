"""What the user's file has switched on already, and what a look at a job must neither miss nor change."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import speedmatrix as sm
from harness.catalogue import read_catalogue
from harness.core.configuration import unmet
from harness.core.workload import Workload
from harness.own import inference, network
from tests.analyze.synthetic import ENVIRONMENT
from tests.own.test_job import a_job
from tests.own.trainings import Net, Pictures, sgd


class Flipped(Pictures):
    """Flips a picture in every fourth case, by a generator of its own."""

    def __init__(self, count: int = 96) -> None:
        super().__init__(count)
        self.generator = np.random.default_rng(0)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = super().__getitem__(index)
        return (picture.flip(-1) if self.generator.random() < 0.25 else picture), label


class LaterFlipped(Pictures):
    """Draws for the second half of its items alone."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = super().__getitem__(index)
        return (picture.flip(-1) if index >= 48 and torch.rand(()) < 0.5 else picture), label


def test_items_that_are_changed_now_and_then_are_not_constant() -> None:
    """Kept in memory, they would never change again."""
    for _ in range(8):
        facts = a_job(dataset=Flipped()).facts
        assert "in_memory_data" not in facts.traits
        assert any("generator of their own" in note.found for note in facts.notes)
    facts = a_job(dataset=LaterFlipped()).facts
    assert facts.seeded
    assert "in_memory_data" not in facts.traits


class Casting(Net):
    """Casts by itself, and gives numbers of 32 bits."""

    def forward(self, pictures: Tensor) -> Tensor:
        with torch.autocast(pictures.device.type, dtype=torch.bfloat16):
            return super().forward(pictures).float()


def casting_step(model: nn.Module, batch: Any) -> Tensor:
    with torch.autocast(batch[0].device.type, dtype=torch.bfloat16):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])


class Functional(nn.Module):
    """Has no layers to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 64) / math.sqrt(64))

    def forward(self, pictures: Tensor) -> Tensor:
        return (pictures.flatten(1).bfloat16() @ self.weight.bfloat16().T).float()


@pytest.mark.parametrize(
    "changes",
    [{"model": Casting}, {"training_step": casting_step, "loss": None}, {"model": Functional}],
    ids=["model", "step", "functional"],
)
def test_a_step_that_casts_by_itself_is_not_told_that_casting_has_no_effect(
    changes: dict[str, Any],
) -> None:
    assert "computes in bfloat16 already" in a_job(**changes).facts.fixed["autocast"]
    assert "autocast" not in a_job().facts.fixed


@pytest.fixture
def _settings() -> Iterator[None]:
    """Settings of the process, as they are where nobody sets them; put back afterwards."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, torch.get_float32_matmul_precision()
    cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = False, False, True
    torch.set_float32_matmul_precision("highest")
    yield
    cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = before[:3]
    torch.set_float32_matmul_precision(before[3])


@pytest.mark.usefixtures("_settings")
def test_what_a_file_sets_for_its_process_is_what_the_user_has_today() -> None:
    ours = {"cudnn_benchmark", "cudnn_deterministic", "tf32_matmul", "medium_matmul_precision", "tf32_convolutions"}
    assert ours & a_job().facts.original.keys() == {"tf32_convolutions"}
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("high")
    assert ours & a_job().facts.original.keys() == {"cudnn_benchmark", "tf32_matmul"}
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert "tf32_matmul" in a_job().facts.original


def leak_with(facts: inference.Facts) -> Workload:
    """A workload with what was seen of a job."""
    found = read_catalogue(ledger=False).workload("leak")
    return replace(found, traits=frozenset(facts.traits), fixed=facts.fixed, original=facts.original)


@pytest.mark.parametrize("kind", ["RMSprop", "Rprop", "Adafactor"])
def test_an_optimizer_that_takes_foreach_alone_has_that(kind: str) -> None:
    facts = a_job(optimizer=lambda parameters: getattr(torch.optim, kind)(parameters, lr=0.01)).facts
    known, workload = read_catalogue(ledger=False).optimizations, leak_with(facts)
    reasons = [unmet(known[f"{one}_optimizer"], ENVIRONMENT, workload) for one in ("foreach", "fused")]
    assert reasons == [None, "needs an optimizer that takes fused"]
    assert ("foreach_optimizer" in workload.found_on("cuda")) is (kind != "Adafactor"), "which loops by itself"


def test_a_kernel_that_the_user_names_is_kept_on_a_cpu() -> None:
    def told(**kernel: Any) -> tuple[str, ...]:
        job = a_job(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01, **kernel))
        return leak_with(job.facts).found_on("cpu")

    assert "foreach_optimizer" in told(foreach=True)
    assert "foreach_optimizer" not in told()


def test_clipping_is_pytorchs_where_the_job_clips() -> None:
    assert "foreach_clipping" in a_job(clip_norm=1.0).facts.original
    assert "foreach_clipping" not in a_job().facts.original


def test_workers_start_as_the_users_loader_starts_them() -> None:
    def told(**settings: Any) -> set[str]:
        loader = DataLoader(Pictures(), batch_size=8, num_workers=1, **settings)
        return {name for name in a_job(dataset=loader, batch=None).facts.original if name.startswith("start_method")}

    assert told(multiprocessing_context="spawn") == {"start_method=spawn"}
    assert told(multiprocessing_context="fork") == told() == set()


def test_a_look_leaves_the_random_numbers_of_the_gpu_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's `manual_seed` seeds them too."""
    states = [torch.zeros(16)]
    for one in (inference, network):
        monkeypatch.setattr(one, "device_here", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: list(states))
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", states.extend)
    assert inference.look(a_job(), None, {}).parameters
    assert len(states) == 2, "put back once"


def test_an_optimizer_that_cannot_be_built_has_a_remedy() -> None:
    net = Net()

    class Scaled(torch.optim.SGD):
        def __init__(self, parameters: Any, scale: float) -> None:
            super().__init__(parameters, lr=0.1 * scale)

    wrong: list[dict[str, Any]] = [
        {"optimizer": lambda: torch.optim.SGD(net.parameters(), lr=0.1)},
        {"optimizer": lambda model: torch.optim.AdamW(model.parameters())},
        {"model": net, "optimizer": Scaled(net.parameters(), 2.0)},
    ]
    for changes in wrong:
        with pytest.raises(sm.Mistake, match=r"cannot be built \(.*is given the parameters and no more, as lambda"):
            _ = a_job(**changes).facts
    assert a_job(optimizer=sgd).facts.parameters
