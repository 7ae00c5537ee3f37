"""Adapters: a Lightning module, a Hugging Face Trainer or the step of a plain loop as a job."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from harness.core.mistake import Mistake
from harness.own.items import WATCHED, called, is_factory
from harness.own.job import Job, calling_module
from harness.own.parts import copied, of_copy, to_host_in_arms

OWN_LOOP = f"measure what feeds it with speedmatrix.from_loop(step, loader), or {WATCHED}"


def from_lightning(
    module: Any,
    datamodule: Any = None,
    *,
    batch: int | None = None,
    clip_norm: float | None = None,
    name: str | None = None,
) -> Job:
    """A job of a Lightning module (or what makes one), with a data module, a loader, or its own `train_dataloader`.

    The whole `training_step` is timed as the model; logging is left out. `clip_norm` is the Trainer's
    `gradient_clip_val`, which no module knows. Raises Mistake for manual optimization, for several optimizers and for
    hooks that change batches or updates.
    """
    example = called(module) if is_factory(module) else module
    if not getattr(example, "automatic_optimization", True):
        raise Mistake(f"{type(example).__name__} optimizes by hand, which no job can express; {OWN_LOOP}.")
    if not callable(getattr(example, "training_step", None)) or not hasattr(example, "configure_optimizers"):
        raise Mistake(
            f"{type(example).__name__} is no Lightning module: it has no training_step and configure_optimizers."
        )
    refuse_hooks(example)
    return Job(
        model=(lambda: without_trainer(called(module))) if is_factory(module) else without_trainer(copied(module)),
        dataset=lambda: lightning_loader(module, datamodule),
        optimizer=lightning_optimizer,
        optimizer_takes="model",
        training_step=_Training(),
        batch=batch,
        clip_norm=clip_norm,
        name=name,
        module=calling_module(),
    )


def without_trainer(module: Any) -> Any:
    """The module, set up as a Trainer does before it trains; its logging does nothing, since no trainer takes it."""
    prepare(module)
    if callable(getattr(module, "configure_model", None)):
        with asking_no_trainer(module, "configure_model"):
            module.configure_model()
    for log in ("log", "log_dict"):
        if hasattr(module, log):
            setattr(module, log, _nothing)
    return module


def prepare(source: Any) -> None:
    """Has a module or a data module prepare its data and set itself up for training."""
    for hook, given in (("prepare_data", ()), ("setup", ("fit",))):
        if callable(getattr(source, hook, None)):
            with asking_no_trainer(source, hook):
                getattr(source, hook)(*given)


@contextmanager
def asking_no_trainer(source: Any, hook: str) -> Iterator[None]:
    """Within the block a hook of a module runs; raises Mistake where it asks for the Trainer."""
    try:
        yield
    except RuntimeError as error:
        if "attached to a `Trainer`" not in str(error):
            raise
        raise Mistake(
            f"{hook} of {type(source).__name__} asks for self.trainer, which no job has; let it take what it needs, "
            "such as the number of steps, from arguments of the module."
        ) from error


def _nothing(*_given: Any, **_named: Any) -> None:
    """Takes what is logged."""


# Hooks of Lightning that no job calls: those that act before the first step, those that change batches or an update,
# and those that see them go by.
OF_STARTS = ("on_fit_start", "on_train_start", "on_train_epoch_start")
OF_BATCHES = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
OF_UPDATES = ("backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping")
OF_STEPS = (
    *("on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward"),
    *("on_before_optimizer_step", "on_train_batch_end"),
)


def refuse_hooks(source: Any) -> None:
    """Raises Mistake where hooks of a module or a data module change batches or updates.

    Warns of its hooks that Lightning calls before the first step, and of others that it calls in every step.
    """
    kind = type(source).__name__
    for hook in _own_hooks(source, OF_BATCHES):
        raise Mistake(
            f"{kind} has its own {hook}, which a job would leave out; move what it does to the start of "
            "training_step, or into the collate function."
        )
    for hook in _own_hooks(source, OF_UPDATES):
        raise Mistake(f"{kind} has its own {hook}, which a job would leave out; {OWN_LOOP}.")
    if left_out := _own_hooks(source, OF_STEPS):
        warnings.warn(f"{kind}: what {', '.join(left_out)} does in a step is not measured", stacklevel=3)
    if left_out := _own_hooks(source, OF_STARTS):
        words = "is not called; what it does to the model (freezing, new layers) belongs into `__init__` or `setup`"
        warnings.warn(f"{kind}: {', '.join(left_out)} {words}", stacklevel=3)


def _own_hooks(source: Any, hooks: tuple[str, ...]) -> list[str]:
    kinds = {hook: next((one for one in type(source).__mro__ if hook in vars(one)), None) for hook in hooks}
    lightning = {"lightning", "pytorch_lightning"}
    return [hook for hook, kind in kinds.items() if kind and kind.__module__.partition(".")[0] not in lightning]


class _Training:
    """A module's loss of a batch."""

    sends_ahead = True  # Lightning waits for no batch on its way to a GPU

    def __call__(self, module: Any, batch: Any, batch_idx: int = 0) -> Any:
        import inspect

        wanted = len(inspect.signature(module.training_step).parameters)
        found = module.training_step(batch, batch_idx) if wanted > 1 else module.training_step(batch)
        return found["loss"] if isinstance(found, Mapping) else found


def lightning_optimizer(module: Any) -> torch.optim.Optimizer:
    """The one optimizer of a module; its schedule is left out."""
    with asking_no_trainer(module, "configure_optimizers"):
        found = module.configure_optimizers()
    if isinstance(found, Mapping):
        found = found["optimizer"]
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], (list, tuple)):
        found = found[0]
    if isinstance(found, (list, tuple)):
        if len(found) != 1:
            raise Mistake(f"{type(module).__name__} has {len(found)} optimizers, which no job can express; {OWN_LOOP}.")
        found = found[0]
    return found  # type: ignore[no-any-return]


