"""The heat map: optimizations as rows, workloads as columns, and a ratio in every tile that has one."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.analyze.estimate import Estimate
from harness.analyze.verdict import Verdict
from harness.report.figures.style import (
    GREY,
    ON_TILE,
    WIDTH,
    Box,
    Frame,
    Label,
    Line,
    Shape,
    drawn,
    heading,
    shade,
    shortened,
)
from harness.report.words import factor

_ROW, _TOP, _LABELS, _LEGEND = 23, 58, 214, 66  # pixels
_WIDEST, _NARROWEST = 118, 54  # of a column
_SCALE = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What is known of an optimization on a workload; without an estimate, whether it is still to be measured."""

    estimate: Estimate | None = None
    is_open: bool = False
    is_otherwise: bool = False  # it no longer learns what the reference learns
    is_conditional: bool = False  # measured on top of something, and not on the baseline system


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All tiles of a heat map by row and column; none where a workload has nothing for an optimization to act on."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]  # a workload, and the size and batch that stand below it
    stacks: int  # how many of the rows are stacks; a line sets them apart
    tiles: Mapping[tuple[str, str], Tile]


def heat_map(grid: Grid) -> str:
    """The grid as SVG."""
    width = max(WIDTH, _LABELS + _NARROWEST * len(grid.columns) + 8)
    height = _TOP + _ROW * len(grid.rows) + _LEGEND
    described = (
        f"{len(grid.rows)} optimizations against {len(grid.columns)} workloads. Green tiles are faster, red slower, "
        "dashed ones undecided; the number is the ratio. The tables of each workload have all numbers with intervals."
    )
    frame = Frame(width=width, height=height, title=grid.title, description=described)
    return drawn(frame, _marks(grid, width))


def _marks(grid: Grid, width: float) -> Iterator[Shape]:
    step = min(_WIDEST, (width - _LABELS - 8) / max(1, len(grid.columns)))
    yield heading(grid.title)
    for number, (name, below) in enumerate(grid.columns):
        x = _LABELS + step * (number + 0.5)
        yield Label(x=x, y=33, text=shortened(name, int(step / 7)), anchor="center", size=12, is_bold=True)
        yield Label(x=x, y=47, text=shortened(below, int(step / 5.5)), anchor="center", size=10)
    for line, row in enumerate(grid.rows):
        y = _TOP + _ROW * line
        yield Label(x=_LABELS - 10, y=y + _ROW / 2, text=shortened(row, 27), anchor="right", size=12)
        for number, (name, _) in enumerate(grid.columns):
            place = Box(x=_LABELS + step * number + 1.5, y=y + 1.5, width=step - 3, height=_ROW - 3)
            what = grid.tiles.get((row, name))
            yield from tile(place, what) if what else ()
    if 0 < grid.stacks < len(grid.rows):
        y = _TOP + _ROW * grid.stacks
        yield Line(x1=8, y1=y, x2=_LABELS + step * len(grid.columns), y2=y, opacity=0.5)
    yield from legend(_LABELS, _TOP + _ROW * len(grid.rows) + 12)


def tile(place: Box, what: Tile) -> Iterator[Shape]:
    """One tile: filled by its ratio, outlined where undecided, a sign where there is no ratio."""
    x, y = place.x + place.width / 2, place.y + place.height / 2
    one = what.estimate
    if one is None:
        yield Label(x=x, y=y, text="·" if what.is_open else "-", anchor="center", size=12)
        return
    marks = (" ≠" if what.is_otherwise else "") + (" *" if what.is_conditional else "")
    decided = one.verdict is not Verdict.UNDECIDED
    text = f"{factor(one.ratio, 2 if one.ratio < 9.995 else 1)}{marks}"
    yield box(place, one.ratio, is_decided=decided)
    yield Label(x=x, y=y, text=text, anchor="center", size=12, colour=ON_TILE if decided else GREY, is_bold=decided)


def box(place: Box, ratio: float, *, is_decided: bool) -> Box:
    """The tile of a ratio without its number."""
    inset = 0.0 if is_decided else 1.0
    return Box(
        x=place.x + inset,
        y=place.y + inset,
        width=place.width - 2 * inset,
        height=place.height - 2 * inset,
        is_dashed=not is_decided,
        fill=shade(ratio) if is_decided else "none",
        edge="none" if is_decided else GREY,
    )


def legend(x: float, y: float) -> Iterator[Shape]:
    """What colours and signs mean."""
    width = 210.0
    stops = [math.exp(math.log(_SCALE[0]) + number / 60 * math.log(_SCALE[-1] / _SCALE[0])) for number in range(61)]
    for number, (low, high) in enumerate(pairwise(stops)):
        at = x + width * number / 60
        colour = shade(math.sqrt(low * high))
        yield Line(x1=at, y1=y + 5, x2=at + width / 60 + 0.8, y2=y + 5, colour=colour, width=9)
    for value in _SCALE:
        at = x + width * math.log(value / _SCALE[0]) / math.log(_SCALE[-1] / _SCALE[0])
        yield Label(x=at, y=y + 19, text=f"{value:g}x", anchor="center", size=10)
    right = x + width + 40
    yield Box(x=right, y=y, width=22, height=11, edge=GREY, is_dashed=True)
    texts = ((28, 5, "undecided"), (128, 5, "≠  learns otherwise"), (0, 23, "-  no ratio, for a reason"))
    yield from (Label(x=right + dx, y=y + dy, text=text, size=11) for dx, dy, text in texts)
    yield Label(x=right + 180, y=y + 23, text="·  not measured yet", size=11)
    yield Label(x=right, y=y + 41, text="*  on top of what it requires, or of a stack", size=11)
