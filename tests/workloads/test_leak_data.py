"""The leak classifier's files on disk."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from workloads.leak import WORKLOAD
from workloads.leak.data import TRAINING, VALIDATION, prepare, write_split
from workloads.leak.mel import log_mel, mel_filters
from workloads.leak.signals import CLASSES, LEAK, draw_labels, record

SMOKE = WORKLOAD.sizes["smoke"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    shares = list(prepare(path, SMOKE))
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    return path


@pytest.mark.parametrize(("name", "files"), [(TRAINING, 24), (VALIDATION, 12)])
def test_datasets_are_contiguous_and_of_the_real_types(folder: Path, name: str, files: int) -> None:
    expected = {
        "segments_mel": ((files, 40, 2, 64, 1), np.float16),
        "segments_waveform": ((files, 40, 2, 512), np.float32),
        "labels": ((files,), np.int16),
    }
    with h5py.File(folder / name, "r") as file:
        assert set(file) == set(expected)
        for dataset, (shape, kind) in expected.items():
            stored = file[dataset]
            assert (stored.shape, stored.dtype) == (shape, kind)
            assert stored.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
            assert stored.compression is None
        assert tuple(json.loads(file.attrs["labels_json"])) == CLASSES
        assert json.loads(file.attrs["config_json"])["sample_rate"] == 4096


def test_stored_mel_is_the_mel_of_the_stored_waveform(folder: Path) -> None:
    with h5py.File(folder / TRAINING, "r") as file:
        np.testing.assert_array_equal(file["segments_mel"][3], log_mel(file["segments_waveform"][3]))


def test_declared_bytes_are_the_written_ones(folder: Path) -> None:
    written = sum(file.stat().st_size for file in folder.iterdir())
    assert written <= SMOKE.data_bytes <= 1.05 * written


def test_the_same_seed_writes_the_same_values(tmp_path: Path) -> None:
    splits = []
    for name, seed in [("first", 1), ("again", 1), ("other", 2)]:
        assert sum(write_split(tmp_path / name, 40, seed)) == 40
        with h5py.File(tmp_path / name, "r") as file:
            splits.append((file["segments_mel"][:].tobytes(), file["labels"][:].tobytes()))
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]


def test_files_of_different_slabs_differ(tmp_path: Path) -> None:
    list(write_split(tmp_path / "split", 64, 1))
    with h5py.File(tmp_path / "split", "r") as file:
        assert not np.array_equal(file["segments_waveform"][:32], file["segments_waveform"][32:])


def test_two_in_five_files_leak_and_all_classes_occur() -> None:
    labels = draw_labels(1_000, np.random.default_rng(0))
    assert (labels == LEAK).mean() == pytest.approx(0.39, abs=0.001)
    assert set(labels) == set(range(len(CLASSES)))


def test_leaks_are_louder_inside_their_band_alone() -> None:
    generator = np.random.default_rng(0)
    leak = record(np.full(40, LEAK, dtype=np.int16), generator).reshape(40, -1)
    calm = record(np.full(40, CLASSES.index("NORMAL"), dtype=np.int16), generator).reshape(40, -1)
    frequency = np.fft.rfftfreq(leak.shape[1], 1 / 4096)

    def power(sound: np.ndarray, low: float, high: float) -> float:
        inside = (frequency >= low) & (frequency < high)
        return float(np.median((np.abs(np.fft.rfft(sound)) ** 2)[:, inside].mean(1)))

    assert power(leak, 600, 900) > 3 * power(calm, 600, 900)
    assert power(leak, 1600, 2000) < 1.5 * power(calm, 1600, 2000)


def test_a_tone_peaks_in_its_mel_band() -> None:
    tone = np.sin(2 * np.pi * 800 / 4096 * np.arange(512)).astype(np.float32)
    mel = log_mel(tone)
    assert mel.shape == (64, 1)
    assert mel.dtype == np.float16
    corners = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 2048 / 700), 66) / 2595) - 1)
    assert corners[mel.argmax()] < 800 < corners[mel.argmax() + 2]


def test_no_mel_band_is_empty() -> None:
    assert mel_filters().shape == (257, 64)
    assert (mel_filters().sum(0) > 0.5).all()
