"""What the process shows of how it was launched: who serves its memory, and on which cores it runs."""

import ctypes
import gc
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, multiprocessing

from harness.core.environment import STEMS
from harness.core.recipe import Value
from harness.measure.devices import Device, cores_of
from harness.measure.evaluation import Interlude, ReadBacks
from harness.measure.feed import STRATEGIES, Collate, Counted, Feed, Pickling, WorkerStart, as_it_is, collate_directly
from harness.measure.loaded import file_of_malloc
from harness.measure.loop import Diverged, GrowingHistory, Habit, Monitor, PreallocatedHistory
from harness.measure.step import PARTS
from harness.measure.transfer import Ahead

# The page cache: files that have to be read from storage.

COLD = 0.1  # at most this share of the bytes may stay
LARGE = 0.01  # of all bytes: such a file is judged by itself
# Of a read, below the least size that glibc maps by itself: freeing a larger one raises that size for good, and the
# arm's own large arrays then cost less than the reference's.
CHUNK_BYTES = 1 << 16


class StillWarm(RuntimeError):
    """The system kept the files in memory though it was asked to drop them."""


@dataclass(frozen=True, slots=True)
class ColdFiles:
    """The files that a window must read from storage."""

    files: tuple[Path, ...]

    def drop(self) -> float:
        """Asks the system to forget the files; gives the share of their bytes that it kept all the same.

        Of a large file by itself where that is more: what is read may be one mapped file of many.
        """
        for path in self.files:
            with path.open("rb") as file:
                os.fdatasync(file.fileno())  # what is not written yet cannot be dropped
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        sizes = {path: path.stat().st_size for path in self.files}
        large = [path for path, size in sizes.items() if size >= LARGE * sum(sizes.values())]
        return max(resident_share(some) for some in (self.files, *((path,) for path in large)))

    def fill(self) -> None:
        """Reads the files once, so that the next arm finds them in memory."""
        buffer = bytearray(CHUNK_BYTES)
        for path in self.files:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    @contextmanager
    def dropped(self) -> Iterator[None]:
        """The files are dropped before the block and read back after it; raises StillWarm where they cannot be."""
        kept = self.drop()
        if kept >= COLD:
            self.fill()
            raise StillWarm(f"{kept:.0%} of the data stayed in the page cache; some process may have it mapped")
        try:
            yield
        finally:
            self.fill()


def cold_files(folder: Path) -> ColdFiles:
    """All files of a folder that hold anything."""
    return ColdFiles(tuple(sorted(one for one in folder.rglob("*") if one.is_file() and one.stat().st_size)))


def resident_share(files: Iterable[Path]) -> float:
    """Share of the files' pages that lie in memory, as `mincore` tells it; looking does not read them."""
    counts = [_pages(path) for path in files]
    return sum(resident for resident, _ in counts) / max(1, sum(pages for _, pages in counts))


def _pages(path: Path) -> tuple[int, int]:
    """Pages of a file in memory, and all its pages."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        states = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
        address = np.frombuffer(mapped, np.uint8).ctypes.data
        mincore, pointer = ctypes.CDLL(None, use_errno=True).mincore, ctypes.c_void_p
        if mincore(pointer(address), ctypes.c_size_t(len(mapped)), pointer(states.ctypes.data)):
            raise OSError(ctypes.get_errno(), "mincore failed", str(path))
    return int((states & 1).sum()), len(states)  # the other bits are undefined


# What the loader shows: live workers, how they started, where its batches lay and how they came there.


def of_feed(feed: Feed, *, pinned: bool, non_blocking: bool) -> dict[str, Value]:
    """What the loader shows, and whether its first batch lay in pinned memory."""
    starts, ever = len(feed.worker_pids), frozenset().union(*feed.worker_pids)
    method = getattr(feed.loader.multiprocessing_context, "get_start_method", lambda: None)()
    # What such workers import they compile anew, unless they find its bytecode.
    imports = {"bytecode": not sys.dont_write_bytecode} if method not in {None, "fork"} else {}
    imports |= {"collected_before": True} if feed.live_workers else {}  # see settle_process
    return (
        {
            "workers": feed.live_workers,
            "prefetch_factor": getattr(feed.iterator, "_prefetch_factor", None) if feed.live_workers else None,
            # The same processes served several epochs; after one epoch only the loader's own word can be had.
            "persistent_workers": len(ever) == feed.live_workers > 0 if starts > 1 else feed.loader.persistent_workers,
            "start_method": method,
            "pinned_batches": pinned,
            "overlapping_copies": pinned and non_blocking,
            "pinned_cores": _keeps_a_core(feed),
            "collate": _collation(feed.loader.collate_fn),
        }
        | imports
        | _of_worker_start(feed)
    )


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
    return {"page_cache": "cold" if kept < COLD else "warm", "read_back_kib": CHUNK_BYTES >> 10}


# What the habits of a step show: readings, collections, freed memory, histories, checks, marks, evaluations.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What had been counted in this process at some moment."""

    collections: int  # of all of Python's objects, whoever asked for them
    device_frees: int  # calls that gave memory back to the driver


