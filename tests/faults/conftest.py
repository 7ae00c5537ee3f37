"""What the faults share: a stage for each, and the page that tells of all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.measure.surroundings import read_environment
from tests.faults.page import Told, to_markdown
from tests.faults.stage import Stage

OPTION = "--write-faults"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, default=None, help="Write the page of faults to this file from what is seen.")


@pytest.fixture(scope="session")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all stages of a session share: written data, and campaigns of several faults."""
    folder = tmp_path_factory.getbasetemp() / "grounds"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def stage(grounds: Path, tmp_path: Path) -> Iterator[Stage]:
    """A stage, on which nothing may be left in the end."""
    one = Stage(folder=tmp_path, data=grounds / "data")
    yield one
    for process in one.processes():
        process.kill()


@pytest.fixture(scope="session")
def seen(request: pytest.FixtureRequest) -> Iterator[list[Told]]:
    """What was seen of each fault; in the end the page, if it is asked for."""
    told: list[Told] = []
    path = request.config.getoption(OPTION, None)
    if path is not None and hasattr(request.config, "workerinput"):
        raise pytest.UsageError(f"{OPTION} needs all faults in one process; leave out -n.")
    yield told
    if path is not None:
        environment = read_environment("cpu")
        torch = dict(environment.packages)["torch"]
        where = f"on {environment.cores} cores of {environment.cpu} under {environment.system}, with torch {torch}"
        path.write_text(to_markdown(told, where), encoding="utf-8")
