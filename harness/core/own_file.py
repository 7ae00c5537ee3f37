"""A user's own file: run in this process to find what it defines, but no further than to where it would measure."""

import ast
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import random
import re
import sys
import sysconfig
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count, islice
from pathlib import Path
from stat import S_ISREG
from time import time
from types import FunctionType, ModuleType
from typing import Any

from harness.core.mistake import Mistake

PICKLED = ".job"  # the end of the name of a file that holds a job which no script defines
MOST_FILES = 4_000  # of a user's own, whose text is part of what it is
MOST_ENTRIES = 500  # of a folder below it that may hold code; larger ones hold data
MOST_BYTES = 1 << 20  # of a file that is read while a user's file is run; larger ones hold data
MOST_READ = 20  # such files of one folder; where there are more, they hold data
TOLD = "SPEEDMATRIX_OWN"  # a variable of arms: the digests of jobs, by their addresses
MOST_TOLD = 100  # of them, the latest
HARNESS = Path(__file__).resolve().parents[2]
OURS = tuple(HARNESS / name for name in ("harness", "workloads", "speedmatrix.py"))


class Reached(BaseException):
    """A file that is only read has come to the call that measures a job; `job` is that job."""

    def __init__(self, job: object) -> None:
        super().__init__("a file that is only read measures nothing")
        self.job = job


class Trains(BaseException):
    """A file that is only read goes on to train."""


class NoJob(Mistake):
    """A file has no job, or none under the name that was given."""


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


_TRAINING = "own training, "


def training_of(file: str, digest: str) -> str:
    """What is said of the data of a training that a user's file makes."""
    return f"{_TRAINING}{file} {digest}"


def file_and_digest(told: str) -> tuple[str, str]:
    """What `training_of` was told; both are empty where no file makes the training."""
    file, _, digest = told.removeprefix(_TRAINING).rpartition(" ") if told.startswith(_TRAINING) else ("", "", "")
    return file, digest


def files_of(path: Path) -> list[Path]:
    """A user's file, the Python files below its folder and in its repository, and what it was seen to need."""
    found = [path]
    if path.suffix != PICKLED:
        repository = next((one for one in path.parents if (one / ".git").exists()), path.parent)
        tops = dict.fromkeys((path.parent, repository))
        found += islice(chain.from_iterable(map(python_files, tops)), MOST_FILES)
    return [*found, *sorted(set(map(Path, needs_of(path).files)) - set(found))]


def content(file: Path) -> bytes:
    """What a file holds; nothing where this user may not read it, who then cannot import it either."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def python_files(top: Path, most: int | None = None) -> Iterator[Path]:
    """The Python files below a folder, in one order, without those of environments, hidden folders and data."""
    try:
        with os.scandir(top) as found:
            entries = sorted(islice(found, most), key=lambda one: one.name)
    except OSError:  # a folder of somebody else's
        return
    if len(entries) == most or any(one.name == "pyvenv.cfg" for one in entries):
        return
    yield from (Path(one) for one in entries if one.name.endswith(".py") and _is_file(one))
    for one in entries:
        if one.is_dir(follow_symlinks=False) and not one.name.startswith((".", "__pycache__")):
            yield from python_files(Path(one), MOST_ENTRIES)


def _is_file(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # of a link into a folder of somebody else's
        return entry.is_file()
    return False


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What running a file gave: its names, and the job at whose measurement it was left, if it came to that."""

    names: dict[str, Any]
    reached: object = None
    installed: tuple[str, ...] = ()  # modules of installed packages that it has imported
    left: str = ""  # ` in line 12`, where it went on to train and was left


_read: dict[tuple[Path, int], OwnFile] = {}
_being_read: list[Path] = []


def is_being_read() -> bool:
    """Whether a file is only read at this moment, so that nothing in it may measure."""
    return bool(_being_read)


def installed_in(path: Path) -> tuple[str, ...]:
    """Modules of installed packages that a file imports, if it was read in this process."""
    read = [one for (place, _), one in _read.items() if place == path.resolve()]
    return read[-1].installed if read else ()


def name_in(path: Path, value: object) -> str | None:
    """The first name that a value has in a file, if that was read in this process."""
    read = (one.names for (place, _), one in _read.items() if place == path.resolve())
    return next((name for names in read for name, one in names.items() if one is value), None)


