"""Adapters, on the real packages where they are installed; small models from configurations, no weights."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import speedmatrix as sm
from harness.core.optimization import Timing
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.devices import device_named
from harness.measure.opening import observe, take_first_steps
from harness.measure.session import Task, open_session
from harness.own.job import Job
from harness.own.parts import Builder
from tests.own.trainings import Net, Pictures, sgd


def losses(job: Job, steps: int = 4, **changed: Any) -> list[float]:
    """The first losses of an arm that trains the job and is looked at."""
    facts = job.facts
    size = Size(
        batch=facts.batch, epoch_steps=facts.epoch_steps, evaluation_items=0, data_bytes=0, shape={},
        original_epoch_steps=facts.steps,
    )  # fmt: skip
    from pathlib import Path

    parts = Builder(job=job, others={}, file=None).parts()
    task = Task(
        parts=parts, size=size, recipe=Recipe(**changed), data=Path(), device=device_named("cpu"), seed=0, endless=True
    )
    session = open_session(task)
    opening = take_first_steps(session, steps)
    observe(session, opening, Timing.STEP)
    session.feed.close()
    return list(opening.losses)


def test_an_arm_repeats_its_losses_and_a_setting_of_the_input_keeps_them() -> None:
    job = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8)
    plain = losses(job)
    assert plain == losses(job) == losses(job, in_memory_data=True) == losses(job, workers=1)
    assert len(set(plain)) == 4
    assert plain[0] == pytest.approx(torch.log(torch.tensor(3.0)).item(), abs=0.4)  # three classes


# A plain loop.


def looping() -> Any:
    """A generator against a discriminator: two optimizers in one step."""
    torch.manual_seed(0)
    maker, judge = nn.Linear(4, 64), nn.Linear(64, 1)
    ours, theirs = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        real = batch[0].flatten(1)
        made = maker(torch.randn(len(real), 4))
        loss = nn.functional.softplus(-judge(real)).mean() + nn.functional.softplus(judge(made.detach())).mean()
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        ours.zero_grad()
        nn.functional.softplus(-judge(made)).mean().backward()
        ours.step()
        return loss

    return step


def test_the_input_of_a_step_with_two_optimizers_can_be_measured() -> None:
    job = sm.from_loop(looping, DataLoader(Pictures(), batch_size=8))
    facts = job.facts
    assert facts.batch == 8
    assert {"autocast", "compile", "optimizer_kernel", "micro_batches"} <= facts.fixed.keys()
    assert not {"workers", "in_memory_data", "threads"} & facts.fixed.keys()
    assert losses(job) == losses(job) == losses(job, workers=1)


def test_a_step_that_is_given_itself_goes_on_where_it_was() -> None:
    taken = itertools.count()

    def step(batch: Any) -> float:
        return float(next(taken))

    job = sm.from_loop(step, DataLoader(Pictures(), batch_size=8))
    first = losses(job)
    assert [one - first[0] for one in first] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("step", "loader", "words"),
    [
        ("train", DataLoader(Pictures()), "The step is a str; give a function"),
        (print, Pictures(), "does not say how large a batch is"),
    ],
)
def test_what_is_no_loop_is_told(step: Any, loader: Any, words: str) -> None:
    with pytest.raises(sm.Mistake, match=words):
        sm.from_loop(step, loader)


def test_a_step_that_fails_is_told() -> None:
    def step(batch: Any) -> None:
        raise ValueError("no such column")

    with pytest.raises(sm.Mistake, match=r"The loop's step fails on a batch of your data \(ValueError: no such column"):
        _ = sm.from_loop(step, DataLoader(Pictures(), batch_size=8)).facts


# Lightning.


def lightning() -> Any:
    return pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed: speedmatrix[lightning]")


def module(**changed: Any) -> Any:
    pl = lightning()

    class Classifier(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: tuple[Tensor, Tensor], _batch_idx: int) -> Tensor:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}

    for name, one in changed.items():
        setattr(Classifier, name, one)
    return Classifier


def test_a_lightning_module_trains_as_the_same_plain_training_does() -> None:
    loader = DataLoader(Pictures(), batch_size=8)
    found = sm.from_lightning(module(), loader)
    facts = found.facts
    assert {"convolutions", "relu"} <= set(facts.traits)
    plain = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8)
    assert losses(found) == losses(plain)
    assert losses(sm.from_lightning(module()(), loader)) == pytest.approx(losses(plain), abs=0.5)


def test_a_data_module_is_set_up() -> None:
    pl = lightning()

    class Data(pl.LightningDataModule):  # type: ignore[misc,name-defined]
        def setup(self, _stage: str) -> None:
            self.data = Pictures()

        def train_dataloader(self) -> DataLoader[Any]:
            return DataLoader(self.data, batch_size=16, shuffle=True)

    assert sm.from_lightning(module(), Data()).facts.batch == 16


def two(self: Any) -> Any:
    return [torch.optim.SGD(self.parameters(), lr=0.1), torch.optim.SGD(self.parameters(), lr=0.1)]


def test_what_a_lightning_job_cannot_express_is_told() -> None:
    loader = DataLoader(Pictures(), batch_size=8)
    by_hand = module()()
    by_hand.automatic_optimization = False
    with pytest.raises(sm.Mistake, match=r"optimizes by hand.*from_loop.*watch\(loader\)"):
        sm.from_lightning(by_hand, loader)
    with pytest.raises(sm.Mistake, match=r"has 2 optimizers.*watch\(loader\)"):
        _ = sm.from_lightning(module(configure_optimizers=two), loader).facts
    with pytest.raises(sm.Mistake, match="Net is no Lightning module"):
        sm.from_lightning(Net(), loader)
    with pytest.raises(sm.Mistake, match="has no train_dataloader"):
        _ = sm.from_lightning(module(), Pictures()).facts


# Hugging Face.


class Words(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        words = torch.randint(0, 50, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "attention_mask": torch.ones(12, dtype=torch.long), "labels": index % 2}


def trainer(folder: Any, **changed: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: speedmatrix[huggingface]")
    pytest.importorskip("accelerate", reason="accelerate is not installed: speedmatrix[huggingface]")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    told = {"output_dir": str(folder), "per_device_train_batch_size": 8, "report_to": [], "use_cpu": True}
    return transformers.Trainer(
        model=transformers.BertForSequenceClassification(config),
        args=transformers.TrainingArguments(**told),
        **({"train_dataset": Words()} | changed),
    )


def test_a_trainer_with_a_tiny_bert_becomes_a_job(tmp_path: Any) -> None:
    given = trainer(tmp_path)
    job = sm.from_huggingface(given)
    facts = job.facts
    assert (facts.batch, facts.items) == (8, 64)
    assert facts.parameters == sum(one.numel() for one in given.model.parameters())
    assert "clipping" in facts.traits
    found = losses(job)
    assert found == losses(job)
    assert found[0] == pytest.approx(0.69, abs=0.3)  # two classes
    assert [type(one).__name__ for one in (job.optimizer(given.model),)] == ["AdamW"]


def test_a_trainer_without_data_is_told(tmp_path: Any) -> None:
    with pytest.raises(sm.Mistake, match="The Trainer has no train_dataset"):
        sm.from_huggingface(trainer(tmp_path, train_dataset=None))
