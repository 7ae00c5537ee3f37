"""Whose `malloc` a process calls, in programs that may lie anywhere and in those at a fixed address."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOW = "from harness.measure.loaded import file_of_malloc; print(file_of_malloc())"
# An allocator of its own, as far as a linker can see.
ALLOCATOR = """#include <stddef.h>
void *__libc_malloc(size_t size);
void *malloc(size_t size) { return __libc_malloc(size); }
"""
FIXED = 2  # e_type of an ELF file: ET_EXEC


def kind_of(program: str) -> int:
    return int.from_bytes(Path(program).resolve().read_bytes()[16:18], sys.byteorder)


def programs() -> list[str]:
    """This Python, and the system's own where that lies at a fixed address, as Debian's does."""
    others = [path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()]
    return [sys.executable, *(one for one in others if kind_of(one) == FIXED)]


def asked(program: str, **variables: str) -> Path:
    told = subprocess.run(
        [program, "-c", SHOW],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Path(told.stdout.strip())


@pytest.fixture(scope="module")
def allocator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (compiler := shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("allocator")
    (folder / "own.c").write_text(ALLOCATOR)
    path = folder / "libjemalloc.so.2"
    subprocess.run([compiler, "-shared", "-fPIC", "-fno-builtin", "-o", path, folder / "own.c"], check=True)
    return path


@pytest.mark.parametrize("program", programs())
def test_a_preloaded_allocator_is_found_and_the_c_librarys_own_without_one(program: str, allocator: Path) -> None:
    assert asked(program).name.startswith(("libc.so", "libc-", "libc.musl"))
    assert asked(program, LD_PRELOAD=str(allocator)) == allocator


@pytest.mark.parametrize("program", programs())
def test_a_preloaded_library_without_a_malloc_changes_nothing(program: str, tmp_path: Path) -> None:
    if not (compiler := shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("needs a C compiler")
    (tmp_path / "other.c").write_text("int nothing(void) { return 0; }\n")
    path = tmp_path / "libjemalloc.so.2"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, tmp_path / "other.c"], check=True)
    assert asked(program, LD_PRELOAD=str(path)).name.startswith(("libc.so", "libc-", "libc.musl"))
