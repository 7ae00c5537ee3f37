"""Tasks of the real workloads at size smoke, for tests that train."""

from pathlib import Path

from harness.catalogue import read_catalogue
from harness.core.configuration import Configuration, compose, parse_option
from harness.core.protocol import PROTOCOLS
from harness.core.workload import Workload
from harness.measure.devices import device_named
from harness.measure.session import Task
from harness.measure.surroundings import read_environment
from harness.plan.feasibility import Scope

CATALOGUE = read_catalogue()
ENVIRONMENT = read_environment("cpu")


def task_of(name: str, folder: Path, names: tuple[str, ...], *, seed: int = 3, device: str = "cpu") -> Task:
    workload = CATALOGUE.workloads[name]
    return Task(
        parts=workload.parts(),
        size=workload.sizes["smoke"],
        recipe=compose(workload, tuple(parse_option(one) for one in names), CATALOGUE.optimizations),
        data=folder,
        device=device_named(device),
        seed=seed,
        endless=True,
    )


def task_at(config: Configuration, folder: Path) -> Task:
    workload = CATALOGUE.workloads[config.workload]
    return Task(
        parts=workload.parts(),
        size=workload.at(config.size, config.batch),
        recipe=compose(workload, config.options, CATALOGUE.optimizations),
        data=folder,
        device=device_named("cpu"),
        seed=3,
        endless=True,
    )


def scope_of(workload: Workload) -> Scope:
    return Scope(
        workload=workload,
        reference=Configuration(workload=workload.name, size="smoke", batch=workload.sizes["smoke"].batch),
        optimizations=CATALOGUE.of(workload),
        known=CATALOGUE.optimizations,
        original=(),
        environment=ENVIRONMENT,
        protocol=PROTOCOLS["standard"],
    )
