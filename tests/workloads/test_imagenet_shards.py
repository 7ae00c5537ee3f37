"""Shards: the same bytes as the files, in an archive that any tar can open, found by an index that was read from it."""

import tarfile
from pathlib import Path

import pytest

from harness.core.mistake import Mistake
from workloads.imagenet import shards
from workloads.imagenet.shards import INDEX, SHARDS, open_shards, pack_all

NAMES = {f"n0000000{wnid}": [f"{wnid}_{number}.JPEG" for number in range(5)] for wnid in (1, 2)}
PATHS = [f"train/{wnid}/{name}" for wnid, names in NAMES.items() for name in names]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten files of different lengths, in three shards."""
    for number, path in enumerate(PATHS):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(bytes([number]) * (500 + 37 * number))
    monkeypatch.setattr(shards, "SHARD_FILES", 4)
    assert list(pack_all(tmp_path))[-1] == 1
    return tmp_path


def test_every_file_is_read_from_its_shard_as_it_was(folder: Path) -> None:
    packed = open_shards(folder, PATHS)
    contents = {path: (folder / path).read_bytes() for path in PATHS}
    for path in PATHS:
        (folder / path).unlink()
    assert {path: packed.read(path) for path in reversed(PATHS)} == contents
    assert len({shard for shard, _, _ in packed.places.values()}) == 3


def test_any_tar_lists_them(folder: Path) -> None:
    listed = []
    for shard in sorted((folder / SHARDS).glob("*.tar")):
        with tarfile.open(shard) as opened:
            listed.append(opened.getnames())
    assert listed == [PATHS[:4], PATHS[4:8], PATHS[8:]]


def test_packing_again_gives_the_same_bytes(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in (folder / SHARDS).iterdir()}
    list(pack_all(folder))
    assert {path.name: path.read_bytes() for path in (folder / SHARDS).iterdir()} == before


def test_only_what_is_asked_for_is_carried(folder: Path) -> None:
    assert list(open_shards(folder, PATHS[3:5]).places) == PATHS[3:5]


def test_missing_shards_and_files_have_a_remedy(folder: Path) -> None:
    with pytest.raises(Mistake, match=r"lack train/n1/new.JPEG; python -m workloads.imagenet.shards"):
        open_shards(folder, [*PATHS, "train/n1/new.JPEG"])
    (folder / SHARDS / INDEX).unlink()
    with pytest.raises(Mistake, match=r"has no shards; .* or leave out sharded_files"):
        open_shards(folder, PATHS)
