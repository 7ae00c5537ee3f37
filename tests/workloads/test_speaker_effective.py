"""What an arm of the speaker workload shows of its settings, and what it does with a batch on the device."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.core.configuration import Conflict, compose, expected, inactive, parse_option
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built
from tests.workloads.test_speaker_data import KNOWN, SIZE, crops, recipe
from workloads.speaker import WORKLOAD
from workloads.speaker.augmentation import reverberated as reverberated_on_the_host
from workloads.speaker.data import RawCrops, dataset
from workloads.speaker.device_stage import augmented, device_stage, reverberated
from workloads.speaker.effective import effective, of_reads
from workloads.speaker.reading import Files, Read, Sound

torch.set_num_threads(1)

CPU = torch.device("cpu")
PARTS = WORKLOAD.parts()
FAST = "seek_read+mapped_noise"


@pytest.fixture(scope="module")
def folder(written_data: dict[str, Path]) -> Path:
    return written_data["speaker"]


def batch_of(folder: Path, chosen: Recipe, items: list[int]) -> tuple[Tensor, ...]:
    found = dataset(folder, SIZE, chosen)
    if isinstance(found, RawCrops):
        return found.__getitems__(items)
    return tuple(torch.utils.data.default_collate([found[item] for item in items]))


def on_device(folder: Path, stack: str, items: list[int]) -> tuple[Tensor, Tensor]:
    chosen = recipe(stack)
    batch = batch_of(folder, chosen, items)
    kept = [one.clone() for one in batch]
    stage = device_stage(folder, SIZE, chosen, CPU)
    pair = stage(batch) if stage else batch
    assert all(torch.equal(one, other) for one, other in zip(batch, kept, strict=True))  # it may be used again
    return pair


def seen(folder: Path, stack: str) -> dict[str, Value]:
    chosen = recipe(stack)
    model = torch.nn.Linear(1, 1)
    return dict(
        effective(
            Built(
                dataset=dataset(folder, SIZE, chosen),
                model=PARTS.model(SIZE, chosen) if "152" not in stack else model,
                loss=PARTS.loss(SIZE, chosen),
                device_stage=device_stage(folder, SIZE, chosen, CPU),
                batch=batch_of(folder, chosen, [0, 1, 2, 3]),
            )
        )
    )


LEVELS = {"crop_length", "larger_network", "metric_learning", "network_mount"}


@pytest.mark.parametrize("name", sorted({*KNOWN} - LEVELS))
def test_a_switch_shows_and_its_absence_shows(folder: Path, name: str) -> None:
    proof = expected(KNOWN[name], None)
    assert not inactive(proof, seen(folder, name))
    assert inactive(proof, seen(folder, ""))


@pytest.mark.parametrize(
    "option",
    [
        *(
            "larger_network=resnetse34v2",
            "metric_learning=angular_prototypical",
            "metric_learning=softmax_prototypical",
        ),
        *("crop_length=100", "crop_length=300", "device_mixing+crop_length=300"),
    ],
)
def test_a_level_shows_and_its_absence_shows(folder: Path, option: str) -> None:
    chosen = parse_option(option.rpartition("+")[2])
    proof = expected(KNOWN[chosen.name], chosen.level)
    assert not inactive(proof, seen(folder, f"{FAST}+{option}"))
    assert inactive(proof, seen(folder, FAST))


def test_a_model_that_is_none_of_the_three_is_unknown(folder: Path) -> None:
    assert seen(folder, f"{FAST}+larger_network=resnetse152")["architecture"] == "unknown"  # a stand-in was built


def test_what_was_read_is_reported_even_if_the_reader_lies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def window(files: Files, path: Path, begin: object, samples: int) -> Sound:
        return files.whole(path)[:samples]

    def noted(files: Files, path: Path, decoded: Sound, _wanted: int, _began: float) -> Sound:
        if files.log is not None:
            files.log.append(Read(path, opened=True, decoded=len(decoded), wanted=32_240, sample_type="float64"))
        return decoded

    monkeypatch.setattr(Files, "window", window)
    monkeypatch.setattr(Files, "_noted", noted)
    assert of_reads(crops(folder, "seek_read"))["audio_read"] == "whole_file"


def test_fewer_bytes_are_read_by_pieces_and_fewest_by_seeking(folder: Path) -> None:
    stacks = ("", "split_noise", "seek_read", "seek_read+split_noise", FAST)
    unsplit, split, seek, both, mapped = (of_reads(crops(folder, stack)) for stack in stacks)
    read = "read_bytes_per_sample"
    assert unsplit[read] > split[read] > seek[read] == both[read] == mapped[read]
    wanted = 5 + 1 + 1 + 5  # an utterance each, one music, one noise and the first deck's five talkers
    assert wanted * 64_480 <= seek[read] * 5 <= wanted * 64_480 + 32_000 + 5  # and one room of at most a second
    assert seek["opened_files_per_sample"] == 13 / 5
    assert mapped["opened_files_per_sample"] == 6 / 5


def test_a_cache_of_utterances_is_seen_to_hit_nothing(folder: Path) -> None:
    shown = seen(folder, "utterance_cache")
    assert (shown["utterance_cache"], shown["utterance_cache_hit_percent"]) == ("lru", 0)
    (reason,) = KNOWN["utterance_cache"].pointless_where
    assert reason in {f"{name} {value}" for name, value in shown.items()}


def test_a_cache_that_hits_is_seen_to_hit(folder: Path) -> None:
    found = dataset(folder, SIZE, recipe("utterance_cache"))
    once = replace(found.draws, paths=found.draws.paths[:1], speakers=found.draws.speakers[:1])
    built = Built(
        dataset=replace(found, draws=once),
        model=torch.nn.Linear(1, 1),
        loss=torch.nn.Identity(),
        device_stage=None,
        batch=(torch.zeros(1, 4), torch.zeros(1)),
    )
    assert effective(built)["utterance_cache_hit_percent"] == 95


def test_scipy_is_seen_to_choose_the_fft_by_itself(folder: Path) -> None:
    (reason,) = KNOWN["fftconvolve"].pointless_where
    assert reason in {f"{name} {value}" for name, value in seen(folder, "fftconvolve").items()}


def test_bytes_on_their_way_to_the_device_are_counted(folder: Path) -> None:
    single, halved, raw = (seen(folder, stack) for stack in ("", "int16_waveforms", "device_mixing"))
    key = "transfer_bytes_per_sample"
    assert single[key] == 4 * 32_240 + 8
    assert halved[key] == 2 * 32_240 + 4 + 8
    assert raw[key] > 2 * 2 * 32_240  # four items of a deck bring a music and five talkers


@pytest.mark.parametrize("objective", ["", "+metric_learning=angular_prototypical"])
def test_the_device_mixes_what_the_host_would_have_mixed(folder: Path, objective: str) -> None:
    items = list(range(10))
    waves, labels = on_device(folder, FAST + "+device_mixing" + objective, items)
    expected_waves, expected_labels = on_device(folder, FAST + objective, items)
    assert waves.shape == ((20 if objective else 10), 32_240)
    assert torch.equal(labels, expected_labels)
    torch.testing.assert_close(waves, expected_waves, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("objective", ["", "+metric_learning=angular_prototypical"])
def test_int16_is_widened_on_the_device(folder: Path, objective: str) -> None:
    waves, _ = on_device(folder, FAST + "+int16_waveforms" + objective, [0, 1, 2, 3])
    expected_waves, _ = on_device(folder, FAST + objective, [0, 1, 2, 3])
    assert waves.dtype == torch.float32
    torch.testing.assert_close(waves, expected_waves, rtol=0, atol=1e-4)


def test_a_batch_without_noises_and_rooms_is_only_scaled(folder: Path) -> None:
    waves, _ = on_device(folder, FAST + "+device_mixing", [0, 5])
    expected_waves, _ = on_device(folder, FAST, [0, 5])
    assert torch.equal(waves, expected_waves)


def test_rooms_on_the_device_do_not_wrap_around() -> None:
    rng = np.random.default_rng(0)
    speech, room = rng.standard_normal(1000), np.zeros(64)
    room[63] = 2.0
    found = reverberated(torch.from_numpy(speech)[None].float(), torch.from_numpy(room)[None].float())[0]
    expected_sound = reverberated_on_the_host(speech, room, np.convolve)
    np.testing.assert_allclose(found, expected_sound, atol=1e-5)
    assert found[:63].abs().max() < 1e-5


def test_mixing_gives_gradients_no_way_and_keeps_silent_noise_finite() -> None:
    speech = torch.full((1, 100), 1000, dtype=torch.int16)
    silence = torch.zeros(1, 100, dtype=torch.int16)
    first, none = torch.tensor([0]), torch.empty(0, dtype=torch.int64)
    rooms = torch.empty(0, 1, dtype=torch.int16)
    waves, _ = augmented((speech, first, silence, first, torch.tensor([3.0]), rooms, none))
    torch.testing.assert_close(waves, torch.full((1, 100), 1000 / 32_768))


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (("device_mixing", "float32_augmentation"), "the device mixes in float32 anyhow"),
        (("device_mixing", "int16_waveforms"), "travels as int16 anyhow"),
        (("device_mixing", "fftconvolve"), "no longer convolved by scipy"),
        (("seek_read", "utterance_cache"), "never has a whole utterance to keep"),
        (("split_noise", "mapped_noise"), "both set noise_files"),
    ],
)
def test_what_makes_no_sense_together_is_refused_with_a_reason(stack: tuple[str, ...], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        recipe("+".join(stack))


def test_all_that_is_worth_having_composes() -> None:
    left_out = {name for one in KNOWN.values() for name in one.supersedes}
    wanted = [one.name for one in KNOWN.values() if one.sought and one.name not in left_out]
    assert sorted(wanted) == ["device_mixing", "mapped_noise", "seek_read"]
    assert compose(WORKLOAD, [], KNOWN) == recipe()
    assert recipe("+".join(wanted)).choice("noise_files") == "mapped"
