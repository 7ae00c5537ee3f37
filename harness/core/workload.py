"""Workloads: reference training systems, as facts that need no torch and parts that do."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.recipe import Recipe, Value

# Services: servers that arms talk to, such as an object store, started on loopback for as long as they are needed.

ADDRESS = "SPEEDMATRIX_SERVICE"  # the environment variable in which an arm finds http://host:port


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A server over a workload's data folder."""

    title: str
    missing: Callable[[], str | None]  # why it cannot start here and the remedy, or None where it can
    command: Callable[[Path, int], tuple[str, ...]]  # data folder and port -> the command that serves until it is ended
    wanted: Callable[[Recipe], bool]  # whether an arm with this recipe talks to it


# Yardsticks: what the files of the real system weigh and cost to read, against which stand-ins are held.


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """One kind of file of a workload, read or prepared as the real system does it.

    Costs on different machines cannot be compared. So the same work is also done, on the same machine, on a file of
    the real system's own type and size whose content is neutral; `published_ms` is shown beside both.
    """

    what: str  # "an utterance of 8 s, read whole"
    mean_bytes: float  # of our files
    target_bytes: float  # of the real system's
    work: Callable[[], object]  # on one of our files, or on several in turn
    like: Callable[[], object] | None = None  # the same on a neutral file of the real size
    published_ms: float | None = None  # what was measured for the real system on another machine
    units: int = 1  # that one call of `work`, and one of `like`, handles in turn
    scale: float = 1.0  # the share of the real unit that `mean_bytes` and one call of `work` are, where that is less


