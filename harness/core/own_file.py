"""A user's own file: run in this process to find what it defines, but no further than to where it would measure."""

import importlib.util
import os
import pickle
import random
import re
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from harness.core.mistake import Mistake

PICKLED = ".job"  # the end of the name of a file that holds a job which no script defines
MOST_FILES = 4_000  # of a user's own, whose text is part of what it is
MOST_ENTRIES = 500  # of a folder below it that may hold code; larger ones hold data


class Reached(BaseException):
    """A file that is only read has come to the call that measures a job; `job` is that job."""

    def __init__(self, job: object) -> None:
        super().__init__("a file that is only read measures nothing")
        self.job = job


NOW = "now"  # the option that puts the code of the working tree in the place of a commit's


@dataclass(frozen=True, slots=True)
class Address:
    """Where something of a user's lies: a file, and the names in it, of which the first is the reference.

    `version` tells of a file that is compared with itself at another time: of the old one where the new one lies, and
    `NOW` of the new one.
    """

    path: Path
    names: tuple[str, ...] = ()
    version: str = ""

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.path}{names}" + (f"@{self.version}" if self.version else "")


_ADDRESS = re.compile(r"(?P<path>.*?(?:\.py|\.job))(?::(?P<names>[^@]*))?(?:@(?P<version>.*))?")


def parse_address(text: str) -> Address:
    """An address from `train.py`, `train.py:job` or `train.py:job,other`."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return Address(Path(text))
    names = (one.strip() for one in (found["names"] or "").split(","))
    return Address(Path(found["path"]), tuple(filter(None, names)), found["version"] or "")


def files_of(path: Path) -> list[Path]:
    """A user's file, and the Python files below its folder and in its repository, which it may import."""
    if path.suffix == PICKLED:
        return [path]
    repository = next((one for one in path.parents if (one / ".git").exists()), path.parent)
    tops = dict.fromkeys((path.parent, repository))
    return [path, *islice(chain.from_iterable(map(python_files, tops)), MOST_FILES)]


