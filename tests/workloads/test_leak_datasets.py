"""The leak classifier's readers: the same samples whichever way they are read, in whichever process."""

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built
from workloads.leak import WORKLOAD
from workloads.leak.data import prepare
from workloads.leak.datasets import dataset
from workloads.leak.device import device_stage
from workloads.leak.evidence import effective
from workloads.leak.layouts import TRAINING
from workloads.leak.loss import build_loss
from workloads.leak.model import build_model
from workloads.leak.readers import Access, BlockReader, load, map_memory

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]
CPU = torch.device("cpu")
WAYS: dict[str, dict[str, Value]] = {
    "blocks": {},
    "memory": {"in_memory_data": True},
    "mapped": {"segment_read": "memory_map"},
    "mapped batches": {"batched_fetch": True},
    "memory batches": {"batched_fetch": True, "in_memory_data": True},
    "chunked": {"hdf5_layout": "chunked"},
    "compressed": {"hdf5_layout": "compressed", "chunk_cache_mib": 32},
    "compressed in memory": {"hdf5_layout": "compressed", "in_memory_data": True},
    "plain handle": {"swmr": False, "file_index_cache": True},
    "device": {"data_on_device": True},
}
WORDS = {"blocks": "hdf5", "memory": "memory", "mapped": "memory_map", "mapped batches": "memory_map", "device": "none"}


def recipe(**choices: Any) -> Recipe:
    own = {name: choices.pop(name, value) for name, value in WORKLOAD.own.items()}
    return Recipe(own=tuple(sorted(own.items())), **choices)


def finished(batch: Any) -> Any:
    return batch


def loader(data: Dataset[Any], method: str | None = None, count: int = 64) -> DataLoader[Any]:
    keywords: dict[str, Any] = {"collate_fn": finished} if getattr(data, "collated", False) else {}
    if method:
        keywords |= {"num_workers": 1, "multiprocessing_context": method}
    batches = torch.arange(2 * count).reshape(2, count).tolist()
    return DataLoader(data, batch_sampler=batches, **keywords)


def gathered(data: Dataset[Any], stage: Any = None, method: str | None = None) -> tuple[Tensor, Tensor]:
    """All batches as they reach the model."""
    batches = [stage(tuple(batch)) if stage else batch for batch in loader(data, method)]
    inputs, targets = zip(*batches, strict=True)
    return torch.cat(inputs), torch.cat(targets)


def opened(folder: Path, way: str) -> tuple[Any, Any]:
    """The data set of a way and what it leaves to the device."""
    chosen = recipe(**WAYS[way])
    return dataset(folder, SMOKE, chosen), device_stage(folder, SMOKE, chosen, CPU)


