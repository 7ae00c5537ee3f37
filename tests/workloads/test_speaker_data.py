"""The files of the speaker workload, and the items read from them."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from harness.core.cell import Switch
from harness.core.compose import compose, expected, unengaged
from harness.core.recipe import Recipe
from workloads.speaker import WORKLOAD, layout
from workloads.speaker.augmentation import AUGMENTATIONS, MIXTURES, mixed, reverberated
from workloads.speaker.corpus import prepare
from workloads.speaker.data import Crops, dataset, effective
from workloads.speaker.optimizations import seek_read, split_noise
from workloads.speaker.reading import Read, Reader

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
OPTIMIZATIONS = {module.OPTIMIZATION.name: module.OPTIMIZATION for module in (seek_read, split_noise)}
STACKS: list[tuple[str, ...]] = [(), ("seek_read",), ("split_noise",), ("seek_read", "split_noise")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speaker")
    shares = list(prepare(path, SIZE))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return path


def recipe(*names: str) -> Recipe:
    return compose(WORKLOAD, [Switch(name=name) for name in names], OPTIMIZATIONS)


def crops(folder: Path, *names: str) -> Crops:
    return dataset(folder, SIZE, recipe(*names))


def test_every_wav_is_mono_pcm16_at_16_khz_and_fits_the_stated_size(folder: Path) -> None:
    wavs = list(folder.rglob("*.wav"))
    facts = {(info.samplerate, info.channels, info.subtype) for info in map(soundfile.info, map(str, wavs))}
    assert facts == {(16_000, 1, "PCM_16")}
    assert sum(path.stat().st_size for path in wavs) < SIZE.data_bytes


def test_lists_name_files_that_exist_and_speakers_do_not_mix(folder: Path) -> None:
    utterances, trials = layout.read_utterances(folder), layout.read_trials(folder)
    assert len(utterances) == SIZE.shape["speakers"] * SIZE.shape["utterances"]
    assert all((folder / layout.TRAIN_WAVS / one.path).is_file() for one in utterances)
    tested = layout.trial_paths(trials)
    assert len(tested) == SIZE.evaluation_items
    assert all((folder / layout.TEST_WAVS / path).is_file() for path in tested)
    assert not {one.speaker for one in utterances} & {path.split("/")[0] for path in tested}
    assert all(one.same == (one.left.split("/")[0] == one.right.split("/")[0]) for one in trials)
    assert Counter(one.same for one in trials) == {True: len(trials) // 2, False: len(trials) // 2}


def test_pieces_hold_the_recording_every_three_seconds(folder: Path) -> None:
    for path in (folder / layout.NOISES).glob("*/*/*.wav"):
        whole, _ = soundfile.read(path)
        count = layout.pieces(len(whole))
        assert len(list(layout.piece_path(path, 0).parent.glob("*.wav"))) == count
        last, _ = soundfile.read(layout.piece_path(path, count - 1))
        begin = (count - 1) * 48_000
        np.testing.assert_array_equal(last, whole[begin : begin + 80_000])


def test_the_same_files_are_written_again(folder: Path, tmp_path: Path) -> None:
    list(prepare(tmp_path, SIZE))
    written = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert written == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert all((folder / path).read_bytes() == (tmp_path / path).read_bytes() for path in written)


def test_an_item_is_a_crop_and_a_label_that_depend_on_the_index_alone(folder: Path) -> None:
    items = crops(folder)
    assert len(items) == SIZE.batch * SIZE.epoch_steps
    wave, label = items[3]
    assert (wave.shape, wave.dtype) == ((32_240,), torch.float32)
    assert 0 <= label < SIZE.shape["speakers"]
    again, _ = crops(folder)[3]
    assert torch.equal(wave, again)
    assert {label for _, label in items} == set(range(SIZE.shape["speakers"]))
    with pytest.raises(IndexError):
        items[len(items)]


@pytest.mark.parametrize("names", STACKS[1:])
def test_every_way_of_reading_gives_the_same_bits(folder: Path, names: tuple[str, ...]) -> None:
    for (wave, label), (reference, reference_label) in zip(crops(folder, *names), crops(folder), strict=True):
        assert torch.equal(wave, reference)
        assert label == reference_label


@pytest.mark.parametrize("names", STACKS)
def test_what_is_reported_as_effective_is_what_the_stack_promises(folder: Path, names: tuple[str, ...]) -> None:
    seen = effective(crops(folder, *names))
    assert seen["audio_read"] == ("seek" if "seek_read" in names else "whole_file")
    assert seen["noise_files"] == ("split" if "split_noise" in names else "unsplit")
    for name, optimization in OPTIMIZATIONS.items():
        assert bool(unengaged(expected(optimization, None), seen)) == (name not in names)


def test_reports_what_was_read_even_if_the_reader_lies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def window(reader: Reader, path: Path, begin: object, samples: int) -> np.ndarray:
        return reader.whole(path)[:samples]

    def noted(reader: Reader, path: Path, decoded: np.ndarray, wanted: int) -> np.ndarray:
        if reader.log is not None:
            reader.log.append(Read(path, len(decoded), 32_240))
        return decoded

    monkeypatch.setattr(Reader, "window", window)
    monkeypatch.setattr(Reader, "_noted", noted)
    assert effective(crops(folder, "seek_read"))["audio_read"] == "whole_file"


def test_fewer_bytes_are_read_by_pieces_and_fewest_by_seeking(folder: Path) -> None:
    unsplit, seek, split, both = (effective(crops(folder, *names))["read_bytes_per_sample"] for names in STACKS)
    assert unsplit > split > seek == both
    assert isinstance(seek, int)
    crops_read = 5 + 1 + 1 + 3  # an utterance each, one music, one noise and the first deck's three talkers
    assert crops_read * 2 * 32_240 <= seek * 5 < crops_read * 2 * 32_240 + 2 * 16_000  # and one room of up to 1 s


def test_augmentations_and_talkers_are_dealt(folder: Path) -> None:
    log: list[Read] = []
    items = crops(folder, "seek_read")
    watched = Crops(**{**vars(items), "reader": Reader(seek=True, log=log)})
    kinds, talkers = [], []
    for index in range(20):
        log.clear()
        assert watched[index]
        tops = [read.path.relative_to(folder).parts[:2] for read in log[1:]]
        kinds.append({("musan", "music"): "music", ("musan", "speech"): "speech", ("musan", "noise"): "noise"}.get(
            tops[0], "reverb") if tops else "none")  # fmt: skip
        if kinds[-1] == "speech":
            talkers.append(len({read.path for read in log[1:]}))
    assert kinds == list(AUGMENTATIONS) * 4
    assert talkers == [3, 7, 4, 6]


def test_noise_is_added_at_its_ratio_and_rooms_have_energy_one() -> None:
    rng = np.random.default_rng(0)
    speech, noise = rng.standard_normal(32_240), 0.3 * rng.standard_normal(32_240)
    added = mixed(speech, [(noise, 10.0)]) - speech
    assert 10 * np.log10(np.square(speech).mean() / np.square(added).mean()) == pytest.approx(10, abs=0.05)
    np.testing.assert_allclose(reverberated(speech, np.array([0.0, 5.0]))[1:], speech[:-1], atol=1e-12)
    assert {kind: mixture.snr_db for kind, mixture in MIXTURES.items()} == {
        "music": (5, 15), "speech": (13, 20), "noise": (0, 15)
    }  # fmt: skip


def test_a_worker_gets_a_small_pickle_without_handles(folder: Path) -> None:
    items = crops(folder)
    copied = pickle.loads(pickle.dumps(items))  # noqa: S301
    assert len(pickle.dumps(items)) < 20_000
    assert torch.equal(copied[2][0], items[2][0])


def test_quick_and_standard_keep_the_length_classes_and_enough_talkers() -> None:
    for name in ("quick", "standard"):
        shape = WORKLOAD.sizes[name].shape
        assert (shape["noise_s"], shape["music_s"], shape["speech_s"]) == (23, 232, 507)
        assert shape["speech_files"] >= max(MIXTURES["speech"].sounds)
    quick = WORKLOAD.sizes["quick"]
    assert quick.batch * quick.epoch_steps == 4 * len(AUGMENTATIONS)
