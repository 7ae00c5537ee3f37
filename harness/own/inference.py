"""Inference: what can be seen of a job by taking two small steps of it, and what that leaves unknown."""

import gc
import multiprocessing
import pickle
import random
import resource
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from harness.core.mistake import Mistake
from harness.core.recipe import OF_RANKS
from harness.core.workload import CLIPPING_DEFAULTS, PYTORCH_DEFAULTS
from harness.measure.observed_step import Operators
from harness.measure.session import OVERWRITING, overwrite_inputs
from harness.own.facts import USABLE, Facts, Note, differing, order_of, refused, said, switched_on, taken, together
from harness.own.items import (
    GOLDEN,
    Items,
    Nowhere,
    Shape,
    Source,
    batch_of,
    bytes_of,
    collated,
    described,
    drawn_from,
    fetches_batches,
    first_line,
    is_tensors,
    leaves_of,
    seed_all,
    shape_of,
    shapes_of,
    source_of,
    untouched,
    uses_generators,
)
from harness.own.network import Network, device_here, failure, in_words
from harness.own.parts import KERNELS, fresh_model, kernels_of, loops_by_itself, refuse_maker

if TYPE_CHECKING:
    from harness.own.job import Job, OwnOption

EPOCH_S = 1.0  # about the seconds of a timed epoch
FEWEST_STEPS, MOST_STEPS = 8, 512  # of one, where the data set has as many
DRAWN_ITEMS, DRAWN_LEAST = 8, 3  # that are read several times to see whether they are drawn at random
DRAWN_SEEDS = (1, 2, 3)  # that are set for each of them
OTHER_EPOCH = 7_919  # that a data set is told of, to see whether its items change
LOOK_ITEMS, LOOK_S = 8, 0.3  # items that are read to see what one costs, at most for so long
# Items that are read once and once more, at most for about so long each time: enough to leave out those which a busy
# machine interrupted.
TWICE_ITEMS, TWICE_S = 32, 0.3
# What a second reading takes of a first one, at most, where the data set remembers what was read; and what it saves, at
# least: of a step, and of an item, for caches of the processor and pages that are mapped already save a few µs of any.
CHEAPER, MATTERS, SAVED_S = 0.7, 0.02, 20e-6
FORKED_S = 30.0  # what another process may take to read a few items or to take two steps
FILLED_S = 60.0  # what reading a timed epoch of items may take before anything is timed
MOST_ORDERED = 1_000_000  # items of an epoch, whose order every arm holds
SEEDS_TRIED = 101  # to see what setting them takes
LOOKED_S = 0.5  # of a step, up to which a whole batch is tried too
KEPT_SHARE, KEPT_S = 0.25, 20.0  # of the memory that is free, and seconds to read them: what may be kept in memory
READS_BACK = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")


_T = TypeVar("_T")


def _saves(new_s: float, again_s: float, least_s: float) -> bool:
    """Whether a second reading is so much cheaper that the data set, or something behind it, keeps items."""
    return again_s <= CHEAPER * new_s and new_s - again_s >= least_s


