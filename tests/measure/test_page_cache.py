"""The page cache: files that are dropped from it are read from storage, and lie in it again afterwards."""

import mmap
import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.configuration import inactive
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.measure import observed_process as evidence
from harness.measure import trial
from harness.measure.observed_process import COLD, ColdFiles, StillWarm, cold_files, resident_share
from tests.measure.tasks import task_of


@pytest.fixture
def files(tmp_path: Path) -> ColdFiles:
    """Two files and an empty one."""
    for name, size in (("large", 1 << 22), ("small", 5), ("nothing", 0)):
        (tmp_path / name).write_bytes(os.urandom(size))
    found = cold_files(tmp_path)
    if found.drop() >= COLD:
        pytest.skip("the temporary folder lies in memory; would check that its files can be dropped")
    return found


def test_files_are_found_cold_and_left_warm(files: ColdFiles) -> None:
    assert {path.name for path in files.files} == {"large", "small"}
    files.fill()
    assert resident_share(files.files) == 1.0
    with files.dropped():
        assert resident_share(files.files) < COLD
    assert resident_share(files.files) == 1.0


def test_one_of_two_files_is_counted_by_its_pages(files: ColdFiles) -> None:
    next(path for path in files.files if path.name == "small").read_bytes()
    assert 0 < resident_share(files.files) < COLD


def test_what_a_process_has_mapped_stays_and_is_said_to(files: ColdFiles) -> None:
    large = next(path for path in files.files if path.name == "large")
    with large.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE])
        assert evidence.of_page_cache(files)["page_cache"] == "warm"
        with pytest.raises(StillWarm, match="100% of the data stayed in the page cache"), files.dropped():
            pytest.fail("a window would have run on warm files")


def test_a_mapped_file_beside_many_others_is_warm(files: ColdFiles, tmp_path: Path) -> None:
    """It may be all that is read: a twentieth of the bytes, as the mel data of leak beside its waveforms."""
    (tmp_path / "others").write_bytes(os.urandom(1 << 26))
    found, large = cold_files(tmp_path), next(path for path in files.files if path.name == "large")
    with large.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE])
        assert resident_share(found.files) > 0
        assert evidence.of_page_cache(found)["page_cache"] == "warm"


def test_nothing_is_said_where_nothing_was_asked_for() -> None:
    assert evidence.of_page_cache(None) == {}


def test_a_cold_burst_is_one_epoch_and_begins_without_the_data(
    files: ColdFiles, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of("leak", smoke_data["leak"], ("cold_page_cache",))
    begun, ready = trial.begin(task, Timing.EPOCH, UNTIMED, {"page_cache": "cold"}, other_seeds=False)
    assert ready["inactive"] == ()
    assert begun.cold is not None
    shares, step = [], begun.step

    def looking() -> object:
        shares.append(resident_share(begun.cold.files if begun.cold else ()))
        return step()

    begun.step = looking
    window = begun.window(lead=1, steps=60)
    epoch = task.size.epoch_steps
    assert window["steps"] == epoch == len(shares) - 1
    assert shares[1] < COLD
    assert shares[1] < shares[-1]  # the epoch reads a part of the folder
    assert resident_share(begun.cold.files) == 1.0
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    with pytest.raises(StillWarm):
        begun.window(lead=1, steps=60)
    begun.session.feed.close()


def test_no_batch_of_a_cold_epoch_was_loaded_before_the_files_were_dropped(
    smoke_data: dict[str, Path],
) -> None:
    task = task_of("leak", smoke_data["leak"], ("workers=2", "prefetch_factor=2", "cold_page_cache"))
    task = replace(task, endless=False)
    begun, ready = trial.begin(task, Timing.EPOCH, UNTIMED, {"page_cache": "cold"}, other_seeds=False)
    assert ready["inactive"] == ()
    assert begun.cold is not None
    step, ahead, files = begun.step, list[tuple[bool, int]](), begun.cold.files

    def looking() -> object:
        ahead.append((resident_share(files) < COLD, begun.session.feed.in_flight))
        return step()

    begun.step = looking
    begun.window(lead=1, steps=task.size.epoch_steps)
    begun.session.feed.close()
    assert ahead[1][1] > 0, "after the lead-in"
    assert next(in_flight for is_cold, in_flight in ahead if is_cold) == 0


def test_a_system_that_does_not_drop_is_seen(
    smoke_data: dict[str, Path], files: ColdFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None)
    task = task_of("leak", smoke_data["leak"], ("cold_page_cache",))
    begun, ready = trial.begin(task, Timing.EPOCH, UNTIMED, {"page_cache": "cold"}, other_seeds=False)
    assert inactive({"page_cache": "cold"}, ready["effective"]) == ("page_cache is warm, not cold",)
    assert begun.cold is None
    begun.session.feed.close()
