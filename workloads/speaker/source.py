"""What every training item is made of: drawn from its number alone, and alike for every way of reading and mixing.

A drawn window of noise always lies inside one five-second piece, so that whole-file and seeking reads, split, unsplit
and mapped recordings give the same bits and differ in cost alone. Kinds of augmentation and numbers of talkers are
dealt like cards rather than drawn, so that a short epoch has the cost of a long one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from harness.core.mistake import Mistake
from workloads.speaker import layout
from workloads.speaker.augmentation import AUGMENTATIONS, MIXTURES

SEED = 2018
CROP = layout.crop_samples(200)


@dataclass(frozen=True, slots=True)
class Noise:
    """A recording of noise, music or talk, and its length in samples."""

    path: Path
    samples: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A window of a noise file, and how far it is to lie below the speech."""

    path: Path
    begin: int
    snr_db: float

    def at(self, _samples: int) -> int:
        """Where the window begins, whatever the file's length."""
        return self.begin


@dataclass(frozen=True, slots=True)
class Ingredients:
    """A crop of an utterance, and the noises or the room that it is to be heard with."""

    speech: Path
    share: float  # where the crop begins, as a share of all places where it could
    samples: int  # of the crop
    noises: tuple[Stretch, ...] = ()
    room: Path | None = None

    def begin(self, samples: int) -> int:
        """Where the crop begins in an utterance of so many samples."""
        return int(self.share * (samples - self.samples + 1))


@dataclass(frozen=True, slots=True)
class Cut:
    """How much is cut out of utterances and noises, and whether noises are cut out of pieces or of whole recordings."""

    samples: int
    split_noise: bool


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of an epoch: item i is utterance i of the training order, and belongs to deck i // 5."""

    items: int
    root: Path  # of the utterances
    paths: tuple[str, ...]  # of the utterances in training order
    speakers: tuple[int, ...]  # their numbers
    partners: tuple[str, ...]  # another utterance of the same speaker, if items are pairs
    noises: Mapping[str, tuple[Noise, ...]]  # by kind
    rooms: tuple[Path, ...]
    cut: Cut

    def label(self, item: int) -> int:
        """The number of the item's speaker."""
        return self.speakers[item % len(self.speakers)]

    def of(self, item: int) -> tuple[Ingredients, ...]:
        """The ingredients of the item's crop, or of both its crops."""
        if not 0 <= item < self.items:
            raise IndexError(item)
        first = self._crop(self.paths, item, item)
        # The second crop is dealt from decks of its own, beyond the first crops'.
        return (first, self._crop(self.partners, item, self.items + item)) if self.partners else (first,)

    def _crop(self, paths: Sequence[str], item: int, card: int) -> Ingredients:
        rng = np.random.default_rng((SEED, card))
        speech, share = self.root / paths[item % len(paths)], rng.random()
        deck, place = divmod(card, len(AUGMENTATIONS))
        kind = AUGMENTATIONS[place]
        if kind == "reverb":
            return Ingredients(speech, share, self.cut.samples, room=self.rooms[rng.integers(len(self.rooms))])
        count = MIXTURES[kind].count(deck) if kind in MIXTURES else 0
        return Ingredients(speech, share, self.cut.samples, tuple(self._stretches(kind, count, rng)))

    def _stretches(self, kind: str, count: int, rng: np.random.Generator) -> Iterator[Stretch]:
        for number in rng.choice(len(self.noises[kind]), count, replace=False) if count else ():
            noise = self.noises[kind][number]
            piece = int(rng.integers(layout.pieces(noise.samples)))
            offset = int(rng.integers(layout.PIECE_SAMPLES - self.cut.samples + 1))
            snr_db = rng.uniform(*MIXTURES[kind].snr_db)
            if self.cut.split_noise:
                yield Stretch(layout.piece_path(noise.path, piece), offset, snr_db)
            else:
                yield Stretch(noise.path, piece * layout.PIECE_STEP + offset, snr_db)


def draws(folder: Path, items: int, cut: Cut, *, pairs: bool) -> Draws:
    """The draws of so many items; of a longer list only the utterances that are reached are kept."""
    if cut.split_noise and not (folder / layout.NOISE_PIECES).is_dir():
        raise Mistake(f"{folder} has no {layout.NOISE_PIECES}; cut the recordings into pieces, or drop split_noise.")
    listed = layout.read_utterances(folder)
    numbers = {speaker: number for number, speaker in enumerate(sorted({one.speaker for one in listed}))}
    order = np.random.default_rng(SEED).permutation(len(listed))[:items]
    partners = layout.partners(listed) if pairs else {}
    return Draws(
        items=items,
        root=folder / layout.TRAIN_WAVS,
        paths=tuple(listed[place].path for place in order),
        speakers=tuple(numbers[listed[place].speaker] for place in order),
        partners=tuple(partners[listed[place].path] for place in order) if pairs else (),
        noises={kind: noises(folder / layout.NOISES / kind) for kind in MIXTURES},
        rooms=tuple(sorted((folder / layout.ROOMS).glob("*/*/*.wav"))),
        cut=cut,
    )


def noises(folder: Path) -> tuple[Noise, ...]:
    """The recordings of a kind that are long enough to be cut into pieces."""
    found = (Noise(path, soundfile.info(path).frames) for path in sorted(folder.glob("*/*.wav")))
    return tuple(one for one in found if layout.pieces(one.samples))
