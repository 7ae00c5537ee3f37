"""The waterfall: a stack's speedup in parts that multiply to the whole, on a log axis."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analyze.attribution import Attribution, Basis, Gain
from harness.report.figures.style import (
    AMBER,
    GREEN,
    GREY,
    RED,
    TICKS,
    WIDTH,
    Box,
    Frame,
    Label,
    Line,
    Shape,
    drawn,
    heading,
    shortened,
)
from harness.report.words import ratio

_ROW, _TOP, _LABELS, _NUMBERS = 27, 76, 214, 222  # pixels
BEYOND = "together beyond the parts"
_NOTES = {Basis.BOTH: "", Basis.FIRST: ", alone", Basis.LAST: ", put on last"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    name: str
    start: float  # log ratio
    gain: Gain
    colour: str
    note: str = ""


def waterfall(title: str, stack: str, parts: Attribution) -> str:
    """The parts of one stack as SVG: the shares, the largest first, what is beyond them, and the whole."""
    bars = [*_bars(parts), _Bar(name=stack, start=0.0, gain=parts.total, colour=_colour(parts.total))]
    described = "; ".join(f"{bar.name} {_numbers(bar)}" for bar in bars)
    height = _TOP + _ROW * len(bars) + 34
    frame = Frame(width=WIDTH, height=height, title=title, description=described)
    return drawn(frame, _marks(title, parts, bars))


def _bars(parts: Attribution) -> Iterator[_Bar]:
    at, mixed = 0.0, len({share.basis for share in parts.shares}) > 1
    for share in parts.shares:
        yield _Bar(
            name=share.name,
            start=at,
            gain=share.gain,
            colour=_colour(share.gain),
            note=_NOTES[share.basis] if mixed else "",
        )
        at += share.gain.log
    yield _Bar(name=BEYOND, start=at, gain=parts.beyond, colour=AMBER)


def _colour(gain: Gain) -> str:
    if not gain.is_clear:
        return GREY
    return GREEN if gain.log > 0 else RED


def _marks(title: str, parts: Attribution, bars: Sequence[_Bar]) -> Iterator[Shape]:
    limits = _limits(bars)
    bottom = _TOP + _ROW * len(bars)
    yield heading(title)
    yield from (Label(x=8, y=33 + 15 * number, text=text, size=11) for number, text in enumerate(_method(parts)))
    yield from _axis(limits, bottom)
    yield Line(x1=8, y1=bottom - _ROW, x2=WIDTH - 8, y2=bottom - _ROW, opacity=0.4)
    for number, bar in enumerate(bars):
        yield from _bar(bar, limits, _TOP + _ROW * number, is_last=number == len(bars) - 1)


def _method(parts: Attribution) -> Iterator[str]:
    bases = {one.basis for one in parts.shares}
    if bases == {Basis.BOTH}:
        yield "each part is its Shapley share: the mean of its ratio alone and its ratio put on last"
    elif bases == {Basis.FIRST}:
        yield "each part is its ratio alone: none was put on last, so none has its share of what they do together"
    else:
        yield "a part marked 'alone' or 'put on last' was measured only so; the others are Shapley shares"
    if parts.unmeasured:
        count, of = len(parts.unmeasured), len(parts.unmeasured) + len(parts.shares)
        yield f"{count} of {of} parts have no ratio of their own: they are in the bar of what is beyond the parts"


def _limits(bars: Iterable[_Bar]) -> tuple[float, float]:
    """The ends of the axis as log ratios: all bars, and the inner part of their intervals."""
    ends = [0.0, math.log(1.15)]
    for bar in bars:
        end, reach = bar.start + bar.gain.log, min(bar.gain.half_width, 0.35)
        ends += [bar.start, end - reach, end + reach]
    margin = 0.03 * (max(ends) - min(ends))
    return min(ends) - margin, max(ends) + margin


def _x(log: float, limits: tuple[float, float]) -> float:
    low, high = limits
    share = (min(max(log, low), high) - low) / (high - low)
    return _LABELS + share * (WIDTH - _LABELS - _NUMBERS)


def _axis(limits: tuple[float, float], bottom: float) -> Iterator[Shape]:
    shown = [tick for tick in TICKS if limits[0] <= math.log(tick) <= limits[1]]
    labelled: list[float] = []
    for tick in sorted(shown, key=lambda tick: tick != 1):  # 1 first, as the others must not touch it
        x = _x(math.log(tick), limits)
        yield Line(x1=x, y1=_TOP - 8, x2=x, y2=bottom, opacity=1.0 if tick == 1 else 0.25)
        if all(abs(x - other) > 34 for other in labelled):
            labelled.append(x)
            yield Label(x=x, y=bottom + 12, text=f"{tick:g}x", anchor="center", size=11)


def _bar(bar: _Bar, limits: tuple[float, float], y: float, *, is_last: bool) -> Iterator[Shape]:
    start, end = _x(bar.start, limits), _x(bar.start + bar.gain.log, limits)
    middle = y + _ROW / 2
    yield Label(x=_LABELS - 10, y=middle, text=shortened(bar.name, 27), anchor="right", size=12, is_bold=is_last)
    width = max(abs(end - start), 1.5)
    yield Box(x=min(start, end), y=y + 6, width=width, height=_ROW - 12, fill=bar.colour, opacity=0.65)
    reach = min(bar.gain.half_width, 100.0)
    low, high = (_x(bar.start + bar.gain.log + side * reach, limits) for side in (-1, 1))
    yield Line(x1=low, y1=middle, x2=high, y2=middle, width=1.4)
    yield from (Line(x1=x, y1=middle - 3.5, x2=x, y2=middle + 3.5, width=1.4) for x in (low, high))
    if not is_last:
        yield Line(x1=end, y1=y + _ROW - 6, x2=end, y2=y + _ROW + 6, opacity=0.6)
    yield Label(x=WIDTH - _NUMBERS + 14, y=middle, text=_numbers(bar), size=12, is_bold=is_last)


def _numbers(bar: _Bar) -> str:
    return ratio(bar.gain) + bar.note
