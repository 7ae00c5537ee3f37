"""Adapters, on the real packages where they are installed; small models from configurations, no weights."""

import itertools
import os
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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
from harness.measure.observed_step import Operators
from harness.measure.opening import observe, take_first_steps
from harness.measure.session import Session, Task, open_session
from harness.own.adapters import _Computing
from harness.own.job import Job
from harness.own.parts import Builder
from tests.own.trainings import Derived, Net, Pictures, sgd


def opened(job: Job, **changed: Any) -> Session:
    """An arm that trains the job."""
    facts = job.facts
    size = Size(
        batch=facts.batch, epoch_steps=facts.epoch_steps, evaluation_items=0, data_bytes=0, shape={},
        original_epoch_steps=facts.steps, all_items=facts.epoch_steps >= facts.steps,
    )  # fmt: skip
    parts = Builder(job=job, others={}, file=None).parts()
    task = Task(
        parts=parts, size=size, recipe=Recipe(**changed), data=Path(), device=device_named("cpu"), seed=0, endless=True
    )
    return open_session(task)


def losses(job: Job, steps: int = 4, **changed: Any) -> list[float]:
    """The first losses of an arm that trains the job and is looked at."""
    session = opened(job, **changed)
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


class Named(Net):
    """Its outputs have names."""

    def forward(self, pictures: Tensor) -> Any:
        return {"hint": None, "logits": super().forward(pictures)}


def of_logits(outputs: Any, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs["logits"], targets)


def test_a_model_may_give_more_than_a_tensor() -> None:
    plain = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8)
    assert losses(plain.replace(model=Named, loss=of_logits)) == losses(plain)


def test_a_rate_of_zero_is_a_rate() -> None:
    def still(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.0)

    assert losses(sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=still, batch=8))


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


def test_a_look_at_a_loop_trains_no_network_of_the_users() -> None:
    net, steps = nn.Linear(64, 1), list[int]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(batch: tuple[Tensor, Tensor]) -> None:
        steps.append(len(batch[0]))
        net(batch[0].flatten(1)).mean().backward()
        optimizer.step()

    before = net.weight.detach().clone()
    facts = sm.from_loop(step, DataLoader(Pictures(), batch_size=8)).facts
    assert torch.equal(net.weight, before)
    assert net.weight.grad is None
    assert not steps
    assert facts.step_s > 0
    assert "weights" not in [one.what for one in facts.notes]


def test_a_loop_that_no_other_process_can_take_is_looked_at_here() -> None:
    ours, taken = os.getpid(), list[int]()

    def step(batch: Any) -> None:
        if os.getpid() != ours:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        taken.append(len(batch))

    facts = sm.from_loop(step, DataLoader(Pictures(), batch_size=8)).facts
    assert len(taken) == 2
    assert "weights" in [one.what for one in facts.notes]


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


def test_a_loop_is_not_made_to_wait_for_its_losses() -> None:
    """Of a GPU that would be the measurement's own wait."""
    for returned in (torch.ones(()), torch.ones(1), None, 0.5):
        session = opened(sm.from_loop(lambda _batch, loss=returned: loss, DataLoader(Pictures(), batch_size=8)))
        step = session.step()
        step()  # opens the loader, which draws a seed
        with Operators() as seen:
            step()
        assert "aten::add_" in seen.names
        assert "aten::_local_scalar_dense" not in seen.names
        session.feed.close()


def test_the_losses_of_a_loop_are_added_up() -> None:
    def step(batch: Any) -> Any:
        return torch.tensor([1.5]), {"judge": 2.0, "pictures": batch[0], "name": "both"}

    assert losses(sm.from_loop(step, DataLoader(Pictures(), batch_size=8))) == [3.5] * 4


def in_a_box(items: list[Any]) -> UserDict[str, Any]:
    """What a tokenizer's collator gives: no dictionary, but very like one."""
    return UserDict(pictures=torch.stack([one for one, _ in items]), rest={"labels": torch.zeros(len(items))})


