"""Facts: what was seen of a job as plain data, and what two jobs in one comparison are measured with together."""

import hashlib
import inspect
import json
import multiprocessing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from harness.own.items import Source, fetches_batches


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
    keeps_items: bool = False  # its data set, once it has read them
    kept_outside: bool = False  # items that any process has read are cheaper for all: a cache on the disk, a server
    fetches: str = ""  # whole batches, as its data set does in a training: nothing, "usable" or why it is not done here
    whole_batches: bool = False  # whether each arm fetches as its own data set does: of two jobs that are compared
    in_order: bool = False  # its loader takes one item after another
    least_items: int = 0  # of the data sets that are compared, if there are several
    lengths_differ: bool = False  # of those data sets
    least_samples: int = 1
    operations: int = 0
    traits: list[str] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)
    original: dict[str, str] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)  # of what the harness sets in every arm, by its name
    notes: list[Note] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)  # by the version of a commit: its files, in the working tree

    @property
    def all_items(self) -> bool:
        """Whether a timed epoch goes through all items, or all but an incomplete batch, in every arm alike."""
        return self.epoch_steps >= self.steps and not self.lengths_differ


USABLE = "usable"


def taken(*, in_order: bool, always: bool) -> str:
    """Which items a short epoch holds, in words."""
    where = "one item after another from one place on" if in_order else "items taken from all over the data set"
    return f"{where}, {'the same' if always else 'others'} in each replicate"


def read_facts(text: str) -> Facts:
    """Facts from JSON."""
    data = json.loads(text)
    return Facts(**{**data, "notes": [Note(**one) for one in data["notes"]]})


def facts_text(facts: Facts) -> str:
    """Facts as JSON."""
    return json.dumps(asdict(facts), indent=1)


# What a job says of things that the harness sets itself, in every arm alike: two jobs must say the same.

OFF = {"0", "False", "None", "none"}
# The words that measure one by itself.
MEASURED_AS = {
    "batch": "--batch {}", "num_workers": "--only workers={}", "prefetch_factor": "--only prefetch_factor={}",
    "persistent_workers": "--only persistent_workers", "pin_memory": "--only pin_memory",
    "multiprocessing_context": "--only start_method={}", "foreach": "--only foreach_optimizer",
    "fused": "--only fused_optimizer", "__getitems__": "--only batched_fetch",
    "set_num_threads": "--only trainer_threads={}",
    "cudnn.benchmark": "--only cudnn_benchmark", "cudnn.deterministic": "--only cudnn_deterministic",
    "detect_anomaly": "--only anomaly_detection",
}  # fmt: skip


def said(source: Source, kernel: Mapping[str, Any], clip_norm: float | None, step: object = None) -> dict[str, str]:
    """What a job says: batch, kernel of the optimizer, clipping, its loader, and how its data set fetches batches.

    And what a trainer's arguments switch on, which arms are given as options and not as the trainer's `step` does it.
    """
    loader, dataset = source.loader, source.dataset
    found: dict[str, Any] = {"batch": source.batch, "clip_norm": clip_norm}
    found |= {name: kernel.get(name) for name in ("foreach", "fused")}
    found |= {"has": ", ".join(getattr(step, "has", ())), "leaves_loss": getattr(step, "leaves_loss", False)}
    found |= {
        "num_workers": getattr(loader, "num_workers", 0),
        "persistent_workers": getattr(loader, "persistent_workers", False),
        "prefetch_factor": getattr(loader, "prefetch_factor", None) or 2,
        "pin_memory": getattr(loader, "pin_memory", False),
        "multiprocessing_context": _method(getattr(loader, "multiprocessing_context", None)),
        "__getitems__": _text_of(dataset),
    }
    if loader is not None:
        found |= {name: type(getattr(loader, name)).__qualname__ for name in ("sampler", "batch_sampler")}
    return {name: str(one) for name, one in found.items()}


def switched_on(loader: Any) -> dict[str, str]:
    """What a loader has switched on, by the names of options."""
    if loader is None:
        return {}
    found = ["pin_memory"] if loader.pin_memory else []
    if loader.num_workers:
        ahead, method = loader.prefetch_factor, _method(loader.multiprocessing_context)
        found.append(f"workers={loader.num_workers}")
        found += ["persistent_workers"] if loader.persistent_workers else []
        found += [f"prefetch_factor={ahead}"] if ahead not in (None, 2) else []  # two unless it says otherwise
        found += [f"start_method={method}"] if method != "fork" else []
    return dict.fromkeys(found, "your DataLoader")


