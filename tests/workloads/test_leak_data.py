"""The leak classifier's files on disk."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from harness.core.mistake import Mistake
from workloads.leak import WORKLOAD
from workloads.leak.classes import CLASSES, LEAK, SHARES, counts, shares
from workloads.leak.data import lay_out, prepare, write_slab
from workloads.leak.layouts import CHUNKED, COMPRESSED, CONTIGUOUS, TRAINING, VALIDATION, layout_of, training_file
from workloads.leak.mel import log_mel, mel_filters
from workloads.leak.signals import draw_labels, record

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


def test_the_real_size_stays_below_its_share_of_the_disk() -> None:
    standard = WORKLOAD.sizes["standard"]
    assert standard.data_bytes < 4.5e9
    assert (standard.shape["files"], standard.shape["training_waveforms"]) == (39_563, 0)


def test_two_runs_write_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    list(prepare(tmp_path, SMOKE))
    digests = [
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in where.iterdir()}
        for where in (folder, tmp_path)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0].values())) == 4


def test_slabs_may_be_written_in_any_order(folder: Path, tmp_path: Path) -> None:
    for slab in reversed(list(lay_out(tmp_path / VALIDATION, 12, waveforms=True))):
        write_slab(slab)
    assert (tmp_path / VALIDATION).read_bytes() == (folder / VALIDATION).read_bytes()


def test_files_of_different_slabs_and_splits_differ(tmp_path: Path) -> None:
    for name in (TRAINING, VALIDATION):
        for slab in lay_out(tmp_path / name, 64, waveforms=True):
            write_slab(slab)
    with h5py.File(tmp_path / TRAINING, "r") as training, h5py.File(tmp_path / VALIDATION, "r") as validation:
        sound = training["segments_waveform"]
        assert not np.array_equal(sound[:32], sound[32:])
        assert not np.array_equal(sound[:], validation["segments_waveform"][:])
        assert len(np.unique(sound[:, 0, 0, 0])) == 64  # no place was left unwritten


def test_a_size_may_leave_the_training_waveforms_out(folder: Path, tmp_path: Path) -> None:
    list(prepare(tmp_path, replace(SMOKE, shape={**SMOKE.shape, "training_waveforms": 0})))
    with h5py.File(tmp_path / TRAINING, "r") as lean, h5py.File(folder / TRAINING, "r") as full:
        assert set(lean) == {"segments_mel", "labels"}
        np.testing.assert_array_equal(lean["segments_mel"][:], full["segments_mel"][:])
    assert (tmp_path / VALIDATION).read_bytes() == (folder / VALIDATION).read_bytes()


@pytest.mark.parametrize(
    ("layout", "chunk_files", "compression"), [(CONTIGUOUS, None, None), (CHUNKED, 1, None), (COMPRESSED, 16, "gzip")]
)
def test_every_layout_holds_the_same_segments(
    folder: Path, layout: str, chunk_files: int | None, compression: str | None
) -> None:
    path = training_file(folder, layout)
    with h5py.File(path, "r") as file, h5py.File(folder / TRAINING, "r") as original:
        mel = file["segments_mel"]
        assert layout_of(mel) == layout
        assert mel.compression == compression
        assert mel.chunks == (chunk_files and (chunk_files, 40, 2, 64, 1))
        np.testing.assert_array_equal(mel[:], original["segments_mel"][:])
        np.testing.assert_array_equal(file["labels"][:], original["labels"][:])


def test_a_layout_that_was_not_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / TRAINING).touch()
    assert training_file(tmp_path, CONTIGUOUS).name == TRAINING
    with pytest.raises(Mistake, match=r"There is no TRAINING_DATASET_CHUNKED.H5 .* h5repack"):
        training_file(tmp_path, CHUNKED)


@pytest.mark.parametrize("files", [12, 24, 40, 1_500, 39_563])
def test_the_counts_of_the_classes_add_up_and_follow_their_shares(files: int) -> None:
    assert sum(counts(files)) == files
    np.testing.assert_allclose(np.array(counts(files)) / files, SHARES, atol=1 / files)


def test_a_size_knows_its_classes() -> None:
    for size in WORKLOAD.sizes.values():
        labels = draw_labels(size.shape["files"], np.random.default_rng(0))
        np.testing.assert_allclose(shares(size.shape), np.bincount(labels) / len(labels))


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
