"""What clips weigh and cost to decode and to turn into features, beside neutral files of the real size."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile

from harness.core.workload import Size, Yardstick
from workloads.spoof import layout
from workloads.spoof.mel import log_mel

FLAC_S, FLAC_BYTES_A_SECOND = 3.5, 17_500.0  # speech at 16 kHz: 15 to 20 KB a second in ASVspoof
WAV_S, WAV_BYTES = 2.0, 64_044.0
SAMPLED = 64  # clips that are weighed

Work = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of clip as the real system has it, and what was measured for it elsewhere."""

    what: str
    seconds: float
    target_bytes: float
    decode_ms: float | None
    features_ms: float


FLAC = Kind("a FLAC clip of 3.5 s", FLAC_S, FLAC_S * FLAC_BYTES_A_SECOND, decode_ms=0.6, features_ms=11.6)
WAV = Kind("a WAV clip of 2 s", WAV_S, WAV_BYTES, decode_ms=None, features_ms=10.0)


def yardsticks(folder: Path, _size: Size) -> Iterable[Yardstick]:
    """FLAC clips of 3.5 s and WAV clips of 2 s: decoded alone, and decoded with the features worked out.

    The neutral files live as long as the generator.
    """
    with TemporaryDirectory() as scratch:
        flac = _some(folder, layout.asvspoof(folder, "train"))
        yield from _of_kind(FLAC, flac, _neutral(Path(scratch) / "neutral.flac", FLAC_S))
        if (folder / layout.HALVES["train"]).is_dir():
            wav = _some(folder, layout.fake_or_real(folder, "train"))
            yield from _of_kind(WAV, wav, _neutral(Path(scratch) / "neutral.wav", WAV_S))


def _of_kind(kind: Kind, files: Sequence[Path], neutral: Path) -> Iterable[Yardstick]:
    """Both yardsticks of a kind: bytes of many clips brought to the kind's length, work on the one nearest to it."""
    seconds = {path: soundfile.info(path).duration for path in files}
    nearest = min(files, key=lambda path: abs(seconds[path] - kind.seconds))
    tasks: tuple[tuple[str, Work, float | None], ...] = (
        ("decoded", _decode, kind.decode_ms),
        ("decoded and its log-mel worked out", _features, kind.features_ms),
    )
    for done, work, published_ms in tasks:
        yield Yardstick(
            what=f"{kind.what}, {done}",
            mean_bytes=sum(path.stat().st_size for path in files) / sum(seconds.values()) * kind.seconds,
            target_bytes=kind.target_bytes,
            work=partial(work, nearest),
            like=partial(work, neutral),
            published_ms=published_ms,
            scale=seconds[nearest] / kind.seconds,
        )


def _decode(path: Path) -> object:
    return soundfile.read(path)


def _features(path: Path) -> object:
    return log_mel(soundfile.read(path)[0])


def _some(folder: Path, clips: Sequence[layout.Clip]) -> Sequence[Path]:
    return [folder / clip.path for clip in clips[:: max(1, len(clips) // SAMPLED)]]


def _neutral(path: Path, seconds: float) -> Path:
    """Noise as smooth as speech: FLAC predicts both from many samples; white noise from none, which is cheaper."""
    smooth = np.hanning(10)[1:-1]
    noise = np.random.default_rng(0).uniform(-1, 1, round(seconds * layout.SAMPLE_RATE) + len(smooth) - 1)
    sound = np.convolve(noise, smooth, "valid")
    soundfile.write(path, sound * (0.15 / np.abs(sound).max()), layout.SAMPLE_RATE, subtype="PCM_16")
    return path