def test_a_step_is_given_the_mapping_that_its_collate_function_makes() -> None:
    def step(batch: Any) -> Tensor:
        assert type(batch) is UserDict
        found: Tensor = batch.data["pictures"].mean() + batch["rest"]["labels"].sum()
        return found

    assert all(losses(sm.from_loop(step, DataLoader(Pictures(), batch_size=8, collate_fn=in_a_box))))


def test_a_step_that_fails_is_told() -> None:
    def step(batch: Any) -> None:
        raise ValueError("no such column")

    with pytest.raises(sm.Mistake, match=r"The loop's step fails on a batch of your data \(ValueError: no such column"):
        _ = sm.from_loop(step, DataLoader(Pictures(), batch_size=8)).facts


def test_a_loop_that_takes_whole_batches_alone_is_looked_at_on_one() -> None:
    labels = torch.zeros(32)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        return (batch[0].mean((1, 2, 3)) - labels).square().mean()

    notes = [one.what for one in sm.from_loop(step, DataLoader(Pictures(), batch_size=32)).facts.notes]
    assert notes.count("step") == 1
    assert "weights" not in notes, "it was taken in a process of its own"


def test_what_makes_a_step_is_not_timed_as_one() -> None:
    def made(width: int = 4) -> Any:
        return looping()

    def lazy(batch: Any) -> Iterator[Any]:
        yield batch

    for step, kind in ((made, "function"), (lazy, "generator")):
        with pytest.raises(sm.Mistake, match=rf"returned a {kind} and trained nothing.*as lambda: make\("):
            _ = sm.from_loop(step, DataLoader(Pictures(), batch_size=8)).facts


# Lightning, of which a module with its methods is enough.


class Late(nn.Module):
    """Has no weights yet."""

    net: nn.Module

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss: Tensor = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Ready(Late):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()


class Uncopied(Late):
    def __init__(self) -> None:
        super().__init__()
        self.net = Derived()


def late(self: Any, *_stage: str) -> None:
    self.net = Net()


def asking(self: Any, _stage: str) -> None:
    raise RuntimeError("Asking is not attached to a `Trainer`.")


def batches() -> DataLoader[Any]:
    return DataLoader(Pictures(), batch_size=8)


@pytest.mark.parametrize("hook", ["setup", "configure_model"])
def test_a_module_is_set_up_before_it_is_trained(hook: str) -> None:
    kind = type("Later", (Late,), {hook: late})
    given = kind()
    for one in (kind, given):
        assert sm.from_lightning(one, batches()).facts.parameters == sum(one.numel() for one in Net().parameters())
    assert not list(given.parameters()), "a copy was"


def test_what_a_class_has_just_made_is_not_copied() -> None:
    assert sm.from_lightning(Uncopied, batches()).facts.parameters
    with pytest.raises(sm.Mistake, match=r"cannot be copied for each arm \(RuntimeError.*lambda: Uncopied\("):
        sm.from_lightning(Uncopied(), batches())


@pytest.mark.parametrize("hook", ["on_fit_start", "on_train_start", "on_train_epoch_start"])
def test_hooks_that_act_before_the_first_step_are_told(hook: str) -> None:
    with pytest.warns(UserWarning, match=f"Early: {hook} is not called; .*`__init__` or `setup`"):
        sm.from_lightning(type("Early", (Ready,), {hook: print}), batches())


def test_a_setup_that_asks_for_the_trainer_is_told() -> None:
    with pytest.raises(sm.Mistake, match=r"setup of Asking asks for self\.trainer, which no job has; let it take"):
        _ = sm.from_lightning(type("Asking", (Ready,), {"setup": asking}), batches()).facts


