"""Stage bars: what a workload trains, beside what its loader and its step would give alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analyze.profile import Bottleneck
from harness.report.figures.style import (
    BLUE,
    GREY,
    VIOLET,
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
from harness.report.words import rate

_TOP, _TITLE, _BAR, _GAP, _ARM, _LABELS, _NUMBERS = 54, 24, 11, 2, 48, 214, 118  # pixels
_REACH = 2.0  # an upper bound is cut where it is so many times further up than all else
LOADER, STEP, MEASURED = "loader alone", "step alone", "both: what it trains"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One stack: its name, its rate and both upper bounds."""

    name: str
    found: Bottleneck


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The arms of one workload, which share an axis."""

    name: str
    arms: tuple[Arm, ...]


def stage_bars(title: str, groups: Sequence[Group]) -> str:
    """The groups below each other as SVG; each workload has an axis of its own that begins at 0."""
    height = _TOP + sum(_TITLE + _ARM * len(group.arms) for group in groups) + 4
    described = "; ".join(
        f"{group.name}, {arm.name}: loader alone {rate(arm.found.loader_rate)}, step alone "
        f"{rate(arm.found.compute_rate)}, trains {rate(arm.found.rate)}"
        for group in groups
        for arm in group.arms
    )
    frame = Frame(width=WIDTH, height=height, title=title, description=described)
    return drawn(frame, _marks(title, groups))


def _marks(title: str, groups: Sequence[Group]) -> Iterator[Shape]:
    yield heading(title)
    yield from _legend(_LABELS, 36)
    y = float(_TOP)
    for group in groups:
        yield Line(x1=8, y1=y + 2, x2=WIDTH - 8, y2=y + 2, opacity=0.3)
        yield Label(x=8, y=y + 15, text=group.name, size=12, is_bold=True)
        y += _TITLE
        limit = _limit(group.arms)
        for arm in group.arms:
            yield from _arm(arm, limit, y)
            y += _ARM


def _legend(x: float, y: float) -> Iterator[Shape]:
    for colour, text in ((BLUE, LOADER), (VIOLET, STEP), (GREY, MEASURED)):
        yield Box(x=x, y=y - 5, width=16, height=10, fill=colour)
        yield Label(x=x + 22, y=y, text=text, size=11)
        x += 44 + 7.2 * len(text)


def _limit(arms: Sequence[Arm]) -> float:
    """Where the axis ends: at the largest rate, unless one upper bound would squeeze all others."""
    lower = max(max(arm.found.rate, min(arm.found.loader_rate, arm.found.compute_rate)) for arm in arms)
    upper = max(max(arm.found.loader_rate, arm.found.compute_rate) for arm in arms)
    return min(upper, _REACH * lower)


def _arm(arm: Arm, limit: float, y: float) -> Iterator[Shape]:
    found = arm.found
    yield Label(x=_LABELS - 10, y=y + 1.5 * _BAR + _GAP, text=shortened(arm.name, 27), anchor="right", size=12)
    rates = ((BLUE, found.loader_rate), (VIOLET, found.compute_rate), (GREY, found.rate))
    for number, (colour, value) in enumerate(rates):
        yield from _bar(value, limit, y + number * (_BAR + _GAP), colour)


def _bar(value: float, limit: float, y: float, colour: str) -> Iterator[Shape]:
    room = WIDTH - _LABELS - _NUMBERS - 20
    width = max(1.5, room * min(value, limit) / limit)
    middle = y + _BAR / 2
    yield Box(x=_LABELS, y=y, width=width, height=_BAR, fill=colour)
    if value > limit:  # it goes on: a gap, and a piece beyond it
        width += 16
        yield Box(x=_LABELS + width - 12, y=y, width=5, height=_BAR, fill=colour, opacity=0.7)
        yield Box(x=_LABELS + width - 4, y=y, width=3, height=_BAR, fill=colour, opacity=0.45)
    is_measured = colour == GREY
    yield Label(x=_LABELS + width + 6, y=middle, text=rate(value), size=11, is_bold=is_measured)
