"""Every pair of a workload's own optimizations is refused with words when it is composed, or it can be built."""

from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import pytest
import torch

from harness.core.configuration import Conflict, Option, compose, unmet
from harness.core.recipe import Recipe
from tests.analyze.synthetic import ENVIRONMENT
from tests.measure.tasks import CATALOGUE

torch.set_num_threads(1)
MEETING_DATA = ("batched_fetch", "in_memory_data")  # the general ones that change what a workload reads


def options(name: str) -> list[Option]:
    workload = CATALOGUE.workloads[name]
    chosen = [one for one in CATALOGUE.of(workload) if one.workload or one.name in MEETING_DATA]
    met = [one for one in chosen if not unmet(one, ENVIRONMENT, workload)]
    return [Option(name=one.name, level=level) for one in met for level in one.levels or (None,)]


def recipes(name: str) -> Iterator[Recipe]:
    """The different recipes that single options and pairs of them give."""
    each = options(name)
    seen: set[Recipe] = set()
    for stack in chain(combinations(each, 1), combinations(each, 2)):
        try:
            recipe = compose(CATALOGUE.workloads[name], stack, CATALOGUE.optimizations)
        except Conflict:
            continue
        if recipe not in seen:
            seen.add(recipe)
            yield recipe


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_what_composes_can_be_built(name: str, smoke_data: dict[str, Path]) -> None:
    workload, folder = CATALOGUE.workloads[name], smoke_data[name]
    parts, size, built = workload.parts(), workload.sizes["smoke"], 0
    for recipe in recipes(name):
        parts.dataset(folder, size, recipe)
        parts.device_stage(folder, size, recipe, torch.device("cpu"))
        parts.loss(size, recipe)
        built += 1
    assert built > len(options(name))
