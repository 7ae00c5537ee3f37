"""What all tests share."""

import getpass
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
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
    """A numpy that is newer than tifffile says so in its own lines, and our tests are about neither.

    It stands here because an environment is installed anew whenever pyproject.toml changes.
    """
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:tifffile")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what views say today into the files that hold their wording."""
    parser.addoption("--update-golden", action="store_true", help="Rewrite the golden files of tests/report/golden.")


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
    """The folder of each workload; a test that asks for one that cannot be had on this machine is skipped."""

    def __missing__(self, name: str) -> Path:
        pytest.skip(f"{name} cannot be read here: {lacking(name)}")


def lacking(name: str) -> str | None:
    """Why a workload's files, or the server over them, cannot be had: beside a GPU there may be little but torch."""
    from harness.catalogue import read_catalogue
    from harness.measure.surroundings import unread

    workload = read_catalogue().workloads[name]
    return unread(workload) or (workload.service.missing() if workload.service else None)


@pytest.fixture(scope="session")
def written_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The real files of every workload at size smoke, written once for all tests; nobody serves them."""
    from harness.catalogue import read_catalogue
    from harness.measure.surroundings import unread

    folders = Folders()
    for name, workload in read_catalogue().workloads.items():
        if not unread(workload):
            folder = tmp_path_factory.mktemp(name)
            for _ in workload.parts().prepare(folder, workload.sizes["smoke"]):
                pass
            folders[name] = folder
    return folders


@pytest.fixture(scope="session")
def smoke_data(written_data: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """The same files with the servers over them; without its server a workload is none of them."""
    from harness.catalogue import read_catalogue
    from harness.core.workload import ADDRESS
    from harness.run.data import serving

    folders, workloads = Folders(), read_catalogue().workloads
    with ExitStack() as closing:
        for name, folder in written_data.items():
            workload = workloads[name]
            if lacking(name):
                continue
            folders[name] = folder
            if workload.service:
                assert ADDRESS not in os.environ, "one address serves one workload"
                os.environ[ADDRESS] = closing.enter_context(
                    serving(workload.service, folder, cast("Sentinel", NobodyWatches()))
                )
                closing.callback(os.environ.pop, ADDRESS)
        yield folders