def read_file(path: Path) -> OwnFile:
    """Runs a file once in this process, as a module of its own name; raises Mistake where it cannot be run."""
    if not path.is_file():
        raise Mistake(
            f"There is no workload file {path}; give the path of a Python file that defines WORKLOAD or a job."
        )
    key = path.resolve(), path.stat().st_mtime_ns
    if key not in _read:
        _read[key] = (_unpickled if path.suffix == PICKLED else _run)(path.resolve())
    return _read[key]


def _unpickled(path: Path) -> OwnFile:
    try:
        with _needing(path):
            return OwnFile(dict(pickle.loads(path.read_bytes())))  # noqa: S301  written by this user's own session
    except Exception as error:
        raise Mistake(
            f"The job in {path} cannot be loaded here ({type(error).__name__}: {error}); "
            "define it in a script, and give that to ./speedmatrix tune."
        ) from error


def _run(path: Path) -> OwnFile:
    package = _find_modules(path)
    name = f"{package}.{path.stem}" if package else path.stem
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise Mistake(f"{path} is not a Python file; a workload file ends in .py.")
    module = importlib.util.module_from_spec(specification)
    before = sys.modules.get(name)
    if (found := unpacked(path)) is not None:
        _import_from(*found)
    known, threads = {*sys.modules, name}, _threads()
    with _reading(path), _drawing_alike(), _needing(path), _leaving_where_it_trains(path):
        try:
            if package:
                _import_package(package, path)  # before the module in it, as `python -m` does
            sys.modules[name] = module  # so that loader workers can find its classes again
            specification.loader.exec_module(module)
        except Reached as reached:
            return OwnFile(vars(module), reached.job, _installed(module, known, threads))
        except Trains as error:
            if not any(hasattr(type(one), "as_workload") for one in vars(module).values()):
                _forget(name, before)
                raise Mistake(_trains(path.name, path, error)) from error
            installed = _installed(module, known, threads)
            return OwnFile(vars(module), installed=installed, left=_place_of(path, error) or " within")
        except Mistake:
            raise
        except (Exception, SystemExit) as error:
            _forget(name, before)
            raise Mistake(_words(path, error)) from error
    return OwnFile(vars(module), installed=_installed(module, known, threads))


def _import_package(name: str, path: Path) -> None:
    """Imports the package that a file is in; raises Mistake where another one of that name is loaded already."""
    places = getattr(importlib.import_module(name), "__path__", ())
    if str(path.parent) not in map(os.path.realpath, places):
        raise Mistake(f"The folder {path.parent.name} has the name of another package that is loaded here; rename it.")


def _find_modules(path: Path) -> str:
    """Has this process find what a file imports, from its project's folders too; gives the package that it is in.

    With relative imports it is a module of a package, as for `python -m`; any other file is in none.
    """
    depth, names = _imports_of(path)
    above = path.parents
    while 0 < depth < len(above) - 1 and (above[depth] / "__init__.py").is_file():
        depth += 1
    root = above[min(depth, len(above) - 1)]
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # as for any script, for the modules beside it
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    for name in names:
        if name not in sys.modules and not _is_found(name):
            sys.path += [str(one) for one in _project_of(path) if _holds(one, name)][:1]
    return ".".join(path.parent.relative_to(root).parts)


def _is_found(name: str) -> bool:
    """Whether a module of that name can be imported; a folder of data that happens to have it is none."""
    found = importlib.util.find_spec(name)
    places = (found and found.submodule_search_locations) or ()
    return found is not None and (found.origin is not None or any(_holds(Path(one).parent, name) for one in places))


def _imports_of(path: Path) -> tuple[int, list[str]]:
    """How many folders a file's relative imports go up, and what others it has, by their first names.

    What it tries to import is left out, and what hangs on a condition; so are names where it sets the path itself.
    """
    text = content(path) if path.suffix == ".py" else b""
    depth, names, waiting = 0, list[str](), list[ast.AST]()
    with suppress(SyntaxError, ValueError), warnings.catch_warnings():  # whoever runs it is told
        warnings.simplefilter("ignore")
        waiting.append(ast.parse(text))
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Import):
            names += [alias.name.partition(".")[0] for alias in one.names]
        elif isinstance(one, ast.ImportFrom):
            depth = max(depth, one.level)
            names += [one.module.partition(".")[0]] if one.module and not one.level else []
        elif not isinstance(one, ast.If | ast.Try | ast.TryStar):
            waiting += ast.iter_child_nodes(one)
    return depth, [] if b"sys.path" in text else names


