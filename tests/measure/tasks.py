"""Tasks of the real workloads at size smoke, for tests that train."""

from pathlib import Path

import torch

from harness.catalogue import read_catalogue
from harness.core.cell import parse_switch
from harness.core.compose import compose
from harness.measure.session import Task

CATALOGUE = read_catalogue()


def task_of(name: str, folder: Path, names: tuple[str, ...], *, seed: int = 3, device: str = "cpu") -> Task:
    workload = CATALOGUE.workloads[name]
    return Task(
        parts=workload.parts(),
        size=workload.sizes["smoke"],
        recipe=compose(workload, tuple(parse_switch(one) for one in names), CATALOGUE.optimizations),
        data=folder,
        device=torch.device(device),
        seed=seed,
        endless=True,
    )
