"""What all tests share."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from harness.run.sentinel import Sentinel

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two thread pools on two cores can be ten times slower than one


class NobodyWatches:
    """Stands in for the sentinel, whose pipe loader processes of the tests would inherit and keep open."""

    def add(self, group: int) -> None:
        pass

    def remove(self, group: int) -> None:
        pass


@pytest.fixture(scope="session")
def smoke_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The real files of every workload at size smoke, written once for all tests, and the servers over them."""
    from harness.catalogue import read_catalogue
    from harness.core.service import ADDRESS
    from harness.run.services import serving

    folders = {}
    with ExitStack() as closing:
        for name, workload in read_catalogue().workloads.items():
            folder = tmp_path_factory.mktemp(name)
            for _ in workload.parts().prepare(folder, workload.sizes["smoke"]):
                pass
            folders[name] = folder
            if workload.service:
                assert ADDRESS not in os.environ, "one address serves one workload"
                os.environ[ADDRESS] = closing.enter_context(
                    serving(workload.service, folder, cast("Sentinel", NobodyWatches()))
                )
                closing.callback(os.environ.pop, ADDRESS)
        yield folders
