"""The parts of a job: model, loss and optimizer built anew for each arm, in the form that the step takes."""

import copy
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.own_file import TOLD, strangers
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built, Evaluation, Parts, Size
from harness.own.items import (
    Indexed,
    Items,
    Kept,
    Shape,
    Source,
    batch_of,
    called,
    drawn_from,
    fetches_batches,
    first_line,
    is_factory,
    leaves_of,
    shape_of,
    source_of,
)

if TYPE_CHECKING:
    from harness.own.job import Job


def check_own(file: Path) -> None:
    """Raises Mistake where modules of this process belong to another version of a file than the one that it ran."""
    if found := strangers(file):
        raise Mistake(
            f"{file.name} in {file.parent} imports {found[0]}, which is of another version; let the file find it from "
            "where it lies itself (sys.path, or a module beside it), commit that, or install it in editable mode."
        )


# The network: the user's model and loss as the step calls them.


class Called(nn.Module):
    """A loss that is a function."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, outputs: Any, targets: Any) -> Any:
        """The function's value."""
        return self.function(outputs, targets)


class Stepping(nn.Module):
    """A model whose call is the user's whole forward pass: a batch as the data set gives it, to the loss."""

    def __init__(self, inner: Any, training_step: Callable[..., Any], shape: Shape) -> None:
        super().__init__()
        self.inner, self.training_step, self.shape, self.count = inner, training_step, shape, shape.tensors

    def forward(self, inputs: tuple[Any, ...]) -> Any:
        """The loss of a batch of tensors, behind which its number lies if the step asks for that."""
        tensors, number = inputs[: self.count], inputs[self.count :]
        found = self.training_step(self.inner, batch_of(tensors, self.shape), *number)
        return found["loss"] if isinstance(found, Mapping) else found


class Given(nn.Module):
    """The loss of a model that gives the loss itself."""

    def forward(self, value: Any, _targets: Any) -> Any:
        """The value."""
        return value


class Looping(nn.Module):
    """A user's whole step as a model; the one weight of its own changes nothing and has a gradient."""

    def __init__(self, step: Callable[[Any], Any], shape: Shape) -> None:
        super().__init__()
        self.step, self.shape = step, shape
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """The sum of the losses that the step returned, one number each; zero where it returns none.

        Nothing here waits for the device: numbers of the host go along with a kernel.
        """
        with torch.enable_grad():  # the step trains, even where an arm only looks at its layers
            found = self.step(batch_of(tensors, self.shape))
        value: Tensor = 0.0 * self.weight
        for one in leaves_of(found):
            if isinstance(one, Tensor) and one.numel() == 1:
                number = one.detach().reshape(())
                value = value + (number.to(value.device) if number.is_cuda else number)
            elif isinstance(one, Real):
                value = value + float(one)
        return value


def refuse_maker(returned: Any) -> None:
    """Raises Mistake where a step returned what would train, such as another step, and trained nothing itself."""
    if is_factory(returned) or inspect.isgenerator(returned):
        raise Mistake(
            f"The step returned a {type(returned).__name__} and trained nothing; give a function that trains on a "
            "batch, or one without parameters that makes such a function, as lambda: make(...)."
        )


