"""Real data in its own layout: whether it can be used, and the facts of it; what is wrong is said in one sentence."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from harness.core.mistake import Mistake
from harness.core.workload import Size
from workloads.spoof import layout

SAMPLED = 8  # files of each list that are opened; the lists are read whole


def adopted(folder: Path, size: Size) -> Size:
    """The size with the facts of an ASVspoof 2019 LA tree, and of Fake-or-Real where it lies beside it."""
    shape = dict(size.shape)
    lists = {split: layout.asvspoof(folder, split) for split in layout.PROTOCOL}
    for split, clips in lists.items():
        _check(folder, clips, str(layout.protocol_path(folder, split)), format_name="FLAC")
        shape |= {f"{split}_clips": len(clips), f"{split}_bonafide": sum(clip.label for clip in clips)}
    for split, half in layout.HALVES.items():
        shape[f"fake_or_real_{split}"] = 0
        if (folder / half).is_dir():
            clips = layout.fake_or_real(folder, split)
            _check(folder, clips, str(folder / half), format_name="WAV")
            shape[f"fake_or_real_{split}"] = len(clips)
    items = min(size.evaluation_items, len(lists["dev"]))
    return replace(size, evaluation_items=items, data_bytes=0, shape=shape)


def _check(folder: Path, clips: Sequence[layout.Clip], where: str, *, format_name: str) -> None:
    """Both labels, no name twice, and of some files the format; raises Mistake."""
    for label, side in enumerate(("spoofed", "bona fide")):
        if not any(clip.label == label for clip in clips):
            raise Mistake(f"{where} has no {side} clip; an equal error rate needs both sides, so give the whole set.")
    (often, times), *_ = Counter(clip.name for clip in clips).most_common(1)
    if times > 1:
        raise Mistake(f"{where} names {often} {times} times; use the list as it was published.")
    for clip in _some(clips):
        _check_file(folder / clip.path, format_name)


def _some(clips: Sequence[layout.Clip]) -> Iterable[layout.Clip]:
    """Evenly spaced clips, the first and the last among them."""
    return (clips[row] for row in np.linspace(0, len(clips) - 1, min(SAMPLED, len(clips))).astype(np.intp))


def _check_file(path: Path, format_name: str) -> None:
    if not path.is_file():
        raise Mistake(f"{path} is missing, though its list names it; unpack the set again.")
    try:
        info = soundfile.info(path)
    except soundfile.LibsndfileError as error:
        raise Mistake(f"{path} cannot be read as sound ({error.error_string}); unpack the set again.") from error
    found = (info.format, info.subtype, info.samplerate, info.channels)
    if found != (format_name, "PCM_16", layout.SAMPLE_RATE, 1):
        raise Mistake(
            f"{path} is {info.format} {info.subtype} at {info.samplerate} Hz with {info.channels} channel(s), not "
            f"{format_name} PCM_16 at {layout.SAMPLE_RATE} Hz with 1; convert the set, for example with "
            "`ffmpeg -ar 16000 -ac 1 -sample_fmt s16`."
        )
    if info.frames < 1:
        raise Mistake(f"{path} holds no sound; unpack the set again.")
