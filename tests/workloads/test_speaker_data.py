"""The files of the speaker workload, and the items read from them."""

import pickle
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from harness.core.configuration import compose, parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.recipe import Recipe
from harness.measure.feed import open_feed
from workloads.speaker import WORKLOAD, layout, optimizations
from workloads.speaker.augmentation import AUGMENTATIONS, MIXTURES, mixed, reverberated
from workloads.speaker.corpus import prepare
from workloads.speaker.data import Crops, RawCrops, dataset
from workloads.speaker.reading import Files, Kept, Maps, Read, mapped_pcm
from workloads.speaker.source import CROP

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
PAGES = Path(optimizations.__file__).parent
EXACT = ["seek_read", "split_noise", "mapped_noise", "fftconvolve", "utterance_cache"]
EXACT_STACKS = ["seek_read+split_noise", "seek_read+mapped_noise+fftconvolve", "utterance_cache+mapped_noise"]


def known() -> dict[str, Optimization]:
    modules = (import_module(f"workloads.speaker.optimizations.{path.stem}") for path in PAGES.glob("[!_]*.py"))
    return {module.OPTIMIZATION.name: module.OPTIMIZATION for module in modules}


KNOWN = known()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speaker")
    shares = list(prepare(path, SIZE))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return path


def recipe(stack: str = "") -> Recipe:
    return compose(WORKLOAD, [parse_option(name) for name in stack.split("+") if name], KNOWN)


def crops(folder: Path, stack: str = "") -> Crops:
    found = dataset(folder, SIZE, recipe(stack))
    assert isinstance(found, Crops)
    return found


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


def test_what_prepare_writes_is_taken_over_unchanged(folder: Path) -> None:
    assert WORKLOAD.adopt is not None
    found = WORKLOAD.adopt(folder, SIZE)
    assert (found.shape, found.evaluation_items) == (SIZE.shape, SIZE.evaluation_items)


def test_yardsticks_read_our_files_and_neutral_ones_alike(folder: Path) -> None:
    sticks = list(WORKLOAD.parts().yardsticks(folder, SIZE))
    assert [stick.mean_bytes / stick.scale / stick.target_bytes for stick in sticks] == pytest.approx([1] * 4, rel=0.2)
    for stick in sticks:
        assert stick.like is not None
        stick.work()
        stick.like()


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


@pytest.mark.parametrize("stack", EXACT + EXACT_STACKS)
def test_every_way_of_reading_gives_the_same_bits(folder: Path, stack: str) -> None:
    for (wave, label), (reference, reference_label) in zip(crops(folder, stack), crops(folder), strict=True):
        assert torch.equal(wave, reference)
        assert label == reference_label


def test_float32_differs_in_the_last_digits_alone(folder: Path) -> None:
    pairs = list(zip(crops(folder, "float32_augmentation"), crops(folder), strict=True))
    assert all(torch.allclose(wave, reference, rtol=0, atol=1e-6) for (wave, _), (reference, _) in pairs)
    assert not all(torch.equal(wave, reference) for (wave, _), (reference, _) in pairs)


def test_int16_waveforms_differ_by_half_a_step_of_their_peak(folder: Path) -> None:
    for (stored, peak, label), (reference, reference_label) in zip(
        crops(folder, "int16_waveforms"), crops(folder), strict=True
    ):
        assert stored.dtype == torch.int16
        assert label == reference_label
        assert (stored.float() * (peak / 32_767) - reference).abs().max() <= 0.51 * peak / 32_767
        assert stored.abs().max() == 32_767


def test_a_pair_is_two_augmented_crops_of_one_speaker_from_two_utterances(folder: Path) -> None:
    pairs, single = crops(folder, "metric_learning=angular_prototypical"), crops(folder)
    for item in range(len(pairs)):
        wave, label = pairs[item]
        assert wave.shape == (2, CROP)
        assert torch.equal(wave[0], single[item][0])
        assert label == single[item][1]
        first, second = pairs.draws.of(item)
        assert first.speech != second.speech
        assert first.speech.parents[1] == second.speech.parents[1]
    kinds = Counter(bool(pairs.draws.of(item)[1].room) for item in range(len(pairs)))
    assert kinds[True] == len(pairs) // len(AUGMENTATIONS)  # second crops are dealt as evenly as first ones