def _forked(read: Callable[[], list[_T]]) -> list[_T]:
    """What another process reads or times, with this one's memory and leaving nothing in it; nothing if it fails."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def tell() -> None:
        with suppress(Exception):  # whatever a data set may raise
            theirs.send(read())

    process = multiprocessing.get_context("fork").Process(target=tell, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which loader workers are forked beside too
        process.start()
    theirs.close()
    try:
        return list(ours.recv()) if ours.poll(FORKED_S) else []
    except EOFError:
        return []
    finally:
        process.kill()
        process.join()


def look(job: "Job", file: Path | None, others: dict[str, "Job"]) -> Facts:
    """Takes steps of a job on a few samples and says what was seen; raises Mistake for what cannot be trained."""
    looks = list[Looking]()
    with _alone(), drawn_from(0), untouched(job.dataset, *(one.dataset for one in others.values())):
        facts = _seen(job, file, looks)
        for name, other in others.items():
            facts = _beside(name, facts, _seen(other, file, looks))
        for option in job.options:
            facts = _with_option(option, job, facts, file, looks)
        for one in looks if facts.kept_outside else ():
            one.fill(facts)
    looks.clear()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # arms need what the look at a whole batch took
    return facts


def _seen(job: "Job", file: Path | None, looks: "list[Looking]") -> Facts:
    with in_words("The data set cannot be read"):
        source = source_of(job)
        shape = shape_of(job, source)
    looks.append(Looking(job=job, source=source, shape=shape, file=file))
    return looks[-1].facts()


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, as arms have, and random numbers of the GPU; afterwards both are as before."""
    threads, states = torch.get_num_threads(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.cuda.set_rng_state_all(states)


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
        in_order, left_out = order_of(self.source.loader)
        self.notes += left_out
        seeded = self._draws()
        item_s, item_bytes, examples = self._items()
        step = Step(self)
        compute_s, one_batch_s = step.taken(examples[:batch], batch)
        step_s = compute_s + one_batch_s + item_s * batch
        steps = items // batch
        epoch_steps = min(steps, MOST_STEPS, max(FEWEST_STEPS, round(EPOCH_S / step_s)))
        keeps_items, outside = self._read_again(
            batch * epoch_steps, max(SAVED_S, MATTERS * step_s / batch), is_short=epoch_steps < steps
        )
        if keeps_items:
            epoch_steps = max(epoch_steps, min(steps, MOST_ORDERED // batch))
        self._keeps(items, epoch_steps * batch, item_s, item_bytes)
        fetches = self._fetches(seeded=seeded)
        if seeded:
            self._seeds(batch, step_s)
        self._sends()
        self.note("batch", f"{batch} of {items:,} items, {described(examples[0])}")
        if len({shapes_of(one) for one in examples}) > 1:
            self.traits.add("varying_shapes")
            self.traits |= {"few_shapes"} if epoch_steps < steps else set()
            self.note("shapes", "items have shapes of their own", "all options are timed on whole steps")
            if self.source.collate is None:
                self.fixed["batch_scale"] = "items of several shapes make no batch"
        if epoch_steps < steps:
            words = taken(in_order=in_order, always=outside)
            self.note("epoch", f"{epoch_steps} of {steps:,} steps, {words}")
        found, means = "none given", "quality is judged by first losses; options of evaluations are left out"
        if self.job.score:
            found, means = f"{self.job.better} is better", "learn --until trains until it is reached"
        self.note("score", found, means)
        return Facts(
            items=items, batch=batch, epoch_steps=epoch_steps, steps=steps, parameters=step.parameters, step_s=step_s,
            compute_s=compute_s, item_bytes=item_bytes, seeded=seeded, keeps_items=keeps_items, kept_outside=outside,
            fetches=fetches, in_order=in_order,
            least_samples=step.least_samples, operations=step.operations, traits=sorted(self.traits),
            fixed=self.fixed, original=self._original(step), notes=self.notes,
            says=said(self.source, step.kernel, self.job.clip_norm, self.job.training_step),
        )  # fmt: skip

    def _read_again(self, epoch_items: int, least_s: float, *, is_short: bool) -> tuple[bool, bool]:
        """Whether the data set keeps items, so that a short epoch hides their cost; whether all processes find them."""
        again_s = self._kept(epoch_items, least_s)
        outside = again_s is not None and self._is_kept_outside(least_s)
        keeps_items = again_s is not None and not outside and is_short
        if outside:
            self.note(
                "reading again", f"an item takes {again_s} when any process reads it again: a cache on the disk, say",
                "items are timed as they come from the full cache",
            )  # fmt: skip
        if keeps_items:
            self.note(
                "reading again", f"an item takes {again_s} when it comes again, so the data set keeps items",
                "epochs here are as long as yours: items are timed as in a first pass, and whole epochs take long",
            )  # fmt: skip
        return keeps_items, outside

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
        """Whether items or their collation draw at random, so that each draw is to depend on the item's index."""
        drawn, collate = self._items_draw(), self.source.collate
        if collate is None:
            return drawn
        items = [self.item(one) for one in range(self.shape.few)]
        if not uses_generators(lambda: collated(items, collate)):
            return drawn
        self.note(
            "collate", "draws at random", "each draw is made to depend on the batch's first item, so that arms agree"
        )
        return True

    def _items_draw(self) -> bool:
        """Whether items are drawn at random from what a seed reaches, so that each is to be drawn from its index.

        What changes an item in every second case leaves many as they are: that it draws at all is what counts. A
        generator of the data set's own shows in items alone.
        """
        dataset, places, began = self.source.dataset, list[int](), perf_counter()

        def read() -> None:
            for number in range(min(DRAWN_ITEMS, len(dataset))):
                places.append(int(number * GOLDEN % 1 * len(dataset)))
                self.item(places[-1])
                if len(places) >= DRAWN_LEAST and perf_counter() - began > LOOK_S:
                    break

        if not uses_generators(read) and self._repeat(places, None):
            self.repeats = self._outlast_an_epoch(places)
            told = "the same whenever they are read" if self.repeats else "others after set_epoch"
            self.note("items", told)
            return False
        if self._repeat(places, 0):
            self.note("items", "drawn at random", "each draw is made to depend on the item's index, so that arms agree")
            return True
        self.note(
            "items", "drawn at random from a generator of their own",
            "losses of two arms differ by their draws; seed that generator by the index to have them compared",
        )  # fmt: skip
        return False

    def _outlast_an_epoch(self, places: Sequence[int]) -> bool:
        """Whether items stay the same when the data set, or one within it, is told of another epoch."""
        within, tell = self.source.dataset, None
        while tell is None and within is not None:
            tell, within = getattr(within, "set_epoch", None), getattr(within, "dataset", None)
        if not callable(tell):
            return True
        before = [self.item(one) for one in places]
        with untouched(self.source.dataset):
            tell(OTHER_EPOCH)
            return all(_alike(one, self.item(place)) for one, place in zip(before, places, strict=True))

    def _repeat(self, places: Sequence[int], seed: int | None) -> bool:
        """Whether items are the same again with that seed or with none, whatever was set before."""
        return all(
            _alike(first, self._drawn(place, seed, before))
            for place in places
            for first in [self._drawn(place, seed, DRAWN_SEEDS[0])]
            for before in DRAWN_SEEDS[1:]
        )

    def _drawn(self, place: int, seed: int | None, before: int) -> Any:
        with drawn_from(before):
            if seed is None:
                return self.item(place)
            with drawn_from(seed):
                return self.item(place)

    def item(self, place: int) -> Any:
        """An item of the data set; raises Mistake where there is none, without a context that takes time."""
        try:
            return self.source.dataset[place]
        except Exception as error:
            raise failure(error, f"Item {place} of the data set cannot be read") from error

    def _seeds(self, batch: int, step_s: float) -> None:
        """Notes what setting seeds takes, where that is no small part of a step."""
        share = batch * statistics.median(timed(partial(seed_all, one)) for one in range(SEEDS_TRIED)) / step_s
        if share > MATTERS:
            self.note(
                "seeds", f"setting one for each item takes {100 * share:.1f} % of a step, in all arms alike",
                "ratios are that much closer to 1x than your training's",
            )  # fmt: skip

    def _items(self) -> tuple[float, int, list[Any]]:
        """Seconds and bytes of an item, and some of them."""
        found, began = [], perf_counter()
        for place in self._places(max(min(LOOK_ITEMS, len(self.source.dataset)), self.shape.few)):
            found.append(self.item(place))
            if perf_counter() - began > LOOK_S and len(found) >= max(2, self.shape.few):
                break
        return (perf_counter() - began) / len(found), bytes_of(found[0]), found

    def _places(self, count: int) -> list[int]:
        """Other items at each look: a data set that lived through a former one may have kept what that read."""
        return random.Random().sample(range(len(self.source.dataset)), count)

    def _kept(self, epoch_items: int, saved_s: float) -> str | None:
        """What an item takes at first and when it comes again, in words; None where that saves less than so much.

        Other items are read beforehand, so that files are open. What is read between the two readings of an item is at
        most a quarter of a short epoch: a cache too small for that has forgotten the item in a short epoch too. Two of
        three trials decide: a busy machine may spoil one.
        """
        count = max(2, min(TWICE_ITEMS, epoch_items // 4))
        places = self._places(min(4 * count, len(self.source.dataset)))
        self._read(places[:count])
        votes, told = list[bool](), None
        for one in (1, 2, 3):
            if 2 in (votes.count(True), votes.count(False)) or len(places) < (one + 1) * count:
                break
            found = self._read_twice(places[one * count : (one + 1) * count])
            if found is None:
                self.note(
                    "reading again", "the items tried lay on the disk, so nobody knows whether the data set keeps some",
                    "it is taken for one that does not",
                )  # fmt: skip
                return None
            new_s, again_s = found
            votes.append(_saves(new_s, again_s, saved_s))
            if votes[-1]:
                told = f"{1000 * new_s:.3g} ms and {1000 * again_s:.3g} ms"
        return told if votes.count(True) == 2 else None

    def _is_kept_outside(self, saved_s: float) -> bool:
        """Whether what another process has read is cheaper here too: a cache on the disk or in a server.

        All arms would share it, and whoever reads an item first would pay for the others. The first readings of each
        process are left out, since they open files and connections.
        """
        places = self._places(min(TWICE_ITEMS, len(self.source.dataset)))
        theirs = _forked(partial(self._read, places, 4))
        ours = self._read(places[: len(theirs)], 4)
        pairs = [(new_s, here_s) for (new_s, stored), (here_s, _) in zip(theirs, ours, strict=False) if not stored][1:]
        if len(pairs) < 2:
            return False
        new_s, here_s = (statistics.mean(one) for one in zip(*pairs, strict=True))
        return _saves(new_s, here_s, saved_s)

    def fill(self, facts: Facts) -> None:
        """Reads a timed epoch once, so that every arm finds what it reads; raises Mistake where that takes too long."""
        count = min(facts.batch * facts.epoch_steps, len(self.source.dataset))  # an option's may be the shorter one
        began, items = perf_counter(), Items(
            self.source.dataset, count, self.shape, seeded=False, file=self.file,
            in_order=facts.in_order, first=facts.all_items,
        )  # fmt: skip
        for index in range(len(items)):
            with in_words("The data set cannot be read"):
                items[index]
            if perf_counter() - began > FILLED_S:
                raise Mistake(
                    "Items of the data set are far cheaper once any process has read them, and reading those of a "
                    f"short epoch takes more than {FILLED_S:.0f} s: read the data set once, so that its cache is full, "
                    "and then measure."
                )

    def _read_twice(self, places: list[int]) -> tuple[float, float] | None:
        """Mean seconds of first and second readings of items; None where nobody knows.

        Items whose first reading went to the storage are left out: those the operating system keeps. So are the eighths
        whose second reading saves most and least, as where another process took the core.
        """
        first = self._read(places)
        again = self._read(places[: len(first)])
        pairs = [(new_s, old_s) for (new_s, stored), (old_s, _) in zip(first, again, strict=False) if not stored]
        if len(pairs) < 2:
            return None
        pairs.sort(key=lambda one: one[0] - one[1])
        cut = len(pairs) // 8
        new_s, again_s = zip(*pairs[cut : len(pairs) - cut], strict=True)
        return statistics.mean(new_s), statistics.mean(again_s)

    def _read(self, places: list[int], least: int = 2) -> list[tuple[float, bool]]:
        """Seconds of reading items, and whether each went to the storage: so many, and more while there is time."""
        found: list[tuple[float, bool]] = []
        for place in places:
            before, began = _blocks_read(), perf_counter()
            self.item(place)
            found.append((perf_counter() - began, _blocks_read() > before))
            if len(found) >= least and sum(spent_s for spent_s, _ in found) > TWICE_S:
                break
        return found

    def _keeps(self, items: int, timed: int, item_s: float, item_bytes: int) -> None:
        """Whether the data set may be kept in memory, or is made of tensors that lie there already."""
        dataset, free = self.source.dataset, psutil.virtual_memory().available
        if is_tensors(dataset):
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
        else:
            told = f"all items take about {items * item_bytes / 1e9:,.1f} GB and {items * item_s:,.0f} s to read"
            self.note("memory", told, "they are not kept in memory")

    def _fetches(self, *, seeded: bool) -> str:
        """How PyTorch fetches whole batches, as wherever there is `__getitems__`: not, usable, or why not here."""
        if not fetches_batches(self.source.dataset) or is_tensors(self.source.dataset):
            return ""
        fault = "a seed for each item cannot be set within one call" if seeded else self._fault_of_batches()
        if fault:
            self.note(
                "batches", "the data set has __getitems__, so PyTorch fetches a whole one in a call",
                f"here items are read one by one, in the reference `original` too, since {fault}",
            )  # fmt: skip
            return fault
        self.traits.add("batched_fetch")
        self.note(
            "batches", "the data set has __getitems__, so PyTorch fetches a whole one in a call",
            "that is batched_fetch: `original` has it, the baseline reads items one by one",
        )  # fmt: skip
        return USABLE

    def _fault_of_batches(self) -> str:
        """Why batches that are fetched whole cannot stand for those of single items; nothing where they can."""
        dataset, collate = self.source.dataset, self.source.collate
        places = list(range(self.shape.few))
        single = described(collated([self.item(one) for one in places], collate))
        try:
            whole = described(collated(dataset.__getitems__(places), collate))
        except Exception as error:  # noqa: BLE001  whatever a user's class raises
            return f"that call fails ({type(error).__name__}: {first_line(error)})"
        return "" if whole == single else f"that gives {whole}, and single items {single}"

    def _sends(self) -> None:
        """Whether the data set can be sent to a process that is no copy of the trainer."""
        try:  # without a copy of it in memory
            pickle.Pickler(Nowhere(), protocol=pickle.DEFAULT_PROTOCOL).dump((self.source.dataset, self.shape))
        except Exception as error:  # noqa: BLE001  whatever a user's class raises
            reason = f"the data set cannot be sent to a new process ({type(error).__name__}: {first_line(error)})"
            self.fixed["start_method"] = reason
            self.note("workers", reason, "workers are forked; write a function in place of a lambda to spawn them")

    def _original(self, step: "Step") -> dict[str, str]:
        """What the user has today: PyTorch's defaults, and what their file, optimizer, loader and data set say."""
        found, says = dict(PYTORCH_DEFAULTS), settings_of_process()
        found |= {name: "your file" for name, (setting, value) in SET_BY_FILES.items() if says[setting] == value}
        if says["cudnn.allow_tf32"] == "False":
            found.pop("tf32_convolutions")
        if self.job.clip_norm is not None:
            found |= CLIPPING_DEFAULTS
        fused, foreach = step.kernel.get("fused"), step.kernel.get("foreach")
        if fused is True or foreach is False or step.loops:
            found.pop("foreach_optimizer", None)
        found |= {"fused_optimizer": "your optimizer"} if fused is True else {}
        found |= {"foreach_optimizer": "your optimizer"} if foreach is True else {}
        found |= switched_on(self.source.loader)
        if "pin_memory" in found and getattr(self.job.training_step, "sends_ahead", False):
            found["non_blocking"] = "Lightning moves batches so, wherever they are pinned"
        if "batched_fetch" in self.traits and fetches_batches(self.source.dataset):
            found["batched_fetch"] = "your data set's __getitems__"
        if getattr(self.job.training_step, "leaves_loss", False):
            found["deferred_metrics"] = "your TrainingArguments"
        found |= dict.fromkeys(getattr(self.job.training_step, "has", ()), "your TrainingArguments")
        choices = dict.fromkeys(("foreach_optimizer", "fused_optimizer"), "optimizer_kernel")
        choices |= dict.fromkeys(("amp_bfloat16", "amp_float16"), "autocast")
        return {
            name: words
            for name, words in found.items()
            if choices.get(name, name.partition("=")[0]) not in self.fixed and f"no_{name}" not in self.traits
        }


SET_BY_FILES = {
    "cudnn_benchmark": ("cudnn.benchmark", "True"),
    "cudnn_deterministic": ("cudnn.deterministic", "True"),
    "tf32_matmul": ("float32_matmul_precision", "high"),
    "medium_matmul_precision": ("float32_matmul_precision", "medium"),
    "anomaly_detection": ("detect_anomaly", "True"),
}


def settings_of_process() -> dict[str, str]:
    """Settings of the process that every arm is given alike, whatever a file sets when it is imported."""

    def told(setting: Callable[[], object], otherwise: object) -> object:
        try:
            return setting()
        except RuntimeError:  # a part of it was set through `fp32_precision`, to another value than its default
            return otherwise

    found = {
        "set_num_threads": torch.get_num_threads(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "float32_matmul_precision": told(torch.get_float32_matmul_precision, "high"),
        "cudnn.allow_tf32": told(lambda: torch.backends.cudnn.allow_tf32, otherwise=False),
        "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "detect_anomaly": torch.is_anomaly_enabled(),
        "automatic garbage collection": gc.isenabled(),
        "sharing_strategy": torch.multiprocessing.get_sharing_strategy(),
    }
    return {name: str(one) for name, one in found.items()}


def _blocks_read() -> int:
    """Blocks that this process had to have read from storage so far; what the operating system held is not counted."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock


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
    *("finite_check", "anomaly_detection", "loss_history", "keep_last_batch", "ranks", *OF_RANKS),
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
    kernel: dict[str, Any] = field(default_factory=dict)  # of the optimizer, as the job says it
    loops: bool = False  # whether the optimizer is a loop where the job says nothing

    def taken(self, items: list[Any], batch: int) -> tuple[float, float]:
        """Seconds of a step without its data, and of collating a batch; on a whole one where a few samples fail."""
        seen, notes = self.seen, list(self.seen.notes)
        try:
            return self._taken(items, batch)
        except Mistake:
            if len(items) == batch:
                raise
        seen.notes, seen.shape = notes, replace(seen.shape, few=batch)
        return self._taken([seen.item(place) for place in range(batch)], batch)

    def _taken(self, items: list[Any], batch: int) -> tuple[float, float]:
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

        def steps() -> list[float]:
            step = self.seen.job.fresh_step()
            return [timed(lambda: refuse_maker(step(batch_of(tensors, shape)))) for _ in range(2)]

        forks = device_here().type != "cuda"  # a process that was forked has no GPU
        times = _forked(steps) if forks else []
        if not times and forks and samples < batch:
            raise Mistake("The loop's step fails on a few samples; a whole batch is tried.")
        if not times:
            with in_words("The loop's step fails on a batch of your data"):
                times = steps()
            self.seen.note(
                "weights", "two steps were taken here", "they trained what the step trains outside of itself"
            )
        return min(times) / samples * batch

    def _trained(self, tensors: tuple[Tensor, ...], samples: int, batch: int) -> float:
        network = Network.of(self.seen.job, self.seen.shape, tensors)
        model, self.kernel = network.model, network.kernel
        self.parameters = sum(one.numel() for one in model.parameters())
        self._tell_draws()
        network.step()  # what is wrong with it is told here
        operators, products = Operators(), Products()
        with operators, products:
            network.loss(model(network.inputs), network.targets)
        if short := products.dtypes & {torch.bfloat16, torch.float16}:
            name = str(short.pop()).removeprefix("torch.")
            self.seen.fixed["autocast"] = f"the step computes in {name} already; take that out of it to measure this"
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
        model, drawn = fresh_model(self.seen.job.model)
        count = sum(one.numel() for one in model.parameters())
        if drawn is None:
            self.seen.note("model", f"{count:,} parameters, made anew from a seed in every arm")
        elif drawn:
            self.seen.note(
                "model", f"{count:,} parameters, a copy in every arm; {drawn:,} of them drawn anew from a seed",
                "losses are judged on weights drawn by PyTorch's own rules, which may be unlike yours: give a factory",
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
        for setting in _already(layers):
            seen.fixed[setting] = "the model has it already; take that out of it to measure this"
        self._tell_optimizer(network.optimizer)
        told = ", ".join(one.replace("_", " ") for one in sorted(found)) or "no convolutions"
        seen.note("layers", told, "" if found else "channels_last is left out")

    def _tell_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        seen, missing = self.seen, KERNELS - kernels_of(optimizer)
        self.loops = loops_by_itself(optimizer)
        if missing == KERNELS:
            seen.fixed["optimizer_kernel"] = "the optimizer takes neither foreach nor fused"
            return
        for one in missing:
            seen.traits.add(f"no_{one}_optimizer")
            seen.note("optimizer", f"it does not take {one}", f"{one}_optimizer is left out")

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
        except Mistake:  # as where a layer needs what was overwritten
            alike = False
        if alike:
            seen.traits.add("relu")
        else:
            seen.note("activations", "their inputs are needed again", "in_place_activations is left out")

    def _tensors(self) -> tuple[Tensor, ...]:
        source = self.seen.source
        items = [self.seen.item(place) for place in range(self.seen.shape.few)]
        return tuple(one for one in leaves_of(collated(items, source.collate)) if isinstance(one, Tensor))


def _already(layers: Sequence[nn.Module]) -> Iterator[str]:
    """Settings of a recipe that a model has before any is switched on."""
    weights = [one for layer in layers for one in layer.parameters(recurse=False)]
    for setting, dimensions, laid_out in (
        ("channels_last", 4, torch.channels_last),
        ("channels_last_3d", 5, torch.channels_last_3d),
    ):
        of_such = (one for one in weights if one.dim() == dimensions and not one.is_contiguous())
        if any(one.is_contiguous(memory_format=laid_out) for one in of_such):
            yield setting
    compiled = (type(one).__name__ == "OptimizedModule" or one._compiled_call_impl is not None for one in layers)  # noqa: SLF001
    if any(compiled):
        yield "compile"


class Products(TorchDispatchMode):
    """Notes the types of what matrix products, convolutions and recurrent layers give while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        if function.overloadpacket in flop_registry or "_rnn" in str(function):
            self.dtypes |= {one.dtype for one in leaves_of(found) if isinstance(one, Tensor)}
        return found


# Two jobs in one comparison.

SET_ALIKE = ("dataset", "batch", "collate", "optimizer", "clip_norm")  # parts that say what is set in every arm


def _beside(name: str, ours: Facts, theirs: Facts) -> Facts:
    """Facts for a job and another one; raises Mistake where they differ in what no ratio of steps would compare."""
    if theirs.batch != ours.batch:
        raise Mistake(
            f"{name} takes {theirs.batch} samples a step and the reference {ours.batch}; give both the same batch."
        )
    found = together(ours, theirs, each_its_own=True)
    if names := differing(ours.says, theirs.says, without=("__getitems__",) if found.whole_batches else ()):
        raise Mistake(f"{refused(name, names, ours.says, theirs.says)}.")
    return found


def _with_option(option: "OwnOption", job: "Job", facts: Facts, file: Path | None, looks: list[Looking]) -> Facts:
    """Facts for a job and what an option of the user's makes of it; the arm tells what is wrong with that."""
    try:
        changed = option.change(job)
        if all(getattr(changed, one) is getattr(job, one) for one in SET_ALIKE):
            return facts
        theirs = _seen(changed, file, looks)
    except Exception:  # noqa: BLE001  whatever a user's function raises
        return facts
    if names := differing(facts.says, theirs.says):
        facts.fixed[option.name] = refused(option.name, names, facts.says, theirs.says)
        return facts
    return together(facts, theirs, each_its_own=False)
