"""The network mount: how long its reads last, what the page cache spares, and that no item changes by it."""

from pathlib import Path
from time import perf_counter

import pytest
import torch

from tests.workloads.test_speaker_data import crops
from workloads.speaker import layout
from workloads.speaker.effective import of_reads
from workloads.speaker.network import READ_AHEAD, Mount, seconds
from workloads.speaker.reading import Files, Maps, Read

LATE_S = 0.05  # what a busy machine may add
HEADER = 44  # bytes of a WAV file before its samples
TEN_GBIT = 1.25e9  # bytes a second


@pytest.fixture(scope="module")
def folder(written_data: dict[str, Path]) -> Path:
    return written_data["speaker"]


# honnef.co/notes/20230128011632-nfs_sequential_read_performance: bytes a second by read-ahead, 10 Gbit/s. With more
# than the kernel asks for at once he saw less, which no time of a request explains.
@pytest.mark.parametrize(("read_ahead", "seen"), [(128 * 1024, 300e6), (2**20, 940e6)])
def test_rates_that_somebody_measured_on_nfs_come_out_of_the_times(read_ahead: int, seen: float) -> None:
    assert read_ahead / seconds(1, read_ahead, TEN_GBIT) == pytest.approx(seen, rel=0.25)


@pytest.mark.parametrize(
    ("noise_cached", "place", "requests"),
    [
        (True, layout.TRAIN_WAVS, 1 + 2),
        (True, layout.NOISES, 1),
        (True, layout.ROOMS, 1),
        (False, layout.TRAIN_WAVS, 1 + 2),
        (False, layout.NOISES, 1 + 2),
    ],
)
def test_utterances_always_cross_the_network_and_the_rest_unless_it_is_cached(
    tmp_path: Path, noise_cached: bool, place: str, requests: int
) -> None:
    mount, path = Mount(tmp_path, noise_cached), tmp_path / place / "one.wav"
    assert mount.waited(path, 0, READ_AHEAD + 1, opened=True, began=perf_counter()) == requests


@pytest.mark.parametrize(
    ("first", "size", "opened", "pieces"),
    [
        (0, 64_480, True, 1),
        (READ_AHEAD, 64_480, True, 2),
        (READ_AHEAD, 64_480, False, 1),
        (2 * READ_AHEAD - 1_000, 64_480, True, 3),
        (0, 3 * READ_AHEAD, True, 3),
    ],
)
def test_a_window_is_read_in_the_pieces_in_which_it_lies_and_the_header_in_its_own(
    tmp_path: Path, first: int, size: int, opened: bool, pieces: int
) -> None:
    mount, path = Mount(tmp_path, noise_cached=False), tmp_path / layout.TRAIN_WAVS / "one.wav"
    assert mount.waited(path, first, size, opened=opened, began=perf_counter()) == opened + pieces


def test_a_read_lasts_as_long_as_its_requests_and_no_longer_if_decoding_takes_that_long(folder: Path) -> None:
    (path, *_) = sorted((folder / layout.NOISES / "speech").glob("*/*.wav"))
    size = path.stat().st_size
    log: list[Read] = []
    local, mounted = Files(seek=False, sample_type="float64"), Mount(folder, noise_cached=False)
    plain_s = min(_timed(local, path) for _ in range(3))
    files = Files(seek=False, sample_type="float64", mount=mounted, log=log)
    lasted_s = min(_timed(files, path) for _ in range(3))
    waits_s = seconds(log[0].requests, size - HEADER)
    assert waits_s <= lasted_s <= waits_s + plain_s + LATE_S
    long_ago, began = perf_counter() - 10.0, perf_counter()  # since when all was decoded
    mounted.waited(path, 0, 1000 * READ_AHEAD, opened=True, began=long_ago)
    assert perf_counter() - began < seconds(1000, 0)


def _timed(files: Files, path: Path) -> float:
    began = perf_counter()
    files.whole(path)
    return perf_counter() - began


def test_a_crop_asks_for_one_piece_and_a_whole_file_for_many(folder: Path) -> None:
    (path, *_) = sorted((folder / layout.NOISES / "speech").glob("*/*.wav"))
    asked = {}
    for seek in (False, True):
        log: list[Read] = []
        files = Files(seek=seek, sample_type="float64", mount=Mount(folder, noise_cached=False), log=log)
        files.window(path, lambda _: 0, 32_240)
        asked[seek] = log[0].requests
    assert asked[True] == 2
    assert asked[False] == 1 + -(-(path.stat().st_size - HEADER) // READ_AHEAD)


def test_a_mapped_file_is_opened_once(folder: Path) -> None:
    (path, *_) = sorted((folder / layout.NOISES / "speech").glob("*/*.wav"))
    for noise_cached, requests in ((True, [1, 0]), (False, [2, 1])):
        log: list[Read] = []
        maps = Maps("float64", Mount(folder, noise_cached), log)
        for _ in range(2):
            maps.window(path, lambda _: 0, 32_240)
        assert [one.requests for one in log] == requests


@pytest.mark.parametrize("level", ["noise_cached", "uncached"])
@pytest.mark.parametrize("stack", ["", "seek_read", "mapped_noise", "split_noise", "utterance_cache"])
def test_what_is_seen_is_what_was_asked_for_and_items_stay_the_same(folder: Path, level: str, stack: str) -> None:
    local, mounted = crops(folder, stack), crops(folder, "+".join(filter(None, [stack, f"network_mount={level}"])))
    assert of_reads(local)["network_mount"] == "none"
    assert of_reads(local)["network_requests_per_sample"] == 0
    assert of_reads(mounted)["network_mount"] == level
    for item in range(5):
        assert all(map(torch.equal, map(torch.as_tensor, local[item]), map(torch.as_tensor, mounted[item])))
