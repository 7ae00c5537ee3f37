"""Items: the user's data set in an order and number of ours, and batches as flat tuples of tensors."""

import inspect
import pickle
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator
from torch import Tensor, nn
from torch.utils import _pytree as trees
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from harness.core.mistake import Mistake
from harness.core.own_file import Sent

if TYPE_CHECKING:
    from harness.own.job import Job


WATCHED = "put `for batch in speedmatrix.watch(loader):` into your own loop"


@dataclass(frozen=True, slots=True)
class Source:
    """A job's data set and how its items become a batch."""

    dataset: Any
    batch: int | None
    collate: Callable[[list[Any]], Any] | None  # None: PyTorch's own
    loader: Any = None  # the loader that they came from, if they did


def source_of(job: "Job") -> Source:
    """The data of a job; raises Mistake for what cannot be indexed."""
    given = called(job.dataset) if is_factory(job.dataset) else job.dataset
    if not isinstance(given, DataLoader):
        return Source(_indexed(given), job.batch, job.collate)
    dataset = _indexed(given.dataset)
    if given.batch_sampler is None and job.batch is None:
        raise Mistake(
            "The loader has batch_size=None, so that each item is a batch; give speedmatrix.job(...) batch=1 and "
            f"collate=lambda items: items[0], or {WATCHED}."
        )
    collate = job.collate or (None if given.collate_fn is default_collate else given.collate_fn)
    return Source(dataset, job.batch or given.batch_size, collate, given)


def _indexed(dataset: Any) -> Any:
    name = type(dataset).__name__
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise Mistake(
            f"The data set {name} cannot be indexed, so two arms cannot be given the same samples; give a map-style "
            f"data set, or {WATCHED}."
        )
    if not hasattr(dataset, "__len__"):
        raise Mistake(f"The data set {name} has no length; define __len__ beside __getitem__.")
    return dataset


def is_factory(given: Any) -> bool:
    """Whether something makes the thing that is meant: a class, a function or a partial, and no object of its kind."""
    if isinstance(given, type) or inspect.isroutine(given):
        return True
    return callable(given) and not isinstance(given, nn.Module) and not hasattr(given, "__getitem__")


def called(factory: Callable[[], Any]) -> Any:
    """What a factory without arguments makes; raises Mistake for one that wants some."""
    try:
        inspect.signature(factory, follow_wrapped=False).bind()  # of a decorated one, as it is called
    except TypeError as error:
        name = getattr(factory, "__name__", str(factory))
        raise Mistake(f"{name} cannot be called without arguments ({error}); write lambda: {name}(...).") from error
    except ValueError:
        pass  # written in C
    return factory()


@dataclass(frozen=True, slots=True)
class Shape:
    """How the items of a data set become what travels: a flat tuple of tensors."""

    pair: bool  # a batch is inputs and targets, one tensor each, and so are items
    collate: Callable[[list[Any]], Any] | None  # the user's own
    structure: Any = None  # of a batch that is no pair
    constants: tuple[tuple[int, Any], ...] = ()  # leaves that are None, with their places
    kind: type | None = None  # of a batch that is a mapping of another class than PyTorch's trees know
    few: int = 2  # items that are looked at as a batch: as many as one has where its code takes no fewer

    @property
    def finished(self) -> bool:
        """Whether the data set has to hand over finished batches."""
        return self.collate is not None or not self.pair

    @property
    def tensors(self) -> int:
        """How many of them a batch is that is no pair."""
        return int(self.structure.num_leaves) - len(self.constants)


def shape_of(job: "Job", source: Source | None = None) -> Shape:
    """The form of a job's batches, told from its first items; raises Mistake where no batch can be made of them."""
    source = source or source_of(job)
    if not len(source.dataset):
        raise Mistake("The data set is empty; give one with at least as many items as a batch.")
    with untouched(source.dataset):
        items, batch = first_batch(source)
    known = plain(batch)
    leaves, structure = trees.tree_flatten(known)
    constants = tuple((place, one) for place, one in enumerate(leaves) if not isinstance(one, Tensor))
    if strange := next((type(one) for _, one in constants if one is not None), None):
        raise Mistake(
            f"A batch holds a {strange.__name__}, which cannot be sent to a device; let the data set return tensors "
            f"and numbers, give collate= a function that makes a tensor of it, or {WATCHED}."
        )
    if source.collate is not None and source.batch != 1 and _has_other_parts(known, source):
        raise Mistake(
            f"A batch of four items has other parts than one of {len(items)}, so that none can be made anew from its "
            f"tensors; let collate= stack or pad them, or {WATCHED}."
        )
    kind = None if type(known) is type(batch) else type(batch)
    if job.loop is not None or job.training_step is not None:
        return Shape(
            pair=False, collate=source.collate, structure=structure, constants=constants, kind=kind, few=len(items)
        )
    if not isinstance(batch, (tuple, list)) or len(batch) != 2 or not all(isinstance(one, Tensor) for one in batch):
        raise Mistake(
            f"A batch is {described(batch)} and no pair of inputs and targets; give "
            "training_step=lambda model, batch: ... which returns the loss."
        )
    return Shape(pair=True, collate=source.collate, few=len(items))


