"""What all evaluations owe: the model's mode is settled for them, and results that stay on the device are the same."""

import gc
import os
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness.core.recipe import ImpossibleRecipe, Recipe
from harness.core.workload import Evaluation
from harness.measure.devices import keep_to
from harness.measure.evaluation import ReadBacks, counting_read_backs, of_read_backs
from harness.measure.observed_step import of_evaluation, watching
from harness.measure.session import evaluating, open_session
from tests.measure.tasks import CATALOGUE, task_of

torch.set_num_threads(1)
CPU = torch.device("cpu")
KEEPING = sorted(name for name, one in CATALOGUE.workloads.items() if "device_results" in one.traits)


def evaluated(name: str, folder: Path, *names: str) -> tuple[Evaluation, ReadBacks]:
    session = open_session(task_of(name, folder, names))
    with counting_read_backs(session.trainee.model, CPU) as reads:
        return session.evaluate(), reads


@pytest.mark.parametrize("name", KEEPING)
def test_kept_results_are_the_same_bits_in_the_same_order_and_are_asked_for_once(
    name: str, smoke_data: dict[str, Path]
) -> None:
    each, asked = evaluated(name, smoke_data[name])
    kept, seldom = evaluated(name, smoke_data[name], "device_results")
    assert kept == each
    assert len(set(each.answers)) > 1 or name == "imagenet"  # fresh, it says one class of all: see its own tests
    assert of_read_backs(asked)["device_results"] is False
    assert of_read_backs(seldom)["device_results"] is True
    assert asked.forwards == seldom.forwards
    assert asked.count >= each.items > 2 >= seldom.count


@pytest.mark.parametrize("name", KEEPING)
def test_kept_results_go_with_batches(name: str, smoke_data: dict[str, Path]) -> None:
    batched, _ = evaluated(name, smoke_data[name], "batched_evaluation")
    both, reads = evaluated(name, smoke_data[name], "batched_evaluation", "device_results")
    assert both == batched
    assert of_read_backs(reads)["device_results"] is True
    kept, _ = evaluated(name, smoke_data[name], "device_results")
    nothing_gained = CATALOGUE.optimizations["device_results"].pointless_where.keys()
    seen = [{f"{setting} {value}" for setting, value in one.effective.items()} for one in (both, kept)]
    assert [bool(nothing_gained & one) for one in seen] == [name != "spoof", False]


def test_batches_alone_are_waited_for_one_by_one_in_spoof(smoke_data: dict[str, Path]) -> None:
    _, reads = evaluated("spoof", smoke_data["spoof"], "batched_evaluation")
    assert of_read_backs(reads) == {
        "device_results": False, "evaluation_read_backs": reads.forwards, "evaluation_pinned": False,
        "evaluation_overlapping_copies": False,
    }  # fmt: skip


LOADING = sorted(name for name, one in CATALOGUE.workloads.items() if "evaluation_options" in one.traits)


@pytest.mark.parametrize("ways", [(), ("batched_evaluation",)])
@pytest.mark.parametrize("name", LOADING)
def test_workers_of_an_evaluation_bring_the_same_items_in_the_same_order(
    name: str, ways: tuple[str, ...], smoke_data: dict[str, Path]
) -> None:
    alone, _ = evaluated(name, smoke_data[name], *ways)
    fed, _ = evaluated(name, smoke_data[name], *ways, "evaluation_workers=2")
    assert (alone.effective["evaluation_workers"], fed.effective["evaluation_workers"]) == (0, 2)
    assert fed.effective["evaluation_persistent_workers"] is False
    assert replace(fed, effective={}) == replace(alone, effective={})