def logging(self: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    self.logger.experiment.add_scalar("samples", len(batch[0]))
    return Ready.training_step(self, batch)


@pytest.mark.parametrize("step", [logging, asking])
def test_a_step_that_asks_for_the_trainer_or_its_logger_is_told(step: Any) -> None:
    kind = type("Logging", (Ready,), {"logger": None, "training_step": step})
    with pytest.raises(sm.Mistake, match=r"asks for self\.trainer or self\.logger, which no job has; use self\.log"):
        _ = sm.from_lightning(kind, batches()).facts


def test_clipping_that_a_trainer_does_is_told_to_the_job() -> None:
    assert "clipping" in sm.from_lightning(Ready, batches(), clip_norm=0.5).facts.traits
    assert "clipping" not in sm.from_lightning(Ready, batches()).facts.traits


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


def test_lightning_waits_for_no_batch_that_is_pinned() -> None:
    pinned, plain = (
        sm.from_lightning(module(), DataLoader(Pictures(), batch_size=8, pin_memory=pins)).facts.original
        for pins in (True, False)
    )
    assert {"pin_memory", "non_blocking"} <= pinned.keys()
    assert "non_blocking" not in plain


def test_batches_of_a_lightning_module_are_numbered() -> None:
    numbers: list[int] = []

    def training_step(self: Any, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        numbers.append(batch_idx)
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    job = sm.from_lightning(module(training_step=training_step), DataLoader(Pictures(), batch_size=24))
    session = opened(job)  # of four batches an epoch
    numbers.clear()
    take_first_steps(session, 6)
    session.feed.close()
    assert numbers == [0, 1, 2, 3, 0, 1]


def test_a_warm_up_that_begins_at_zero_is_left_out_like_other_schedules() -> None:
    def configure_optimizers(self: Any) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)]

    warm = sm.from_lightning(module(configure_optimizers=configure_optimizers), DataLoader(Pictures(), batch_size=8))
    assert losses(warm) == losses(sm.from_lightning(module(), DataLoader(Pictures(), batch_size=8)))


def of_trainer(self: Any) -> Any:
    return torch.optim.SGD(self.parameters(), lr=1 / self.trainer.estimated_stepping_batches)


def doubled(self: Any, batch: Any, _dataloader_idx: int) -> Any:
    return 2 * batch[0], batch[1]


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
    with pytest.raises(sm.Mistake, match=r"asks for self\.trainer, which no job has; let it take"):
        _ = sm.from_lightning(module(configure_optimizers=of_trainer), loader).facts
    with pytest.raises(sm.Mistake, match=r"has its own on_after_batch_transfer.*training_step"):
        sm.from_lightning(module(on_after_batch_transfer=doubled), loader)
    with pytest.raises(sm.Mistake, match=r"has its own optimizer_step.*watch\(loader\)"):
        sm.from_lightning(module(optimizer_step=doubled), loader)
    with pytest.warns(UserWarning, match="what on_train_batch_end does in a step is not measured"):
        sm.from_lightning(module(on_train_batch_end=doubled), loader)
    changing = type("Changing", (lightning().LightningDataModule,), {"transfer_batch_to_device": doubled})
    with pytest.raises(sm.Mistake, match="Changing has its own transfer_batch_to_device"):
        _ = sm.from_lightning(module(), changing).facts
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


