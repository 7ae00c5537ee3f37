"""SpecAugment whose masks depend on the segment's number alone, so that host and device draw the same ones.

A mask hides up to 7 neighbouring mel bands, and up to 5 frames where a segment has as many: the widths of the real
system, as torchaudio's FrequencyMasking(8) and TimeMasking(6) draw them. Park et al., Interspeech 2019.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, arange

from workloads.leak.readers import ArrayReader, BlockReader, MelArray, Segment
from workloads.leak.signals import LabelArray

MEL_WIDTHS, FRAME_WIDTHS = 8, 6  # how many widths there are, from 0
HIDDEN = 0.0

Number = TypeVar("Number", int, Tensor)


def draw(number: Number, stream: int) -> Number:
    """A hash of segment numbers, evenly spread over 0 … 2^32 - 1; the same for Python's and for torch's integers.

    Multiply and fold twice, after the finalizer of MurmurHash3 (Appleby), with factors that stay within 63 bits.
    """
    mixed = (number + 1 + (stream << 20)) * 0x9E3779B1 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 16) * 0x45D9F3B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
    return mixed ^ mixed >> 16


def span(number: Number, stream: int, length: int, widths: int) -> tuple[Number, Number]:
    """The first hidden place and the first one after it, along an axis of that length.

    At least one place stays: a mask over the only frame would hide the whole segment.
    """
    width = draw(number, stream) % min(widths, length)
    first = draw(number, stream + 1) % (length - width + 1)
    return first, first + width


def hide(mel: MelArray, number: int) -> MelArray:
    """A copy of one segment (1, mels, frames) with its masks."""
    masked = mel.copy()
    mels, frames = mel.shape[-2:]
    low, high = span(number, 0, mels, MEL_WIDTHS)
    begin, end = span(number, 2, frames, FRAME_WIDTHS)
    masked[:, low:high] = HIDDEN
    masked[:, :, begin:end] = HIDDEN
    return masked


def hide_all(mel: Tensor, numbers: Tensor) -> Tensor:
    """The same for many segments (B, 1, mels, frames) at once, on whatever device they are."""
    mels, frames = mel.shape[-2:]
    of_mels = _inside(span(numbers, 0, mels, MEL_WIDTHS), mels, mel)
    of_frames = _inside(span(numbers, 2, frames, FRAME_WIDTHS), frames, mel)
    return mel.masked_fill(of_mels[:, None, :, None] | of_frames[:, None, None, :], HIDDEN)


def _inside(bounds: tuple[Tensor, Tensor], length: int, like: Tensor) -> Tensor:
    places = arange(length, device=like.device)
    return (places >= bounds[0][:, None]) & (places < bounds[1][:, None])


@dataclass(frozen=True, slots=True)
class Masking:
    """A reader whose segments get their masks one by one, as a transform inside the data set does it."""

    reader: BlockReader | ArrayReader

    def segment(self, number: int) -> Segment:
        """One segment and its class number."""
        mel, label = self.reader.segment(number)
        return hide(mel, number), label

    def segments(self, numbers: npt.NDArray[np.int64]) -> tuple[MelArray, LabelArray]:
        """Many segments gathered at once, and then masked one by one."""
        if not isinstance(self.reader, ArrayReader):
            raise TypeError("only arrays can be gathered")
        mel, labels = self.reader.segments(numbers)
        for place, number in enumerate(numbers.tolist()):
            mel[place] = hide(mel[place], number)
        return mel, labels