def _project_of(path: Path) -> list[Path]:
    """The folders around a file, up to that of its repository; without one, to that in which this process works."""
    found = unpacked(path)
    tops = [one for one in path.parents if (one / ".git").exists()]
    with suppress(OSError):  # a working folder that somebody has removed
        tops += [one for one in path.parents if str(one) == str(Path.cwd().resolve())]
    tops.append(path.parent)
    top = found[0] if found else tops[0]
    return [one for one in path.parents if one.is_relative_to(top)]


def _holds(folder: Path, name: str) -> bool:
    """Whether a folder holds a module of that name, or a folder of Python files."""
    files = (one for form in ("*.py", "*/*.py") for one in (folder / name).glob(form))
    return (folder / f"{name}.py").is_file() or next(files, None) is not None


def called_in(path: Path, name: str, function: Callable[..., Any]) -> Any:
    """What a function of a user's file makes, or the job at whose measurement it was left; raises Mistake."""
    try:
        inspect.signature(function, follow_wrapped=False).bind()  # of a decorated one, as it is called
    except TypeError as error:
        raise Mistake(
            f"{name} in {path.name} cannot be called without arguments ({error}); name a job, or a function that makes "
            "one by itself."
        ) from error
    except ValueError:  # written in C
        pass
    with _reading(path), _drawing_alike(), _needing(path.resolve()), _leaving_where_it_trains(path):
        try:
            return function()
        except Reached as reached:
            return reached.job
        except Trains as error:
            raise Mistake(_trains(f"{name} in {path.name}", path, error)) from error
        except Mistake:
            raise
        except (Exception, SystemExit) as error:
            if asks := _asks(path, error):
                raise Mistake(asks) from error
            told, *_ = f"{type(error).__name__}{_place_of(path, error)}: {error}".splitlines()
            raise Mistake(f"{name} in {path.name} fails ({told}); put it right, or name a job.") from error


FEW_UPDATES = 10  # of optimizers, which a file may make to try something
_TRAINERS = re.compile(rb"torch|speedmatrix|lightning|transformers|accelerate")
_looks: list[None] = []  # one for each look that the harness takes at the moment


@contextmanager
def looking() -> Iterator[None]:
    """Within the block updates are the harness's own, as where a file that is read prints what its job says."""
    _looks.append(None)
    try:
        yield
    finally:
        _looks.pop()


@contextmanager
def _leaving_where_it_trains(path: Path) -> Iterator[None]:
    """Within the block an optimizer's updates beyond a few raise Trains: reading a file does not train."""
    needs_torch = "torch" in sys.modules or _TRAINERS.search(content(path))
    if not needs_torch or importlib.util.find_spec("torch") is None:
        yield
        return
    updates = count(1)

    def updated(*_: object) -> None:
        if not _looks and next(updates) > FEW_UPDATES:
            raise Trains

    hook = importlib.import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(updated)
    try:
        yield
    finally:
        hook.remove()


def _trains(what: str, path: Path, error: BaseException) -> str:
    return (
        f"{what} trains{_place_of(path, error)} when it is read, as it would in every arm; make the job before that, "
        "write down what it finds (a learning rate), or move the training below "
        '`if __name__ == "__main__":`.'
    )


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
        file = Path(getattr(module, "__file__", None) or "/")
        file = Path(os.path.realpath(file if file.is_absolute() else "/"))  # torch.ops says _ops.py, of nowhere
        if here is None:
            strange = unpacked(file) is not None
        else:
            tree, top = here
            inside = file.suffix == ".py" and file.is_relative_to(top) and not file.is_relative_to(tree)
            strange = inside and "site-packages" not in file.parts and not any(map(file.is_relative_to, elsewhere))
        if strange:
            found.append(f"{name} from {file}")
    return found


