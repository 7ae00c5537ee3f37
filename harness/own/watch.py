"""A watch over a foreign loop: what each batch is waited for, which stage holds the loop back, and what took effect.

    for batch in speedmatrix.watch(loader):
        ...

It reads the clock twice a step and nothing else, but for one step that is looked at and left out of all times.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import IterableDataset

from harness.measure.first_batches import Randomness
from harness.measure.observed_step import captured, memory_format
from harness.own.items import leaves_of

LOOKED_AT = 3  # the step that is looked at, counted from 0: what is made once is made before it
FEWEST = 4  # timed steps, without which nothing is said of them
ENOUGH = LOOKED_AT + 1 + FEWEST  # steps of a pass, for so many to be timed
WAITS = 0.1  # of the time, from which a loop waits for its loader
LIVE_S = 5.0  # between two lines where they are asked for
READ_BACKS = {"_local_scalar_dense", "nonzero", "is_nonzero"}
CPU = torch.device("cpu")
COMPUTING = ("convolution", "mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product", "linear")


@dataclass(slots=True)
class Effects:
    """What one step showed of the loop's settings."""

    read_backs: int | None = None  # values that the host asked of the device; None where it was not looked at
    dtypes: set[str] = field(default_factory=set)  # in which products and convolutions were computed
    formats: set[str] = field(default_factory=set)  # of the inputs of convolutions
    kernels: set[str] = field(default_factory=set)  # of the optimizer
    on_gpu: bool = False
    compiled_graphs: int = 0
    graph_breaks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One pass over a loader: seconds of each step and of the wait before it, and what was seen of the settings."""

    steps: int
    samples: int | None  # in a batch
    waits: "np.ndarray[Any, Any]"  # seconds for each batch, beginning with the first that is timed
    works: "np.ndarray[Any, Any]"  # seconds between a batch and the request for the next
    first_s: float  # until the first batch was there
    workers: int | None  # None where the loader does not tell, such as a generator or a progress bar
    alive: int | None
    persistent: bool  # workers, who live on from pass to pass
    pinned: bool | None  # None where batches lie on the device already
    device: str
    ready_s: float | None  # a batch of the loader alone, where that was probed
    effects: Effects
    is_stream: bool = False  # the data set cannot be indexed

    @property
    def step_s(self) -> float:
        """Seconds of a step with its wait, on average."""
        return float(self.waits.mean() + self.works.mean())

    @property
    def wait_share(self) -> float:
        """The share of the time in which the loop waited for a batch."""
        return float(self.waits.mean() / self.step_s)

    @property
    def percentiles(self) -> tuple[float, float]:
        """Seconds of a step with its wait: the median and the 99th percentile."""
        low, high = np.percentile(self.waits + self.works, [50, 99])
        return float(low), float(high)

    @property
    def runs_ahead(self) -> bool:
        """Whether nothing is known to make the host wait for a GPU, so that its times are not the device's."""
        return self.device == "cuda" and not self.effects.read_backs

    @property
    def step_bound(self) -> float | None:
        """Steps a second if no batch had to be waited for; None where the host's time alone is known."""
        return None if self.runs_ahead else 1.0 / float(self.works.mean())

    @property
    def loader_bound(self) -> float | None:
        """Batches a second of the loader alone; None where it was always ahead or tells no workers, and is not probed.

        Without workers it is what was waited for; a loader with workers that is waited for delivers as fast as it can.
        """
        if self.ready_s is not None:
            return 1.0 / self.ready_s
        if self.workers == 0:
            return 1.0 / float(self.waits.mean())
        return None if self.workers is None or self.wait_share < WAITS else 1.0 / self.step_s

    @property
    def held_back_by(self) -> str:
        """`loader`, `step`, `both` where they take turns and neither dominates, or `unknown`.

        A host that waits for batches while a GPU works does not show which of the two takes longer.
        """
        if self.runs_ahead and self.wait_share > WAITS:
            return "unknown"
        if self.workers == 0 and WAITS < self.wait_share < 1 - WAITS:
            return "both"
        return "loader" if self.wait_share > WAITS else "step"

    def __str__(self) -> str:
        """A few lines: times, bounds, settings, and what to try next."""
        return "\n".join(lines_of(self))


