"""The files of the anti-spoofing workload, and the items read from them."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch.utils.data import DataLoader

from harness.core.configuration import Option, compose
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, patched
from tests.measure.tasks import CATALOGUE
from workloads.spoof import WORKLOAD, cache, corpus, layout, synthesis
from workloads.spoof.augmentation import augmented, shifted, stretched
from workloads.spoof.data import FeatureItems, Items, SoundItems, dataset, device_stage, evaluation_items
from workloads.spoof.mel import log_mel
from workloads.spoof.view import View

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
FRAMES = SIZE.shape["frames"]
WAYS = [(), ("float32_mel",), ("torch_mel",), ("device_mel",), ("feature_cache",)]
CUTS = [*WAYS, ("crop_before_mel",), ("crop_before_mel", "device_mel")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.getbasetemp() / "spoof_smoke"  # written once for all files of tests
    if not path.exists():
        path.mkdir()
        shares = list(corpus.prepare(path, SIZE))
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)
    return path


def recipe(*names: str) -> Recipe:
    return compose(WORKLOAD, [Option(name=name) for name in names], CATALOGUE.optimizations)


def items_of(folder: Path, *names: str) -> Items:
    return dataset(folder, SIZE, recipe(*names))


def batch_of(items: Items, indices: list[int], method: str | None = None) -> list[torch.Tensor]:
    """A batch as the harness's loader makes it."""
    keywords: dict[str, Any] = {"collate_fn": list} if isinstance(items, SoundItems) else {}
    if method:
        keywords |= {"num_workers": 1, "multiprocessing_context": method}
    return list(next(iter(DataLoader(items, batch_sampler=[indices], **keywords))))


def seen(folder: Path, indices: list[int], *names: str) -> torch.Tensor:
    """What the model gets of some items."""
    batch = batch_of(items_of(folder, *names), indices)
    stage = device_stage(folder, SIZE, recipe(*names), torch.device("cpu"))
    inputs, labels = stage(batch) if stage else batch
    assert labels.dtype == torch.int64
    return inputs


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def test_files_are_of_the_real_kinds_and_as_many_bytes_as_stated(folder: Path) -> None:
    for ending, kind in ((".flac", "FLAC"), (".wav", "WAV")):
        found = [soundfile.info(path) for path in folder.rglob(f"*{ending}")]
        facts = {(one.format, one.subtype, one.samplerate, one.channels) for one in found}
        assert facts == {(kind, "PCM_16", 16_000, 1)}
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert 0.8 * SIZE.data_bytes < written <= SIZE.data_bytes <= 20_000_000


def test_protocols_have_five_columns_both_keys_and_speakers_who_do_not_mix(folder: Path) -> None:
    speakers = {}
    for split, count in (("train", SIZE.shape["train_clips"]), ("dev", SIZE.shape["dev_clips"])):
        rows = [line.split() for line in layout.protocol_path(folder, split).read_text().splitlines()]
        assert {len(row) for row in rows} == {5}
        assert Counter(row[4] for row in rows)["bonafide"] == SIZE.shape[f"{split}_bonafide"]
        assert all((row[3] == "-") == (row[4] == "bonafide") for row in rows)
        assert len(rows) == count == len({row[1] for row in rows})
        clips = layout.asvspoof(folder, split)
        assert [clip.name for clip in clips] == [row[1] for row in rows]
        assert all((folder / clip.path).is_file() for clip in clips)
        speakers[split] = {row[0] for row in rows}
    assert not speakers["train"] & speakers["dev"]


