"""Ranks: processes that train together, each on its part of every batch; one clock and one answer for all of them.

All ranks run the same code. Whatever is decided from a clock, a counter or a loss is therefore agreed on first, or one
rank would take a step that another one waits for: `agreed` and `averaged` give a lone process its own values back.
"""

import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.core.recipe import AVERAGED_EVERY, Recipe, Value
from harness.measure.devices import Device

LOOPBACK = "127.0.0.1"


def store_for(port: int, limit_s: float, *, serving: bool) -> Any:
    """Where ranks find each other: rank 0 serves it at a port that the kernel chooses, so that none is in use."""
    limit = timedelta(seconds=limit_s)
    # Torch exports it where it is built with it, which its types do not know.
    return vars(dist)["TCPStore"](LOOPBACK, port, is_master=serving, wait_for_workers=False, timeout=limit)


class Mismatch(RuntimeError):
    """Ranks that were not told of the same number of ranks."""


def join(store: Any, rank: int, ranks: int, device: str, limit_s: float) -> None:
    """Makes this process one of so many ranks; no collective is waited for longer than `limit_s`.

    Raises Mismatch where another rank knows of another number of them.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are on this host
    store.set(f"ranks/{rank}", str(ranks))
    told = int(store.get("ranks/0"))
    if told != ranks:
        raise Mismatch(f"rank {rank} was told of {ranks} ranks, rank 0 of {told}")
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=limit_s))
    if device == "cuda":
        torch.cuda.set_device(rank)


def rank_now() -> int:
    """The number of this process among those that train together; 0 where it trains alone."""
    return dist.get_rank() if dist.is_initialized() else 0


def agreed(values: Sequence[float]) -> list[float]:
    """The largest of each value over all ranks: what takes time is over when the last rank is through."""
    return _reduced(values, dist.ReduceOp.MAX)


def agreed_on(held: bool) -> bool:  # noqa: FBT001  the question itself
    """Whether it holds on any rank."""
    return bool(agreed([float(held)])[0])


def averaged(values: Sequence[float]) -> list[float]:
    """The mean of each value over all ranks, as of the losses of a batch's parts."""
    return [value / _count() for value in _reduced(values, dist.ReduceOp.SUM)]


def _count() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _reduced(values: Sequence[float], operation: Any) -> list[float]:
    if not dist.is_initialized():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=_place())
    dist.all_reduce(tensor, operation)
    return [float(one) for one in tensor.tolist()]