if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler
    from torch.utils.data import Dataset

    DeviceStage = Callable[[Any], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How big one measurement of a workload is."""

    batch: int  # samples per optimizer step
    epoch_steps: int  # length of a timed epoch: after so many steps the same samples come round again
    evaluation_items: int
    data_bytes: int  # on disk, for the free-space check
    # The workload's own numbers: files, speakers, classes; `items`: all that the data set has, beyond a short epoch.
    shape: Mapping[str, int]
    original_epoch_steps: int  # in the real system, shown beside ours
    # For planning only, until arms were seen: about the seconds of a baseline step that loads on one core, and of them
    # what is not loading. Real sizes train on a GPU, beside which loading takes nearly all of a step. 0: nobody knows.
    step_s: float = 0.0
    compute_s: float = 0.0
    keeps_items: bool = False  # whether the data set keeps what it has read, so that windows may not hold that again
    seeded_items: bool = False  # whether each item is drawn from a seed of its own, as in every arm beside it
    whole_batches: bool = False  # whether batches are fetched whole wherever the user's data set can do so
    whole_samples: bool = True  # whether a sample costs its loader about what one of the real system costs
    passes: int = 1  # over the samples in a timed epoch; more where one batch holds all of them several times
    # Which items of a longer data set of the user's an epoch holds, others in each replicate; None: always the same.
    draw: int | None = 0
    all_items: bool = False  # whether the usual batch goes through all of them, so that every arm begins with the first
    in_order: bool = False  # whether samples come one after another, as the user's own loader takes them

    @property
    def samples(self) -> int:
        """Different samples in a timed epoch."""
        return self.batch * self.epoch_steps // self.passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What a fresh model must have learned at `quick`, so that a broken copy shows; of a user's job, what is better."""

    steps: int  # optimizer steps from the first weights
    better: Literal["less", "more"]
    chance: float | None = None  # the best score that can be had without looking at the input
    clear: float | None = None  # a score that is clearly better than chance
    epoch_steps: int | None = None  # where the timed epoch is too short to learn from
    batch: int | None = None  # where the timed batch is too small to learn from


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One pass over the evaluation set."""

    items: int
    score: float
    answers: tuple[float, ...] = ()  # what the model said of each item or trial, in the order of the set's own list
    scores: Mapping[str, float] = field(default_factory=dict)  # whatever else the real system reports, by its name
    effective: Mapping[str, Value] = field(default_factory=dict)  # what the pass showed of the workload's own choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What was built for one arm and fed with its first batch, for `effective` to look at."""

    dataset: "Dataset[Any]"
    model: "nn.Module"
    loss: "nn.Module"
    device_stage: "DeviceStage | None"
    batch: Any  # as the loader gave it, on the host


def no_evaluation(*_: object) -> Evaluation:
    """Only for workloads without the trait `evaluation`, whose evaluation nobody asks for."""
    raise Mistake("This workload has no evaluation; give its Parts an `evaluate` and the trait `evaluation`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What needs torch: the callables that the harness trains with.

    `prepare` writes real files into a folder and yields the share that is done, from 0 to 1. `dataset` gives a
    map-style dataset in an order that is already shuffled; an item depends on its index alone, so that any number of
    workers sees the same data. A batch is a tuple of tensors; without a device stage it is a pair (input, target).
    `device_stage` makes that pair out of a batch that has reached the device, or is None; parts of the batch whose
    numbers are in its attribute `on_host` stay on the host, where it may ask for their values. `model` and `loss` are
    built after a seed was set; the loss may have parameters. `optimizer` gets all parameters and the keywords that
    choose its kernel. `evaluate` runs one whole pass as the recipe says, with the model in evaluation mode. `effective`
    tells what the parts really do, from what it sees and never from the recipe.
    """

    model: Callable[[Size, Recipe], "nn.Module"]
    loss: Callable[[Size, Recipe], "nn.Module"]
    optimizer: Callable[[list["nn.Parameter"], Mapping[str, Any]], "torch.optim.Optimizer"]
    dataset: Callable[[Path, Size, Recipe], "Dataset[Any]"]
    prepare: Callable[[Path, Size], Iterator[float]] = lambda _folder, _size: iter((1.0,))
    evaluate: Callable[["nn.Module", Path, Size, Recipe, "torch.device"], Evaluation] = no_evaluation
    effective: Callable[[Built], Mapping[str, Value]] = lambda _built: {}
    device_stage: Callable[[Path, Size, Recipe, "torch.device"], "DeviceStage | None"] = lambda *_: None
    clip_norm: float | None = None  # of the whole gradient, before the optimizer's step
    average_decay: float | None = None  # of an exponential moving average of the weights
    yardsticks: Callable[[Path, Size], Iterable[Yardstick]] = lambda _folder, _size: ()
    # The learning rate's schedule over a training of so many steps, for `learn --schedule`; windows keep it constant.
    schedule: Callable[["Optimizer", int], "LRScheduler"] | None = None
    uneven_steps: int = 1  # after which model and loss have done the same work again, where a step alone has not
    # Choices of the recipe that an evaluation between two epochs has in place of those of the last evaluation.
    between_epochs: Mapping[str, Value] = field(default_factory=dict)


# What PyTorch has on where a script says nothing, with where that is known from. All five systems ran PyTorch 2.
PYTORCH_DEFAULTS: Mapping[str, str] = {
    "set_to_none": "PyTorch's default since 2.0",
    "foreach_optimizer": "PyTorch's default for parameters on CUDA since 2.0",
    "tf32_convolutions": "PyTorch's default (torch.backends.cudnn.allow_tf32)",
}
CLIPPING_DEFAULTS: Mapping[str, str] = {"foreach_clipping": "clip_grad_norm_'s default since 2.0, on CPUs too"}
DEFAULTS_OF_CUDA = frozenset({"foreach_optimizer", "tf32_convolutions"})
OF_LAUNCHES = frozenset({"foreach_optimizer"})  # of these, what an emulated device shows too


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A reference training system."""

    name: str
    title: str
    origin: str
    parameters: int
    traits: frozenset[str]
    sizes: Mapping[str, Size]
    parts: Callable[[], Parts]
    own: Mapping[str, Value] = field(default_factory=dict)  # its own choices, with the value of the real system
    original: Mapping[str, str] = field(default_factory=dict)  # what the real system had on -> where that is known from
    first_look: tuple[str, ...] = ()  # what is tried first where time is short: its cause, and what was promised most
    # That its report tries, at the size `standard`: samples of an update, or PARTSxSAMPLES whose gradients add up.
    batches: tuple[str, ...] = ()
    least_samples: int = 1  # in one forward pass: batch normalisation over single values needs two
    score: str = ""
    original_epochs: int | None = None  # of a whole training of the real system, where that is known
    original_evaluation_items: int | None = None  # of its evaluation set, likewise
    lesson: Lesson | None = None
    variants: Mapping[str, int] = field(default_factory=dict)  # other models that it can train: parameters by name
    # Of the baseline model with its loss, forward and backward, for one sample of a size: multiplications and additions
    # of its products and convolutions, as torch counts them. Empty where samples differ in shape.
    operations: Mapping[str, int] = field(default_factory=dict)
    service: Service | None = None
    # The facts of a real data set in its own layout, for a size; raises Mistake that says what is wrong with it.
    adopt: Callable[[Path, Size], Size] | None = None
    # Why so many samples cannot be taken in one pass under a recipe, in words; None where they can.
    unstackable: Callable[[Recipe, int], str | None] = lambda _recipe, _batch: None
    # Whether a recipe gives all samples one shape, where the trait `few_shapes` says that they have several.
    one_shape: Callable[[Recipe], bool] = lambda _recipe: False
    data_version: int = 1  # raised when `prepare` writes other files than before
    path: str | None = None  # a file outside the package, when the workload is the user's own
    reader: str | None = None  # the package without which none of its files can be written or read
    unread: str | None = None  # why they can be neither written nor read here, in words with the remedy
    # Where an option's arms take their code from in place of `path`: other versions of the user's own file.
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # of the user's own training, in words with a digest: other code is another plan
    seen: tuple[str, ...] = ()  # what was inferred of it, in lines
    # Choices of the recipe that this system's step or data cannot take -> why, as it stands where a result is missing.
    fixed: Mapping[str, str] = field(default_factory=dict)
    of_process: Mapping[str, str] = field(default_factory=dict)  # its own choices that a process makes once -> why
    optimizations: tuple[Optimization, ...] = ()  # that the user's file brings along

    def found_on(self, device: str) -> tuple[str, ...]:
        """What the real system had switched on, on such a device: PyTorch's defaults are not the same on all."""
        left_out = {"cuda": frozenset[str](), "cpu": DEFAULTS_OF_CUDA}.get(device, DEFAULTS_OF_CUDA - OF_LAUNCHES)
        found = self.original
        return tuple(name for name in found if name not in left_out or found[name] != PYTORCH_DEFAULTS[name])

    def under(self, recipe: Recipe, batch: int) -> "Workload":
        """The workload as needs judge it beside a recipe, which may give samples one shape, and a larger batch."""
        together = batch // (recipe.micro_batches * recipe.ranks)
        sizes = {name: replace(one, batch=max(one.batch, together)) for name, one in self.sizes.items()}
        return replace(self, sizes=sizes, traits=self.traits - ({"few_shapes"} if self.one_shape(recipe) else set()))

    def path_for(self, recipe: Recipe) -> str | None:
        """The file outside the package that an arm runs, which may be another version of it."""
        return next((path for name, path in self.elsewhere.items() if recipe.choice(name)), self.path)

    def at(self, size: str, batch: int) -> Size:
        """The facts of a size at another batch: as many samples in an epoch, in fewer or more steps; raises Mistake.

        Where that is no whole number of batches, and the data set has more items, an epoch takes some of those. A batch
        may hold all that there are a whole number of times.
        """
        usual = self.sizes[size]
        most = usual.samples
        items = max(most, usual.shape.get("items", most))
        whole = items - items % usual.batch
        if batch > items and batch % whole:
            raise Mistake(
                f"{self.name} at size {size} has {items} samples in an epoch; choose a batch of at most {items}."
            )
        steps = min(-(-most // batch), items // batch)
        return replace(usual, batch=batch, epoch_steps=max(1, steps), passes=batch // whole if batch > items else 1)


# What a fresh model has learned in so many steps, and what its evaluation is worth.


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What a profiler saw of some training steps, which it slows down itself."""

    step_s: float  # mean, on the host's clock
    waited: float  # share of that for the next batch
    # Name, calls a step, own seconds a step; where it is one, the device's.
    operators: tuple[tuple[str, int, float], ...]
    memory: dict[str, int]  # bytes by kind, whatever an allocator makes of them
    inactive: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """How a training spent a stretch of time, period by period."""

    period_s: float
    busy: tuple[float, ...]  # share of each period in which the device computed
    waiting: tuple[float, ...]  # share in which the training waited for a batch
    steps: int  # that ended in it
    inactive: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A score that a training is to reach, and after how many steps each it is looked at."""

    score: float
    better: Literal["less", "more"]
    every: int

    def is_met(self, score: float) -> bool:
        """Whether a score is as good."""
        return score <= self.score if self.better == "less" else score >= self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A training towards a goal: its evaluations, the last of which reached it unless the steps ran out before."""

    scores: tuple[tuple[int, float, float], ...]  # steps, seconds of training without evaluation, score
    reached: bool
    inactive: tuple[str, ...]
    # Seconds before those: building data set and model, and the first step beyond what it counts as in `scores`.
    start_s: float | None = field(default=None, metadata={"since": "0.3.0"})
    failed: str | None = field(default=None, metadata={"since": "0.3.0"})  # why it ended before its steps were taken
    # Whether it may have waited for less loading than a training does, so that the seconds are those of the same steps
    # taken again, without evaluations, in a process of their own.
    again: bool = field(default=False, metadata={"since": "0.3.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """A training whose learning rate grew with every step."""

    points: tuple[tuple[float, float], ...]  # rate, and the loss before the update that it made
    steps: int  # that were to be taken; fewer where the loss was beyond hope before
    own: float  # the system's learning rate
    inactive: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Losses of a training, and three evaluations of its model."""

    losses: tuple[float, ...]  # of every step
    evaluation: Evaluation  # as the configuration evaluates
    again: Evaluation  # the same once more
    original: Evaluation  # of the same model, in the slow way of the real system
    inactive: tuple[str, ...]
    train_s: float
