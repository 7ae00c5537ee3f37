"""Real data of the anti-spoofing workload: good trees are taken as they are, bad ones are named in one sentence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, patched
from workloads.spoof import WORKLOAD, adopt, data, evaluation, layout

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
PLAIN = patched(Recipe(), WORKLOAD.own)


def write(path: Path, rate: int = 16_000, subtype: str = "PCM_16", channels: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.name)).uniform(-0.5, 0.5, (int(1.3 * rate), channels))
    soundfile.write(path, noise, rate, subtype=subtype)


def protocol(folder: Path, split: str, lines: list[str]) -> None:
    path = layout.protocol_path(folder, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A set that was not made by our generator: other names, other lengths, no features beside it."""
    for split, letter in (("train", "T"), ("dev", "D")):
        names = [f"LA_{letter}_{number}" for number in (9432101, 1000137, 2466811)]
        rows = [f"LA_0079 {names[0]} - - bonafide", *(f"LA_0080 {name} - A05 spoof" for name in names[1:])]
        protocol(tmp_path, split, rows)
        for name in names:
            write(tmp_path / f"LA/ASVspoof2019_LA_{split}/flac/{name}.flac")
    return tmp_path


def first_flac(folder: Path) -> Path:
    return folder / layout.asvspoof(folder, "train")[0].path


def test_a_good_tree_gives_its_facts_and_trains_and_is_scored(tree: Path) -> None:
    size = adopt(tree, SIZE)
    assert (size.batch, size.epoch_steps, size.evaluation_items) == (SIZE.batch, SIZE.epoch_steps, 3)
    facts = {name: size.shape[name] for name in ("train_clips", "train_bonafide", "dev_clips", "dev_bonafide")}
    assert facts == {"train_clips": 3, "train_bonafide": 1, "dev_clips": 3, "dev_bonafide": 1}
    assert size.shape["fake_or_real_train"] == 0
    items = data.dataset(tree, size, PLAIN)
    assert {items[index][0].shape for index in range(4)} == {torch.Size([128, SIZE.shape["frames"]])}

    class Mean(torch.nn.Module):
        def forward(self, mels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return mels.mean(2), mels.mean(2)[:, :2]

    assert len(evaluation.evaluate(Mean(), tree, size, PLAIN, torch.device("cpu")).answers) == 3


def test_fake_or_real_beside_it_is_counted(tree: Path) -> None:
    for half in ("training", "validation"):
        for side in ("real", "fake"):
            write(tree / half / side / "file9.wav_16k.wav_norm.wav_mono.wav_silence.wav_2sec.wav")
    size = adopt(tree, SIZE)
    assert (size.shape["fake_or_real_train"], size.shape["fake_or_real_dev"]) == (2, 2)


def without_protocol(tree: Path) -> None:
    layout.protocol_path(tree, "dev").unlink()


def with_six_columns(tree: Path) -> None:
    protocol(tree, "train", ["LA_0079 LA_T_1 - - bonafide extra"])


def with_another_key(tree: Path) -> None:
    protocol(tree, "train", ["LA_0079 LA_T_1 - - genuine"])


def with_one_side(tree: Path) -> None:
    protocol(tree, "train", ["LA_0080 LA_T_1000137 - A05 spoof"])


def with_a_name_twice(tree: Path) -> None:
    path = layout.protocol_path(tree, "train")
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")


def without_a_file(tree: Path) -> None:
    first_flac(tree).unlink()


def with_a_broken_file(tree: Path) -> None:
    first_flac(tree).write_bytes(b"not sound at all")


def with_another_rate(tree: Path) -> None:
    write(first_flac(tree), rate=48_000)


def with_two_channels(tree: Path) -> None:
    write(first_flac(tree), channels=2)


def with_24_bits(tree: Path) -> None:
    write(first_flac(tree), subtype="PCM_24")


def with_an_empty_file(tree: Path) -> None:
    for half in ("training", "validation"):
        for side in ("real", "fake"):
            write(tree / half / side / "file1.wav")
    soundfile.write(tree / "training/real/file1.wav", np.zeros(0), 16_000, subtype="PCM_16")


def with_half_of_fake_or_real(tree: Path) -> None:
    write(tree / "training" / "real" / "file1.wav")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_protocol, r"cm\.dev\.trl\.txt is missing; give the folder that holds LA/"),
        (with_six_columns, r"Line 1 of .*train\.trn\.txt is not `speaker utterance - system key`"),
        (with_another_key, r"with a key of bonafide or spoof; use the countermeasure protocol"),
        (with_one_side, r"has no bona fide clip; an equal error rate needs both sides"),
        (with_a_name_twice, r"names LA_T_9432101 2 times; use the list as it was published"),
        (without_a_file, r"LA_T_9432101\.flac is missing, though its list names it; unpack the set again"),
        (with_a_broken_file, r"LA_T_9432101\.flac cannot be read as sound .*; unpack the set again"),
        (with_another_rate, r"is FLAC PCM_16 at 48000 Hz with 1 channel\(s\), not FLAC PCM_16 at 16000 Hz"),
        (with_two_channels, r"at 16000 Hz with 2 channel\(s\), not FLAC .*; convert the set"),
        (with_24_bits, r"is FLAC PCM_24 at 16000 Hz"),
        (with_an_empty_file, r"holds no sound; unpack the set again"),
        (with_half_of_fake_or_real, r"training/fake holds no \.wav file; put that side of Fake-or-Real there"),
    ],
)
def test_a_bad_tree_is_named_in_one_sentence(tree: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(tree)
    with pytest.raises(Mistake, match=words) as mistake:
        adopt(tree, SIZE)
    assert "\n" not in str(mistake.value)
