"""The work of a sample that workloads declare is what torch counts in a training step of the plain model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from harness.core.configuration import compose
from harness.core.recipe import Recipe
from harness.core.workload import Size
from tests.measure.tasks import CATALOGUE

torch.set_num_threads(1)
COUNTED = sorted(name for name, one in CATALOGUE.workloads.items() if one.operations)
SAMPLES = 2  # batch normalisation over single values needs two
Shape = tuple[int, ...]
SHAPES: dict[str, Callable[[Size], Shape]] = {  # of one sample's input to the model
    "leak": lambda size: (1, size.shape["mels"], size.shape["frames"]),
    "speaker": lambda _size: (32_240,),
    "spoof": lambda size: (128, size.shape["frames"]),
    "imagenet": lambda size: (3, size.shape["image_px"], size.shape["image_px"]),
}
CONFIGS = [(name, size) for name in COUNTED for size in CATALOGUE.workloads[name].operations]


def plain(name: str) -> Recipe:
    return compose(CATALOGUE.workloads[name], (), CATALOGUE.optimizations)


def counted(name: str, size: Size, samples: int) -> int:
    """Operations of a forward and a backward pass over so many samples."""
    parts, recipe = CATALOGUE.workloads[name].parts(), plain(name)
    model, loss = parts.model(size, recipe), parts.loss(size, recipe)
    inputs, targets = torch.randn(samples, *SHAPES[name](size)), torch.zeros(samples, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        value: Tensor = loss(model(inputs), targets)
        value.backward()  # type: ignore[no-untyped-call]
    return counter.get_total_flops()


@pytest.mark.parametrize(("name", "size"), CONFIGS, ids=lambda one: one)
def test_declared_work_is_what_torch_counts(name: str, size: str) -> None:
    workload = CATALOGUE.workloads[name]
    assert counted(name, workload.sizes[size], SAMPLES) == SAMPLES * workload.operations[size]


@pytest.mark.parametrize("name", COUNTED)
def test_all_sizes_are_counted_and_samples_cost_alike(name: str) -> None:
    workload = CATALOGUE.workloads[name]
    assert set(workload.operations) == set(workload.sizes)
    assert counted(name, workload.sizes["smoke"], 4) == 4 * workload.operations["smoke"]


@pytest.mark.parametrize("name", COUNTED)
def test_the_shapes_are_those_of_real_batches(name: str, smoke_data: dict[str, Path]) -> None:
    """What is counted above is what the model is trained on."""
    workload = CATALOGUE.workloads[name]
    parts, size, recipe = workload.parts(), workload.sizes["smoke"], plain(name)
    loader = torch.utils.data.DataLoader(parts.dataset(smoke_data[name], size, recipe), batch_size=SAMPLES)
    batch = next(iter(loader))
    stage = parts.device_stage(smoke_data[name], size, recipe, torch.device("cpu"))
    inputs, _ = stage(batch) if stage else batch
    assert inputs.shape == (SAMPLES, *SHAPES[name](size))


def test_samples_of_several_shapes_have_no_one_count() -> None:
    assert not CATALOGUE.workloads["patches3d"].operations
