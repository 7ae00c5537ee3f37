"""What all tests share."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two thread pools on two cores can be ten times slower than one


@pytest.fixture(scope="session")
def smoke_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The real files of every workload at size smoke, written once for all tests."""
    from harness.catalogue import read_catalogue

    folders = {}
    for name, workload in read_catalogue().workloads.items():
        folder = tmp_path_factory.mktemp(name)
        for _ in workload.parts().prepare(folder, workload.sizes["smoke"]):
            pass
        folders[name] = folder
    return folders
