"""Arms do what the user's training does, or it is said that they do not."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, Subset

import speedmatrix as sm
from harness.catalogue import read_workload
from harness.core import own_file
from harness.measure.session import evaluating, into_training
from harness.own import inference
from tests.own.test_job import a_job
from tests.own.trainings import Named, Net, Pictures, sgd


class Epochs(Pictures):
    """Items that depend on the epoch, of which a training tells the data set."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = super().__getitem__(index)
        drawn = torch.randn(picture.shape, generator=torch.Generator().manual_seed(1000 * self.epoch + index))
        return picture + drawn, label


@pytest.mark.parametrize("wrapped", [False, True])
def test_items_that_change_with_the_epoch_are_not_kept_in_memory(wrapped: bool) -> None:
    dataset = Epochs()
    facts = a_job(dataset=Subset(dataset, range(96)) if wrapped else dataset).facts
    assert "in_memory_data" not in facts.traits
    assert any(one.found == "others after set_epoch" for one in facts.notes)
    assert dataset.epoch == 0, "the look has told it of another"


def test_a_loop_whose_weights_nobody_sees_has_no_ranks() -> None:
    def loop() -> Any:
        return print

    facts = sm.from_loop(loop, DataLoader(Pictures(), batch_size=8)).facts
    assert {"ranks", "gradient_reduction"} <= facts.fixed.keys()


OUTSIDE = Net()


def test_a_step_that_trains_another_model_than_it_is_given_is_refused() -> None:
    def step(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(OUTSIDE(batch["picture"]), batch["label"])

    with pytest.raises(sm.Mistake, match="use the model that they are given"):
        _ = sm.job(model=Net, dataset=Named(), training_step=step, optimizer=sgd, batch=8).facts


class Cropped(Pictures):
    """A mapping and a label: two tensors, and no pair of inputs and targets."""

    def __getitem__(self, index: int) -> Any:
        picture, label = super().__getitem__(index)
        return {"picture": picture}, label


def test_a_batch_whose_inputs_are_a_mapping_is_no_pair_of_tensors() -> None:
    with pytest.raises(sm.Mistake, match="no pair of inputs and targets; give training_step"):
        _ = a_job(dataset=Cropped()).facts


def test_a_model_whose_sizes_are_not_known_yet_is_refused() -> None:
    with pytest.raises(sm.Mistake, match="lazy layers"):
        _ = a_job(model=lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3))).facts


class Endless(Sampler[int]):
    """An order without an end, and so without a length."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from range(96)


class Mixing(DataLoader[Any]):
    """Changes batches on their way."""

    def __iter__(self) -> Any:
        for pictures, labels in super().__iter__():
            yield pictures + pictures.flip(0), labels


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (DataLoader(Pictures(), batch_size=8, sampler=Endless()), "the Endless of your loader is left out"),
        (Mixing(Pictures(), batch_size=8, shuffle=True), "what Mixing.__iter__ does with batches is left out"),
    ],
)
def test_what_a_loader_does_beside_reading_is_told(loader: Any, words: str) -> None:
    assert any(words in one.found for one in a_job(dataset=loader, batch=None).facts.notes)


class Two(Net):
    """Its second convolution has a layout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers.insert(1, nn.Conv2d(4, 4, 3, padding=1))


def test_what_a_model_has_already_is_not_measured_against_itself() -> None:
    facts = a_job(model=lambda: Two().to(memory_format=torch.channels_last)).facts
    assert "the model has it already" in facts.fixed["channels_last"]
    assert "channels_last" not in a_job(model=Two).facts.fixed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_is_known_by_itself_and_by_its_parts() -> None:
    inside = Two()
    inside.layers.compile()
    for model in (torch.compile(Two()), inside):
        assert list(inference._already(list(model.modules()))) == ["compile"]
    assert not list(inference._already(list(Two().modules())))


def test_parts_that_were_put_into_evaluation_stay_there() -> None:
    model = nn.Sequential(nn.Sequential(nn.BatchNorm2d(1), nn.Dropout()), nn.Linear(1, 1))
    model[0].eval()
    into_training(model)
    assert [one.training for one in model.modules()] == [True, False, False, False, True]
    with evaluating(model):
        assert not any(one.training for one in model.modules())
    assert [one.training for one in model.modules()] == [True, False, False, False, True]
    model.eval()  # as whoever loads weights gets it
    into_training(model)
    assert all(one.training for one in model.modules())


def test_the_probe_leaves_a_loaders_own_generator_as_it_was() -> None:
    def orders(**watched: Any) -> list[list[int]]:
        loader = DataLoader(range(24), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
        given = sm.watch(loader, **watched) if watched else loader
        return [torch.cat(list(given)).tolist() for _ in range(3)]

    assert orders(probe_s=0.05) == orders()


def test_a_file_that_draws_while_it_is_imported_draws_alike_in_every_arm(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import random\nimport numpy as np\nDRAWN = random.random(), np.random.rand()\n")
    random.seed(5)
    expected = random.random()
    random.seed(5)
    first = own_file._run(file).names["DRAWN"]
    assert random.random() == expected, "whoever reads a file draws on as before"
    assert own_file._run(file).names["DRAWN"] == first


TRAINING = """
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader
import speedmatrix as sm
from tests.own.trainings import Net, Pictures, sgd

batch = int(Path(__file__).with_name("batch.txt").read_text())
job = sm.job(model=Net, dataset=DataLoader(Pictures(), batch_size=batch), loss=nn.CrossEntropyLoss(), optimizer=sgd)
"""


def test_a_job_is_looked_at_again_where_a_file_that_is_no_code_changes_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "data"))
    file = tmp_path / "train.py"
    file.write_text(TRAINING)
    for batch in (8, 16):
        (tmp_path / "batch.txt").write_text(str(batch))
        own_file._read.clear()
        assert read_workload(file).sizes["quick"].batch == batch
