"""Inference: what can be seen of a job by taking two small steps of it, and what that leaves unknown."""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psutil
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from harness import __version__
from harness.core.mistake import Mistake
from harness.core.own_file import PICKLED
from harness.core.recipe import Recipe
from harness.core.workload import PYTORCH_DEFAULTS, Size
from harness.measure.observed_step import Operators
from harness.measure.session import OVERWRITING, overwrite_inputs
from harness.own.items import (
    Items,
    Shape,
    Source,
    batch_of,
    bytes_of,
    collated,
    described,
    drawn_from,
    first_line,
    is_factory,
    leaves_of,
    shape_of,
    source_of,
)
from harness.own.parts import Builder, as_pair, fresh_model, kernels_of

if TYPE_CHECKING:
    from harness.own.job import Job

EPOCH_S = 1.0  # about the seconds of a timed epoch
FEWEST_STEPS, MOST_STEPS = 8, 512  # of one, where the data set has as many
LOOK_ITEMS, LOOK_S = 8, 0.3  # items that are read to see what one costs, at most for so long
LOOKED_S = 0.5  # of a step, up to which a whole batch is tried too
KEPT_SHARE, KEPT_S = 0.25, 20.0  # of the memory that is free, and seconds to read them: what may be kept in memory
READS_BACK = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")
MOST_FILES = 500  # beside a job's own, whose text is part of what it is


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was looked for: what was found, and what that means for the measurement."""

    what: str
    found: str
    means: str = ""


@dataclass(slots=True, kw_only=True)
class Facts:
    """What was seen of a job on one machine; plain data, kept until its code changes."""

    items: int
    batch: int
    epoch_steps: int
    steps: int  # of a whole epoch of the user's
    parameters: int
    step_s: float
    compute_s: float
    item_bytes: int
    seeded: bool
    least_samples: int = 1
    operations: int = 0
    traits: list[str] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)
    original: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def read_facts(text: str) -> Facts:
    """Facts from JSON."""
    data = json.loads(text)
    return Facts(**{**data, "notes": [Note(**one) for one in data["notes"]]})


def facts_text(facts: Facts) -> str:
    """Facts as JSON."""
    return json.dumps(asdict(facts), indent=1)


def digest_of(path: Path, words: str) -> str:
    """Eight digits for a job's file, the Python files beside it, and what else it depends on."""
    files = (
        [path] if path.suffix == PICKLED else [path, *sorted({*path.parent.glob("*.py"), *path.parent.glob("*/*.py")})]
    )
    digest = hashlib.sha256(f"{words} {torch.__version__} {__version__} {device_here()}".encode())
    for one in files[:MOST_FILES]:
        digest.update(one.read_bytes())
    return digest.hexdigest()[:8]


