"""Memory allocators that a process can be started with in place of its C library's own."""

import ctypes.util
import os
import sys
from functools import cache
from pathlib import Path

STEMS = {"jemalloc": ("jemalloc",), "tcmalloc": ("tcmalloc_minimal", "tcmalloc")}
PACKAGES = {"jemalloc": "libjemalloc2", "tcmalloc": "libtcmalloc-minimal4"}  # as Debian and Ubuntu call them
VERSIONS = (".2", ".4", "")  # of the libraries' interfaces; without one only where headers are installed too


def library_of(name: str) -> str | None:
    """What the loader of programs must be told to put the allocator in place, or None where it is not installed."""
    return _found(name, os.environ.get("LD_LIBRARY_PATH", ""))


@cache
def _found(name: str, library_path: str) -> str | None:
    folders = [*filter(None, library_path.split(os.pathsep)), f"{sys.prefix}/lib"]
    files = [f"lib{stem}.so{version}" for stem in STEMS[name] for version in VERSIONS]
    paths = (Path(folder, file) for folder in folders for file in files)
    if path := next((one for one in paths if one.is_file()), None):
        return str(path)
    return next(filter(None, map(ctypes.util.find_library, STEMS[name])), None)