def first_batch(source: Source) -> tuple[list[Any], Any]:
    """The first items and a batch of them: two, or as many as a batch has where the collate function takes no fewer."""
    dataset, whole = source.dataset, source.batch if isinstance(source.batch, int) else 0
    items = [dataset[index] for index in range(min(1 if whole == 1 else 2, len(dataset)))]
    try:
        return items, collated(items, source.collate)
    except Mistake:
        if source.collate is None or whole <= len(items):
            raise
    items += [dataset[index] for index in range(len(items), min(whole, len(dataset)))]
    return items, collated(items, source.collate)


def _has_other_parts(known: Any, source: Source) -> bool:
    """Whether a batch of four items has other parts than one that is known, if so many can be collated at all."""
    with untouched(source.dataset):
        items = [source.dataset[index] for index in range(min(4, len(source.dataset)))]
    try:
        leaves, structure = trees.tree_flatten(plain(collated(items, source.collate)))
    except Mistake:
        return False
    ours, ours_structure = trees.tree_flatten(known)
    return ([type(one) for one in leaves], structure) != ([type(one) for one in ours], ours_structure)


def collated(items: list[Any], collate: Callable[[list[Any]], Any] | None) -> Any:
    """A batch of items; raises Mistake where their shapes differ or they are nothing that can be collated."""
    try:
        return (collate or default_collate)(items)
    except (RuntimeError, TypeError, KeyError, ValueError, AttributeError, IndexError, AssertionError) as error:
        if collate is not None:
            told = f"{type(error).__name__}: {first_line(error)}"
            raise Mistake(f"The collate function fails on {len(items)} items ({told}); put it right.") from error
        shapes = [described(one) for one in items]
        if "equal size" in str(error) or "resize storage" in str(error):
            raise Mistake(
                f"Items differ in shape ({' and '.join(dict.fromkeys(shapes))}), so that no batch can be made of them; "
                "give collate= a function that pads them, or batch=1."
            ) from error
        raise Mistake(
            f"No batch can be made of items that are {shapes[0]} ({type(error).__name__}: {first_line(error)}); let "
            "the data set return tensors and numbers, or give collate=."
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's words, without a full stop."""
    return (str(error).splitlines() or [""])[0].rstrip(". :")


def described(batch: Any) -> str:
    """An item or a batch in words, by its parts and their shapes."""
    if isinstance(batch, (Tensor, np.ndarray)):
        return f"{type(batch).__name__}({', '.join(map(str, batch.shape))})"
    if isinstance(batch, Mapping):
        return f"{{{', '.join(f'{name}: {described(one)}' for name, one in list(batch.items())[:6])}}}"
    if isinstance(batch, (tuple, list)) and len(batch) <= 6:
        return f"({', '.join(map(described, batch))})"
    return type(batch).__name__


def plain(batch: Any) -> Any:
    """A batch whose mappings are dictionaries, such as a tokenizer's, into which PyTorch's trees do not look."""
    return trees.tree_map(lambda one: plain(dict(one)) if isinstance(one, Mapping) else one, batch)


def leaves_of(batch: Any) -> list[Any]:
    """The tensors and other values of a batch, in one order."""
    found: list[Any] = trees.tree_leaves(batch)
    if any(isinstance(one, Mapping) for one in found):
        return leaves_of(plain(batch))
    return found


# Reading in the trainer, before loader workers are forked from it.

WALKED, LISTED = 1000, 512  # objects that a data set consists of; entries of a container that may be some


@contextmanager
def untouched(*given: Any) -> Iterator[None]:
    """Puts back what reading rebinds in data sets: above all a file that is opened with the first item.

    Workers that inherited it would share its position, and read each other's bytes.
    """
    state = _state_of(given)
    before = [(one, dict(one)) for one in state if isinstance(one, dict)]
    lists = [(one, list(one)) for one in state if isinstance(one, list)]
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a file that nothing holds any more is closed
            for now, then in before:  # one by one: a thread of the data set's may read them meanwhile
                for name in now.keys() - then.keys():
                    del now[name]
                now.update({name: one for name, one in then.items() if now.get(name) is not one})
            for held, was in lists:
                if len(held) != len(was) or any(one is not other for one, other in zip(held, was, strict=True)):
                    held[:] = was


def _state_of(given: Any) -> list[dict[Any, Any] | list[Any]]:
    """The attributes of all objects within, and the dictionaries and lists among them, none of which is long."""
    found, waiting = dict[int, Any](), [given]
    while waiting and len(found) < WALKED:
        one = waiting.pop()
        if isinstance(one, (type, nn.Module, ModuleType, FunctionType)):
            continue
        inside = one if isinstance(one, (dict, list, tuple)) else getattr(one, "__dict__", None)
        if inside is None or id(inside) in found or len(inside) > LISTED:
            continue
        found[id(inside)] = inside
        waiting += inside.values() if isinstance(inside, dict) else inside
    return [one for one in found.values() if not isinstance(one, tuple)]


GOLDEN = 0.6180339887498949  # multiples of it, without their whole parts, lie evenly between 0 and 1


class Items(Dataset[Any]):
    """`count` items of a data set, evenly spread over all of it or `in_order`, each depending on its place alone.

    Each `draw` takes others of a longer data set, so that what is timed is no fixed part, whose luck no interval knows.
    Of a data set that fills an epoch `first` takes the first items, as a loader does that drops an incomplete batch.
    """

    def __init__(
        self,
        dataset: Any,
        count: int,
        shape: Shape,
        *,
        seeded: bool,
        file: Path | None,
        draw: int = 0,
        in_order: bool = False,
        first: bool = False,
    ) -> None:
        self.dataset, self.count, self.shape, self.seeded, self.file = dataset, count, shape, seeded, file
        self.first = first
        self.draw, self.in_order, self._length, self._start = draw, in_order, len(dataset), draw * GOLDEN % 1
        self.collated = shape.finished
        if shape.finished:
            self.__getitems__ = self._batch
        elif seeded:
            self.__getitems__ = self._items

    def __len__(self) -> int:
        return self.count

    def place(self, index: int) -> int:
        """Where an item lies in the user's data set."""
        if self.first:
            return index
        if self.in_order:
            return (index + int(self._start * self._length)) % self._length
        return int((index + self._start) * self._length / self.count)

    def __getitem__(self, index: int) -> Any:
        place = self.place(index)
        if not self.seeded:
            return self.dataset[place]
        with drawn_from(place):
            return self.dataset[place]

    def _items(self, indices: list[int]) -> list[Any]:
        """Several items; where they are seeded, random numbers are put back once for all of them."""
        places = map(self.place, indices)
        if not self.seeded:
            return [self.dataset[one] for one in places]
        with undisturbed():
            return [self._drawn(one) for one in places]

    def _drawn(self, place: int) -> Any:
        seed_all(place)
        return self.dataset[place]

    def _batch(self, indices: list[int]) -> list[Tensor]:
        if not self.seeded:
            return self.finish(self._items(indices))
        places = [self.place(one) for one in indices]
        with undisturbed():
            items = [self._drawn(one) for one in places]
            seed_all(places[0])  # what makes a batch of them may draw too
            return self.finish(items)

    def finish(self, items: list[Any]) -> list[Tensor]:
        """A batch of items as a flat list of tensors."""
        return [one for one in leaves_of((self.shape.collate or default_collate)(items)) if isinstance(one, Tensor)]

    def __reduce__(self) -> tuple[Any, ...]:
        sent = Sent(self.file, pickle.dumps((self.dataset, self.shape)))
        how = {"seeded": self.seeded, "file": self.file, "draw": self.draw, "in_order": self.in_order}
        how["first"] = self.first
        return _received, (type(self), sent, self.count, how)


def _received(kind: type[Items], sent: Any, count: int, how: dict[str, Any]) -> Items:
    dataset, shape = sent
    return kind(dataset, count, shape, **how)


class Kept(list[Any]):
    """Items that were read once, when the arm was built, each at its place in the data set; None where none was read.

    So whoever reads them sets the seeds that belong to those places, as is done for items that are read anew.
    """

    @classmethod
    def of(cls, items: Items) -> "Kept":
        """All of these items."""
        held = cls([None] * len(items.dataset))
        for index in range(len(items)):
            held[items.place(index)] = items[index]
        return held

    def __getitems__(self, places: list[int]) -> list[Any]:
        return [self[one] for one in places]


def is_tensors(dataset: Any) -> bool:
    """Whether a data set is PyTorch's own of tensors, which one index reads, and no class that gives other items."""
    kind = type(dataset)
    return isinstance(dataset, TensorDataset) and all(
        getattr(kind, one, None) is getattr(TensorDataset, one, None) for one in ("__getitem__", "__getitems__")
    )


def fetches_batches(dataset: Any) -> bool:
    """Whether PyTorch's loader asks a data set for whole batches."""
    return bool(getattr(dataset, "__getitems__", None))


class Indexed(Items):
    """The same items, a batch of them in one call: of tensors, or of a data set that has `__getitems__`.

    No seed is set between the items of one call, so these are not for items that are drawn from their index.
    """

    def __init__(self, dataset: Any, count: int, shape: Shape, **how: Any) -> None:
        super().__init__(dataset, count, shape, **how)
        self.collated = True
        self.__getitems__ = self._whole

    def _whole(self, indices: list[int]) -> list[Tensor]:
        places = [self.place(one) for one in indices]
        if is_tensors(self.dataset):
            chosen = torch.tensor(places)
            return [one[chosen] for one in self.dataset.tensors]
        return self.finish(self.dataset.__getitems__(places))


def seed_all(seed: int) -> None:
    """Sets the generators of torch, of Python and of numpy, from which data sets draw."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  what data sets draw from


_OF_ITEMS = np.random.MT19937(0)  # in place of numpy's own generator, whose state takes 70 µs to save and put back


@contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers go on afterwards as before the block, which must not be entered again from within.

    Of numpy's that is all but the second half of a pair of normal deviates.
    """
    ours, theirs, numpys = torch.get_rng_state(), random.getstate(), get_bit_generator()
    set_bit_generator(_OF_ITEMS)
    try:
        yield
    finally:
        torch.set_rng_state(ours)
        random.setstate(theirs)
        set_bit_generator(numpys)


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Random numbers within the block depend on the seed alone; afterwards they go on as before."""
    ours, theirs, numpys = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        seed_all(seed)
        yield
    finally:
        torch.set_rng_state(ours)
        random.setstate(theirs)
        np.random.set_state(numpys)  # noqa: NPY002


def uses_generators(read: Callable[[], Any]) -> bool:
    """Whether a call draws from the generators of torch, random or numpy that a seed reaches, whatever comes of it."""
    with drawn_from(1):
        before = _states()
        read()
        return _states() != before


def _states() -> tuple[bytes, Any, bytes, int]:
    _, key, place, *_ = np.random.get_state()  # noqa: NPY002
    return bytes(torch.get_rng_state().numpy()), random.getstate(), np.asarray(key).tobytes(), int(place)


def batch_of(tensors: Sequence[Tensor], shape: Shape) -> Any:
    """The batch as the user's code knows it."""
    leaves: list[Any] = list(tensors)
    for place, value in shape.constants:
        leaves.insert(place, value)
    found = trees.tree_unflatten(leaves, shape.structure)
    return found if shape.kind is None else shape.kind(found)


def shapes_of(item: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of the tensors and arrays in an item, in their order."""
    return tuple(tuple(one.shape) for one in leaves_of(item) if isinstance(one, (Tensor, np.ndarray)))


def bytes_of(items: Any) -> int:
    """Bytes of the tensors and arrays in an item or a batch, and about those of what else lies in it."""
    return sum(map(_bytes, leaves_of(items)))


def _bytes(one: Any) -> int:
    """What lies in memory for a value; of a class that keeps its content elsewhere, as pictures do, when it is sent."""
    if isinstance(one, (Tensor, np.ndarray)):
        return one.nbytes
    if isinstance(one, (str, bytes, int, float, bool, type(None))):
        return sys.getsizeof(one)
    try:
        return len(pickle.dumps(one))
    except Exception:  # noqa: BLE001  whatever a user's class raises
        return sys.getsizeof(one)


class Nowhere:
    """Takes bytes and keeps none."""

    def write(self, data: bytes) -> int:
        """Throws them away."""
        return len(data)
