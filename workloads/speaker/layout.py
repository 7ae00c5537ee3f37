"""Where the files of VoxCeleb, MUSAN and the simulated rooms lie, and what their lists say."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

SAMPLE_RATE = 16_000
SAMPLE_BYTES = 2  # PCM-16
TRAIN_WAVS = "voxceleb2/dev/wav"
TEST_WAVS = "voxceleb1/test/wav"
NOISES = "musan"
NOISE_PIECES = "musan_split"
ROOMS = "RIRS_NOISES/simulated_rirs"
TRAIN_LIST = "train_list.txt"
TRIAL_LIST = "veri_test2.txt"

PIECE_SAMPLES = 5 * SAMPLE_RATE
PIECE_STEP = 3 * SAMPLE_RATE  # neighbours overlap by two seconds


@dataclass(frozen=True, slots=True)
class Utterance:
    """A training file below TRAIN_WAVS and its speaker."""

    speaker: str
    path: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The question whether two files below TEST_WAVS are of the same speaker, with the answer."""

    same: bool
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Span:
    """Where the samples of a WAV file lie: their offset in bytes, and how many there are."""

    offset: int
    samples: int

    SEARCHED: ClassVar[int] = 4096  # bytes from the beginning of a file among which the samples' chunk begins


def crop_samples(frames: int) -> int:
    """How many samples this system cuts for so many frames: hops of 160 and what the last window needs beyond."""
    return frames * 160 + 240


def crop_frames(samples: int) -> int | None:
    """For how many frames this system cuts so many samples; None where it would never cut so many."""
    frames, rest = divmod(samples - 240, 160)
    return None if rest else frames


def pieces(samples: int) -> int:
    """How many five-second pieces a recording gives: none unless it is longer than one, as the original cuts them."""
    return max(0, -(-(samples - PIECE_SAMPLES) // PIECE_STEP))


def piece_path(recording: Path, number: int) -> Path:
    """The piece of a recording `musan/<kind>/<source>/<file>.wav`, named after the second where it begins."""
    root, kind, source = recording.parents[2], recording.parents[1].name, recording.parent.name
    return root.with_name(NOISE_PIECES) / kind / source / recording.stem / f"{number * 3:05d}.wav"


def write_utterances(folder: Path, utterances: Iterable[Utterance]) -> None:
    """Writes the train list: `<speaker> <path>` a line."""
    _write(folder / TRAIN_LIST, (f"{one.speaker} {one.path}" for one in utterances))


def write_trials(folder: Path, trials: Iterable[Trial]) -> None:
    """Writes the trial list: `<0|1> <path> <path>` a line."""
    _write(folder / TRIAL_LIST, (f"{one.same:d} {one.left} {one.right}" for one in trials))


def read_utterances(folder: Path) -> tuple[Utterance, ...]:
    """The train list."""
    return tuple(Utterance(*line.split()) for line in (folder / TRAIN_LIST).read_text().splitlines())


def read_trials(folder: Path) -> tuple[Trial, ...]:
    """The trial list."""
    rows = (line.split() for line in (folder / TRIAL_LIST).read_text().splitlines())
    return tuple(Trial(same == "1", left, right) for same, left, right in rows)


def trial_paths(trials: Iterable[Trial]) -> tuple[str, ...]:
    """Every file that the trials name, once, in order."""
    return tuple(sorted({path for trial in trials for path in (trial.left, trial.right)}))


def partners(utterances: Sequence[Utterance]) -> dict[str, str]:
    """For each path the speaker's next one on the list, and after the last the first."""
    of_speaker: dict[str, list[str]] = defaultdict(list)
    for one in utterances:
        of_speaker[one.speaker].append(one.path)
    return {
        path: other for paths in of_speaker.values() for path, other in zip(paths, paths[1:] + paths[:1], strict=True)
    }


def pcm_span(head: bytes) -> Span:
    """Where the samples of a mono PCM-16 WAV file lie, from its first bytes; raises ValueError where none begin."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        raise ValueError("not a RIFF WAVE file")
    at = 12
    while at + 8 <= len(head):
        name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"data":
            return Span(offset=at + 8, samples=size // SAMPLE_BYTES)
        at += 8 + size + size % 2  # chunks begin at even places
    raise ValueError("no data chunk among the first bytes")


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