@pytest.mark.parametrize("name", ["leak", "imagenet"])
def test_workers_that_stay_are_the_same_in_every_pass(name: str, smoke_data: dict[str, Path]) -> None:
    stay = ("batched_evaluation", "evaluation_workers=1", "evaluation_persistent_workers")
    session = open_session(task_of(name, smoke_data[name], stay))
    known = {one.pid for one in active_children()}
    first = session.evaluate()
    workers = {one.pid for one in active_children()} - known
    again = session.evaluate()
    assert first == again
    assert first.effective["evaluation_persistent_workers"] is True
    assert {one.pid for one in active_children()} - known == workers
    assert len(workers) == 1
    del session
    gc.collect()
    assert not {one.pid for one in active_children()} & workers


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has no others")
def test_workers_of_an_evaluation_leave_a_pinned_trainer_its_core(smoke_data: dict[str, Path]) -> None:
    stay = ("cpu_pinning", "batched_evaluation", "evaluation_workers=1", "evaluation_persistent_workers")
    cores, known = os.sched_getaffinity(0), {one.pid for one in active_children()}
    try:
        session = open_session(task_of("leak", smoke_data["leak"], stay))
        session.evaluate()
        (worker,) = [one.pid for one in active_children() if one.pid not in known]
        assert worker is not None
        assert len(os.sched_getaffinity(0)) == 1
        assert os.sched_getaffinity(worker) == cores - os.sched_getaffinity(0)
    finally:
        keep_to(cores)


def test_workers_that_should_stay_need_workers() -> None:
    with pytest.raises(ImpossibleRecipe, match="add evaluation_workers=2"):
        Recipe(evaluation_persistent_workers=True)


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_an_evaluation_in_half_precision_is_seen_in_its_layers(name: str, smoke_data: dict[str, Path]) -> None:
    seen, answers = {}, {}
    for names in ((), ("evaluation_autocast=bfloat16",)):
        session = open_session(task_of(name, smoke_data[name], ("batched_evaluation", *names)))
        with watching(session.trainee.model) as watch:
            evaluation = session.evaluate()
        seen[names] = of_evaluation(watch, evaluation.items)["evaluation_autocast"]
        answers[names] = evaluation.answers
    assert list(seen.values()) == [None, "bfloat16"]
    assert len({len(one) for one in answers.values()}) == 1


@pytest.mark.parametrize(("pinned", "non_blocking"), [(True, True), (True, False), (False, True)])
def test_copies_to_a_device_are_looked_at(monkeypatch: pytest.MonkeyPatch, *, pinned: bool, non_blocking: bool) -> None:
    monkeypatch.setattr(Tensor, "is_pinned", lambda _: pinned)
    model = nn.Linear(1, 1, device="meta")
    with counting_read_backs(model, torch.device("meta")) as reads:
        for _ in range(2):
            model(torch.ones(1, 1).to("meta", non_blocking=non_blocking))
    found = of_read_backs(reads)
    assert found["evaluation_pinned"] is pinned
    assert found["evaluation_overlapping_copies"] is (pinned and non_blocking)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_an_evaluation_finds_the_model_ready_and_leaves_no_trace(
    name: str, *, training: bool, smoke_data: dict[str, Path]
) -> None:
    model = open_session(task_of(name, smoke_data[name], ())).trainee.model.train(training)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    modes: set[bool] = set()
    session = open_session(task_of(name, smoke_data[name], ("batched_evaluation",)))
    session.trainee.model = model
    model.register_forward_hook(lambda module, _inputs, _output: modes.add(module.training))
    assert session.evaluate() == session.evaluate()
    assert modes == {False}
    assert all(module.training is training for module in model.modules())
    assert all(one.equal(before[name]) for name, one in model.state_dict().items())


def test_the_mode_comes_back_after_an_error() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(RuntimeError), evaluating(model):
        model(torch.ones(2))
    assert model.training


@pytest.mark.parametrize("ask", [Tensor.item, Tensor.tolist, Tensor.cpu, float, int, bool])
def test_every_way_of_asking_is_seen_once_there_are_results(ask: object) -> None:
    assert callable(ask)
    model, one = nn.Linear(1, 1), torch.ones(1)
    with counting_read_backs(model, CPU) as reads:
        ask(one)  # as a loader may ask for its seed
        assert reads.count == 0
        result = model(one).detach()
        assert (reads.forwards, reads.count) == (1, 0)
        ask(result)
    assert reads.count == 1
    ask(result)
    assert reads.count == 1


def test_what_lies_on_another_device_is_no_read_back() -> None:
    model = nn.Linear(1, 1)
    with counting_read_backs(model, torch.device("cuda")) as reads:
        model(torch.ones(1)).item()
    assert (reads.forwards, reads.count) == (1, 0)