def trainer(folder: Any, told: Any = None, **changed: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: speedmatrix[huggingface]")
    pytest.importorskip("accelerate", reason="accelerate is not installed: speedmatrix[huggingface]")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    usual = {"output_dir": str(folder), "per_device_train_batch_size": 8, "report_to": [], "use_cpu": True}
    parts = {"model": transformers.BertForSequenceClassification(config), "train_dataset": Words()} | changed
    return transformers.Trainer(args=transformers.TrainingArguments(**(usual | (told or {}))), **parts)


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


@pytest.mark.parametrize("filters", [True, False])
def test_a_trainers_loss_is_read_in_every_step_where_the_trainer_reads_it(tmp_path: Any, filters: bool) -> None:
    job = sm.from_huggingface(trainer(tmp_path, {"logging_nan_inf_filter": filters}))
    assert ("deferred_metrics" in job.facts.original) is not filters


def test_a_trainers_precision_is_part_of_the_original(tmp_path: Any) -> None:
    assert "amp_bfloat16" in sm.from_huggingface(trainer(tmp_path, {"bf16": True})).facts.original
    assert "amp_bfloat16" not in sm.from_huggingface(trainer(tmp_path)).facts.original


@pytest.mark.parametrize("name", ["training_step", "_prepare_inputs"])
def test_a_trainer_with_a_step_of_its_own_is_refused(tmp_path: Any, name: str) -> None:
    given = trainer(tmp_path)
    given.__class__ = type("Adversarial", (type(given),), {name: print, "__module__": "mine"})
    with pytest.raises(sm.Mistake, match=f"Adversarial has a {name} of its own"):
        sm.from_huggingface(given)


def test_the_optimizer_that_a_trainer_was_given_is_taken_at_its_full_rate(tmp_path: Any) -> None:
    model = trainer(tmp_path).model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert optimizer.param_groups[0]["lr"] == 0
    job = sm.from_huggingface(trainer(tmp_path, model=model, optimizers=(optimizer, warm)))
    session = opened(job)
    (group,) = session.trainee.optimizer.param_groups
    assert (type(session.trainee.optimizer), group["lr"], group["momentum"]) == (torch.optim.SGD, 0.5, 0.9)
    assert not set(group["params"]) & set(model.parameters())
    assert len(group["params"]) == len(list(model.parameters()))
    session.feed.close()


def test_a_batch_that_a_tokenizer_pads_can_be_trained_on(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: speedmatrix[huggingface]")

    def padded(items: list[Any]) -> Any:
        return transformers.BatchEncoding(torch.utils.data.default_collate(items))

    plain = trainer(tmp_path)
    other = trainer(tmp_path, model=plain.model, data_collator=padded)
    assert losses(sm.from_huggingface(other)) == losses(sm.from_huggingface(plain))


def arguments(**changed: Any) -> SimpleNamespace:
    """What is read of a Trainer's arguments, without the package."""
    usual = {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 8, "logging_nan_inf_filter": True}
    compiling = {"torch_compile": False, "torch_compile_mode": None}
    return SimpleNamespace(**(usual | compiling | {"bf16": False, "fp16": False} | changed))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gradient_accumulation_steps": 4}, "of 4 batches.*`--batch 32 --reference gradient_accumulation=4`"),
        ({"deepspeed": "zero.json"}, "follows deepspeed when it trains.*leave it out"),
        ({"neftune_noise_alpha": 5.0}, "follows neftune_noise_alpha when it trains.*leave it out"),
    ],
)
def test_arguments_that_change_the_trainers_own_loop_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(sm.Mistake, match=words):
        sm.from_huggingface(SimpleNamespace(train_dataset=Pictures(), args=arguments(**changed)))


@pytest.mark.parametrize(
    ("changed", "has"),
    [
        ({}, ()),
        ({"torch_compile": True, "bf16": True}, ("amp_bfloat16", "compile")),
        ({"torch_compile": True, "torch_compile_mode": "max-autotune"}, ("compile=max-autotune",)),
    ],
)
def test_what_a_trainer_compiles_is_part_of_the_original(changed: dict[str, Any], has: tuple[str, ...]) -> None:
    assert _Computing(SimpleNamespace(args=arguments(**changed))).has == has


def test_what_a_trainer_job_cannot_express_is_told(tmp_path: Any) -> None:
    with pytest.raises(sm.Mistake, match="The Trainer has no train_dataset"):
        sm.from_huggingface(trainer(tmp_path, train_dataset=None))
    given = trainer(tmp_path)
    given.args.gradient_checkpointing = True
    with pytest.raises(sm.Mistake, match=r"checkpointing on when it trains.*leave it out"):
        sm.from_huggingface(given)
