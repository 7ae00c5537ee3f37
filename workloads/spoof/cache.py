"""The feature cache: the log-mel of every clip, worked out once, beside the clips as float16.

python -m workloads.spoof.cache FOLDER writes it for a real data set.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from harness.core.mistake import Mistake
from harness.core.parallel import spread
from workloads.spoof import layout
from workloads.spoof.mel import log_mel


def keep_features(folder: Path, clip: layout.Clip) -> None:
    """Writes the features (128, frames) of a clip that is on disk, whole, as float16: dB to within 0.03."""
    sound, _rate = soundfile.read(folder / clip.path)
    np.save(folder / clip.cached, log_mel(sound).astype(np.float16))


def build(folder: Path) -> Iterator[float]:
    """Writes the features of all clips that the lists of a real data set name; yields the share that is done."""
    clips = [clip for split in layout.PROTOCOL for clip in layout.asvspoof(folder, split)]
    if (folder / layout.HALVES["train"]).is_dir():
        clips += [clip for split in layout.HALVES for clip in layout.fake_or_real(folder, split)]
    for parent in {Path(clip.cached).parent for clip in clips}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    yield from spread(partial(keep_features, folder), clips, chunk=64)


def _main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m workloads.spoof.cache FOLDER")
    try:
        for share in build(Path(sys.argv[1])):
            sys.stdout.write(f"\r{share:4.0%}")
            sys.stdout.flush()
    except Mistake as mistake:
        sys.exit(str(mistake))
    sys.stdout.write("\n")


if __name__ == "__main__":
    _main()