def test_augmentations_and_talkers_are_dealt(folder: Path) -> None:
    draws = crops(folder).draws
    kinds, talkers = [], []
    for item in range(20):
        (drawn,) = draws.of(item)
        kinds.append(
            drawn.noises[0].path.relative_to(folder / layout.NOISES).parts[0]
            if drawn.noises
            else "reverb"
            if drawn.room
            else "none"
        )
        if kinds[-1] == "speech":
            talkers.append(len({one.path for one in drawn.noises}))
    assert kinds == list(AUGMENTATIONS) * 4
    assert talkers == [5, 5, 3, 7]


def test_noise_is_added_at_its_ratio_and_rooms_have_energy_one() -> None:
    rng = np.random.default_rng(0)
    speech, noise = rng.standard_normal(32_240), 0.3 * rng.standard_normal(32_240)
    added = mixed(speech, [(noise, 10.0)]) - speech
    twice = mixed(speech, [(noise, 10.0), (noise, 10.0)]) - speech
    np.testing.assert_allclose(twice, 2 * added, atol=1e-12)
    assert 10 * np.log10(np.square(speech).mean() / np.square(added).mean()) == pytest.approx(10, abs=0.05)
    shifted = reverberated(speech, np.array([0.0, 5.0]), np.convolve)
    np.testing.assert_allclose(shifted[1:], speech[:-1], atol=1e-12)
    assert {kind: mixture.snr_db for kind, mixture in MIXTURES.items()} == {
        "music": (5, 15), "speech": (13, 20), "noise": (0, 15)
    }  # fmt: skip


def test_a_mapped_file_holds_what_the_file_holds_even_behind_other_chunks(tmp_path: Path) -> None:
    stored = np.arange(-500, 500, dtype=np.int16)
    path = tmp_path / "sound.wav"
    soundfile.write(path, stored, 16_000, subtype="PCM_16")
    np.testing.assert_array_equal(mapped_pcm(path), stored)
    whole = path.read_bytes()
    path.write_bytes(whole[:36] + b"LIST" + (3).to_bytes(4, "little") + b"abc\0" + whole[36:] + b"tail")
    np.testing.assert_array_equal(mapped_pcm(path), stored)
    mapped_pcm(path)[:] = 0
    np.testing.assert_array_equal(mapped_pcm(path), stored)  # a private mapping never reaches the file
    with pytest.raises(ValueError, match="not a RIFF WAVE file"):
        layout.pcm_span(b"fLaC" + bytes(100))
    with pytest.raises(ValueError, match="no data chunk"):
        layout.pcm_span(whole[:36])