def _place() -> str:
    """Where tensors lie that ranks exchange: NCCL carries nothing that lies on the host."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


# The model, wrapped as the recipe says.

ONE_BUCKET_MB = 1 << 16  # PowerSGD's later collectives wait in gloo's threads, of which there are two


def wrapped(model: nn.Module, recipe: Recipe) -> nn.Module:
    """The module whose gradients are those of all ranks; the module itself where one process trains alone."""
    if recipe.ranks == 1 or recipe.sharded_weights or not is_trained(model):
        return model
    if recipe.synchronized_batch_norm:
        nn.SyncBatchNorm.convert_sync_batchnorm(model)  # in place: no model here is a batch norm itself
    bucket_mb = ONE_BUCKET_MB if recipe.communication_hook == "powersgd" else recipe.bucket_mb
    parallel = DistributedDataParallel(
        model,
        bucket_cap_mb=bucket_mb,
        gradient_as_bucket_view=recipe.gradient_as_bucket_view,
        static_graph=recipe.static_graph,
        find_unused_parameters=recipe.find_unused_parameters,
        broadcast_buffers=not recipe.buffers_not_broadcast,
    )
    if recipe.communication_hook:
        parallel.register_comm_hook(*_hook_and_state(recipe.communication_hook))
    if recipe.gradient_reduction == "never":
        parallel.require_backward_grad_sync = False
    return parallel


def is_trained(module: nn.Module) -> bool:
    """Whether it has weights that learn."""
    return any(one.requires_grad for one in module.parameters())


def shard_weights(module: nn.Module, blocks: Iterable[nn.Module], recipe: Recipe, *, mixed: bool) -> None:
    """Leaves each rank its part of every weight, if the recipe says so, before an optimizer is built on them.

    `mixed` lets the recipe choose the precision in which weights are gathered and used; those of a loss keep theirs.

    Each of its `blocks` is gathered by itself, then what they leave of each child; a list of modules is never called,
    so that what is left of it goes with the whole.
    """
    if recipe.sharded_weights is None or not is_trained(module):
        return
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    frees, is_short = recipe.sharded_weights == "each_pass", mixed and recipe.sharded_weights == "bfloat16"
    inner = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if is_short else MixedPrecisionPolicy()
    outer = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32) if is_short else inner
    for part in dict.fromkeys([*blocks, *module.children()]):  # a block may be a child
        if is_trained(part) and not isinstance(part, nn.ModuleList | nn.ModuleDict):
            fully_shard(part, reshard_after_forward=frees, mp_policy=inner)
    fully_shard(module, reshard_after_forward=frees, mp_policy=outer)


def _hook_and_state(name: str) -> tuple[Any, Callable[..., Any]]:
    """The state of a communication hook and the hook; imported where one is asked for, like all that few arms need."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook

    if name == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        return state, powerSGD_hook.powerSGD_hook
    if name == "post_local_sgd":
        local = post_localSGD_hook.PostLocalSGDState(None, None, 0, post_local_gradient_allreduce=False)
        return local, post_localSGD_hook.post_localSGD_hook
    return None, default_hooks.bf16_compress_hook if name == "bfloat16" else default_hooks.fp16_compress_hook


def sharded(optimizer: torch.optim.Optimizer, recipe: Recipe) -> torch.optim.Optimizer:
    """The same optimizer, of which each rank holds a part, if the recipe says so."""
    if not recipe.sharded_optimizer:
        return optimizer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its module still uses torch.jit
        from torch.distributed.optim import ZeroRedundancyOptimizer
    kind = type(optimizer)
    accepted = inspect.signature(kind).parameters
    keywords = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    groups: list[Any] = [dict(group) for group in optimizer.param_groups]
    return ZeroRedundancyOptimizer(groups, kind, **keywords)


def averager_of(parameters: Iterable[nn.Parameter], recipe: Recipe) -> Callable[[], None] | None:
    """What brings the weights of all ranks together after every so many updates, where their gradients stay apart.

    PeriodicModelAverager of torch does so too, but for weights that have a gradient alone, and it gives them other
    memory, which neither keeps their layout nor is known to whoever holds them, such as a moving average.
    """
    if recipe.communication_hook != "post_local_sgd":
        return None
    weights, updates = [one.detach() for one in parameters if one.requires_grad], count()

    def average() -> None:
        if next(updates) % AVERAGED_EVERY:
            return
        flat = torch.cat([one.reshape(-1) for one in weights]).div_(_count())
        dist.all_reduce(flat)
        for weight, mean in zip(weights, flat.split([one.numel() for one in weights]), strict=True):
            weight.copy_(mean.view_as(weight))

    return average


def synchronizing(modules: Sequence[Any], recipe: Recipe) -> Callable[[bool], None] | None:
    """What says before each pass of an accumulating step whether it reduces gradients; None where every pass does."""
    if recipe.gradient_reduction != "last_pass":
        return None
    parallel = [one for one in modules if isinstance(one, DistributedDataParallel)]

    def synchronize(reduces: bool) -> None:  # noqa: FBT001  the one thing that it says
        for one in parallel:
            one.require_backward_grad_sync = reduces

    return synchronize


# What the ranks show: who trained, on which samples, and what went between them.