@dataclass(slots=True)
class Batch:
    """What the first batch of a pass shows."""

    samples: int | None = None
    pinned: bool | None = False
    alive: int | None = None  # loader workers, some steps later

    def count_workers(self, batches: Any) -> None:
        """Takes note of how many of the loader's workers live."""
        if workers := getattr(batches, "_workers", None):
            self.alive = sum(one.is_alive() for one in workers)

    def look_at(self, batch: Any) -> None:
        """Takes note of its samples and of where it lies."""
        tensors = [one for one in leaves_of(batch) if isinstance(one, Tensor)]
        self.samples = len(tensors[0]) if tensors and tensors[0].dim() else None
        host = [one for one in tensors if one.device == CPU]
        self.pinned = torch.cuda.is_available() and bool(host) and all(one.is_pinned() for one in host)
        if tensors and not host:
            self.pinned = None


class Watch:
    """A loader that is watched while a loop goes through it; `last` is what the last pass showed."""

    def __init__(
        self, loader: Any, *, live: bool = False, probe_s: float = 0.0, looks: bool = True, to: TextIO | None = None
    ) -> None:
        self.loader, self.live, self.probe_s, self.looks, self.to = loader, live, probe_s, looks, to
        self.last: Watched | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        clock, stamps = perf_counter, list[float]()
        stamp, began, effects = stamps.append, clock(), Effects()
        tell = _Live(self, stamps).tell if self.live else None
        first = Batch()
        batches = iter(self.loader)
        try:
            stamp(clock())
            for batch in batches:
                stamp(clock())
                if len(stamps) == 2:
                    first.look_at(batch)
                if len(stamps) == 2 * LOOKED_AT + 2:
                    first.count_workers(batches)
                    with looking(effects) if self.looks else nullcontext():
                        yield batch
                else:
                    yield batch
                if tell:
                    tell()
                stamp(clock())
            # The last stamp of a pass stands behind the search for a batch that was not there.
        finally:
            self._finish(began, stamps, first, effects)

    def _finish(self, began: float, stamps: list[float], first: "Batch", effects: Effects) -> None:
        workers = getattr(self.loader, "num_workers", None)
        queue = (workers or 0) * int(getattr(self.loader, "prefetch_factor", 0) or 0)
        looked = effects.read_backs is not None
        waits, works = times_of(stamps, skipped=queue, looked_at=LOOKED_AT if self.looks else None)
        if len(works) < FEWEST:
            if ended := (len(stamps) - 1) // 2:
                words = f"speedmatrix watched {ended} step{'s' * (ended > 1)}, too few to tell; it needs {ENOUGH}."
                (self.to or sys.stderr).write(f"{words}\n")
            return
        self.last = Watched(
            steps=len(stamps) // 2,
            samples=first.samples,
            waits=waits,
            works=works,
            first_s=stamps[1] - began,
            workers=workers,
            alive=first.alive,
            persistent=bool(getattr(self.loader, "persistent_workers", False)),
            pinned=first.pinned,
            device="cuda" if torch.cuda.is_available() and (effects.on_gpu or not looked) else "cpu",
            ready_s=probed(self.loader, self.probe_s, queue) if self.probe_s else None,
            effects=effects,
            is_stream=isinstance(getattr(self.loader, "dataset", None), IterableDataset),
        )
        (self.to or sys.stderr).write(f"{self.last}\n")


def watch(
    loader: Any, *, live: bool = False, probe_s: float = 0.0, looks: bool = True, to: TextIO | None = None
) -> Watch:
    """The same batches as the loader's; when the pass ends, a few lines say what held it back and what to try.

    `live` adds a line every five seconds. `probe_s` lets the loader run alone for so many seconds after the pass, which
    tells its own rate where it was always ahead. `looks=False` leaves out the look at one step's operators. Lines go to
    `to`, else to the error stream.
    """
    if not hasattr(loader, "__iter__"):
        from harness.core.mistake import Mistake

        raise Mistake(f"A {type(loader).__name__} cannot be gone through; give the loader of your loop.")
    return Watch(loader, live=live, probe_s=probe_s, looks=looks, to=to)