def opened_elsewhere(path: Path, opened: Iterable[str]) -> list[str]:
    """Files of the working tree among those opened that the commit of an unpacked file holds too, but for modules.

    There are none beside any other file.
    """
    here = unpacked(path)
    if here is None:
        return []
    tree, top = here
    found = {Path(os.path.realpath(one)) for one in opened}
    # Of modules it is told by themselves.
    found = {one for one in found if one.suffix not in {".py", ".pyc"} and not one.is_relative_to(tree)}
    held = {one: tree / one.relative_to(top) for one in found if one.is_relative_to(top)}
    # What is linked there lies in the working tree alone.
    return sorted(str(one) for one, was in held.items() if was.is_file() and Path(os.path.realpath(was)) != one)


def _forget(name: str, before: ModuleType | None) -> None:
    sys.modules.pop(name, None)
    if before is not None:
        sys.modules[name] = before


def _place_of(path: Path, error: BaseException) -> str:
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path.resolve())]
    return f" in line {lines[-1]}" if lines else ""


def _asks(path: Path, error: BaseException) -> str:
    """The sentence about a file that wants arguments, where argparse and its like end; nothing for other errors."""
    if not isinstance(error, SystemExit) or error.code != 2:
        return ""
    return (
        f"{path.name} asks for arguments{_place_of(path, error)} and is given no command line here; give them "
        "defaults, or read them from the environment (os.environ)."
    )


def _words(path: Path, error: BaseException) -> str:
    if asks := _asks(path, error):
        return asks
    place = _place_of(path, error)
    if isinstance(error, SystemExit):
        return f'{path.name} ends itself{place} when it is imported; move that below `if __name__ == "__main__":`.'
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name and (folder := next((one for one in _project_of(path) if _holds(one, name)), None)):
            return f"{path.name} cannot find {error.name}{place}; put PYTHONPATH={folder} before the command."
        return (
            f"{path.name} cannot be imported ({type(error).__name__}{place}: {error}); this runs in {sys.executable}: "
            "install the module there, or name the interpreter that trains: /path/to/python ./speedmatrix --here ..."
        )
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


# What a file is besides its code: settings that it reads, variables that it asks for, modules from further away.

_PLACES = (
    *OURS,
    *(Path(__file__).parents[2] / one.name for one in OURS),  # where the clone is found through a link
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")),
)
_NOBODYS = (
    *("<", "/proc/", "/sys/", "/dev/"),
    *(f"{form}{os.sep * (form.suffix != '.py')}" for one in _PLACES for form in dict.fromkeys((one, one.resolve()))),
)
# How code asks for a variable of the environment: os.environ["A"], environ.get("A"), getenv("A").
_ASKS = re.compile(rb"""(?:\benviron(?:\.get)?|\bgetenv)\s*[\[(]\s*["'](\w+)["']""")


def _is_own(file: str) -> bool:
    """Whether a file is a user's own: not the system's, Python's, an installed package's or the harness's."""
    return not (file.startswith(_NOBODYS) or "site-packages" in file or "dist-packages" in file)


@dataclass(slots=True)
class Needs:
    """What was opened."""

    files: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)  # files that were opened to be written, which are no settings


_needs: dict[Path, Needs] = {}
_noting: list[Needs] = []  # that of the innermost block last


def needs_of(path: Path) -> Needs:
    """What a user's file was seen to need in this process, or where another told of it."""
    return _needs.get(path, Needs())


def note_needs(path: Path, files: Iterable[str]) -> None:
    """Adds to what a user's file needs."""
    _needs.setdefault(path, Needs()).files.update(files)


def variables_of(path: Path) -> dict[str, str | None]:
    """The variables of the environment that a user's file and modules ask for by name, with the values they have."""
    code = [path, *(one for one in map(Path, needs_of(path).files) if one.suffix == ".py")]
    names = {name.decode() for one in code for name in _ASKS.findall(content(one))}
    return {name: os.environ.get(name) for name in sorted(names)}


@contextmanager
def noting() -> Iterator[Needs]:
    """All files that are opened within the block; none in arms, which are told what came of it, and timed."""
    found = Needs()
    if TOLD in os.environ:
        yield found
        return
    _listen()
    _noting.append(found)
    try:
        yield found
    finally:
        _noting.pop()


def opened_so_far() -> frozenset[str]:
    """All files that were opened since the outermost block of `noting` began; none outside of such a block."""
    return frozenset(_noting[0].files) if _noting else frozenset()


@cache
def _listen() -> None:
    """Has this process tell of every file that it opens; it cannot be had to stop, so it is asked once."""
    sys.addaudithook(_hear)


