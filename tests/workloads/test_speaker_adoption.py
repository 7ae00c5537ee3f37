"""Real data in the layout of VoxCeleb: what is taken over, what is refused and in which words; and the yardsticks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from workloads.speaker import WORKLOAD, layout

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
PLAIN = Recipe(own=tuple(sorted(WORKLOAD.own.items())))
TRAIN_WAV = "id00001/a/00001.wav"


def write(path: Path, seconds: float, rate: int = 16_000, channels: int = 1, subtype: str = "PCM_16") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (round(seconds * rate), channels) if channels > 1 else round(seconds * rate)
    sound = np.random.default_rng(len(str(path))).uniform(-0.5, 0.5, shape)
    soundfile.write(path, sound, rate, subtype=subtype)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree that this project did not write, with names as in the real sets."""
    train = [f"id0000{speaker}/{video}/0000{number}.wav" for speaker in (1, 2, 3) for video in "ab" for number in (1,)]
    tested = [f"id1027{speaker}/x/0000{number}.wav" for speaker in (0, 1) for number in (1, 2)]
    for path in train:
        write(tmp_path / layout.TRAIN_WAVS / path, 4)
    for path in tested:
        write(tmp_path / layout.TEST_WAVS / path, 4)
    layout.write_utterances(tmp_path, [layout.Utterance(path.split("/")[0], path) for path in train])
    (tmp_path / layout.TRIAL_LIST).write_text(
        f"1 {tested[0]} {tested[1]}\n0 {tested[0]} {tested[2]}\n0 {tested[1]} {tested[3]}\n1 {tested[2]} {tested[3]}\n"
    )
    for kind, files in (("noise", 1), ("music", 1), ("speech", 7)):
        for number in range(files):
            write(tmp_path / layout.NOISES / kind / "free-sound" / f"{kind}-{number:04d}.wav", 6)
    write(tmp_path / layout.NOISES / "noise" / "free-sound" / "short.wav", 1)
    write(tmp_path / layout.ROOMS / "smallroom" / "Room001" / "Room001-00001.wav", 0.4)
    return tmp_path


def test_a_good_tree_gives_its_facts_and_is_trained_and_evaluated_on(tree: Path) -> None:
    assert WORKLOAD.adopt is not None
    size, parts = WORKLOAD.adopt(tree, SIZE), WORKLOAD.parts()
    assert (size.batch, size.epoch_steps) == (SIZE.batch, SIZE.epoch_steps)
    assert (size.evaluation_items, size.data_bytes) == (4, 0)
    facts = ("speakers", "utterances", "test_speakers", "rooms", "noise_files", "music_files", "speech_files")
    assert [size.shape[fact] for fact in facts] == [3, 2, 2, 1, 1, 1, 7]
    items = parts.dataset(tree, size, PLAIN)
    assert {items[item][1] for item in range(20)} == {0, 1, 2}
    evaluation = parts.evaluate(torch.nn.Linear(48_240, 4), tree, size, PLAIN, torch.device("cpu"))
    assert (evaluation.items, len(evaluation.answers)) == (4, 4)
    assert len(list(parts.yardsticks(tree, size))) == 4


def drop(name: str) -> Callable[[Path], None]:
    return lambda tree: (tree / name).unlink()


def text(name: str, words: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        (tree / name).write_text(words)

    return change


def rewritten(name: str, seconds: float = 4, **how: object) -> Callable[[Path], None]:
    return lambda tree: write(tree / name, seconds, **how)  # type: ignore[arg-type]


def emptied(name: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        for path in (tree / name).rglob("*.wav"):
            path.unlink()

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop("train_list.txt"), r"train_list\.txt is missing; write a line '<speaker> <path>' for each entry\."),
        (text("train_list.txt", ""), r"train_list\.txt is empty"),
        (text("train_list.txt", "id00001\n"), r"train_list\.txt has 1 columns in line 1; write '<speaker> <path>'\."),
        (text("train_list.txt", f"a {TRAIN_WAV}\n"), "names fewer than two speakers"),
        (drop("veri_test2.txt"), r"veri_test2\.txt is missing"),
        (text("veri_test2.txt", "1 a b c\n"), "has 4 columns in line 1; write '<0 or 1> <path> <path>'"),
        (text("veri_test2.txt", "yes a b\n"), "has an answer 'yes'; write 1 for the same speaker and 0 for two"),
        (text("veri_test2.txt", "1 a b\n"), "has trials of one answer only"),
        (drop(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}"), r"00001\.wav is missing; name only files that are there\."),
        (drop(f"{layout.TEST_WAVS}/id10270/x/00001.wav"), r"id10270/x/00001\.wav is missing"),
        (text(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}", "no sound"), "cannot be read as sound; convert it to WAV"),
        (rewritten(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}", rate=8_000), "is WAV 8000 1 PCM_16; convert it to WAV, 16 kHz"),
        (rewritten(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}", channels=2), "is WAV 16000 2 PCM_16"),
        (rewritten(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}", subtype="FLOAT"), "is WAV 16000 1 FLOAT"),
        (rewritten(f"{layout.TRAIN_WAVS}/{TRAIN_WAV}", 2), "has 32000 samples; leave out files of fewer than 48240"),
        (rewritten(f"{layout.TEST_WAVS}/id10270/x/00001.wav", 3), "has 48000 samples; leave out files of fewer"),
        (emptied("musan/music"), r"music holds no <source>/<file>\.wav; unpack musan\.tar\.gz of OpenSLR 17\."),
        (drop("musan/speech/free-sound/speech-0000.wav"), "has 6 recordings of more than five seconds; at least 7"),
        (emptied("RIRS_NOISES"), r"simulated_rirs holds no <kind>/<room>/<file>\.wav; unpack rirs_noises\.zip"),
    ],
)
def test_a_tree_that_is_wrong_is_refused_in_one_sentence(
    tree: Path, change: Callable[[Path], None], words: str
) -> None:
    assert WORKLOAD.adopt is not None
    change(tree)
    with pytest.raises(Mistake, match=words) as refused:
        WORKLOAD.adopt(tree, SIZE)
    assert len(str(refused.value).splitlines()) == 1