def test_maps_open_a_file_once_and_keep_no_descriptor(folder: Path) -> None:
    path = next((folder / layout.NOISES).glob("speech/*/*.wav"))
    log: list[Read] = []
    maps, before = Maps("float64", log=log), len(list(Path("/proc/self/fd").iterdir()))
    first, again = (maps.window(path, lambda _: 16_000, 100) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert [read.opened for read in log] == [True, False]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_cache_keeps_what_was_read_last(folder: Path) -> None:
    one, two, three = sorted((folder / layout.NOISES).glob("*/*/*.wav"))[:3]
    log: list[Read] = []
    kept = Kept(Files(seek=False, sample_type="float64"), 2, log)
    for path in (one, two, one, three, one, two):
        kept.window(path, lambda _: 0, 10)
    assert [read.opened for read in log] == [True, True, False, True, False, True]
    assert len(pickle.loads(pickle.dumps(kept)).sounds) == 0  # noqa: S301


def test_of_a_longer_list_only_what_is_reached_is_kept(folder: Path) -> None:
    few = dataset(folder, replace(SIZE, batch=1), recipe())
    assert len(few.draws.paths) == 5
    assert len(pickle.dumps(few)) < len(pickle.dumps(crops(folder)))


def test_recordings_without_a_piece_are_left_out_and_missing_pieces_are_a_mistake(tmp_path: Path, folder: Path) -> None:
    for top in ("voxceleb2", layout.TRAIN_LIST, "RIRS_NOISES"):
        (tmp_path / top).symlink_to(folder / top)
    for path in (folder / layout.NOISES).glob("*/*/*.wav"):
        copy = tmp_path / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(path)
    short = tmp_path / layout.NOISES / "noise" / "synthetic" / "short.wav"
    soundfile.write(short, np.zeros(layout.PIECE_SAMPLES, np.int16), 16_000, subtype="PCM_16")
    named = {noise.path for noise in crops(tmp_path).draws.noises["noise"]}
    assert len(named) == SIZE.shape["noise_files"]
    assert short not in named
    with pytest.raises(Mistake, match=r"has no musan_split; cut the recordings into pieces, or drop split_noise\."):
        crops(tmp_path, "split_noise")


@pytest.mark.parametrize("samples", [79_999, 80_000, 80_001, 128_000, 128_001, 8_000_000])
def test_pieces_are_counted_as_the_original_cuts_them(samples: int) -> None:
    assert layout.pieces(samples) == len(range(0, samples - 5 * 16_000, 3 * 16_000))


@pytest.mark.parametrize("stack", ["", "seek_read+mapped_noise", "utterance_cache", "device_mixing"])
def test_a_worker_gets_a_small_pickle_without_sound(folder: Path, stack: str) -> None:
    items = dataset(folder, SIZE, recipe(stack))
    items[2]
    copied = pickle.loads(pickle.dumps(items))  # noqa: S301
    assert len(pickle.dumps(items)) < 5_000
    assert torch.equal(copied[2][0], items[2][0])


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_workers_give_what_the_trainer_itself_would_read(folder: Path, method: str) -> None:
    batches = []
    for start in ({}, {"workers": 1, "start_method": method}):
        chosen = replace(recipe("seek_read+mapped_noise+device_mixing"), **start)
        feed = open_feed(dataset(folder, SIZE, chosen), SIZE, chosen, seed=0, endless=False)
        batches.append([feed.fetch() for _ in range(SIZE.epoch_steps)])
        feed.close()
    for here, there in zip(*batches, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


def test_raw_batches_hold_the_ingredients_of_their_rows(folder: Path) -> None:
    raw = dataset(folder, SIZE, recipe("seek_read+device_mixing"))
    assert isinstance(raw, RawCrops)
    speech, labels, noises, noised, ratios, rooms, reverberant = raw.__getitems__([0, 1, 2, 3, 4])
    assert (speech.shape, speech.dtype) == ((5, CROP), torch.int16)
    assert labels.tolist() == [crops(folder)[item][1] for item in range(5)]
    assert (noises.shape, noises.dtype) == ((7, CROP), torch.int16)
    assert noised.tolist() == [2, 3, 3, 3, 3, 3, 4]
    assert all(
        low <= ratio <= high for ratio, (low, high) in zip(ratios, [(5, 15), *[(13, 20)] * 5, (0, 15)], strict=True)
    )
    assert (len(rooms), reverberant.tolist()) == (1, [1])


def test_quick_and_standard_keep_the_length_classes_and_enough_talkers() -> None:
    for name in ("quick", "standard"):
        shape = WORKLOAD.sizes[name].shape
        assert (shape["noise_s"], shape["music_s"], shape["speech_s"]) == (23, 232, 507)
        assert shape["speech_files"] >= max(MIXTURES["speech"].sounds)
        size = WORKLOAD.sizes[name]
        assert size.batch * size.epoch_steps <= shape["speakers"] * shape["utterances"]  # an epoch sees none twice
        decks, rest = divmod(size.batch * size.epoch_steps, len(AUGMENTATIONS))
        talkers = [MIXTURES["speech"].count(deck) for deck in range(decks)]
        assert (rest, sum(talkers) / decks) == (0, 5)  # a short epoch costs what a long one does


@pytest.mark.parametrize("frames", [100, 300])
def test_crops_of_another_length_are_of_the_same_utterances_with_the_same_noises(folder: Path, frames: int) -> None:
    ours, usual = crops(folder, f"crop_length={frames}"), crops(folder)
    assert len(ours) == len(usual)
    for item in range(len(usual)):
        wave, label = ours[item]
        assert isinstance(wave, torch.Tensor)
        assert wave.shape == (layout.crop_samples(frames),)
        assert label == usual[item][1]
        (one,), (other,) = ours.draws.of(item), usual.draws.of(item)
        assert (one.speech, one.share, one.room) == (other.speech, other.share, other.room)
        assert [noise.path for noise in one.noises] == [noise.path for noise in other.noises]
        for noise in one.noises:
            assert noise.begin % layout.PIECE_STEP + one.samples <= layout.PIECE_SAMPLES


def test_the_usual_length_named_is_the_usual_length(folder: Path) -> None:
    assert recipe("crop_length=200") == recipe()
    assert CROP == layout.crop_samples(200) == 32_240
    assert [layout.crop_frames(samples) for samples in (CROP, CROP + 1)] == [200, None]


def test_a_crop_that_may_not_fit_is_refused(folder: Path) -> None:
    with pytest.raises(Mistake, match="choose crop_length=300 or less"):
        crops(folder, "crop_length=301")