def shown(data: Dataset[Any], stage: Any = None) -> dict[str, Value]:
    """The effective settings with the plain model and loss."""
    model, loss = build_model(SMOKE, recipe()), build_loss(SMOKE, recipe())
    batch = next(iter(loader(data)))
    return dict(effective(Built(dataset=data, model=model, loss=loss, device_stage=stage, batch=batch)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    list(prepare(path, SMOKE))
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> tuple[Tensor, Tensor]:
    """The first 128 samples, read without any of the code under test."""
    order = np.random.default_rng(512).permutation(24 * 80)[:128]
    with h5py.File(folder / TRAINING, "r") as file:
        mel = file["segments_mel"][:].reshape(-1, 1, 64, 1)[order]
        labels = file["labels"][:][order // 80]
    return torch.from_numpy(mel.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_bits(folder: Path, expected: tuple[Tensor, Tensor], way: str) -> None:
    data, stage = opened(folder, way)
    inputs, targets = gathered(data, stage)
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)
    assert inputs.shape == (128, 1, 64, 1)
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])
    alone = torch.utils.data.default_collate([data[5]])
    one, label = stage(tuple(alone)) if stage else alone
    assert one[0].equal(expected[0][5])
    assert label[0].equal(expected[1][5])


def test_losses_are_bitwise_equal(folder: Path) -> None:
    torch.manual_seed(0)
    model, loss = build_model(SMOKE, recipe()).eval(), build_loss(SMOKE, recipe())
    losses = set()
    for way in WAYS:
        inputs, targets = gathered(*opened(folder, way))
        losses.add(loss(model(inputs), targets).item())
    assert len(losses) == 1


@pytest.mark.parametrize(
    ("way", "method"), [*((way, "fork") for way in WAYS), pytest.param("blocks", "spawn", marks=pytest.mark.thorough)]
)
def test_workers_read_the_same(folder: Path, expected: tuple[Tensor, Tensor], way: str, method: str) -> None:
    data, stage = opened(folder, way)
    data[0]  # a handle is open here before the worker starts
    inputs, targets = gathered(data, stage, method)
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])
    again = gathered(data, stage)  # and the worker's end closed nothing of ours
    assert again[0].equal(expected[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_pickled_data_set_carries_neither_data_nor_order(folder: Path, way: str) -> None:
    data, stage = opened(folder, way)
    data[0]
    pickled = pickle.dumps(data)
    assert len(pickled) < 800
    again = pickle.loads(pickled)  # noqa: S301  our own bytes
    assert gathered(again, stage)[0].equal(gathered(data, stage)[0])
    assert shown(again, stage)["in_memory_data"] == shown(data, stage)["in_memory_data"]


class Owners(Dataset[tuple[int, int, int]]):
    """Which process opened the handle that serves an item, and which one serves it."""

    def __init__(self, reader: BlockReader) -> None:
        self.reader = reader

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        self.reader.segment(index)
        return self.reader.opened().process, os.getpid(), self.reader.reads


def test_a_forked_worker_opens_its_own_handle(folder: Path) -> None:
    reader = BlockReader(folder / TRAINING, kept_blocks=1, access=Access())
    reader.segment(0)
    owners = DataLoader(Owners(reader), batch_size=None, num_workers=1, multiprocessing_context="fork")
    for opened_in, served_by, reads in owners:
        assert opened_in == served_by != os.getpid()
        assert reads <= 4  # the parent's count stayed with the parent
    assert reader.opened().process == os.getpid()


@pytest.mark.parametrize("way", WAYS)
def test_effective_tells_the_truth(folder: Path, way: str) -> None:
    choices, facts = WAYS[way], shown(*opened(folder, way))
    on_device = choices.get("data_on_device", False)
    assert facts["data_on_device"] is on_device
    assert facts["layout"] == (None if on_device else choices.get("hdf5_layout", "contiguous"))
    assert facts["batched_fetch"] is (choices.get("batched_fetch", False) or on_device)
    assert facts["in_memory_data"] is (choices.get("in_memory_data", False) or on_device)
    assert facts["segment_read"] == WORDS.get(way, facts["segment_read"])
    handle = way in {"blocks", "chunked", "compressed", "plain handle"}
    assert (facts["chunk_cache_mib"] is not None) is handle
    assert facts["swmr"] is ((way != "plain handle") if handle else None)
    assert facts["file_index_cache"] is ((way == "plain handle") if handle else None)


@pytest.mark.parametrize("chunk_cache_mib", [32, 64])
def test_the_chunk_cache_reaches_hdf5(folder: Path, chunk_cache_mib: int) -> None:
    facts = shown(dataset(folder, SMOKE, recipe(chunk_cache_mib=chunk_cache_mib)))
    assert facts["chunk_cache_mib"] == chunk_cache_mib
    assert (facts["chunk_cache_slots"], facts["chunk_cache_w0"]) == (521, 0.75)


def test_without_a_choice_hdf5_keeps_its_default(folder: Path) -> None:
    default = h5py.h5p.create(h5py.h5p.FILE_ACCESS).get_cache()[2] // 2**20
    assert shown(dataset(folder, SMOKE, recipe()))["chunk_cache_mib"] == default


def test_a_cache_that_another_handle_already_fixed_is_seen(folder: Path) -> None:
    first = BlockReader(folder / TRAINING, kept_blocks=1, access=Access())
    first.opened()
    late = shown(dataset(folder, SMOKE, recipe(chunk_cache_mib=64)))
    assert late["chunk_cache_mib"] != 64


@pytest.mark.parametrize("way", [way for way in WAYS if way != "plain handle"])
def test_arms_of_a_process_can_read_one_file(folder: Path, expected: tuple[Tensor, Tensor], way: str) -> None:
    neighbour = BlockReader(folder / TRAINING, kept_blocks=1, access=Access())
    neighbour.segment(80)
    inputs, targets = gathered(*opened(folder, way))
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])


def test_the_block_cache_keeps_the_blocks_used_last(folder: Path) -> None:
    reader = BlockReader(folder / TRAINING, kept_blocks=2, access=Access())
    for file in (0, 1, 0, 2, 0, 1):  # 0 misses, 1 misses, 0 hits, 2 misses and drives out 1, 0 hits, 1 misses
        reader.segment(80 * file)
    assert (reader.hits, reader.reads) == (2, 6)
    assert reader.hit_rate == pytest.approx(1 / 3)


def test_the_kept_share_is_that_of_the_real_system(folder: Path) -> None:
    kept = {
        name: dataset(folder, size, recipe()).reader.kept_blocks  # type: ignore[attr-defined]
        for name, size in WORKLOAD.sizes.items()
    }
    assert kept == {"smoke": 1, "quick": 10, "standard": 256}


@pytest.mark.parametrize("layout", ["chunked", "compressed"])
def test_chunks_cannot_be_mapped(folder: Path, layout: str) -> None:
    with pytest.raises(Mistake, match=f"is {layout} and cannot be mapped into memory; store it with h5repack"):
        dataset(folder, SMOKE, recipe(hdf5_layout=layout, batched_fetch=True))


@pytest.mark.parametrize("shape", [(3, 5, 3, 64, 4), (3, 5, 3, 1, 32, 8)])
def test_other_shapes_and_a_channel_axis_are_read_alike(tmp_path: Path, shape: tuple[int, ...]) -> None:
    mel = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    with h5py.File(tmp_path / TRAINING, "w") as file:
        file["segments_mel"], file["labels"] = mel, np.arange(3, dtype=np.int16)
    blocks = BlockReader(tmp_path / TRAINING, kept_blocks=0, access=Access())
    expected = mel.reshape(-1, 1, *shape[-2:])
    for source in (load, map_memory):
        arrays = source(tmp_path / TRAINING)
        for number in range(3 * 5 * 3):
            for reader in (blocks, arrays):
                found, label = reader.segment(number)
                np.testing.assert_array_equal(found, expected[number])
                assert label == number // 15
        np.testing.assert_array_equal(arrays.segments(np.array([44, 0, 16]))[1], [2, 0, 1])


def test_the_order_samples_all_files(folder: Path) -> None:
    order = dataset(folder, SMOKE, recipe()).order.numbers  # type: ignore[attr-defined]
    assert sorted(order) == list(range(24 * 80))
    assert len({number // 80 for number in order[:240]}) == 24
