"""Libraries of this process: whose `malloc` it calls. Needs the standard library alone."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress


class _Symbol(ctypes.Structure):
    """Where an address belongs, as `dladdr` tells it: Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class _Loaded(ctypes.Structure):
    """The program, or a library, in the order in which symbols are looked up: the head of link_map of link.h."""


_Loaded._fields_ = (
    ("address", ctypes.c_size_t),
    ("name", ctypes.c_char_p),
    ("dynamic", ctypes.c_void_p),
    ("next", ctypes.POINTER(_Loaded)),
)
RTLD_DI_LINKMAP, RTLD_NOLOAD = 2, 4  # of dlfcn.h


def file_of_malloc() -> str:
    """The library whose `malloc` is called.

    A program at a fixed address, such as Debian's Python, answers with its own jump table when it is asked where
    `malloc` is. So the libraries are asked in turn, those that LD_PRELOAD names first.
    """
    for name in _libraries():
        with suppress(OSError):  # the kernel's own is no file
            if _file_of(ctypes.CDLL(name, RTLD_NOLOAD | os.RTLD_LAZY)) == name:
                return name
    return _file_of(ctypes.CDLL(None))


def _file_of(library: ctypes.CDLL) -> str:
    """The file of the `malloc` that a library finds: its own, or that of a library which it needs."""
    symbol = _Symbol()
    try:
        ctypes.CDLL(None).dladdr(ctypes.cast(library.malloc, ctypes.c_void_p), ctypes.byref(symbol))
    except AttributeError:  # neither has one
        return ""
    return bytes(symbol.file or b"").decode()


def _libraries() -> Iterator[str]:
    process, found = ctypes.CDLL(None), ctypes.POINTER(_Loaded)()
    handle = ctypes.c_void_p(process._handle)  # noqa: SLF001  ctypes tells it nowhere else
    if process.dlinfo(handle, RTLD_DI_LINKMAP, ctypes.byref(found)) == 0:
        while found:
            if found.contents.name:
                yield found.contents.name.decode()
            found = found.contents.next
