"""What the process shows of how it was launched: who serves its memory, and on which cores it runs."""

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from harness.core.allocator import STEMS
from harness.core.recipe import Value

# Larger than any hole that a heap trimmed by glibc's own rules has free; nothing of it is ever touched.
PROBE_BYTES = 256 << 20


def of_launch() -> dict[str, Value]:
    """The allocator of host memory, and on CUDA the kind of the device's segments."""
    shown: dict[str, Value] = {"malloc": _allocator()}
    if torch.cuda.is_available():
        shown["expandable_segments"] = all_expandable(torch.cuda.memory_snapshot())
    return shown


def all_expandable(segments: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the caching allocator holds memory and every segment of it can grow."""
    kinds = [bool(segment.get("is_expandable")) for segment in segments]
    return bool(kinds) and all(kinds)


def _allocator() -> str:
    """Whose `malloc` is called; of glibc's, whether a large tensor comes from the heap or from a mapping of its own."""
    provider = Path(_file_of_malloc()).name
    if found := next((name for name in STEMS if name in provider), None):
        return found
    return "glibc" if _mapped_alone(torch.empty(PROBE_BYTES, dtype=torch.uint8)) else "tuned"


class _Symbol(ctypes.Structure):
    """Where an address belongs, as `dladdr` tells it: Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of_malloc() -> str:
    process, symbol = ctypes.CDLL(None), _Symbol()
    process.dladdr(ctypes.cast(process.malloc, ctypes.c_void_p), ctypes.byref(symbol))
    return bytes(symbol.file or b"").decode()


def _mapped_alone(tensor: torch.Tensor) -> bool:
    """Whether glibc gave a tensor a mapping of its own: IS_MMAPPED, the second bit of the size before each chunk.

    Where it lies does not tell: a heap that cannot grow in place goes on elsewhere. (malloc/malloc.c, "chunk details")
    """
    return bool(ctypes.c_size_t.from_address(tensor.data_ptr() - ctypes.sizeof(ctypes.c_size_t)).value & 2)
