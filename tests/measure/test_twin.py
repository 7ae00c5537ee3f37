"""The harness trains as a loop written by hand does: the same seed gives the same losses, to the last bit."""

from functools import cache
from pathlib import Path

import pytest
import torch

from harness.core.configuration import compose
from harness.core.workload import Parts, Size
from harness.measure.devices import settle_backend
from harness.measure.session import Session, open_session
from tests.measure.tasks import CATALOGUE, task_of

STEPS = {"patches3d": 3}  # whose steps take two seconds each
USUAL_STEPS = 6


def session(name: str, folder: Path, *names: str, seed: int = 3) -> Session:
    task = task_of(name, folder, names, seed=seed)
    settle_backend(task.recipe)
    return open_session(task)


@cache
def harness_losses(name: str, folder: Path, *names: str, seed: int = 3) -> list[float]:
    opened = session(name, folder, *names, seed=seed)
    step = opened.step()
    losses = [float(step()) for _ in range(STEPS.get(name, USUAL_STEPS))]
    opened.feed.close()
    return losses


def handwritten_losses(parts: Parts, size: Size, folder: Path, name: str) -> list[float]:
    """What anybody would write; `baseline`: float32, no workers, no optimization."""
    recipe = compose(CATALOGUE.workloads[name], (), CATALOGUE.optimizations)
    data = parts.dataset(folder, size, recipe)
    torch.manual_seed(3)
    model, criterion = parts.model(size, recipe), parts.loss(size, recipe)
    optimizer = parts.optimizer([*model.parameters(), *criterion.parameters()], {"foreach": False, "fused": False})
    order = torch.randperm(size.batch * size.epoch_steps, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(4)
    losses = []
    for first in range(0, STEPS.get(name, USUAL_STEPS) * size.batch, size.batch):
        items = [data[int(i)] for i in order[torch.arange(first, first + size.batch) % len(order)]]
        inputs, targets = torch.utils.data.default_collate(items)
        loss = criterion(model(inputs), targets)
        loss.backward()
        if parts.clip_norm is not None:
            parameters = [*model.parameters(), *criterion.parameters()]
            torch.nn.utils.clip_grad_norm_(parameters, parts.clip_norm, foreach=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_the_harness_and_a_loop_written_by_hand_give_the_same_losses(name: str, smoke_data: dict[str, Path]) -> None:
    workload = CATALOGUE.workloads[name]
    expected = handwritten_losses(workload.parts(), workload.sizes["smoke"], smoke_data[name], name)
    assert harness_losses(name, smoke_data[name]) == expected
    assert len(set(expected)) == STEPS.get(name, USUAL_STEPS)


EXACT = [
    ("leak", ("batched_fetch",)),
    ("leak", ("in_memory_data",)),
    ("leak", ("batched_fetch", "in_memory_data", "workers=2", "persistent_workers")),
    ("leak", ("hdf5_chunk_cache=32", "set_to_none", "deferred_metrics")),
    ("leak", ("data_on_device", "workers=1", "set_to_none")),
    ("leak", ("memory_map", "workers=2", "prefetch_factor=4")),
    ("leak", ("hdf5_layout=compressed", "hdf5_chunk_cache=64", "file_index_cache", "swmr_off")),
    ("speaker", ("seek_read", "set_to_none")),
    ("speaker", ("split_noise", "workers=2", "prefetch_factor=4")),
    ("speaker", ("seek_read", "split_noise", "workers=1", "deferred_metrics")),
    ("speaker", ("mapped_noise", "fftconvolve", "utterance_cache")),
    ("speaker", ("mapped_noise", "seek_read", "workers=2", "persistent_workers")),
    ("patches3d", ("precomputed_preparation", "deferred_loss_components", "loader_distance_transform")),
    ("patches3d", ("uint8_median", "larger_volume_cache=all", "workers=1", "start_method=spawn")),
    ("imagenet", ("local_copy", "workers=2", "persistent_workers")),
    ("imagenet", ("ram_cache", "workers=1", "start_method=spawn")),
    ("imagenet", ("cold_storage", "concurrent_reads=8", "set_to_none")),
    ("spoof", ("set_to_none", "deferred_metrics")),
    ("spoof", ("workers=2", "prefetch_factor=4", "single_pass_scoring")),
]


@pytest.mark.parametrize(("name", "stack"), EXACT)
def test_exact_optimizations_keep_every_bit(name: str, stack: tuple[str, ...], smoke_data: dict[str, Path]) -> None:
    assert harness_losses(name, smoke_data[name], *stack) == harness_losses(name, smoke_data[name])