def test_fake_or_real_has_both_sides_and_clips_of_one_length_shorter_than_the_view(folder: Path) -> None:
    assert {WORKLOAD.sizes[name].shape["fake_or_real_ms"] for name in ("quick", "standard")} == {2_000}
    for split in ("train", "dev"):
        clips = layout.fake_or_real(folder, split)
        assert Counter(clip.label for clip in clips) == dict.fromkeys((0, 1), SIZE.shape[f"fake_or_real_{split}"] // 2)
        assert {soundfile.info(folder / clip.path).frames for clip in clips} == {4_000}


def test_all_systems_make_fakes_of_fake_or_real(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(synthesis, "spoof", lambda _voice, system, *_: used.append(system))
    for row in corpus._fake_or_real("train", WORKLOAD.sizes["quick"]):
        if row.clip.label == layout.SPOOF:
            row.sound()
    assert Counter(used) == dict.fromkeys(synthesis.SYSTEMS, 4)


def test_the_real_ones_share_of_bona_fide_speech_is_kept_at_standard() -> None:
    shape = WORKLOAD.sizes["standard"].shape
    assert shape["train_bonafide"] / shape["train_clips"] == pytest.approx(2_580 / 25_380, rel=0.01)
    assert shape["dev_bonafide"] / shape["dev_clips"] == pytest.approx(2_548 / 24_844, rel=0.01)


def test_lengths_are_spread_alike_on_both_sides_and_over_few_clips() -> None:
    rows = corpus._asvspoof("train", WORKLOAD.sizes["quick"])
    for label in (layout.SPOOF, layout.BONAFIDE):
        seconds = [row.samples / 16_000 for row in rows if row.clip.label == label]
        assert np.mean(seconds) == pytest.approx(3.4, abs=0.1)
        assert 1 <= min(seconds) < 1.5
        assert 7 < max(seconds) <= 8


def test_another_process_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    rows = [*corpus._asvspoof("train", SIZE)[:4], *corpus._fake_or_real("dev", SIZE)[:2]]
    for row in rows:
        for path in (row.clip.path, row.clip.cached):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        corpus._write(tmp_path, row)  # here, and by a pool of processes in `folder`
        for path in (row.clip.path, row.clip.cached):
            assert (tmp_path / path).read_bytes() == (folder / path).read_bytes()


def test_a_spoof_has_less_above_its_systems_band_and_no_true_phase(folder: Path) -> None:
    def share_above(row: corpus.Recording) -> float:
        sound = row.sound()
        power = np.abs(np.fft.rfft(sound)) ** 2
        return float(power[int(7_300 / 8_000 * len(power)) :].sum() / power.sum())

    rows = corpus._asvspoof("train", SIZE)
    spoofs = [share_above(row) for row in rows if row.clip.label == layout.SPOOF]
    bonafide = [share_above(row) for row in rows if row.clip.label == layout.BONAFIDE]
    assert np.median(spoofs) < np.median(bonafide)
    assert len({row.clip.source for row in rows}) == 7


@pytest.mark.parametrize("names", WAYS)
def test_every_way_gives_the_originals_features(folder: Path, names: tuple[str, ...]) -> None:
    """Worked out here from the file, the list and the view alone."""
    view = View(frames=FRAMES, early=False, centred=False, stream=0)
    listed = layout.asvspoof(folder, "train")
    order = np.random.default_rng(2019).permutation(len(listed))
    found = seen(folder, [3, 0, 19], *names)
    assert (found.shape, found.dtype) == ((3, 128, FRAMES), torch.float32)
    for row, index in enumerate([3, 0, 19]):
        clip = listed[order[index % len(listed)]]
        whole = log_mel(soundfile.read(folder / clip.path)[0])
        assert whole.shape[1] >= FRAMES
        start = view.start(whole.shape[1], index)
        expected = torch.from_numpy(whole[:, start : start + FRAMES].astype(np.float32))
        assert distance(found[row], expected) <= {"feature_cache": 0.0313}.get("".join(names), 0.05 if names else 0.0)


def test_labels_are_those_of_the_protocol(folder: Path) -> None:
    keys = {clip.name: clip.key for clip in layout.asvspoof(folder, "train")}
    items = items_of(folder)
    labels = [items[index][1] for index in range(18)]
    assert labels == [int(keys[clip.name] == "bonafide") for clip in items.listing.clips]
    assert Counter(labels) == {0: 9, 1: 9}
    device_labels = batch_of(items_of(folder, "device_mel"), list(range(18)))[3]
    assert device_labels.tolist() == labels


def test_the_sound_that_is_cut_early_gives_other_levels_but_as_many_frames(folder: Path) -> None:
    indices = list(range(18))
    late, early = seen(folder, indices), seen(folder, indices, "crop_before_mel")
    assert early.shape == late.shape
    assert distance(early, late) > 3  # dB: the trap
    assert distance(seen(folder, indices, "crop_before_mel", "device_mel"), early) < 0.05


def test_short_clips_begin_again_and_long_ones_are_cut_inside() -> None:
    view = View(frames=404, early=True, centred=False, stream=0)
    assert view.samples == 64_600
    np.testing.assert_array_equal(view.sound(np.arange(30_000), 5), np.arange(64_600) % 30_000)
    starts = {int(view.sound(np.arange(64_603), index)[0]) for index in range(200)}
    assert starts == {0, 1, 2, 3}
    assert view.features(np.zeros((128, 500)), 0).shape == (128, 404)
    centred = View(frames=404, early=False, centred=True, stream=0)
    assert {centred.start(504, index) for index in range(5)} == {50}
    other = View(frames=404, early=False, centred=False, stream=1)
    late = View(frames=404, early=False, centred=False, stream=0)
    assert [late.start(900, index) for index in range(9)] != [other.start(900, index) for index in range(9)]


def test_fake_or_real_is_repeated_unless_it_is_seen_once(folder: Path) -> None:
    size = WORKLOAD.sizes["quick"]  # the original's 404 frames
    tiled = dataset(folder, size, recipe("fake_or_real"))[0][0]
    once = dataset(folder, size, recipe("fake_or_real", "no_tiling"))[0][0]
    assert (tiled.shape, once.shape) == ((128, 404), (128, 26))
    assert torch.equal(tiled, once.repeat(1, 16)[:, :404])
    stage = device_stage(folder, size, recipe("fake_or_real", "no_tiling", "device_mel"), torch.device("cpu"))
    assert stage is not None
    sounds = dataset(folder, size, recipe("fake_or_real", "no_tiling", "device_mel"))
    assert distance(stage(batch_of(sounds, [0]))[0][0], once) < 0.05
    assert recipe("no_tiling") == recipe("fake_or_real", "no_tiling")
    with pytest.raises(Mistake, match="clips of one length"):
        dataset(folder, size, patched(recipe(), {"tiling": False}))


def test_sound_travels_as_it_is_stored_padded_to_whole_seconds(folder: Path) -> None:
    sounds, lengths, starts, labels = batch_of(items_of(folder, "device_mel"), [0, 1, 2, 3])
    assert sounds.dtype == torch.int16
    assert sounds.shape == (4, -(-int(lengths.max()) // 16_000) * 16_000)
    clips = items_of(folder).listing.clips
    for row, clip in enumerate(clips[:4]):
        stored = soundfile.read(folder / clip.path, dtype="int16")[0]
        assert int(lengths[row]) == len(stored)
        np.testing.assert_array_equal(sounds[row, : len(stored)], stored)
        assert not sounds[row, len(stored) :].any()
    assert (starts + FRAMES <= 1 + lengths // 160).all()
    assert set(labels.tolist()) <= {0, 1}


def test_augmentation_changes_training_items_alone_and_each_by_its_index(folder: Path) -> None:
    plain, changed = seen(folder, [0, 1]), seen(folder, [0, 1], "cpu_augmentation")
    assert min(distance(changed[row], plain[row]) for row in (0, 1)) > 3
    assert torch.equal(changed, seen(folder, [0, 1], "cpu_augmentation"))
    assert distance(seen(folder, [0, 1], "cpu_augmentation", "device_mel"), changed) < 0.05
    dev = evaluation_items(folder, SIZE, recipe("cpu_augmentation"))
    assert torch.equal(dev[0][0], evaluation_items(folder, SIZE, recipe())[0][0])


def test_pitch_and_tempo_change_as_asked() -> None:
    tone = np.sin(2 * np.pi * 440 / 16_000 * np.arange(32_000))

    def peak_hz(sound: Any) -> float:
        return float(np.abs(np.fft.rfft(sound * np.hanning(len(sound)))).argmax() * 16_000 / len(sound))

    higher, faster = shifted(tone, 2.0), stretched(tone, 1.1)
    assert (len(higher), len(faster)) == (32_000, round(32_000 / 1.1))
    assert peak_hz(higher) == pytest.approx(440 * 2 ** (2 / 12), abs=1)
    assert peak_hz(faster) == pytest.approx(440, abs=1)
    whole = augmented((tone * 10_000).astype(np.int16), 1)
    assert whole.dtype == np.int16
    assert np.abs(whole).max() > 9_000


@pytest.mark.parametrize("names", CUTS)
@pytest.mark.parametrize("method", ["fork"])
def test_workers_read_the_same(folder: Path, names: tuple[str, ...], method: str) -> None:
    items = items_of(folder, *names)
    here = batch_of(items, [1, 2])  # the list is read in here before the worker starts
    there = batch_of(items, [1, 2], method)
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


def test_a_spawned_worker_reads_the_same(folder: Path) -> None:
    items = items_of(folder, "device_mel")
    here, there = batch_of(items, [1, 2]), batch_of(items, [1, 2], "spawn")
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


@pytest.mark.parametrize("names", CUTS)
def test_a_worker_gets_a_small_pickle_that_carries_no_clip(folder: Path, names: tuple[str, ...]) -> None:
    items = items_of(folder, *names)
    first = items[0][0]
    pickled = pickle.dumps(items)
    assert len(pickled) < 1_500
    assert torch.equal(pickle.loads(pickled)[0][0], first)  # noqa: S301  our own bytes


def test_items_depend_on_their_index_alone_and_end(folder: Path) -> None:
    items = items_of(folder)
    assert isinstance(items, FeatureItems)
    assert len(items) == SIZE.batch * SIZE.epoch_steps
    assert torch.equal(items[7][0], items_of(folder)[7][0])
    assert items.listing.clips[19 % 18] == items.listing.clips[1]
    for index in (-1, len(items)):
        with pytest.raises(IndexError):
            items[index]


def test_a_missing_cache_is_a_mistake_with_the_command_that_writes_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "LA").symlink_to(folder / "LA")
    items = items_of(tmp_path, "feature_cache")
    with pytest.raises(Mistake, match=f"python -m workloads.spoof.cache {tmp_path}"):
        items[0]
    shares = list(cache.build(tmp_path))
    assert shares[-1] == 1
    assert torch.equal(items[0][0], items_of(folder, "feature_cache")[0][0])
