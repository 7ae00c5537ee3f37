"""What the loader shows: live workers, how they started, where its batches lay and how they came there."""

import os
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, multiprocessing

from harness.core.recipe import Value
from harness.measure.affinity import cores_of
from harness.measure.ahead import Ahead
from harness.measure.collate import Collate, Counted, Pickling, as_it_is, collate_directly
from harness.measure.feed import Feed
from harness.measure.page_cache import COLD, ColdFiles
from harness.measure.worker_start import STRATEGIES, WorkerStart


def of_feed(feed: Feed, *, pinned: bool, non_blocking: bool) -> dict[str, Value]:
    """What the loader shows, and whether its first batch lay in pinned memory."""
    starts, ever = len(feed.worker_pids), frozenset().union(*feed.worker_pids)
    return {
        "workers": feed.live_workers,
        "prefetch_factor": getattr(feed.iterator, "_prefetch_factor", None) if feed.live_workers else None,
        # The same processes served several epochs; after one epoch only the loader's own word can be had.
        "persistent_workers": len(ever) == feed.live_workers > 0 if starts > 1 else feed.loader.persistent_workers,
        "start_method": getattr(feed.loader.multiprocessing_context, "get_start_method", _no_method)(),
        "pinned_batches": pinned,
        "overlapping_copies": pinned and non_blocking,
        "pinned_cores": _keeps_a_core(feed),
        "collate": _collation(feed.loader.collate_fn),
    } | _of_worker_start(feed)


def _no_method() -> None:
    """Without workers nothing is started."""


def _keeps_a_core(feed: Feed) -> bool:
    """Whether the trainer runs on one core, and no live worker on that one."""
    own = cores_of(os.getpid())
    workers = [worker.pid for worker in getattr(feed.iterator, "_workers", ()) if worker.is_alive()]
    return len(own) == 1 and all(own.isdisjoint(cores_of(pid)) for pid in workers)


def _collation(collate: Collate) -> str:
    inner = collate
    while isinstance(inner, Counted | Pickling):
        inner = inner.inner
    return "direct" if inner is collate_directly else "finished" if inner is as_it_is else "default"


def _of_worker_start(feed: Feed) -> dict[str, Value]:
    """What the workers wrote down of themselves, where they were asked to."""
    start = feed.loader.worker_init_fn
    if not isinstance(start, WorkerStart):
        return {}
    threads, strategies = set(start.seen[::2]), set(start.seen[1::2])
    alike = len(threads) == len(strategies) == 1 and 0 not in threads  # none is left at what the array began with
    return {
        "worker_threads": threads.pop() if alike else None,
        "worker_sharing": STRATEGIES[strategies.pop()] if alike else None,
    }


def of_batch(feed: Feed, batch: Sequence[Tensor]) -> dict[str, Value]:
    """How the first batch came from its worker, by where its tensors lie."""
    pickled = feed.arrivals is not None and feed.arrivals.pickled > 0
    shared = any(tensor.is_shared() for tensor in batch)
    kept_by = {found for tensor in batch if (found := _shared_by(tensor))}
    start = feed.loader.worker_init_fn
    told = _of_worker_start(feed).get("worker_sharing") if isinstance(start, WorkerStart) else None
    said = {multiprocessing.get_sharing_strategy(), *kept_by, *([told] if told else [])}
    return {
        "batch_transport": "pickle" if pickled and not shared else "shared_memory" if shared else None,
        "sharing_strategy": said.pop() if len(said) == 1 else ", ".join(sorted(said)),
    }


def _shared_by(tensor: Tensor) -> str | None:
    """How the memory of a tensor is shared: by a file that has a name, or by a descriptor of one that has none."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        first, last = (int(bound, 16) for bound in line.split(maxsplit=1)[0].split("-"))
        if first <= tensor.data_ptr() < last and "/torch_" in line:
            return "file_descriptor" if line.endswith("(deleted)") else "file_system"
    return None


def of_epoch(feed: Feed) -> dict[str, Value]:
    """Whether a batch of about half the others' samples arrived, where that was noted."""
    if feed.arrivals is None or feed.arrivals.lengths is None:
        return {}
    halved = any(len(one) == 2 and min(one) == max(one) // 2 for one in feed.arrivals.lengths)
    return {"last_batch": "short" if halved else "full"}


def of_ahead(ahead: Ahead | None, *, pinned: bool) -> dict[str, Value]:
    """Whether the batch that is under way travels beside the computing: from pinned memory, on a stream of its own."""
    parcel = ahead.pending if ahead else None
    return {"device_prefetch": bool(ahead and parcel and pinned and ahead.road.is_apart(parcel))}


def of_page_cache(files: ColdFiles | None) -> dict[str, Value]:
    """Whether the system forgets the data when it is asked to, where the recipe will ask."""
    if files is None:
        return {}
    kept = files.drop()
    files.fill()
    return {"page_cache": "cold" if kept < COLD else "warm"}
