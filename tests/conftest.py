"""What all tests share."""

import getpass
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from coverage import Coverage

    from harness.run.sentinel import Sentinel

GOLDEN = Path(__file__).parent / "report" / "golden"
WORKLOADS = ("imagenet", "leak", "patches3d", "speaker", "spoof")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two thread pools on two cores can be ten times slower than one
if "PYTEST_XDIST_WORKER" in os.environ:
    # Lines are counted in this process alone: in the commands that tests start, that would cost more than it tells.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    os.setpgrp()  # an arm that goes on wakes all of its group, and with it the loader workers of the tests beside it


QUICK = "leak"  # the workload that the quick part of the tests trains


def pytest_configure(config: pytest.Config) -> None:
    """Says what pyproject.toml would, but that an environment is installed anew whenever that file changes.

    A numpy that is newer than tifffile says so in its own lines, and our tests are about neither.
    """
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:tifffile")
    config.addinivalue_line("markers", "repeats: runs the same lines many times, so that they are not counted")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what views say today into the files that hold their wording."""
    parser.addoption("--update-golden", action="store_true", help="Rewrite the golden files of tests/report/golden.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The lines of a test that repeats them many times are not counted, which takes several times as long."""
    counting = counted_by() if item.get_closest_marker("repeats") else None
    if counting is None:
        return (yield)
    counting.stop()
    try:
        return (yield)
    finally:
        counting.start()
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)  # which it has set again


def counted_by() -> "Coverage | None":
    """What counts the lines of this worker, if anything does."""
    coverage = sys.modules.get("coverage") if "PYTEST_XDIST_WORKER" in os.environ else None
    return coverage.Coverage.current() if coverage else None


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Holds a text against the file of that name, or rewrites the file where that was asked for."""

    def held(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; pytest --update-golden writes it"
        assert text == path.read_text(encoding="utf-8"), "look at the difference; pytest --update-golden accepts it"

    return held


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that train each of several workloads do so for one; the others are left to the thorough part."""
    for item in items:
        if "written_data" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec"):
            named = {value for value in item.callspec.params.values() if isinstance(value, str)} & {*WORKLOADS}
            if named and QUICK not in named:
                item.add_marker("thorough")


class NobodyWatches:
    """Stands in for the sentinel, whose pipe loader processes of the tests would inherit and keep open."""

    def add(self, group: int) -> None:
        pass

    def remove(self, group: int) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def _lock_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests measure waits for no lock of another worker's or of a user who is measuring."""
    folder = str(tmp_path_factory.getbasetemp())
    kernels = f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}"  # where they were compiled before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", os.environ.get("TORCHINDUCTOR_CACHE_DIR", kernels))
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


class Folders(dict[str, Path]):
    """The folder of each workload, had when it is first asked for; a test that asks for one in vain is skipped."""

    def __init__(self, had: Callable[[str], Path], lacks: Callable[[str], str | None]) -> None:
        super().__init__()
        self.had, self.lacks = had, lacks

    def __missing__(self, name: str) -> Path:
        if reason := self.lacks(name):
            pytest.skip(f"{name} cannot be read here: {reason}")
        self[name] = self.had(name)
        return self[name]


def unreadable(name: str) -> str | None:
    """Why a workload's files cannot be had: beside a GPU there may be little but torch."""
    from harness.catalogue import read_catalogue
    from harness.measure.surroundings import unread

    return unread(read_catalogue().workloads[name])


def lacking(name: str) -> str | None:
    """Why a workload's files, or the server over them, cannot be had."""
    from harness.catalogue import read_catalogue

    service = read_catalogue().workloads[name].service
    return unreadable(name) or (service.missing() if service else None)


@pytest.fixture(scope="session")
def written_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The real files of every workload at size smoke, written once for all tests; nobody serves them."""
    from harness.catalogue import read_catalogue

    def written(name: str) -> Path:
        workload, folder = read_catalogue().workloads[name], tmp_path_factory.mktemp(name)
        for _ in workload.parts().prepare(folder, workload.sizes["smoke"]):
            pass
        return folder

    return Folders(written, unreadable)


@pytest.fixture(scope="session")
def smoke_data(written_data: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """The same files with the servers over them; without its server a workload is none of them."""
    from harness.catalogue import read_catalogue
    from harness.core.workload import ADDRESS
    from harness.run.data import serving

    with ExitStack() as closing:
        for name, workload in read_catalogue().workloads.items():
            if workload.service and not lacking(name):
                assert ADDRESS not in os.environ, "one address serves one workload"
                os.environ[ADDRESS] = closing.enter_context(
                    serving(workload.service, written_data[name], cast("Sentinel", NobodyWatches()))
                )
                closing.callback(os.environ.pop, ADDRESS)
        yield Folders(written_data.__getitem__, lacking)