def python_files(top: Path, most: int | None = None) -> Iterator[Path]:
    """The Python files below a folder, in one order, without those of environments, hidden folders and data."""
    try:
        with os.scandir(top) as found:
            entries = sorted(islice(found, most), key=lambda one: one.name)
    except OSError:  # a folder of somebody else's
        return
    if len(entries) == most or any(one.name == "pyvenv.cfg" for one in entries):
        return
    yield from (Path(one) for one in entries if one.name.endswith(".py") and one.is_file())
    for one in entries:
        if one.is_dir(follow_symlinks=False) and not one.name.startswith((".", "__pycache__")):
            yield from python_files(Path(one), MOST_ENTRIES)


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What running a file gave: its names, and the job at whose measurement it was left, if it came to that."""

    names: dict[str, Any]
    reached: object = None
    installed: tuple[str, ...] = ()  # modules of installed packages that it has imported


_read: dict[tuple[Path, int], OwnFile] = {}
_being_read: list[Path] = []


def is_being_read() -> bool:
    """Whether a file is only read at this moment, so that nothing in it may measure."""
    return bool(_being_read)


def installed_in(path: Path) -> tuple[str, ...]:
    """Modules of installed packages that a file imports, if it was read in this process."""
    read = [one for (place, _), one in _read.items() if place == path.resolve()]
    return read[-1].installed if read else ()


def read_file(path: Path) -> OwnFile:
    """Runs a file once in this process, as a module of its own name; raises Mistake where it cannot be run."""
    if not path.is_file():
        raise Mistake(
            f"There is no workload file {path}; give the path of a Python file that defines WORKLOAD or a job."
        )
    key = path.resolve(), path.stat().st_mtime_ns
    if key not in _read:
        _read[key] = _unpickled(path) if path.suffix == PICKLED else _run(path.resolve())
    return _read[key]


def _unpickled(path: Path) -> OwnFile:
    try:
        return OwnFile(dict(pickle.loads(path.read_bytes())))  # noqa: S301  written by this user's own session
    except Exception as error:
        raise Mistake(
            f"The job in {path} cannot be loaded here ({type(error).__name__}: {error}); "
            "define it in a script, and give that to ./speedmatrix tune."
        ) from error


def _run(path: Path) -> OwnFile:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise Mistake(f"{path} is not a Python file; a workload file ends in .py.")
    module = importlib.util.module_from_spec(specification)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # so that loader workers can find its classes again
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as for any script, for the modules beside it
    if (found := unpacked(path)) is not None:
        _import_from(*found)
    known, threads = set(sys.modules), _threads()
    with _reading(path), _drawing_alike():
        try:
            specification.loader.exec_module(module)
        except Reached as reached:
            return OwnFile(vars(module), reached.job, _installed(module, known, threads))
        except Mistake:
            raise
        except (Exception, SystemExit) as error:
            _forget(path.stem, before)
            raise Mistake(_words(path, error)) from error
    return OwnFile(vars(module), installed=_installed(module, known, threads))


@contextmanager
def _drawing_alike() -> Iterator[None]:
    """What a file draws at random while it is imported is drawn alike in every arm; then numbers go on as before."""
    numpy, before = sys.modules.get("numpy"), random.getstate()
    legacy = numpy.random.get_state() if numpy else None
    random.seed(0)
    if numpy:
        numpy.random.seed(0)
    try:
        yield
    finally:
        random.setstate(before)
        if numpy:
            numpy.random.set_state(legacy)


def _threads() -> int:
    with suppress(OSError):  # a system without /proc
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    return threading.active_count()


def _installed(module: ModuleType, known: set[str], threads: int) -> tuple[str, ...]:
    """Modules of installed packages that a file has imported; none where some began a thread, which a fork leaves."""
    if _threads() > threads:
        return ()
    places = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
    found = set()
    for one in vars(module).values():
        if isinstance(one, ModuleType | FunctionType | type):
            name = one.__name__ if isinstance(one, ModuleType) else one.__module__
            top = sys.modules.get(name.partition(".")[0])
            if name in sys.modules and name not in known and (getattr(top, "__file__", "") or "").startswith(places):
                found.add(name)
    return tuple(sorted(found))


# A file as it was at a commit lies in a tree of its own, and so must all modules that it imports.

ORIGIN = ".origin"  # the end of the name of a file beside such a tree: it holds the place of the working tree
HARNESS = Path(__file__).resolve().parents[2]
OURS = tuple(HARNESS / name for name in ("harness", "workloads", "speedmatrix.py"))


def unpacked(path: Path) -> tuple[Path, Path] | None:
    """The unpacked tree of a commit that holds a file, and the working tree that has it now; None for other files."""
    for tree in path.parents[:-1]:
        origin = tree.with_name(f"{tree.name}{ORIGIN}")
        if origin.is_file():
            return tree, Path(origin.read_text(encoding="utf-8"))
    return None


def _import_from(tree: Path, top: Path) -> None:
    """Puts places of the unpacked tree before those of the working tree, where packages are installed editable too."""

    def then(entry: str) -> list[str]:
        place = Path(entry).resolve()
        inside = place.is_relative_to(top) and not place.is_relative_to(tree) and place != HARNESS
        there = tree / place.relative_to(top) if inside else None
        return [str(there)] if there and there.exists() else []

    sys.path[:] = [one for entry in sys.path for one in (*then(entry), entry)]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__") and isinstance(mapping := getattr(module, "MAPPING", None), dict):
            mapping |= {package: one for package, place in mapping.items() for one in then(place)}


def strangers(path: Path) -> list[str]:
    """Modules in this process that belong to another version of a file's repository than the file does.

    Beside a file of a commit: those of the working tree, but for environments. Beside any other: those of a commit.
    """
    here, found = unpacked(path), []
    elsewhere = [*OURS, *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))]
    for name, module in list(sys.modules.items()):
        file = Path(os.path.realpath(getattr(module, "__file__", None) or "/"))
        if here is None:
            strange = unpacked(file) is not None
        else:
            tree, top = here
            inside = file.suffix == ".py" and file.is_relative_to(top) and not file.is_relative_to(tree)
            strange = inside and "site-packages" not in file.parts and not any(map(file.is_relative_to, elsewhere))
        if strange:
            found.append(f"{name} from {file}")
    return found


def _forget(name: str, before: ModuleType | None) -> None:
    sys.modules.pop(name, None)
    if before is not None:
        sys.modules[name] = before


def _words(path: Path, error: BaseException) -> str:
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
    place = f" in line {lines[-1]}" if lines else ""
    if isinstance(error, SystemExit):
        return f'{path.name} ends itself{place} when it is imported; move that below `if __name__ == "__main__":`.'
    return (
        f"{path.name} cannot be imported ({type(error).__name__}{place}: {error}); put it right, or move what only the "
        'script needs below `if __name__ == "__main__":`.'
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Within the block nothing measures, and the file sees no command line but its own name."""
    arguments, sys.argv = sys.argv, [str(path)]
    _being_read.append(path)
    try:
        yield
    finally:
        _being_read.pop()
        sys.argv = arguments


# What a loader worker gets where it is no copy of the process that trains.


@dataclass(frozen=True, slots=True)
class Sent:
    """A value of a user's file for another process, which runs that file before it unpickles."""

    path: Path | None
    data: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return received, (None if self.path is None else str(self.path), self.data)


def received(path: str | None, data: bytes) -> object:
    """The value, after its file was run."""
    if path is not None and not path.endswith(PICKLED):
        read_file(Path(path))
    return pickle.loads(data)  # noqa: S301  sent by the process that started this one