def device_here() -> torch.device:
    """Where a job is looked at: the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def look(job: "Job", file: Path | None, others: dict[str, "Job"]) -> Facts:
    """Takes steps of a job on a few samples and says what was seen; raises Mistake for what cannot be trained."""
    with _alone(), drawn_from(0):
        source = source_of(job)
        shape = shape_of(job, source)
        seen = Looking(job=job, source=source, shape=shape, file=file)
        facts = seen.facts()
        for name, other in others.items():
            _check_alike(name, Looking(job=other, source=source_of(other), shape=shape_of(other), file=file), facts)
        return facts


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, as arms have; afterwards as many as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(slots=True, kw_only=True)
class Looking:
    """One look at a job: every method tells one kind of facts and notes it."""

    job: "Job"
    source: Source
    shape: Shape
    file: Path | None
    repeats: bool = False  # whether an item is the same whenever it is read
    notes: list[Note] = field(default_factory=list)
    traits: set[str] = field(default_factory=set)
    fixed: dict[str, str] = field(default_factory=dict)

    def facts(self) -> Facts:
        """All of it."""
        batch, items = self._batch(), len(self.source.dataset)
        seeded = self._draws()
        item_s, item_bytes, examples = self._items(batch)
        step = Step(self)
        compute_s, one_batch_s = step.taken(examples, batch)
        step_s = compute_s + one_batch_s + item_s * batch
        steps = items // batch
        epoch_steps = min(steps, MOST_STEPS, max(FEWEST_STEPS, round(EPOCH_S / step_s)))
        self._keeps(items, epoch_steps * batch, item_s, item_bytes)
        self._sends()
        self.note("batch", f"{batch} of {items:,} items, {described(examples[0])}")
        if epoch_steps < steps:
            self.note("epoch", f"{epoch_steps} of {steps:,} steps, items taken from all over the data set")
        if not self.traits & {"evaluation"}:
            self.note("score", "none given", "quality is judged by first losses; options of evaluations are left out")
        return Facts(
            items=items, batch=batch, epoch_steps=epoch_steps, steps=steps, parameters=step.parameters, step_s=step_s,
            compute_s=compute_s, item_bytes=item_bytes, seeded=seeded, least_samples=step.least_samples,
            operations=step.operations, traits=sorted(self.traits), fixed=self.fixed, original=self._original(),
            notes=self.notes,
        )  # fmt: skip

    def note(self, what: str, found: str, means: str = "") -> None:
        """Takes note."""
        self.notes.append(Note(what, found, means))

    def _batch(self) -> int:
        batch, items = self.source.batch, len(self.source.dataset)
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise Mistake(f"The batch is {batch!r}; give batch= a number of samples, such as batch=64.")
        if batch > items:
            raise Mistake(f"A batch of {batch} is larger than the data set of {items} items; give a smaller batch=.")
        return batch

    def _draws(self) -> bool:
        """Whether items are drawn at random from what a seed reaches, so that each is to be drawn from its index."""
        if _alike(*(self._drawn(seed=None, before=before) for before in (1, 2))):
            self.repeats = True
            self.note("items", "the same whenever they are read")
            return False
        if _alike(*(self._drawn(seed=0, before=before) for before in (1, 2))):
            self.note("items", "drawn at random", "each draw is made to depend on the item's index, so that arms agree")
            return True
        self.note(
            "items", "drawn at random from a generator of their own",
            "losses of two arms differ by their draws; seed that generator by the index to have them compared",
        )  # fmt: skip
        return False

    def _drawn(self, seed: int | None, before: int) -> Any:
        with drawn_from(before):
            if seed is None:
                return self.source.dataset[0]
            with drawn_from(seed):
                return self.source.dataset[0]

    def _items(self, batch: int) -> tuple[float, int, list[Any]]:
        """Seconds and bytes of an item, and some of them."""
        count = min(max(LOOK_ITEMS, 2), batch, len(self.source.dataset))
        found, began = [], perf_counter()
        for place in range(count):
            found.append(self.source.dataset[place * (len(self.source.dataset) // count)])
            if perf_counter() - began > LOOK_S and place:
                break
        return (perf_counter() - began) / len(found), bytes_of(found[0]), found

    def _keeps(self, items: int, timed: int, item_s: float, item_bytes: int) -> None:
        """Whether the data set may be kept in memory, or be asked for many items at once."""
        dataset, free = self.source.dataset, psutil.virtual_memory().available
        if isinstance(dataset, TensorDataset):
            if self.shape.pair and self.shape.collate is None:
                self.traits.add("batched_fetch")
            self.note("memory", "its items are tensors in memory already", "one index can fetch a whole batch")
            return
        if not self.repeats:
            self.note(
                "memory", "items differ from epoch to epoch", "what is kept in memory would not: that is left out"
            )
        elif items * item_bytes < KEPT_SHARE * free and timed * item_s < KEPT_S:
            self.traits.add("in_memory_data")
            self.note(
                "memory", f"all items take about {items * item_bytes / 1e6:,.1f} MB",
                f"they may be kept in memory; reading them once takes about {items * item_s:.0f} s",
            )  # fmt: skip
            return
        else:
            told = f"all items take about {items * item_bytes / 1e9:,.1f} GB and {items * item_s:,.0f} s to read"
            self.note("memory", told, "they are not kept in memory")
        if hasattr(dataset, "__getitems__"):
            self.traits.add("batched_fetch")

    def _sends(self) -> None:
        """Whether the data set can be sent to a process that is no copy of the trainer."""
        sent = Items(self.source.dataset, 1, self.shape, seeded=False, file=self.file)
        try:
            pickle.Pickler(_Nowhere(), protocol=pickle.DEFAULT_PROTOCOL).dump(sent)
        except Exception as error:  # noqa: BLE001  whatever a user's class raises
            reason = f"the data set cannot be sent to a new process ({type(error).__name__}: {first_line(error)})"
            self.fixed["start_method"] = reason
            self.note("workers", reason, "workers are forked; write a function in place of a lambda to spawn them")

    def _original(self) -> dict[str, str]:
        """What the user has today: PyTorch's defaults, and what their loader says."""
        found = dict(PYTORCH_DEFAULTS)
        loader = self.source.loader
        if loader is not None and loader.num_workers:
            found[f"workers={loader.num_workers}"] = "your DataLoader"
            found |= {"persistent_workers": "your DataLoader"} if loader.persistent_workers else {}
        if loader is not None and loader.pin_memory:
            found["pin_memory"] = "your DataLoader"
        barred = [name for name in ("set_to_none", "foreach_optimizer") if _choice(name) in self.fixed]
        return {name: words for name, words in found.items() if name not in barred}


