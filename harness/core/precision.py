"""Precision: how widely a comparison is known so far, and nothing of what it came to."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The width of one estimate. It holds no ratio, so that whoever decides by it cannot be led by the answer."""

    half_width: float  # of the log ratio's interval; infinite where restarts disagree beyond all bounds
    outlying: bool  # its restarts disagree more than the pool's


Place = tuple[str, int]  # a block's identity and a position in it: one comparison
Precisions = Mapping[Place, Precision]  # of those that have an estimate
