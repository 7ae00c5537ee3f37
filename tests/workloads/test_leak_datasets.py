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

from harness.core.recipe import Recipe
from workloads.leak import WORKLOAD
from workloads.leak.data import TRAINING, prepare
from workloads.leak.datasets import dataset, effective
from workloads.leak.loss import build_loss
from workloads.leak.model import build_model
from workloads.leak.readers import BlockReader, map_memory

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]
WAYS: dict[str, dict[str, bool]] = {
    "blocks": {},
    "memory": {"in_memory_data": True},
    "mapped batches": {"batched_fetch": True},
    "memory batches": {"batched_fetch": True, "in_memory_data": True},
}


def recipe(chunk_cache_mib: int | None = None, **choices: bool) -> Recipe:
    return Recipe(own=(("chunk_cache_mib", chunk_cache_mib),), **choices)  # type: ignore[arg-type]


def finished(batch: Any) -> Any:
    return batch


def loader(data: Dataset[Any], method: str | None = None, count: int = 64) -> DataLoader[Any]:
    keywords: dict[str, Any] = {"collate_fn": finished} if getattr(data, "collated", False) else {}
    if method:
        keywords |= {"num_workers": 1, "multiprocessing_context": method}
    batches = torch.arange(2 * count).reshape(2, count).tolist()
    return DataLoader(data, batch_sampler=batches, **keywords)


def gathered(data: Dataset[Any], method: str | None = None) -> tuple[Tensor, Tensor]:
    inputs, targets = zip(*loader(data, method), strict=True)
    return torch.cat(inputs), torch.cat(targets)


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
    data = dataset(folder, SMOKE, recipe(**WAYS[way]))
    inputs, targets = gathered(data)
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)
    assert inputs.shape == (128, 1, 64, 1)
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])
    one, label = data[5]
    assert one.equal(expected[0][5])
    assert label.equal(expected[1][5])


def test_losses_are_bitwise_equal(folder: Path) -> None:
    torch.manual_seed(0)
    model, loss = build_model(SMOKE).eval(), build_loss(SMOKE)
    losses = set()
    for choices in WAYS.values():
        inputs, targets = gathered(dataset(folder, SMOKE, recipe(**choices)))
        losses.add(loss(model(inputs), targets).item())
    assert len(losses) == 1


@pytest.mark.parametrize(("way", "method"), [*((way, "fork") for way in WAYS), ("blocks", "spawn")])
def test_workers_read_the_same(folder: Path, expected: tuple[Tensor, Tensor], way: str, method: str) -> None:
    data = dataset(folder, SMOKE, recipe(**WAYS[way]))
    data[0]  # a handle is open here before the worker starts
    inputs, targets = gathered(data, method)
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])
    assert data[7][0].equal(expected[0][7])  # and the worker's end closed nothing of ours


@pytest.mark.parametrize("way", WAYS)
def test_a_pickled_dataset_carries_its_order_and_no_data(folder: Path, way: str) -> None:
    data = dataset(folder, SMOKE, recipe(**WAYS[way]))
    pickled = pickle.dumps(data)
    assert len(pickled) < data.order.nbytes + 2_000
    again = pickle.loads(pickled)  # noqa: S301  our own bytes
    assert again[3][0].equal(data[3][0])
    assert effective(again)["in_memory_data"] == effective(data)["in_memory_data"]


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
    reader = BlockReader(folder / TRAINING, kept_blocks=1, chunk_cache_mib=None)
    reader.segment(0)
    owners = DataLoader(Owners(reader), batch_size=None, num_workers=1, multiprocessing_context="fork")
    for opened_in, served_by, reads in owners:
        assert opened_in == served_by != os.getpid()
        assert reads <= 4  # the parent's count stayed with the parent
    assert reader.opened().process == os.getpid()


@pytest.mark.parametrize("way", WAYS)
def test_effective_tells_the_truth(folder: Path, way: str) -> None:
    data = dataset(folder, SMOKE, recipe(**WAYS[way]))
    facts = effective(data)
    assert facts["layout"] == "contiguous"
    assert facts["batched_fetch"] is WAYS[way].get("batched_fetch", False)
    assert facts["in_memory_data"] is WAYS[way].get("in_memory_data", False)
    assert (facts["chunk_cache_mib"] is None) is (way != "blocks")


@pytest.mark.parametrize("chunk_cache_mib", [32, 64])
def test_the_chunk_cache_reaches_hdf5(folder: Path, chunk_cache_mib: int) -> None:
    assert effective(dataset(folder, SMOKE, recipe(chunk_cache_mib)))["chunk_cache_mib"] == chunk_cache_mib


def test_without_a_choice_hdf5_keeps_its_default(folder: Path) -> None:
    default = h5py.h5p.create(h5py.h5p.FILE_ACCESS).get_cache()[2] // 2**20
    assert effective(dataset(folder, SMOKE, recipe()))["chunk_cache_mib"] == default


def test_a_cache_that_another_handle_already_fixed_is_seen(folder: Path) -> None:
    first = BlockReader(folder / TRAINING, kept_blocks=1, chunk_cache_mib=None)
    first.opened()
    late = effective(dataset(folder, SMOKE, recipe(64)))
    assert late["chunk_cache_mib"] != 64


def test_the_block_cache_keeps_the_blocks_used_last(folder: Path) -> None:
    reader = BlockReader(folder / TRAINING, kept_blocks=2, chunk_cache_mib=None)
    for file in (0, 1, 0, 2, 0, 1):  # 0 misses, 1 misses, 0 hits, 2 misses and drives out 1, 0 hits, 1 misses
        reader.segment(80 * file)
    assert (reader.hits, reader.reads) == (2, 6)
    assert reader.hit_rate == pytest.approx(1 / 3)


def test_the_kept_share_is_that_of_the_real_system(folder: Path) -> None:
    kept = {
        name: dataset(folder, size, recipe()).reader.kept_blocks  # type: ignore[union-attr]
        for name, size in WORKLOAD.sizes.items()
    }
    assert kept == {"smoke": 1, "quick": 10, "standard": 256}


def test_a_chunked_file_cannot_be_mapped(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "chunked", "w") as file:
        file.create_dataset("segments_mel", data=np.zeros((4, 40, 2, 64, 1), np.float16), chunks=(1, 40, 2, 64, 1))
        file.create_dataset("labels", data=np.zeros(4, np.int16))
    with pytest.raises(ValueError, match="chunked"):
        map_memory(tmp_path / "chunked")


def test_the_order_samples_all_files(folder: Path) -> None:
    order = dataset(folder, SMOKE, recipe()).order
    assert sorted(order) == list(range(24 * 80))
    assert len({number // 80 for number in order[:240]}) == 24