def lightning_loader(module: Any, datamodule: Any) -> DataLoader[Any]:
    """The loader that trains."""
    if isinstance(datamodule, DataLoader):
        return datamodule
    source = datamodule if datamodule is not None else module
    source = called(source) if is_factory(source) else source
    refuse_hooks(source)
    prepare(source)
    if not callable(getattr(source, "train_dataloader", None)):
        raise Mistake(f"{type(source).__name__} has no train_dataloader; give a data module, or the loader itself.")
    loader = source.train_dataloader()
    if not isinstance(loader, DataLoader):
        raise Mistake(f"train_dataloader gives a {type(loader).__name__}; a job needs one DataLoader.")
    return loader


STEPS_OF_TRAINERS = "training_step", "_prepare_inputs"  # what a Trainer does for a batch, beside compute_loss


def from_huggingface(trainer: Any, *, batch: int | None = None, name: str | None = None) -> Job:
    """A job of a Hugging Face Trainer, or of a function that makes one: its model, loss, optimizer and collator.

    Its schedule and its callbacks are left out; `original` has the precision that its arguments ask for, and their
    `torch_compile`. The loss is read in every step where the Trainer does (`logging_nan_inf_filter`, on unless it is
    told otherwise). Raises Mistake where it has no training set or a step of its own, and where it adds up gradients,
    checkpoints activations, adds noise to embeddings or trains with DeepSpeed.
    """
    example = called(trainer) if is_factory(trainer) else trainer
    if getattr(example, "train_dataset", None) is None:
        raise Mistake("The Trainer has no train_dataset; give it one, since training is what is measured.")
    refuse_arguments(example.args)
    kinds = {name: next(one for one in type(example).__mro__ if name in vars(one)) for name in STEPS_OF_TRAINERS}
    if own := [name for name, kind in kinds.items() if kind.__module__.partition(".")[0] != "transformers"]:
        raise Mistake(
            f"{type(example).__name__} has a {own[0]} of its own, which a job does not call; put "
            "`for batch in speedmatrix.watch(loader):` into the loop, or give speedmatrix.job(training_step=...)."
        )
    to_host_in_arms(example.model)
    return Job(
        model=example.model if not is_factory(trainer) else lambda: called(trainer).model,
        dataset=example.get_train_dataloader,
        optimizer=_Optimizing(example),
        optimizer_takes="model",
        training_step=_Computing(example),
        batch=batch or example.args.per_device_train_batch_size,
        clip_norm=example.args.max_grad_norm or None,
        name=name,
        module=calling_module(),
    )


def refuse_arguments(args: Any) -> None:
    """Raises Mistake where a Trainer's arguments change what it does in a loop of its own."""
    if (parts := args.gradient_accumulation_steps) > 1:
        raise Mistake(
            f"The Trainer adds up the gradients of {parts} batches, which a job does not; give it "
            "gradient_accumulation_steps=1, and tune that with "
            f"`--batch {parts * args.per_device_train_batch_size} --reference gradient_accumulation={parts}`."
        )
    if any(getattr(args, f"{kind}_checkpointing", None) for kind in ("gradient", "activation")):
        raise Mistake(
            "The Trainer switches checkpointing on when it trains, which a job does not see; switch it on in the model "
            "(model.gradient_checkpointing_enable()) and leave it out of the TrainingArguments."
        )
    if found := next((one for one in ("deepspeed", "neftune_noise_alpha") if getattr(args, one, None)), None):
        raise Mistake(
            f"The Trainer follows {found} when it trains, which a job does not; leave it out of the TrainingArguments, "
            "and what is measured is the training without it."
        )


class _Computing:
    """The Trainer's loss of a batch."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.leaves_loss = not trainer.args.logging_nan_inf_filter  # on the device, until it is logged
        mode = trainer.args.torch_compile_mode
        compiled = f"compile={mode}" if mode in {"reduce-overhead", "max-autotune"} else "compile"
        has = {
            "amp_bfloat16": trainer.args.bf16,
            "amp_float16": trainer.args.fp16,
            compiled: trainer.args.torch_compile,
        }
        self.has = tuple(name for name, is_on in has.items() if is_on)

    def __call__(self, model: Any, batch: Any) -> Any:
        return self.trainer.compute_loss(model, dict(batch))


class _Optimizing:
    """The Trainer's optimizer for another copy of its model."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def __call__(self, model: Any) -> torch.optim.Optimizer:
        from copy import copy

        if (given := self.trainer.optimizer) is not None:  # accelerate wraps it in a training
            return of_copy(getattr(given, "optimizer", given), self.trainer.model, model)
        trainer = copy(self.trainer)
        trainer.model = model
        found: torch.optim.Optimizer = trainer.create_optimizer()
        return found


def from_loop(step: Callable[..., Any], loader: Any, *, batch: int | None = None, name: str | None = None) -> Job:
    """A job of a loop's own step: a function of a batch, or one without parameters that makes such a function.

    What feeds the step and what surrounds it can be measured; what happens inside it cannot be changed. A look at the
    job takes two steps: in a process of their own, but here where there is a GPU, and there they train what the step
    trains outside of itself. Raises Mistake for what is no step and no loader.
    """
    if not callable(step):
        raise Mistake(f"The step is a {type(step).__name__}; give a function that takes a batch and trains on it.")
    if not isinstance(loader, DataLoader) and not is_factory(loader) and batch is None:
        raise Mistake(f"A {type(loader).__name__} does not say how large a batch is; give a DataLoader, or batch=.")
    return Job(dataset=loader, loop=step, batch=batch, name=name, module=calling_module())
