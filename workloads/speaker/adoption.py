"""Takes over real data in the layout of VoxCeleb, MUSAN and the simulated rooms, and says what is wrong with it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import soundfile

from harness.core.mistake import Mistake
from harness.core.workload import Size
from workloads.speaker import layout

SAMPLED = 40  # files of a list that are opened
SHORTEST_TRAIN = layout.crop_samples(300)  # the longest that `crop_length` may ask for; as found 200
SHORTEST_TEST = layout.crop_samples(300)
MOST_TALKERS = 7
KINDS = {"music": 1, "speech": MOST_TALKERS, "noise": 1}  # of noise, and how many of one kind an item can want


def adopt(folder: Path, size: Size) -> Size:
    """The size with the facts of a real tree: lists are checked whole, files by sample; raises Mistake."""
    utterances = _train_list(folder)
    tested = _trial_list(folder)
    _check_files(folder / layout.TRAIN_WAVS, [path for _, path in utterances], SHORTEST_TRAIN)
    _check_files(folder / layout.TEST_WAVS, tested, SHORTEST_TEST)
    noises = {kind: _noises(folder, kind, least) for kind, least in KINDS.items()}
    rooms = list((folder / layout.ROOMS).glob("*/*/*.wav"))
    if not rooms:
        _refuse(f"{folder / layout.ROOMS} holds no <kind>/<room>/<file>.wav", "unpack rirs_noises.zip of OpenSLR 28")
    _check_files(folder, _relative(folder, rooms), 1)
    speakers = len({speaker for speaker, _ in utterances})
    facts = {
        "speakers": speakers,
        "utterances": len(utterances) // speakers,  # on average
        "test_speakers": len({path.split("/")[0] for path in tested}),
        "rooms": len(rooms),
        **{f"{kind}_files": count for kind, count in noises.items()},
    }
    return replace(size, evaluation_items=len(tested), data_bytes=0, shape={**size.shape, **facts})


def _train_list(folder: Path) -> list[tuple[str, str]]:
    columns = ("speaker", "path")
    rows = [(speaker, path) for speaker, path in _rows(folder / layout.TRAIN_LIST, columns)]
    if len({speaker for speaker, _ in rows}) < 2:
        _refuse(f"{folder / layout.TRAIN_LIST} names fewer than two speakers", "list the whole training set")
    return rows


def _trial_list(folder: Path) -> tuple[str, ...]:
    path = folder / layout.TRIAL_LIST
    rows = _rows(path, ("0 or 1", "path", "path"))
    if wrong := next((row[0] for row in rows if row[0] not in {"0", "1"}), None):
        _refuse(f"{path} has an answer {wrong!r}", "write 1 for the same speaker and 0 for two")
    if len({row[0] for row in rows}) < 2:
        _refuse(f"{path} has trials of one answer only", "list trials of the same speaker and of two")
    return layout.trial_paths(layout.Trial(answer == "1", left, right) for answer, left, right in rows)


def _rows(path: Path, columns: tuple[str, ...]) -> list[list[str]]:
    shown = " ".join(f"<{name}>" for name in columns)
    if not path.is_file():
        _refuse(f"{path} is missing", f"write a line '{shown}' for each entry")
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    if not rows:
        _refuse(f"{path} is empty", f"write a line '{shown}' for each entry")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            _refuse(f"{path} has {len(row)} columns in line {number}", f"write '{shown}'")
    return rows


def _noises(folder: Path, kind: str, least: int) -> int:
    root = folder / layout.NOISES / kind
    found = sorted(root.glob("*/*.wav"))
    if not found:
        _refuse(f"{root} holds no <source>/<file>.wav", "unpack musan.tar.gz of OpenSLR 17")
    _check_files(folder, _relative(folder, found), 1)
    long_enough = sum(layout.pieces(soundfile.info(path).frames) > 0 for path in found)
    if long_enough < least:
        _refuse(f"{root} has {long_enough} recordings of more than five seconds", f"at least {least} are needed")
    return long_enough


def _check_files(root: Path, paths: Sequence[str], shortest: int) -> None:
    for path in _sample(paths):
        if not (root / path).is_file():
            _refuse(f"{root / path} is missing", "name only files that are there")
        try:
            info = soundfile.info(root / path)
        except soundfile.LibsndfileError:
            _refuse(f"{root / path} cannot be read as sound", "convert it to WAV, 16 kHz, mono, PCM-16")
        seen = (info.format, info.samplerate, info.channels, info.subtype)
        if seen != ("WAV", layout.SAMPLE_RATE, 1, "PCM_16"):
            _refuse(f"{root / path} is {' '.join(map(str, seen))}", "convert it to WAV, 16 kHz, mono, PCM-16")
        if info.frames < shortest:
            _refuse(f"{root / path} has {info.frames} samples", f"leave out files of fewer than {shortest}")


def _sample(paths: Sequence[str]) -> Iterable[str]:
    step = max(1, -(-len(paths) // SAMPLED))
    return {*paths[::step], paths[-1]}


def _relative(folder: Path, paths: Sequence[Path]) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def _refuse(what: str, remedy: str) -> NoReturn:
    raise Mistake(f"{what}; {remedy}.")
