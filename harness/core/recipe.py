"""The recipe: every choice that an optimization may change, flat and frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Value = bool | int | float | str | None


class ImpossibleRecipe(ValueError):
    """A mixture of choices that no training run can live; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All choices of one training run, in the order in which the run lives them.

    `Recipe()` is `plain`: everything off and pinned. Where PyTorch's own default is on (TF32 in cuDNN convolutions,
    `set_to_none`, the `foreach` optimizer on CUDA), off here means that it is switched off explicitly.
    """

    # launch: settled before the process starts
    threads: int = 1  # the trainer's own; other cores are left to loader workers
    start_method: Literal["fork", "spawn", "forkserver"] = "fork"
    # backend: process-wide switches
    tf32: bool = False
    cudnn_benchmark: bool = False
    cudnn_deterministic: bool = False
    # feed: from storage to the device
    workers: int = 0
    prefetch_factor: int | None = None  # batches in flight for each worker; None is DataLoader's 2
    persistent_workers: bool = False
    pin_memory: bool = False
    non_blocking: bool = False
    batched_fetch: bool = False
    in_memory_data: bool = False
    # model
    channels_last: bool = False
    checkpointing: bool = False  # activations are computed again in the backward pass instead of kept
    compile: str | None = None  # a mode of torch.compile
    # optimizer
    optimizer_kernel: Literal["loop", "foreach", "fused"] = "loop"
    set_to_none: bool = False
    clip_kernel: Literal["loop", "foreach"] = "loop"
    average_kernel: Literal["loop", "foreach"] = "loop"  # of the moving average of the weights
    # step
    autocast: Literal["bfloat16", "float16"] | None = None
    gradient_scaling: bool = False  # the loss is scaled up for the backward pass, as float16 needs it
    micro_batches: int = 1  # gradient accumulation: samples per optimizer step stay the same
    deferred_metrics: bool = False
    # evaluation
    inference_mode: bool = False
    batched_evaluation: bool = False
    # the workload's own choices, sorted by name
    own: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if self.workers == 0 and self.persistent_workers:
            raise ImpossibleRecipe("persistent_workers needs loader workers: add workers=2")
        if self.workers == 0 and self.prefetch_factor is not None:
            raise ImpossibleRecipe("prefetch_factor needs loader workers: add workers=2")

    def choice(self, name: str) -> Value:
        """The workload's own choice of that name; raises KeyError if the workload declares none."""
        return dict(self.own)[name]

    @property
    def prefetched_batches(self) -> int:
        """How many batches the loader may hold ahead of the step."""
        return self.workers * (2 if self.prefetch_factor is None else self.prefetch_factor)


COMMON_FIELDS = frozenset(field.name for field in fields(Recipe)) - {"own"}


def patched(recipe: Recipe, settings: Mapping[str, Value]) -> Recipe:
    """The recipe with choices changed all at once, so that only the result must be possible."""
    common: dict[str, Any] = {name: value for name, value in settings.items() if name in COMMON_FIELDS}
    own = {name: value for name, value in settings.items() if name not in COMMON_FIELDS}
    return replace(recipe, **common, own=tuple(sorted({**dict(recipe.own), **own}.items())))


def as_mapping(recipe: Recipe) -> dict[str, Value]:
    """The choices by name, the workload's own after the common ones."""
    common = {name: getattr(recipe, name) for name in (field.name for field in fields(Recipe)) if name != "own"}
    return {**common, **dict(recipe.own)}


def difference(recipe: Recipe, reference: Recipe) -> dict[str, tuple[Value, Value]]:
    """What differs: name -> (value in the reference, value in the recipe)."""
    ours, theirs = as_mapping(recipe), as_mapping(reference)
    return {name: (theirs.get(name), value) for name, value in ours.items() if theirs.get(name) != value}