def _choice(name: str) -> str:
    return {"foreach_optimizer": "optimizer_kernel"}.get(name, name)


class _Nowhere:
    """Takes bytes and keeps none."""

    def write(self, data: bytes) -> int:
        """Throws them away."""
        return len(data)


def _alike(one: Any, other: Any) -> bool:
    ours, theirs = leaves_of(one), leaves_of(other)
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.shape == other.shape and bool(torch.equal(one, other))
    try:
        return bool((one == other).all()) if hasattr(one, "all") else bool(one == other)
    except (ValueError, AttributeError, RuntimeError):
        return False


# The step: model, loss and optimizer on a few samples.


LOOPS = (
    *("autocast", "gradient_scaling", "micro_batches", "compile", "cuda_graph", "channels_last", "channels_last_3d"),
    *("in_place_activations", "checkpointing", "optimizer_kernel", "set_to_none", "clip_kernel", "average_kernel"),
    *("update_in_backward", "learning_rate_rule", "batch_scale", "deferred_metrics", "device_prefetch", "non_blocking"),
    *("finite_check", "anomaly_detection", "loss_history", "keep_last_batch"),
)


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call, what it queued on a GPU included."""
    began = perf_counter()
    call()
    if device_here().type == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - began


def _times(one: Tensor, batch: int, samples: int) -> Tensor:
    """A tensor of a few samples repeated to a whole batch."""
    if not one.dim() or len(one) != samples:
        return one
    return one.repeat(-(-batch // samples), *([1] * (one.dim() - 1)))[:batch]


@dataclass(slots=True)
class Step:
    """Steps of a job, taken to see what it is made of."""

    seen: Looking
    parameters: int = 0
    least_samples: int = 1
    operations: int = 0

    def taken(self, items: list[Any], batch: int) -> tuple[float, float]:
        """Seconds of a step without its data, and of collating a batch."""
        job, shape = self.seen.job, self.seen.shape
        began = perf_counter()
        examples = collated(items, self.seen.source.collate)
        collate_s = (perf_counter() - began) / len(items) * batch
        tensors = tuple(one for one in leaves_of(examples) if isinstance(one, Tensor))
        if shape.collate is not None or not shape.pair:
            self.seen.fixed["collate"] = "the job makes its batches itself"
        if job.loop is not None:
            return self._looped(tensors, shape, len(items), batch), collate_s
        return self._trained(tensors, len(items), batch), collate_s

    def _looped(self, tensors: tuple[Tensor, ...], shape: Shape, samples: int, batch: int) -> float:
        words = "the loop makes its own step, so only what feeds it and its process can be measured"
        self.seen.fixed |= dict.fromkeys(LOOPS, words)
        self.seen.note("step", "the loop's own", f"{words}; its weights are not looked at")
        step = self.seen.job.fresh_step()
        times = []
        for _ in range(2):
            began = perf_counter()
            with _in_words("The loop's step fails"):
                step(batch_of(tensors, shape))
            times.append(perf_counter() - began)
        return min(times) / samples * batch

    def _trained(self, tensors: tuple[Tensor, ...], samples: int, batch: int) -> float:
        network = Network.of(self.seen.job, self.seen.shape, tensors)
        model = network.model
        self.parameters = sum(one.numel() for one in model.parameters())
        self._tell_draws()
        network.step()  # what is wrong with it is told here
        operators = Operators()
        with operators:
            network.loss(model(network.inputs), network.targets)
        self._tell_model(network, operators)
        self._tell_activations()
        self.operations = network.operations() // samples
        step_s = timed(network.step) / samples * batch
        if step_s > LOOKED_S or samples == batch:
            return step_s
        whole = Network.of(self.seen.job, self.seen.shape, tuple(_times(one, batch, samples) for one in tensors))
        try:
            whole.step()
        except Mistake:  # batches of this system are not simply longer
            return step_s
        return timed(whole.step)

    def _tell_draws(self) -> None:
        torch.manual_seed(0)
        _, drawn, count = fresh_model(self.seen.job.model)
        if is_factory(self.seen.job.model):
            self.seen.note("model", f"{count:,} parameters, made anew from a seed in every arm")
        elif drawn:
            self.seen.note(
                "model", f"{count:,} parameters, a copy in every arm; {drawn:,} of them drawn anew from a seed",
                "" if drawn == count else "the rest starts as it was given",
            )  # fmt: skip
        else:
            self.seen.note(
                "model", f"{count:,} parameters, as they were given",
                "no other seed can be tried, so losses that do not agree to the bit are not judged; give a factory",
            )  # fmt: skip

    def _tell_model(self, network: "Network", operators: Operators) -> None:
        seen, layers = self.seen, list(network.model.modules())
        kinds = {"convolutions": nn.Conv2d, "convolutions_3d": nn.Conv3d}
        found = {name for name, kind in kinds.items() if any(isinstance(one, kind) for one in layers)}
        seen.traits |= found
        if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in layers):  # noqa: SLF001
            self.least_samples = 2
        reads = sorted(operators.names & set(READS_BACK))
        if not reads and seen.shape.pair:
            seen.traits.add("capturable")
        if reads:
            seen.note("read-backs", f"the step asks for values of the device ({', '.join(reads)})", "no CUDA graph")
        if seen.job.clip_norm is not None:
            seen.traits.add("clipping")
        if not kernels_of(network.optimizer):
            seen.fixed["optimizer_kernel"] = "the optimizer takes neither foreach nor fused"
        told = ", ".join(one.replace("_", " ") for one in sorted(found)) or "no convolutions"
        seen.note("layers", told, "" if found else "channels_last is left out")

    def _tell_activations(self) -> None:
        """Whether activations may overwrite their input: both ways are tried, and losses and gradients compared."""
        seen = self.seen
        plain = Network.of(seen.job, seen.shape, self._tensors())
        able = [one for one in plain.model.modules() if isinstance(one, OVERWRITING) and not one.inplace]
        if not able:
            return
        other = Network.of(seen.job, seen.shape, self._tensors())
        overwrite_inputs(other.model)
        try:
            alike = plain.gradients() == other.gradients()
        except RuntimeError:
            alike = False
        if alike:
            seen.traits.add("relu")
        else:
            seen.note("activations", "their inputs are needed again", "in_place_activations is left out")

    def _tensors(self) -> tuple[Tensor, ...]:
        source = self.seen.source
        items = [source.dataset[place] for place in range(min(2, len(source.dataset)))]
        return tuple(one for one in leaves_of(collated(items, source.collate)) if isinstance(one, Tensor))


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """A failure of the user's code as a sentence; raises Mistake."""
    try:
        yield
    except Mistake:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {first_line(error)}"
        if "NVIDIA driver" in str(error) or "not compiled with CUDA" in str(error) or "No CUDA GPUs" in str(error):
            raise Mistake(
                f"{what}, since it asks for CUDA and this machine has no GPU; leave out .cuda() and .to('cuda'): each "
                "arm is sent to its device."
            ) from error
        raise Mistake(f"{what} on a batch of your data ({words}); put it right, then measure.") from error