def times_of(
    stamps: list[float], skipped: int, looked_at: int | None
) -> tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
    """Waits and works of the steps that count, from stamps before and behind each wait.

    The first steps are left out, in which workers start and their queue fills, and so are the one that was looked at
    and those after it which draw on what was loaded meanwhile; in a short pass some of these, but never that one.
    """
    pairs = len(stamps) // 2
    before, behind = np.array(stamps[0 : 2 * pairs : 2]), np.array(stamps[1 : 2 * pairs : 2])
    ends = np.array(stamps[2 : 2 * pairs + 1 : 2])
    start = 1 + skipped + (0 if looked_at is None else looked_at + 1)
    kept = slice(max(min(start, max(1, len(ends) // 2)), 0 if looked_at is None else looked_at + 1), len(ends))
    return (behind - before)[kept], (ends - behind[: len(ends)])[kept]


@dataclass(slots=True)
class _Live:
    """Says from time to time how the loop goes."""

    watch: Watch
    stamps: list[float]
    told_s: float = field(default_factory=perf_counter)
    told: int = 0

    def tell(self) -> None:
        """A line, if the last one was long ago."""
        now = perf_counter()
        if now - self.told_s < LIVE_S:
            return
        waits, works = times_of(self.stamps[self.told :], skipped=0, looked_at=None)
        if len(works):
            share, step_s = waits.mean() / (waits.mean() + works.mean()), waits.mean() + works.mean()
            words = (
                f"{len(self.stamps) // 2} steps, {1000 * step_s:.3g} ms each, {100 * share:.0f} % waiting for batches"
            )
            (self.watch.to or sys.stderr).write(f"{words}\n")
        self.told, self.told_s = len(self.stamps) // 2 * 2, now


def generators_of(loader: Any) -> list[torch.Generator]:
    """Generators of a loader's own, from which it or its samplers draw."""
    batches = getattr(loader, "batch_sampler", None)
    holders = loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)
    found = (getattr(one, "generator", None) for one in holders)
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())


def probed(loader: Any, seconds: float, filled: int) -> float | None:
    """Seconds a batch of the loader alone, beyond those that lay ready; random numbers go on as if nothing had been."""
    before, drawing = Randomness.now(CPU), [(one, one.get_state()) for one in generators_of(loader)]
    try:
        batches, count = iter(loader), 0
        began = last = perf_counter()
        for _ in batches:
            count += 1
            last = perf_counter()
            if count == filled + 1:
                began = last
            if last - began > seconds and count > filled + 2:
                break
    finally:
        before.restore(CPU)
        for generator, state in drawing:
            generator.set_state(state)
    timed = count - filled - 1
    return (last - began) / timed if timed > 0 else None


# The look at one step: what it computes in, in which layout, and how often it asks the device for a value.


class Looking(TorchDispatchMode):
    """Notes what the operators of a step show."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.effects = effects
        effects.read_backs = 0

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        self._note(function._schema.name.removeprefix("aten::"), args, found)  # noqa: SLF001
        return found

    def _note(self, name: str, args: Any, found: Any) -> None:
        effects = self.effects
        tensors = [one for one in args if isinstance(one, Tensor)]
        effects.on_gpu = effects.on_gpu or any(one.is_cuda for one in (*tensors, found) if isinstance(one, Tensor))
        if (name in READ_BACKS and tensors and _counts(tensors[0])) or (
            name == "_to_copy" and tensors and tensors[0].is_cuda and isinstance(found, Tensor) and not found.is_cuda
        ):
            effects.read_backs = (effects.read_backs or 0) + 1
        elif name.startswith(COMPUTING) and isinstance(found, Tensor):
            effects.dtypes.add(str(found.dtype).removeprefix("torch."))
            if name.startswith("convolution") and tensors[0].dim() in {4, 5} and (form := memory_format(tensors[0])):
                effects.formats.add(form)
        elif name.startswith("_foreach_"):
            effects.kernels.add("foreach")
        elif name.startswith("_fused_"):
            effects.kernels.add("fused")


def _counts(tensor: Tensor) -> bool:
    """Whether asking for a tensor's value waits for a device; on a CPU, for what a GPU would have to be asked."""
    return tensor.is_cuda or not torch.cuda.is_available()


@contextmanager
def looking(effects: Effects) -> Iterator[None]:
    """The loop's own code runs within the block, under a look at its operators; compiled code is not looked into."""
    compiled = "torch._dynamo" in sys.modules and captured()["compiled_graphs"] > 0
    if compiled:
        found = captured()
        effects.compiled_graphs, effects.graph_breaks = found["compiled_graphs"], found["graph_breaks"]
        yield
        return
    with Looking(effects):
        yield


# The lines.


def lines_of(seen: Watched) -> Iterator[str]:
    """What a pass showed, in the order in which one acts on it."""
    median, late = seen.percentiles
    yield (
        f"speedmatrix watched {seen.steps} steps: {_ms(seen.step_s)} each (median {_ms(median)}, p99 {_ms(late)}), of "
        f"which {100 * seen.wait_share:.0f} % wait for a batch; held back by {_HELD[seen.held_back_by]}."
    )
    yield f"  bounds: {_bounds(seen)}"
    yield f"  settings: {', '.join(_settings(seen))}"
    for advice in _next(seen):
        yield f"  try: {advice}"


_HELD = {
    "loader": "the loader",
    "step": "the step",
    "both": "both, since one waits for the other",
    "unknown": "the loader or the GPU, which may work while the host waits",
}


def _bounds(seen: Watched) -> str:
    unit, times = ("samples/s", seen.samples) if seen.samples else ("batches/s", 1)
    if seen.loader_bound is not None:
        loader = f"{_rate(seen.loader_bound * times)} {unit}"
    elif seen.workers is None:
        loader = "unknown (it does not tell its workers; give watch the DataLoader itself)"
    else:
        loader = f"at least {_rate(times / seen.step_s)} {unit} (it was always ahead; probe_s=2 measures it)"
    step = "unknown (the host was not seen to wait for the GPU, so only its own time is known)"
    if seen.step_bound is not None:
        step = f"{_rate(seen.step_bound * times)} {unit}"
    return f"loader alone {loader}, step alone {step}"


def _settings(seen: Watched) -> Iterator[str]:
    number = "unknown" if seen.workers is None else seen.workers
    yield f"{number} workers" + ("" if seen.alive in {None, seen.workers} else f", of which {seen.alive} live")
    if seen.pinned is not None:
        yield "pinned" if seen.pinned else "not pinned"
    effects = seen.effects
    if effects.dtypes:
        yield f"computes in {' and '.join(sorted(effects.dtypes))}"
    if effects.formats:
        yield f"convolutions in {' and '.join(sorted(effects.formats))}"
    if effects.kernels:
        yield f"optimizer {' and '.join(sorted(effects.kernels))}"
    if effects.compiled_graphs:
        yield f"{effects.compiled_graphs} compiled graphs, {effects.graph_breaks} breaks"
    if effects.read_backs is not None:
        yield f"{effects.read_backs} read-backs a step"


def _next(seen: Watched) -> Iterator[str]:
    """What to try, the likeliest first."""
    effects = seen.effects
    if seen.alive is not None and seen.workers is not None and seen.alive < seen.workers:
        yield "look at the loader's workers: some of them have ended"
    if seen.held_back_by != "step" and not seen.is_stream:
        yield "speedmatrix.suggest_workers(dataset, batch=...), which measures how many workers pay"
    if seen.first_s > 10 * seen.step_s and seen.workers and not seen.persistent:
        yield f"persistent_workers=True: the first batch of a pass took {_ms(seen.first_s)}"
    if seen.device == "cuda" and seen.pinned is False:
        yield "DataLoader(..., pin_memory=True) and .to(device, non_blocking=True)"
    if effects.read_backs and seen.device == "cuda":
        yield "keep losses on the device (loss.detach()) and read them every hundredth step"
    if effects.graph_breaks:
        yield "TORCH_LOGS=graph_breaks, which names what breaks the compiled graphs"
    if effects.formats == {"contiguous"} and seen.held_back_by != "loader":
        yield "model.to(memory_format=torch.channels_last)"
    yield "./speedmatrix tune train.py, which measures each of over a hundred options on a job (docs/own-training.md)"


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _rate(one: float) -> str:
    return f"{one:,.0f}" if one >= 10 else f"{one:.2g}"