def tally(device: Device) -> Tally:
    """The counts of this moment."""
    return Tally(collections=gc.get_stats()[2]["collections"], device_frees=device.frees())


def of_habits(habits: Iterable[Habit], before: Tally, after: Tally, steps: int) -> dict[str, Value]:
    """What all steps since the arm's first have left in its habits, and what was counted meanwhile."""
    kept = {type(one): one for one in habits}
    return {
        "monitoring_steps": _spacing(kept.get(Monitor), steps),
        "loss_history": _kind_of_history(kept, steps),
        "collection_each_step": after.collections - before.collections >= steps,
        "emptied_cache": after.device_frees - before.device_frees >= steps,
    }


def of_backward(backward: Callable[[Tensor], None], device: torch.device) -> dict[str, Value]:
    """Whether the step's backward pass reads the loss back and refuses one that is not a number."""
    reads = ReadBacks(device)
    reads.note_forward(torch.nn.Identity(), (), None)  # a loss is there
    with reads:
        backward(_loss(1.0, device))
    try:
        backward(_loss(float("nan"), device))
    except Diverged:
        return {"finite_check": reads.count == 1}
    return {"finite_check": False}


def of_marks(step: Callable[[], object], push: Callable[[str], Any]) -> dict[str, Value]:
    """Which parts of one step were marked by calls of `push`, a function written in Python."""
    seen: set[str] = set()

    def watch(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is push.__code__:
            seen.update(str(value) for value in frame.f_locals.values())

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        step()
    finally:
        sys.setprofile(before)
    return {"marked_parts": ", ".join(name for name in PARTS if name in seen)}


def of_interlude(interlude: Interlude | None) -> dict[str, Value]:
    """How many epochs lay between evaluations in the interval that the warm-up ended with, and what the last showed."""
    between = interlude.epochs_between() if interlude else None
    shown = dict(interlude.effective) if interlude else {}
    return {"evaluation_epochs": int(between) if between == round(between or 0) else between, **shown}


def _spacing(monitor: Any, steps: int) -> int | None:
    """Steps between readings; None unless every step was counted and every reading that was due was taken."""
    if not isinstance(monitor, Monitor) or not monitor.latest:
        return None
    due = ceil(steps / monitor.every)
    return monitor.every if (monitor.steps, monitor.readings) == (steps, due) else None


def _kind_of_history(kept: dict[type, Habit], steps: int) -> str | None:
    growing, preallocated = kept.get(GrowingHistory), kept.get(PreallocatedHistory)
    if isinstance(growing, GrowingHistory) and _room(growing.losses) == steps:
        return "growing"
    if isinstance(preallocated, PreallocatedHistory) and _room(preallocated.losses) > preallocated.count == steps:
        return "preallocated"
    return None


def _room(losses: Tensor) -> int:
    """Losses for which memory is there."""
    return losses.untyped_storage().nbytes() // losses.element_size()


def _loss(value: float, device: torch.device) -> Tensor:
    return torch.full((), value, device=device, requires_grad=True)


# Larger than any missing result that a heap trimmed by glibc's own rules has free; nothing of it is ever touched.
PROBE_BYTES = 256 << 20


def of_launch(device: Device) -> dict[str, Value]:
    """The allocator of host memory, and the kind of the device's segments where it has any."""
    shown: dict[str, Value] = {"malloc": _allocator()}
    if (segments := device.segments()) is not None:
        shown["expandable_segments"] = all_expandable(segments)
    if (blocks := device.blocks()) is not None:
        shown["blocking_sync"] = blocks
    return shown


def all_expandable(segments: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the caching allocator holds memory and every segment of it can grow."""
    kinds = [bool(segment.get("is_expandable")) for segment in segments]
    return bool(kinds) and all(kinds)


def _allocator() -> str:
    """Whose `malloc` is called; of glibc's, whether a large tensor comes from the heap or from a mapping of its own."""
    provider = Path(file_of_malloc()).name
    if found := next((name for name in STEMS if name in provider), None):
        return found
    return "glibc" if _mapped_alone(torch.empty(PROBE_BYTES, dtype=torch.uint8)) else "tuned"


def _mapped_alone(tensor: torch.Tensor) -> bool:
    """Whether glibc gave a tensor a mapping of its own: IS_MMAPPED, the second bit of the size before each chunk.

    Where it lies does not tell: a heap that cannot grow in place goes on elsewhere. (malloc/malloc.c, "chunk details")
    """
    return bool(ctypes.c_size_t.from_address(tensor.data_ptr() - ctypes.sizeof(ctypes.c_size_t)).value & 2)
