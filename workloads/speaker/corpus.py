"""Writes stand-ins of VoxCeleb, MUSAN and the simulated rooms, each file a function of its number alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from harness.core.parallel import spread
from harness.core.workload import Size
from workloads.speaker import layout, synthesis

SEED = 1211
FIRST_TEST_SPEAKER = 10_000  # so that nobody who is trained on is tested
SHORTEST_S = 4.0
LARGEST = 32_767  # of int16
CHUNK = 4  # recordings that a process writes in one go; the longest come first, so that none is waited for
NOISE_SOUNDS = {"noise": synthesis.noise, "music": synthesis.music, "speech": synthesis.talk}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A file to be written, and what makes its sound from a length in samples and a generator."""

    path: str
    samples: int
    stream: tuple[int, ...]  # seeds the generator
    sound: Callable[[int, np.random.Generator], synthesis.Sound]

    def write(self, folder: Path) -> None:
        """Writes 16 kHz mono PCM-16, and the five-second pieces beside it if it is a noise."""
        sound = _pcm(self.sound(self.samples, np.random.default_rng((SEED, *self.stream))))
        _write(folder / self.path, sound)
        if self.path.startswith(f"{layout.NOISES}/"):
            for number in range(layout.pieces(self.samples)):
                begin = number * layout.PIECE_STEP
                _write(layout.piece_path(folder / self.path, number), sound[begin : begin + layout.PIECE_SAMPLES])


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Writes the lists, then the files in as many processes as there are cores; yields the share of files done."""
    train, test = _train(size), _test(size)
    layout.write_utterances(
        folder, [layout.Utterance(_speaker(path), path) for path in _below(layout.TRAIN_WAVS, train)]
    )
    layout.write_trials(folder, _trials(_below(layout.TEST_WAVS, test)))
    recordings = sorted([*train, *test, *_noises(size), *_rooms(size)], key=lambda one: -one.samples)
    yield from spread(partial(_write_recording, folder), recordings, CHUNK)


def _write_recording(folder: Path, recording: Recording) -> None:
    recording.write(folder)


def _train(size: Size) -> list[Recording]:
    return list(_utterances(layout.TRAIN_WAVS, range(size.shape["speakers"]), size.shape["utterances"], size))


def _test(size: Size) -> list[Recording]:
    speakers = size.shape["test_speakers"]
    numbers = range(FIRST_TEST_SPEAKER, FIRST_TEST_SPEAKER + speakers)
    return list(_utterances(layout.TEST_WAVS, numbers, size.evaluation_items // speakers, size))


def _utterances(root: str, speakers: range, each: int, size: Size) -> Iterator[Recording]:
    for speaker in speakers:
        rng = np.random.default_rng((SEED, 0, speaker))
        sound = partial(synthesis.utterance, synthesis.voice(speaker))
        for number in range(each):
            yield Recording(
                path=f"{root}/id{speaker:05d}/video{number:06d}/00001.wav",
                samples=_spoken_samples(size.shape["utterance_ms"] / 1000, rng),
                stream=(1, speaker, number),
                sound=sound,
            )


def _spoken_samples(mean_s: float, rng: np.random.Generator) -> int:
    return round((SHORTEST_S + rng.gamma(2, (mean_s - SHORTEST_S) / 2)) * layout.SAMPLE_RATE)


def _noises(size: Size) -> Iterator[Recording]:
    for place, (kind, sound) in enumerate(NOISE_SOUNDS.items()):
        rng = np.random.default_rng((SEED, 2, place))
        for number in range(size.shape[f"{kind}_files"]):
            yield Recording(
                path=f"{layout.NOISES}/{kind}/synthetic/{kind}-synthetic-{number:04d}.wav",
                samples=round(size.shape[f"{kind}_s"] * rng.uniform(0.9, 1.1) * layout.SAMPLE_RATE),
                stream=(3, place, number),
                sound=sound,
            )


def _rooms(size: Size) -> Iterator[Recording]:
    rng = np.random.default_rng((SEED, 4))
    for number in range(size.shape["rooms"]):
        yield Recording(
            path=f"{layout.ROOMS}/smallroom/Room{number + 1:03d}/Room{number + 1:03d}-00001.wav",
            samples=round(rng.uniform(0.3, 1.0) * layout.SAMPLE_RATE),
            stream=(5, number),
            sound=synthesis.room,
        )


def _trials(paths: list[str]) -> list[layout.Trial]:
    # All pairs of one speaker and as many of two, as in VoxCeleb1's own list: half of the answers are yes.
    pairs = [layout.Trial(_speaker(left) == _speaker(right), left, right) for left, right in combinations(paths, 2)]
    same = [pair for pair in pairs if pair.same]
    other = [pair for pair in pairs if not pair.same]
    chosen = np.random.default_rng((SEED, 6)).choice(len(other), len(same), replace=False)
    return same + [other[number] for number in sorted(chosen)]


def _speaker(path: str) -> str:
    return Path(path).parts[0]


def _below(root: str, recordings: list[Recording]) -> list[str]:
    return [one.path.removeprefix(f"{root}/") for one in recordings]


def _pcm(sound: synthesis.Sound) -> npt.NDArray[np.int16]:
    return np.rint(sound * LARGEST).astype(np.int16)


def _write(path: Path, sound: npt.NDArray[np.int16]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, layout.SAMPLE_RATE, subtype="PCM_16")
