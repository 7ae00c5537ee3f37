"""The recipe: every choice that an optimization may change, flat and frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Value = bool | int | float | str | None


class ImpossibleRecipe(ValueError):
    """A mixture of choices that no training run can live; the message says why."""


# What no run can have beside a choice, each with the reason.
BARRED: Mapping[str, Mapping[str, str]] = {
    "cuda_graph": {
        "micro_batches": "one graph holds one pass over one batch",
        "keep_last_batch": "a graph reads batches of one shape",
        "gradient_scaling": "the scaler reads back whether a gradient overflowed",
        "anomaly_detection": "it reads back whether a gradient is a number",
        "finite_check": "it reads the loss back in the middle of the step",
        "checkpointing": "a capture that computes activations again was not tried",
        "nvtx": "the host no longer takes the parts of the step that it would mark",
        "update_in_backward": "its hooks keep parts of the backward pass alive that a capture has to make anew",
        "ranks": "a capture that holds collectives waits for every other process",
    },
    "added_delay": {
        "workers": "batches that are ready would hide it",
        "device_prefetch": "a batch that was sent ahead would hide it",
        "deferred_metrics": "a host that runs ahead of the device would hide it",
        "micro_batches": "it comes once a step, and every part of a batch would have its own",
        "cuda_graph": "a graph holds what its length was at the capture",
        "ranks": "the other processes would wait for it too",
    },
    "update_in_backward": {
        "micro_batches": "gradients of several passes have to add up before the update",
        "gradient_scaling": "whether a gradient overflowed is known when all of them are there",
    },
    "ranks": {
        "pinned_cores": "every process would be kept to the same core",
        "page_cache": "one process would drop what another has just read",
        "keep_last_batch": "half a batch cannot be taken in equal parts",
        "update_in_backward": "a weight would be updated before its gradient is reduced",
    },
    "sharded_weights": dict.fromkeys(
        (
            *("bucket_mb", "gradient_as_bucket_view", "static_graph", "find_unused_parameters"),
            *("buffers_not_broadcast", "gradient_reduction", "communication_hook", "sharded_optimizer"),
        ),
        "the second is a choice of DistributedDataParallel, which FSDP replaces",
    )
    | {
        "compile": "compiled models whose weights are shared out were not tried",
        "synchronized_batch_norm": "layers whose weights are shared out are not converted",
    },
}

AVERAGED_EVERY = 4  # steps between two averages of the weights, with post-local SGD
CAPTURING = frozenset({"reduce-overhead", "max-autotune"})  # modes of torch.compile that replay CUDA graphs

# What means nothing without loader workers.
OF_WORKERS = ("persistent_workers", "prefetch_factor", "worker_threads", "sharing_strategy", "batch_transport")


# What means nothing where one process trains alone.
OF_RANKS = (
    *("bucket_mb", "gradient_as_bucket_view", "static_graph", "find_unused_parameters", "buffers_not_broadcast"),
    *("gradient_reduction", "communication_hook", "sharded_optimizer", "sharded_weights"),
    *("synchronized_batch_norm", "nccl_algorithm", "nccl_protocol"),
)


# What is settled when a process begins, or stays in it when an arm is gone: an arm that chooses otherwise than the
# baseline needs a process of its own, for this reason.
OF_PROCESS: Mapping[str, str] = {
    "threads": "thread pools are made once and keep their size",
    "pinned_cores": "cores are given to all threads of a process",
    "malloc": "a process has one allocator",
    "expandable_segments": "a process has one caching allocator of the device, set up as it starts",
    "start_method": "servers that fork or spawn workers belong to a process",
    "sharing_strategy": "its server of shared memory belongs to a process",
    "compile": "compiled code, its guards and its limits are kept for a process",
    "cuda_graph": "a capture that fails spoils its process",
    # torch's cache of convolution plans is asked before the flag is, and its key does not hold the flag: whoever came
    # first would choose for all (aten/src/ATen/native/cudnn/Conv_v8.cpp, run_single_conv).
    "cudnn_benchmark": "what cuDNN has chosen for a convolution is kept for a process, whoever asked",
    "blocking_sync": "how a thread waits for the device is set up with its context",
    "ranks": "its other ranks are processes of its own",
    "evaluation_persistent_workers": "its evaluation's workers are stopped with the process, and would stay so",
    "empty_cache": "it takes away the device memory that other arms keep for their next step",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All choices of one training run, in the order in which the run lives them.

    `Recipe()` is `baseline`: everything off and pinned. Where PyTorch's own default is on (TF32 in cuDNN convolutions,
    `set_to_none`, the `foreach` optimizer on CUDA), off here means that it is switched off explicitly.
    """

    # launch: settled before the process starts
    threads: int = 1  # the trainer's own; other cores are left to loader workers
    worker_threads: int = 1  # of each loader worker
    pinned_cores: bool = False  # the trainer keeps one core to itself, its workers share the others
    malloc: Literal["glibc", "tuned", "jemalloc", "tcmalloc"] = "glibc"  # tuned is glibc's with other thresholds
    expandable_segments: bool = False  # of CUDA's caching allocator
    start_method: Literal["fork", "spawn", "forkserver"] = "fork"
    sharing_strategy: Literal["file_descriptor", "file_system"] = "file_descriptor"
    # backend: process-wide options
    matmul_precision: Literal["highest", "high", "medium"] = "highest"  # of float32 products
    tf32_convolutions: bool = False
    cudnn_benchmark: bool = False
    cudnn_deterministic: bool = False
    anomaly_detection: bool = False
    garbage_collector: Literal["automatic", "off", "every_step"] = "automatic"
    # feed: from storage to the device
    workers: int = 0
    prefetch_factor: int | None = None  # batches in flight for each worker; None is DataLoader's 2
    persistent_workers: bool = False
    pin_memory: bool = False
    non_blocking: bool = False
    batched_fetch: bool = False
    in_memory_data: bool = False
    keep_last_batch: bool = False  # an epoch ends in a batch that is smaller than the others
    collate: Literal["default", "direct"] = "default"
    batch_transport: Literal["shared_memory", "pickle"] = "shared_memory"  # from a worker to the trainer
    page_cache: Literal["warm", "cold"] = "warm"
    blocking_sync: bool = False  # a host that waits for the device gives its core away
    device_prefetch: bool = False  # the next batch travels on a stream of its own while the step runs
    # model
    channels_last: bool = False
    channels_last_3d: bool = False
    in_place_activations: bool = False
    checkpointing: bool = False  # activations are computed again in the backward pass instead of kept
    compile: str | None = None  # a mode of torch.compile, or `fullgraph` or `regional`
    cuda_graph: bool = False  # the whole step is captured once and replayed
    # ranks: processes that train together, each on its part of every batch
    ranks: int = 1
    bucket_mb: int | None = None  # of gradients that are reduced together; None is DDP's 25, its first one of 1
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    find_unused_parameters: bool = False
    buffers_not_broadcast: bool = False  # each rank keeps its own running statistics
    gradient_reduction: Literal["last_pass", "never"] | None = None  # None: in every backward pass
    communication_hook: Literal["bfloat16", "float16", "powersgd", "post_local_sgd"] | None = None
    sharded_optimizer: bool = False  # each rank updates its part of the weights and broadcasts it
    # FSDP: each rank holds a part of every weight; it is gathered for each pass, or once and kept for the backward one,
    # as it is or in bfloat16
    sharded_weights: Literal["each_pass", "kept", "bfloat16"] | None = None
    synchronized_batch_norm: bool = False  # statistics of all ranks' samples
    nccl_algorithm: Literal["Ring", "Tree"] | None = None  # None lets NCCL choose for each size
    nccl_protocol: Literal["Simple", "LL"] | None = None
    # optimizer
    optimizer_kernel: Literal["loop", "foreach", "fused"] = "loop"
    set_to_none: bool = False
    clip_kernel: Literal["loop", "foreach"] = "loop"
    average_kernel: Literal["loop", "foreach"] = "loop"  # of the moving average of the weights
    update_in_backward: bool = False  # each weight is updated as soon as its gradient is there
    learning_rate_rule: Literal["fixed", "linear"] = "fixed"  # linear: times `batch_scale`
    # step
    autocast: Literal["bfloat16", "float16"] | None = None
    gradient_scaling: bool = False  # the loss is scaled up for the backward pass, as float16 needs it
    micro_batches: int = 1  # gradient accumulation: samples per optimizer step stay the same
    batch_scale: int = 1  # how many of the usual batches this one stands for; the learning rate's rule reads it
    deferred_metrics: bool = False
    finite_check: bool = False  # the loss is tested for NaN in every step
    loss_history: Literal["growing", "preallocated"] | None = None  # a tensor of all losses so far
    monitoring_steps: int | None = None  # memory and utilisation are read every so many steps
    empty_cache: bool = False  # CUDA's cached memory is given back after every step
    nvtx: bool = False  # marks for a profiler around the parts of the step
    added_delay: Literal["loader", "host", "device"] | None = None  # a control: where a known delay makes steps longer
    delay_percent: int = 0  # of the step as it is without
    # evaluation
    evaluation_epochs: int | None = None  # the evaluation set is gone through after every so many epochs
    device_results: bool = False  # what the model says of each item is read back once, at the end
    inference_mode: bool = False
    batched_evaluation: bool = False
    evaluation_workers: int = 0  # of a loader of the evaluation's own
    evaluation_persistent_workers: bool = False
    evaluation_pin_memory: bool = False
    evaluation_non_blocking: bool = False
    evaluation_autocast: Literal["bfloat16", "float16"] | None = None
    # the workload's own choices, sorted by name
    own: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if self.workers == 0 and (idle := next(filter(self._differs, OF_WORKERS), None)):
            raise ImpossibleRecipe(f"{idle} needs loader workers: add workers=2")
        if self.evaluation_persistent_workers and not self.evaluation_workers:
            raise ImpossibleRecipe("evaluation_persistent_workers needs workers that stay: add evaluation_workers=2")
        if self.ranks == 1 and (idle := next(filter(self._differs, OF_RANKS), None)):
            raise ImpossibleRecipe(f"{idle} needs several processes that train together: add ranks=2")
        if self.gradient_reduction == "last_pass" and self.micro_batches == 1:
            raise ImpossibleRecipe("no_sync needs several passes for an update: add gradient_accumulation=2")
        if self.threads > 1 and self.worker_threads > 1 and self.start_method == "fork":
            # GNU's OpenMP waits for threads that a forked process does not have.
            raise ImpossibleRecipe("a worker forked from a trainer with several threads hangs in its own: spawn it")
        if self.keep_last_batch and self.micro_batches > 1:
            raise ImpossibleRecipe("half a batch cannot be taken in equal parts: keep_last_batch needs whole batches")
        if self.batch_scale == 1 and self.learning_rate_rule == "linear":
            raise ImpossibleRecipe("linear_learning_rate needs a larger batch: add batch_scale=2")
        if self.compile in CAPTURING:
            self._refuse_beside_captures()
        self._refuse_barred()
        if (self.added_delay is None) != (self.delay_percent == 0):
            raise ImpossibleRecipe("a delay needs a place and a length: added_delay and delay_percent go together")

    def _refuse_beside_captures(self) -> None:
        if self.cuda_graph:
            raise ImpossibleRecipe(f"cuda_graph excludes compile={self.compile}: it captures graphs of its own")
        if self.set_to_none and self.micro_batches > 1:
            raise ImpossibleRecipe(
                f"compile={self.compile} and gradient_accumulation exclude set_to_none: "
                "gradients of one micro-batch would lie in memory that the graphs of the next one overwrite"
            )

    def _differs(self, name: str) -> bool:
        """Whether a choice is another than the baseline's."""
        plain = next(field.default for field in fields(self) if field.name == name)
        return bool(getattr(self, name) != plain)

    def _refuse_barred(self) -> None:
        for choice, others in BARRED.items():
            for other, reason in others.items() if self._differs(choice) else ():
                if self._differs(other):
                    raise ImpossibleRecipe(f"{choice} and {other} cannot be together: {reason}")

    def choice(self, name: str) -> Value:
        """The workload's own choice of that name; raises KeyError if the workload declares none."""
        return dict(self.own)[name]

    @property
    def prefetched_batches(self) -> int:
        """How many batches the loader may hold ahead of the step."""
        return self.workers * (2 if self.prefetch_factor is None else self.prefetch_factor)


def of_process(recipe: Recipe, baseline: Recipe, own: Mapping[str, str]) -> str | None:
    """Why an arm with this recipe needs a process of its own, in words; None where it may share one.

    `own` holds the workload's choices that a process makes once, with the reason, as `OF_PROCESS` does the common ones.
    """
    reasons = {**OF_PROCESS, **own}
    return next((f"{name}: {reasons[name]}" for name in difference(recipe, baseline) if name in reasons), None)


def in_turns(recipe: Recipe) -> bool:
    """Whether the host loads a batch, then trains on it, so that a step is the sum of its parts.

    Ranks wait for the slower one in every step, and a device may work while the host loads the next part of a batch.
    """
    ahead = recipe.workers or recipe.device_prefetch or recipe.deferred_metrics
    return not ahead and recipe.ranks == 1 and recipe.micro_batches == 1


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