def _hear(event: str, words: tuple[Any, ...]) -> None:
    if event == "open" and _noting:
        with suppress(Exception):  # of a descriptor, or where the folder that this process works in is gone
            place = os.path.normpath(Path(os.fsdecode(words[0])).absolute())
            for one in _noting:
                (one.files if words[2] & os.O_ACCMODE == os.O_RDONLY else one.written).add(place)


@contextmanager
def _needing(path: Path) -> Iterator[None]:
    """What is read within the block is part of what a user's file is, as are the modules that there are at first.

    Modules that come later count where they are imported within such a block: others are no part of the file.
    """
    before = set(sys.modules) if path in _needs else set[str]()
    with noting() as found:
        try:
            yield
        finally:
            if TOLD not in os.environ:
                note_needs(path, {*_settings(found), *_own_modules(path, before)})


def _settings(found: Needs) -> Iterator[str]:
    """The user's own files among those that were read, without code, what lies in hidden folders, and data."""
    read = {one for one in found.files - found.written if _is_own(one) and "/." not in one}
    read = {one for one in read if not one.endswith((".py", ".pyc"))}
    beside = Counter(Path(one).parent for one in read)
    yield from (one for one in read if beside[Path(one).parent] <= MOST_READ and _is_small(one))


def _is_small(file: str) -> bool:
    with suppress(OSError):
        found = Path(file).stat()
        return S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES
    return False


def _own_modules(path: Path, before: AbstractSet[str]) -> Iterator[str]:
    """The files of the user's own modules in this process; those that a pickled job names, and that these name."""
    own = dict(_modules_since(before))
    if path.suffix != PICKLED:
        yield from own.values()
        return
    text = content(path)
    # By their last names alone, as relative imports have them: one too many is better than one too few.
    while named := [name for name in own if name.rpartition(".")[2].encode() in text]:
        files = [own.pop(name) for name in named]
        text = b"\n".join((text, *map(content, map(Path, files))))
        yield from files


def _modules_since(before: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    """The user's own modules in this process, wherever they lie, by their names, but for those of before."""
    for name, module in list(sys.modules.items()):
        if name in before:
            continue
        file = None
        with suppress(AttributeError):  # whose own lookup might import what is imported late
            file = object.__getattribute__(module, "__dict__").get("__file__")
        if isinstance(file, str) and file.endswith(".py") and _is_own(file) and _is_small(file):
            yield name, os.path.normpath(Path(file).absolute())


_digests: dict[str, str] = {}


def tell_arms(address: Address, digest: str) -> None:
    """Has arms that begin from now on take a digest for that of a job; they would see other variables."""
    _digests.pop(str(address), None)
    _digests[str(address)] = digest
    for one in list(_digests)[:-MOST_TOLD]:
        del _digests[one]


def told_to_arms() -> dict[str, str]:
    """The variable with which arms begin."""
    return {TOLD: json.dumps(_digests)}


def digest_told(address: Address) -> str | None:
    """The digest of a job that this arm was told; None in a process that is none, and for other jobs."""
    known: dict[str, str] = json.loads(os.environ.get(TOLD, "{}"))
    return known.get(str(address))


_anew_s = [0.0]  # on the clock that files bear


def look_anew(since_s: float | None = None) -> None:
    """What was seen of jobs before a moment, or until now, is believed no more in this process: `--fresh`."""
    _anew_s[0] = time() if since_s is None else since_s


def looked_at_since() -> float:
    """The moment from which on what was seen of jobs is believed, in seconds since 1970."""
    return _anew_s[0]


# Where the maker of a job that no script defines finds modules, and so must whoever unpickles it.


@dataclass(frozen=True, slots=True)
class Folders:
    """Places on the import path, which are put there before what follows in the same pickle is made."""

    places: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return find_in, self.places


def find_in(*places: str) -> Folders:
    """Puts folders before those in which this process looks for modules."""
    sys.path[:0] = [one for one in places if one not in sys.path]
    return Folders(places)


def own_folders() -> Folders:
    """The folders in which this process looks for modules of the user's own."""
    places = dict.fromkeys(str(Path(one or ".").resolve()) for one in sys.path)
    return Folders(tuple(one for one in places if _is_own(f"{one}{os.sep}") and Path(one).is_dir()))


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
