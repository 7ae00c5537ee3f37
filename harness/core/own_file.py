"""A user's own file: run in this process to find what it defines, but no further than to where it would measure."""

import importlib.util
import pickle
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.mistake import Mistake

PICKLED = ".job"  # the end of the name of a file that holds a job which no script defines


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


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What running a file gave: its names, and the job at whose measurement it was left, if it came to that."""

    names: dict[str, Any]
    reached: object = None


_read: dict[tuple[Path, int], OwnFile] = {}
_being_read: list[Path] = []


def is_being_read() -> bool:
    """Whether a file is only read at this moment, so that nothing in it may measure."""
    return bool(_being_read)


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
    with _reading(path):
        try:
            specification.loader.exec_module(module)
        except Reached as reached:
            return OwnFile(vars(module), reached.job)
        except Mistake:
            raise
        except (Exception, SystemExit) as error:
            _forget(path.stem, before)
            raise Mistake(_words(path, error)) from error
    return OwnFile(vars(module))


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
