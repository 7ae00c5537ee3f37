"""A data folder is believed only when every byte is what was written."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.core.mistake import Mistake
from harness.measure.observed_process import COLD, ColdFiles, resident_share
from harness.run import data
from harness.run.data import check_manifest, read_once, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.bin").write_bytes(bytes(range(256)) * 50_000)
    (tmp_path / "two.txt").write_text("two")
    write_manifest(tmp_path)
    return tmp_path


def test_what_was_written_is_believed(folder: Path) -> None:
    check_manifest(folder)


def test_one_flipped_bit_is_found_even_when_length_and_time_are_as_before(folder: Path) -> None:
    path = folder / "deep" / "one.bin"
    before, content = path.stat(), bytearray(path.read_bytes())
    content[5_000_000] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Mistake, match=r"one\.bin has changed since it was written; delete .* and run again"):
        check_manifest(folder)


def test_a_file_cut_short_or_gone_is_found(folder: Path) -> None:
    (folder / "two.txt").write_text("tw")
    with pytest.raises(Mistake, match="has changed"):
        check_manifest(folder)
    (folder / "two.txt").unlink()
    with pytest.raises(Mistake, match="cannot be read"):
        check_manifest(folder)


def test_files_of_a_user_s_are_read_into_memory_where_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ColdFiles(tuple(one for one in folder.rglob("*") if one.is_file()))
    with files.dropped():
        assert resident_share(files.files) < COLD
        assert read_once(folder)
        assert resident_share(files.files) == 1.0
    monkeypatch.setattr(data.psutil, "virtual_memory", lambda: SimpleNamespace(available=1))
    assert not read_once(folder)