@dataclass(slots=True)
class Seen:
    """Collectives of one part of a step: the types and the bytes of what was reduced, and how often the others came."""

    reduced: list[tuple[str, int]] = field(default_factory=list)
    broadcasts: int = 0
    gathered: set[str] = field(default_factory=set)  # types of what was gathered


class Collectives(TorchDispatchMode):
    """Notes the collectives that are called while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = Seen()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name  # noqa: SLF001  a dispatched operator has no other name
        if name in {"c10d::allreduce_", "c10d::_reduce_scatter_base_"}:
            given = args[1] if name.endswith("base_") else args  # what is scattered comes after where it goes
            tensors = [one for one in tree_leaves(given) if isinstance(one, Tensor)]
            self.seen.reduced += [(str(one.dtype).removeprefix("torch."), one.nbytes) for one in tensors]
        self.seen.broadcasts += name == "c10d::broadcast_"
        if name == "c10d::_allgather_base_":
            self.seen.gathered.add(str(args[1].dtype).removeprefix("torch."))
        return function(*args, **(kwargs or {}))


def of_ranks(part: Tensor) -> dict[str, Value]:
    """How many processes train, each on samples of its own; `part` is the first batch of this one."""
    if not dist.is_initialized():
        return {}
    told = [float(os.getpid()), float(part.double().abs().sum()), float(part.double().square().sum())]
    own = torch.tensor(told, device=_place())
    others = [torch.zeros_like(own) for _ in range(_count())]
    dist.all_gather(others, own)
    processes, parts = {int(one[0]) for one in others}, {tuple(one[1:].tolist()) for one in others}
    return {"ranks": min(len(processes), len(parts))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What went between the ranks in one update, and where gradients lay before it."""

    passes: int
    reducing: int  # passes that reduced gradients
    reduced: list[tuple[str, int]]  # type and bytes of each reduction in backward passes
    gathered: tuple[bool, bool]  # weights, in forward and in backward passes
    gathered_in: set[str]  # types, in forward passes
    buffers_broadcast: bool
    weights_broadcast: bool
    averaged: bool
    gradients: int
    memories: int  # in which those gradients lay


def watched_update(forward: Callable[[], Tensor], trainee: Any, passes: int) -> Update:
    """One more update, taken under observation; `forward` gives the loss of the model that all ranks train."""
    before, within, after = Collectives(), Collectives(), Collectives()
    reducing = 0
    for number in range(passes):
        if trainee.bound.synchronize:
            trainee.bound.synchronize(number + 1 == passes)
        with before:
            value = forward()
        count = len(within.seen.reduced)
        with within:
            trainee.bound.backward(value)
        reducing += len(within.seen.reduced) > count
    gradients = [
        getattr(one.grad, "_local_tensor", one.grad) for one in trainee.model.parameters() if one.grad is not None
    ]
    with after:
        trainee.bound.update()
    return Update(
        passes=passes,
        reducing=reducing,
        reduced=within.seen.reduced,
        gathered=(bool(before.seen.gathered), bool(within.seen.gathered)),
        gathered_in=before.seen.gathered,
        buffers_broadcast=before.seen.broadcasts > 0,
        weights_broadcast=after.seen.broadcasts > 0,
        averaged=bool(after.seen.reduced),
        gradients=len(gradients),
        memories=len({one.untyped_storage().data_ptr() for one in gradients}),
    )


LINK_BYTES, LINK_TIMES = 25 << 20, 5  # a bucket as large as DDP's usual one, which bandwidth decides; the median counts