def order_of(loader: Any) -> tuple[bool, tuple[Note, ...]]:
    """Whether a loader takes one item after another, and what else of how it reads is left out here."""
    if loader is None:
        return False, ()
    left_out = Note("worker_init_fn", "that of your loader is not called: workers here begin without it")
    notes: tuple[Note, ...] = (left_out,) if loader.worker_init_fn is not None else ()
    kind = type(loader)
    if kind.__iter__ is not DataLoader.__iter__ and not kind.__module__.startswith("accelerate."):
        words = f"what {kind.__name__}.__iter__ does with batches is left out"
        notes += (Note("loader", words, "put `for batch in speedmatrix.watch(loader):` into your loop to measure it"),)
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if type(sampler) is SequentialSampler:
        return True, (*notes, Note("order", "one item after another, as your loader takes them"))
    if type(sampler) is RandomSampler:
        return False, notes
    dropped = f"the {type(sampler).__name__} of your loader is left out"
    return False, (*notes, Note("order", dropped, "items come in a random order"))


def _method(context: Any) -> str:
    """How a loader starts its workers: as it says, else as the file that was run says, else as Linux does."""
    chosen = multiprocessing.get_start_method(allow_none=True) if context is None else context.get_start_method()
    return chosen or "fork"


def _text_of(dataset: Any) -> str:
    """Eight digits for the text of a data set's `__getitems__`; "none" where PyTorch reads its items one by one."""
    if not fetches_batches(dataset):
        return "none"
    try:
        text = inspect.getsource(dataset.__getitems__)
    except (OSError, TypeError):  # written in C, or at a prompt
        text = ""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def differing(ours: Mapping[str, str], theirs: Mapping[str, str], *, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of what two jobs say differently; what one of them says nothing of is left out."""
    return tuple(one for one in ours if one in theirs and ours[one] != theirs[one] and one not in without)


def difference(name: str, ours: str, theirs: str) -> str:
    """One thing that is said differently, in words: by the second in place of the first."""
    return f"another {name}" if name == "__getitems__" else f"{name} {theirs} in place of {ours}"


def refused(who: str, names: tuple[str, ...], ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The sentence about things that two jobs say differently, with its remedy, without a full stop."""
    told = ", ".join(difference(one, ours[one], theirs[one]) for one in names)
    levels = {one: ours[one] if theirs[one] in OFF else theirs[one] for one in names}
    measured = ", ".join(MEASURED_AS[one].format(levels[one]) for one in names if one in MEASURED_AS)
    return f"{who} has {told}, which every arm is given alike; give both the same" + (
        f", and measure that by itself ({measured})" if measured else ""
    )


# Two jobs together: both arms of a comparison have one size, and draw their items in one way.


def together(ours: Facts, theirs: Facts, *, each_its_own: bool) -> Facts:
    """The first job's facts with all that its arms must share with the second's.

    The longer epoch, new samples for each window if either data set keeps items, and seeds if either draws items.
    With `each_its_own` batches are fetched whole wherever a data set fetches them so in a training, unless items of
    either need seeds, or the batches cannot be used.
    """
    seeded = ours.seeded or theirs.seeded
    steps = min(max(ours.epoch_steps, theirs.epoch_steps), ours.steps, theirs.steps)
    whole = each_its_own and not seeded and {ours.fetches, theirs.fetches} <= {"", USABLE}
    fixed, dropped = dict(ours.fixed), set[str]()
    if seeded or (whole and ours.fetches):
        dropped = {"batched_fetch"}
    if whole and USABLE in {ours.fetches, theirs.fetches}:
        fixed.setdefault("collate", "the data set fetches whole batches")
    return replace(
        ours,
        least_items=min(one.least_items or one.items for one in (ours, theirs)),
        lengths_differ=ours.lengths_differ or theirs.lengths_differ or ours.items != theirs.items,
        epoch_steps=steps,
        keeps_items=ours.keeps_items or theirs.keeps_items,
        kept_outside=ours.kept_outside or theirs.kept_outside,
        seeded=seeded,
        in_order=ours.in_order and theirs.in_order,
        whole_batches=whole,
        fixed=fixed,
        traits=[one for one in ours.traits if one not in dropped],
        original={name: words for name, words in ours.original.items() if name not in dropped},
        notes=_notes_together(ours, theirs, steps),
    )


def _notes_together(ours: Facts, theirs: Facts, steps: int) -> list[Note]:
    """The first job's notes, with what the second's data set makes of epochs and items."""
    notes = [one for one in ours.notes if one.what != "epoch"]
    words = taken(in_order=ours.in_order and theirs.in_order, always=ours.kept_outside or theirs.kept_outside)
    kept = (theirs.keeps_items and not ours.keeps_items) or (theirs.kept_outside and not ours.kept_outside)
    for what, alone in (("reading again", kept), ("items", theirs.seeded and not ours.seeded)):
        if alone:
            notes += [replace(one, what=f"{what}, the other's") for one in theirs.notes if one.what == what]
    if steps < ours.steps:
        notes.append(Note("epoch", f"{steps} of {ours.steps:,} steps, {words}"))
    return notes