def as_pair(tensors: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """A batch that is no pair, as inputs without targets."""
    return tensors, None


class Numbered:
    """The same with the batch's number in its epoch behind the tensors, counted outside what may be compiled."""

    def __init__(self, steps: int) -> None:
        self.steps, self.count = steps, 0

    def __call__(self, tensors: tuple[Tensor, ...]) -> tuple[Any, Any]:
        """The batch and its number as inputs without targets."""
        number, self.count = self.count % self.steps, self.count + 1
        return (*tensors, number), None


class OnHost:
    """The same for batches that the user's own loop moves, whose losses it reads or not."""

    own_loop = True

    def __init__(self, count: int) -> None:
        self.on_host = tuple(range(count))

    def __call__(self, tensors: tuple[Tensor, ...]) -> tuple[Any, Any]:
        """The batch as inputs without targets."""
        return tensors, None


def fresh_model(given: Any) -> tuple[nn.Module, int | None]:
    """A model from the present seed, and how many weights of a copy were drawn anew; None where all of it was made.

    An object is copied, and its layers draw their weights anew where they can (`reset_parameters`). So is what a
    function gives at every call, which would otherwise go on with the weights that an arm or a look has trained.
    """
    original = given
    if is_factory(given):
        with _undrawn():
            before = _checked(called(given))
        original = called(given)
        if not set(map(id, before.parameters())) & set(map(id, original.parameters())):
            return original, None
    to_host_in_arms(_checked(original))
    model, drawn = copied(original), 0
    for layer in model.modules():
        reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
        if callable(reset) and any(True for _ in layer.parameters(recurse=False)):
            reset()
            drawn += sum(one.numel() for one in layer.parameters(recurse=False))
    return model, drawn


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model; raises Mistake where none can be made."""
    try:
        return copy.deepcopy(model)
    except Exception as error:
        name = type(model).__name__
        raise Mistake(
            f"The model cannot be copied for each arm ({type(error).__name__}: {first_line(error)}); give what makes "
            f"it in its place: {name}, or lambda: {name}(...)."
        ) from error


def to_host_in_arms(model: nn.Module) -> None:
    """Moves a model of the user's, which an arm has a copy of, off the GPU: the weights would lie there twice."""
    if TOLD in os.environ:
        model.cpu()


def _checked(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise Mistake(f"The model is of the type {type(model).__name__}; give a torch.nn.Module or what makes one.")
    return model


@contextmanager
def _undrawn() -> Iterator[None]:
    """Random numbers, those of GPUs too, go on afterwards as before the block."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with drawn_from(0), torch.random.fork_rng(gpus):
        yield


def fresh_loss(given: Any) -> nn.Module:
    """A loss as a module of its own."""
    if isinstance(given, type):
        made = called(given)
        return made if isinstance(made, nn.Module) else Called(made)
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    if not callable(given):
        raise Mistake(
            f"The loss is of the type {type(given).__name__}; give a module or a function of outputs and targets."
        )
    return Called(given)


# The optimizer: the user's, with the kernel that a recipe asks for.


def with_kernel(found: torch.optim.Optimizer, kernel: Mapping[str, bool]) -> torch.optim.Optimizer:
    """The same optimizer made again with the keywords of a kernel, as far as its kind takes them."""
    known = inspect.signature(type(found).__init__).parameters
    accepted: dict[str, Any] = {name: value for name, value in kernel.items() if name in known}
    if not accepted:
        return found
    defaults = {name: value for name, value in found.defaults.items() if name in known and name not in kernel}
    groups = [{name: one for name, one in group.items() if name not in kernel} for group in found.param_groups]
    return type(found)(groups, **defaults, **accepted)


def kernel_of(found: torch.optim.Optimizer) -> dict[str, Any]:
    """What an optimizer says of its kernel: one value, or several where its groups differ."""
    said = {name: [group.get(name) for group in found.param_groups] for name in ("foreach", "fused")}
    return {name: found[0] if found.count(found[0]) == len(found) else found for name, found in said.items()}


KERNELS = frozenset({"foreach", "fused"})  # keywords of PyTorch's optimizers, of which some take one alone


def kernels_of(found: torch.optim.Optimizer) -> frozenset[str]:
    """The kernels that an optimizer takes."""
    return KERNELS.intersection(inspect.signature(type(found).__init__).parameters)


def loops_by_itself(found: torch.optim.Optimizer) -> bool:
    """Whether an optimizer goes through the tensors one by one on CUDA too where nothing is said: Adafactor does."""
    return isinstance(found, getattr(torch.optim, "Adafactor", ()))  # since torch 2.5


def of_copy(given: torch.optim.Optimizer, original: nn.Module, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of one model for a copy of it; raises Mistake where it trains other parameters."""
    names = {id(parameter): name for name, parameter in original.named_parameters()}
    copies, groups = dict(model.named_parameters()), []
    for group in given.param_groups:
        if any(id(one) not in names for one in group["params"]):
            raise Mistake(
                f"The optimizer {type(given).__name__} trains parameters that are not the model's; make both from one "
                "model, or give optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)."
            )
        groups.append({**group, "params": [copies[names[id(one)]] for one in group["params"]]})
    known = inspect.signature(type(given).__init__).parameters
    return type(given)(groups, **{name: value for name, value in given.defaults.items() if name in known})


@dataclass(slots=True)
class Builder:
    """Builds the parts of one job in one process; several times, where first losses are looked at once more."""

    job: "Job"
    others: "Mapping[str, Job]"  # by the name of the option that puts them in this one's place
    file: Path | None
    versions: Mapping[str, bool] = field(default_factory=dict)  # by the name of the option that asks for another one
    built_from: "Job | None" = None
    asked: Mapping[str, Any] = field(default_factory=dict)  # the options of the user that its recipe has
    model: nn.Module | None = None
    kernel: dict[str, Any] = field(default_factory=dict)  # of the optimizer that was built last, as the job says it
    _shapes: dict[int, Shape] = field(default_factory=dict)

    def parts(self) -> Parts:
        """The callables that the harness trains with."""
        return Parts(
            model=self._model,
            loss=self._loss,
            optimizer=self._optimizer,
            dataset=self._dataset,
            effective=self._effective,
            device_stage=self._device_stage,
            clip_norm=self.job.clip_norm,
            evaluate=self._evaluate,
        )

    def changed(self, recipe: Recipe) -> "Job":
        """The job with what a recipe's options of the user make of it."""
        own, job = dict(recipe.own), self.job
        for option in self.job.options:
            if own.get(option.name):
                job = option.change(job)
        for name, other in self.others.items():
            if own.get(name):
                job = other
        return job

    def _shape(self, job: "Job", source: Source | None = None) -> Shape:
        if id(job) not in self._shapes:
            self._shapes[id(job)] = shape_of(job, source)
        return self._shapes[id(job)]

    def _model(self, _size: Size, recipe: Recipe) -> nn.Module:
        self.built_from, self.asked = (job := self.changed(recipe)), dict(recipe.own)
        if job.loop is not None:
            self.model = None
            return Looping(job.fresh_step(), self._shape(job))
        self.model, *_ = fresh_model(job.model)
        step = job.training_step
        return self.model if step is None else Stepping(self.model, step, self._shape(job))

    def _loss(self, _size: Size, recipe: Recipe) -> nn.Module:
        job = self.changed(recipe)
        return Given() if job.loop is not None or job.training_step is not None else fresh_loss(job.loss)

    def _optimizer(self, parameters: list[nn.Parameter], kernel: Mapping[str, Any]) -> torch.optim.Optimizer:
        job = self.built_from or self.job
        if job.loop is not None:
            return torch.optim.SGD(parameters, lr=1.0, **kernel)  # of a weight whose gradient is zero
        assert self.model is not None  # noqa: S101  the harness builds the model first
        found = optimizer_of(job, self.model, parameters)
        for group in found.param_groups:
            if "initial_lr" in group:  # a schedule was made for it, and one that warms up begins at zero
                group["lr"] = group["initial_lr"]
        self.kernel = kernel_of(found)
        return with_kernel(found, kernel)

    def _dataset(self, _folder: Path, size: Size, recipe: Recipe) -> Dataset[Any]:
        job = self.changed(recipe)
        source, count = source_of(job), size.samples
        dataset, shape = (
            source.dataset,
            self._shape(job, source),
        )  # of one call of the user's factory, which may take long
        if count > len(dataset):
            raise Mistake(
                f"The data set has {len(dataset)} items, and an epoch here takes {count}; give every job and option of "
                "a comparison as many items, or take a smaller batch."
            )
        seeded, whole = size.seeded_items, size.whole_batches and fetches_batches(dataset)
        kind = Indexed if recipe.batched_fetch or (whole and not recipe.in_memory_data) else Items
        first = size.all_items and len(dataset) <= size.shape.get("items", len(dataset))
        how: dict[str, Any] = {"seeded": seeded, "file": self.file}
        how |= {"draw": size.draw or 0, "in_order": size.in_order, "first": first}
        if recipe.in_memory_data:
            return kind(Kept.of(Items(dataset, count, shape, **how)), count, shape, **how)
        if kind is Items and first and shape.pair and not seeded and self._is_plain(dataset, recipe):
            return dataset  # type: ignore[no-any-return]
        return kind(dataset, count, shape, **how)

    def _is_plain(self, dataset: Any, recipe: Recipe) -> bool:
        """Whether the user's data set may stand in the loader as it is, without a call of ours around each item."""
        usual = not fetches_batches(dataset) and not getattr(dataset, "collated", False)
        return usual and recipe.start_method == "fork"

    def _device_stage(self, _folder: Path, size: Size, recipe: Recipe, _device: torch.device) -> Any:
        job = self.changed(recipe)
        if job.loop is not None:
            return OnHost(self._shape(job).tensors)
        if job.training_step is None:
            return None
        asks = "batch_idx" in inspect.signature(job.training_step).parameters
        return Numbered(size.original_epoch_steps) if asks else as_pair

    def _evaluate(
        self, model: nn.Module, _folder: Path, _size: Size, recipe: Recipe, _device: torch.device
    ) -> Evaluation:
        """The user's own score of the model, whose items nobody counts; raises Mistake for what is no number."""
        score = self.changed(recipe).score or self.job.score
        assert score is not None  # noqa: S101  evaluations are asked of jobs with a score alone
        with torch.no_grad():
            found = score(model.inner if isinstance(model, Stepping) else model)
        try:
            return Evaluation(items=0, score=float(found))
        except (TypeError, ValueError) as error:
            raise Mistake(f"The job's score gave a {type(found).__name__}; let it return one number.") from error

    def _effective(self, built: Built) -> dict[str, Value]:
        job = self.built_from or self.job
        shown: dict[str, Value] = {
            "in_memory_data": isinstance(getattr(built.dataset, "dataset", None), Kept),
            "batched_fetch": isinstance(built.dataset, Indexed),
        }
        model = built.model.inner if isinstance(built.model, Stepping) else built.model
        seen = Built(dataset=built.dataset, model=model, loss=built.loss, device_stage=None, batch=built.batch)
        shown |= {one.name: _is_active(one, seen, asked=bool(self.asked.get(one.name))) for one in self.job.options}
        if self.versions and self.file is not None:
            check_own(self.file)
        return shown | dict(self.versions) | {name: job is other for name, other in self.others.items()}


def _is_active(option: Any, seen: Built, *, asked: bool) -> bool:
    """Whether a user's option took effect: of an arm without it, what its test cannot look at has not."""
    try:
        return bool(option.active(seen))
    except Exception:
        if asked:
            raise
        return False


def optimizer_of(job: "Job", model: nn.Module, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The job's optimizer for a fresh model; raises Mistake for whatever is none."""
    given = job.optimizer
    if type(given).__module__.startswith("accelerate."):  # of `accelerator.prepare`, around the one that was given
        given = given.optimizer
    if isinstance(given, torch.optim.Optimizer):
        if is_factory(job.model):
            raise Mistake(
                "The optimizer was made for another model than the one that your factory makes; give "
                f"optimizer=lambda parameters: torch.optim.{type(given).__name__}(parameters, ...)."
            )
        return of_copy(given, job.model, model)
    if isinstance(given, (list, tuple)):
        raise Mistake(
            f"{len(given)} optimizers make a step of your own, which no job can express; measure what feeds it with "
            "speedmatrix.from_loop(step, loader), or put `for batch in speedmatrix.watch(loader):` into your loop."
        )
    if not callable(given):
        raise Mistake(
            f"The optimizer is of the type {type(given).__name__}; give torch.optim.SGD(model.parameters(), lr=0.1) or "
            "lambda parameters: torch.optim.SGD(parameters, lr=0.1)."
        )
    found = given(model) if job.optimizer_takes == "model" else given(parameters)
    if not isinstance(found, torch.optim.Optimizer):
        raise Mistake(f"The optimizer's factory made a {type(found).__name__}; let it return a torch.optim.Optimizer.")
    own = {id(one) for one in parameters}
    if any(id(one) not in own for group in found.param_groups for one in group["params"]):
        raise Mistake(
            "The optimizer trains parameters that are not the model's; use the ones that its factory is given: "
            "optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)."
        )
    return found