def of_link(device: Device) -> dict[str, Value]:
    """Bytes that are reduced in a second while nothing else happens: the algorithm bandwidth of nccl-tests."""
    if not dist.is_initialized():
        return {}
    bucket = torch.zeros(LINK_BYTES // 4, device=device.torch)
    taken = []
    for _ in range(1 + LINK_TIMES):
        agreed([0.0])  # so that all ranks begin together
        began = perf_counter()
        dist.all_reduce(bucket)
        device.synchronize()
        taken.append(perf_counter() - began)
    (longest,) = agreed([median(taken[1:])])
    return {"link_bytes_per_s": round(bucket.nbytes / longest)}


def of_updates(seen: Sequence[Update], model: nn.Module, parallel: Any, recipe: Recipe) -> dict[str, Value]:
    """What some updates in a row show of what goes between the ranks."""
    last = seen[-1]
    of_gradients = [(kind, size) for kind, size in last.reduced if kind != "int32"]
    weights = [one.numel() * one.element_size() for one in model.parameters() if one.requires_grad]
    told = parallel._get_ddp_logging_data() if isinstance(parallel, DistributedDataParallel) else {}  # noqa: SLF001
    rules = {0: "never", 1: "last_pass" if last.passes > 1 else None}
    return {
        "gradient_reduction": rules.get(last.reducing),
        "reductions": len(of_gradients),
        "reduced_bytes": sum(size for _, size in of_gradients),
        "communication_hook": _hook_of(
            of_gradients, sum(weights) * last.reducing, averaged=any(one.averaged for one in seen)
        ),
        "bucket_mb": _bucket_of([size for _, size in of_gradients], weights, recipe.bucket_mb),
        "gradient_as_bucket_view": last.memories < last.gradients,
        "static_graph": bool(told.get("static_graph")),
        "find_unused_parameters": any(kind == "int32" for kind, _ in last.reduced),  # which of them were used
        "buffers_not_broadcast": any(True for _ in model.buffers()) and not last.buffers_broadcast,
        "sharded_optimizer": last.weights_broadcast,
        "sharded_weights": _gathered(last) if recipe.sharded_weights else None,
        "synchronized_batch_norm": last.gathered[0]
        and any(isinstance(one, nn.SyncBatchNorm) for one in model.modules()),
    } | of_nccl()


TOLD = re.compile(r"NCCL INFO NCCL_(ALGO|PROTO) set by environment to (\w+)")


def of_nccl() -> dict[str, Value]:
    """What NCCL says in this process's log that it was told; it writes one only where a recipe tells it something."""
    log = Path(os.environ.get("NCCL_DEBUG_FILE", "").replace("%p", str(os.getpid())))
    told = dict(TOLD.findall(log.read_text())) if log.is_file() else {}
    return {"nccl_algorithm": told.get("ALGO"), "nccl_protocol": told.get("PROTO")}


def _gathered(update: Update) -> str | None:
    if "bfloat16" in update.gathered_in:
        return "bfloat16"
    return {(True, True): "each_pass", (True, False): "kept"}.get(update.gathered)


def _hook_of(reduced: Sequence[tuple[str, int]], plain_bytes: int, *, averaged: bool) -> str | None:
    """The hook that sends so much of such types; None where gradients are reduced as they are."""
    if not reduced:
        return "post_local_sgd" if averaged else None
    kinds, sent = {kind for kind, _ in reduced}, sum(size for _, size in reduced)
    if kinds in ({"bfloat16"}, {"float16"}):
        return kinds.pop()
    return "powersgd" if sent < plain_bytes / 2 else None


def _bucket_of(sizes: Sequence[int], weights: Sequence[int], asked: int | None) -> int | None:
    """The asked size in MB if these buckets are of that size, and others than DDP makes of itself; else None."""
    if asked is None or not sizes:
        return None
    limit = asked << 20
    filled = sum(size < limit for size in sizes) <= 1 and all(size < limit + max(weights) for size in sizes)
    usual = _count_of(weights, [1 << 20, 25 << 20])
    return asked if filled and len(sizes) != usual else None


def _count_of(weights: Sequence[int], limits: Sequence[int]) -> int:
    """How many buckets gradients of these bytes fill, the last weights first; the last limit is that of the rest."""
    count, size = 0, 0
    for one in reversed(weights):
        size += one
        if size >= limits[min(count, len(limits) - 1)]:
            count, size = count + 1, 0
    return count + (size > 0)