@dataclass(slots=True)
class Network:
    """A fresh model with its loss and optimizer, and a batch of few samples on the device."""

    model: nn.Module
    loss: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: Any
    targets: Any

    @classmethod
    def of(cls, job: "Job", shape: Shape, tensors: tuple[Tensor, ...]) -> "Network":
        """Built from the seed 0."""
        builder = Builder(job=job, others={}, seeded=False, file=None)
        device, recipe = device_here(), Recipe(own=tuple((one.name, False) for one in job.options))
        size = Size(batch=1, epoch_steps=1, evaluation_items=0, data_bytes=0, shape={}, original_epoch_steps=1)
        torch.manual_seed(0)
        parts = builder.parts()
        with _in_words("The model cannot be built"):
            model = parts.model(size, recipe).to(device)
        loss = parts.loss(size, recipe).to(device)
        parameters = [*model.parameters(), *loss.parameters()]
        if not any(one.requires_grad for one in parameters):
            raise Mistake("The model has no parameter that could be trained; leave requires_grad on for some of them.")
        optimizer = parts.optimizer(parameters, {"foreach": False, "fused": False})
        model.train()
        moved = tuple(one.to(device) for one in tensors)
        inputs, targets = moved if shape.pair else as_pair(moved)
        return cls(model, loss, optimizer, inputs, targets)

    def value(self) -> Tensor:
        """The loss of the batch; raises Mistake where there is none that could be trained on."""
        with _in_words("The model fails"):
            outputs = self.model(self.inputs)
        with _in_words("The loss fails"):
            value = self.loss(outputs, self.targets)
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = f"a tensor of the shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise Mistake(f"The loss is {shape} and no single number; give one with reduction='mean'.")
        if not value.requires_grad:
            raise Mistake("The loss has no gradient; leave out detach(), item() and torch.no_grad() on the way to it.")
        if not bool(torch.isfinite(value.detach())):
            raise Mistake("The loss of the first batch is not a finite number; look at its inputs and weights.")
        return value

    def step(self) -> None:
        """One training step."""
        value = self.value()
        with _in_words("The backward pass fails"):
            value.backward()
        try:
            self.optimizer.step()
        except TypeError as error:
            raise Mistake(
                f"The optimizer {type(self.optimizer).__name__} wants a closure, which this step has not; give one "
                "whose step() needs none."
            ) from error
        self.optimizer.zero_grad()

    def gradients(self) -> list[bytes]:
        """The bits of the loss and of every gradient."""
        torch.manual_seed(1)
        value = self.value()
        value.backward()
        grads = [one.grad for one in self.model.parameters() if one.grad is not None]
        return [one.detach().cpu().float().numpy().tobytes() for one in (value, *grads)]

    def operations(self) -> int:
        """Multiplications and additions of products and convolutions, forward and backward; 0 where none are seen."""
        with FlopCounterMode(display=False) as counter:
            self.value().backward()
        self.optimizer.zero_grad()
        return int(counter.get_total_flops())


def _check_alike(name: str, other: Looking, facts: Facts) -> None:
    """Raises Mistake where another variant takes other batches, which no ratio of steps would compare."""
    theirs = other.facts()
    if theirs.batch != facts.batch:
        raise Mistake(
            f"{name} takes {theirs.batch} samples a step and the reference {facts.batch}; give both the same batch."
        )
