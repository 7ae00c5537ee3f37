"""The axis of all intervals on a page: logarithmic and the same in every row, so that rows can be compared by eye."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness.analyze.estimate import Estimate

_LEAST, _MOST = -3, 3  # powers of two: beyond an eighth and eight times an arrow stands for the rest
_FRACTIONS = {-3: "⅛", -2: "¼", -1: "½"}
_MARGIN = 5.0  # percent at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where one interval is drawn, in percent of the axis; an end that runs off it is an arrow."""

    low: float
    middle: float
    high: float
    runs_off_left: bool
    runs_off_right: bool
    beyond: bool  # no part of it lies on the axis: the arrow stands for all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From one power of two to another."""

    first: int
    last: int

    def place(self, ratio: float) -> float:
        """The place of a ratio in percent of the axis, held inside it."""
        power = min(max(_power(ratio), self.first), self.last)
        return round(_MARGIN + (power - self.first) / (self.last - self.first) * (100 - 2 * _MARGIN), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the powers of two: `½`, `1`, `2`."""
        powers = range(self.first, self.last + 1)
        return tuple((self.place(2.0**power), _FRACTIONS.get(power, f"{2.0**power:g}")) for power in powers)

    def mark(self, one: Estimate) -> Mark:
        """Where an estimate is drawn."""
        left, right = 2.0**self.first, 2.0**self.last
        return Mark(
            low=self.place(one.low),
            middle=self.place(one.ratio),
            high=self.place(one.high),
            runs_off_left=one.low < left,
            runs_off_right=one.high > right,
            beyond=one.low > right or one.high < left,
        )


def axis(estimates: Iterable[Estimate]) -> Axis:
    """The axis that holds all ratios and the inner part of their intervals, from a half to two at least."""
    ends = [end for one in estimates for end in (max(one.low, one.ratio / 2), min(one.high, one.ratio * 2))]
    powers = [min(max(_power(end), _LEAST), _MOST) for end in ends]
    return Axis(first=math.floor(min([-1.0, *powers])), last=math.ceil(max([1.0, *powers])))


def _power(ratio: float) -> float:
    """The logarithm to base two; the least there is for what is no positive number."""
    return math.log2(ratio) if ratio > 0 else -math.inf
