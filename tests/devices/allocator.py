"""The allocations of a training step, traced without a device, and a model of the allocator that would serve them.

The model follows c10/cuda/CUDACachingAllocator.cpp with its default settings: requests are rounded to 512 bytes; small
ones share segments of 2 MiB, larger ones segments of 20 MiB, those from 10 MiB on have one of their own; the smallest
free block that is large enough serves a request and is split where enough remains; free neighbours become one block.
A tensor of FakeTensorMode has a size and an attempt, and no memory.
"""

import weakref
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 1 << 20
SMALLEST, SMALL = 512, MIB  # bytes: of a block, and up to which a request is small
SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT, OWN_STEP = 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB

Event = tuple[int, int]  # number of an allocation and its bytes; no bytes: it is freed


def rounded(size: int) -> int:
    """Bytes of the block that a request gets."""
    return max(SMALLEST, -(-size // SMALLEST) * SMALLEST)


def segment_bytes(size: int) -> int:
    """Bytes that the driver is asked for where no free block serves a request of rounded size."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < OWN_SEGMENT else -(-size // OWN_STEP) * OWN_STEP


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment, in use or free, between its neighbours."""

    size: int
    address: int
    small: bool
    free: bool = False
    before: "Block | None" = None
    behind: "Block | None" = None


@dataclass(slots=True)
class Allocator:
    """What a device's allocator would have reserved after some requests; it never runs out."""

    reserved: int = 0
    in_use: int = 0
    segments: int = 0
    _blocks: dict[int, Block] = field(default_factory=dict)  # in use, by the request's number
    _free: dict[bool, list[tuple[int, int]]] = field(default_factory=lambda: {True: [], False: []})
    _at: dict[int, Block] = field(default_factory=dict)  # free ones, by address

    def replay(self, events: Iterable[Event]) -> None:
        """Serves requests and takes blocks back, in order."""
        for number, size in events:
            if size:
                self.allocate(number, size)
            else:
                self.free(number)

    def allocate(self, number: int, size: int) -> None:
        """Serves one request."""
        size = rounded(size)
        block = self._found(size) or self._segment(size)
        remains = block.size - size
        if remains >= SMALLEST if block.small else remains > SMALL:
            rest = Block(remains, block.address + size, block.small, before=block, behind=block.behind)
            if block.behind:
                block.behind.before = rest
            block.size, block.behind = size, rest
            self._put(rest)
        self._blocks[number] = block
        self.in_use += block.size

    def free(self, number: int) -> None:
        """Takes a block back and joins it with free neighbours."""
        block = self._blocks.pop(number)
        self.in_use -= block.size
        if block.before and block.before.free:
            block = self._joined(self._taken(block.before), block)
        if block.behind and block.behind.free:
            block = self._joined(block, self._taken(block.behind))
        self._put(block)

    def _found(self, size: int) -> Block | None:
        free = self._free[size <= SMALL]
        place = bisect_left(free, (size, 0))
        return self._taken(self._at[free[place][1]]) if place < len(free) else None

    def _segment(self, size: int) -> Block:
        given = segment_bytes(size)
        self.reserved += given
        self.segments += 1
        return Block(given, self.reserved << 8, small=size <= SMALL)  # far from the segments before it

    def _put(self, block: Block) -> None:
        block.free = True
        insort(self._free[block.small], (block.size, block.address))
        self._at[block.address] = block

    def _taken(self, block: Block) -> Block:
        free = self._free[block.small]
        del free[bisect_left(free, (block.size, block.address))]
        del self._at[block.address]
        block.free = False
        return block

    @staticmethod
    def _joined(first: Block, second: Block) -> Block:
        first.size += second.size
        first.behind = second.behind
        if second.behind:
            second.behind.before = first
        return first


class Trace(TorchDispatchMode):
    """Notes each storage that an operator makes while it is entered, and when the last tensor on it is gone."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[Event] = []
        self._numbers: dict[int, int] = {}
        self._count = 0

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, FakeTensor):
                self._note(one)
        return result

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._numbers or not size:
            return
        self._count += 1
        self._numbers[key] = self._count
        self.events.append((self._count, size))
        weakref.finalize(storage, self._gone, key).atexit = False

    def _gone(self, key: int) -> None:
        self.events.append((self._numbers.pop(key), 0))

    @contextmanager
    def part(self) -> Iterator[list[Event]]:
        """What is noted within the block."""
        begun, found = len(self.events), list[Event]()
        yield found
        found += self.events[begun:]
