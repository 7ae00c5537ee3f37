"""Figures: one style and one place that draws, and the heat map, the plots and bars made of it.

Whatever a user has set for matplotlib is put aside while drawing, text stays text and stands on its baseline, so that
neither a settings file nor an installed font changes a byte.
"""

import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Literal

from matplotlib import rc_context, rcParamsDefault
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from harness.analyze.attribution import Attribution, Basis, Gain
from harness.analyze.composition import Composed
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Table
from harness.analyze.profile import Bottleneck
from harness.analyze.verdict import Verdict
from harness.report import matrix as sentences
from harness.report import words
from harness.report.words import factor, one_line, rate, ratio, shortened

# The style of all figures: a few marks in pixels, colours for light and dark pages, and the one place that draws them.

MARK = "<!-- Written by `./speedmatrix publish`; changes by hand are lost. -->"
WIDTH = 820  # pixels
# Middle tones that keep their contrast on white and on black, so that no page colour has to be known.
GREY, GREEN, RED, AMBER, BLUE, VIOLET = "#767676", "#2e8b57", "#d0563f", "#b8860b", "#3f82c4", "#9a68b8"
ON_TILE = "#ffffff"  # text on a filled tile, which is never lighter than GREY
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
_NEUTRAL, _FAST, _SLOW = (0x74, 0x74, 0x74), (0x0B, 0x79, 0x3B), (0xB8, 0x33, 0x18)
_FULL = math.log(4.0)  # log ratio from which a shade is as strong as it gets
_FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
_KEPT = {"backend", "backend_fallback"}  # settings that cannot be put aside, and that no figure here uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A filled or outlined box."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    is_dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: str = GREY
    width: float = 1.0
    is_dashed: bool = False
    opacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A line of text, centred on y; `anchor` is the side of it that stands at x."""

    x: float
    y: float
    text: str
    anchor: Literal["left", "center", "right"] = "left"
    size: float = 13.0
    colour: str = GREY
    is_bold: bool = False


Shape = Box | Line | Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The size of a figure in pixels, and what is read out in its place."""

    width: float
    height: float
    title: str
    description: str


def drawn(frame: Frame, marks: Iterable[Shape], first: str = MARK) -> str:
    """The figure as SVG: the same bytes for the same marks, whatever the day, the folder and the user's settings.

    `first` is what stands before it: who writes it, and that changes by hand are lost.
    """
    ours: dict[Any, Any] = {"svg.hashsalt": "speedmatrix", "svg.fonttype": "none", "font.family": ["DejaVu Sans"]}
    plain: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if name not in _KEPT}
    with rc_context({**plain, **ours}):
        figure = Figure(figsize=(frame.width / 72, frame.height / 72), dpi=72)
        figure.patch.set_visible(False)
        for mark in marks:
            figure.add_artist(_artist(mark, frame.height))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return f"{first}\n{_finished(text.getvalue(), frame)}"


def _artist(mark: Shape, height: float) -> Artist:
    """The mark as matplotlib has it, whose y grows upwards."""
    if isinstance(mark, Label):
        return _text(mark, height)
    flat: dict[str, Any] = {"transform": None}
    flat["linestyle"] = (0, (3, 2)) if mark.is_dashed else "solid"
    flat["alpha"] = mark.opacity
    if isinstance(mark, Line):
        ends = [mark.x1, mark.x2], [height - mark.y1, height - mark.y2]
        return Line2D(*ends, color=mark.colour, linewidth=mark.width, solid_capstyle="butt", **flat)
    corner = mark.x, height - mark.y - mark.height
    rounding = min(2.5, mark.width / 2, mark.height / 2)
    flat |= {"facecolor": mark.fill, "edgecolor": mark.edge, "linewidth": 1.2}
    return FancyBboxPatch(corner, mark.width, mark.height, f"round,pad=0,rounding_size={rounding}", **flat)


def _text(mark: Label, height: float) -> Text:
    return Text(
        mark.x,
        height - mark.y - 0.36 * mark.size,  # from the middle to the baseline, which no font's height moves
        one_line(mark.text),
        color=mark.colour,
        fontsize=mark.size,
        fontweight="bold" if mark.is_bold else "normal",
        horizontalalignment=mark.anchor,
        verticalalignment="baseline",
        parse_math=False,  # a foreign name may hold dollars
        transform=None,
    )


def _finished(svg: str, frame: Frame) -> str:
    """Without the version of who drew it and a size in points, but with words for those who cannot see it."""
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r"<title>.*?</title>\s*", "", body, count=1, flags=re.DOTALL)
    body = body[body.index(">") + 1 :].replace("'DejaVu Sans'", _FONT).replace("font-weight: 700", "font-weight: 600")
    words = f"<title>{escape(one_line(frame.title))}</title>\n<desc>{escape(one_line(frame.description))}</desc>"
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    body = re.sub(r" +$", "", body, flags=re.MULTILINE)
    return f'<svg {names} viewBox="0 0 {frame.width:g} {frame.height:g}" role="img">\n{words}\n{body.strip()}\n'


def shade(ratio: float) -> str:
    """The colour of a ratio: grey at 1, green above, red below; by the root of its log, as most effects are small."""
    log = math.log(ratio)
    strength = math.sqrt(min(abs(log) / _FULL, 1.0))
    end = _FAST if log > 0 else _SLOW
    mixed = (round(grey + strength * (full - grey)) for grey, full in zip(_NEUTRAL, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def heading(text: str) -> Label:
    """A figure's title."""
    return Label(x=8, y=14, text=shortened(text, 106), is_bold=True)


# The heat map: optimizations as rows, workloads as columns, and a ratio in every tile that has one.

_HEAT_ROW, _HEAT_TOP, _HEAT_LABELS, _LEGEND = 23, 58, 214, 84  # pixels
_HEAT_WIDEST, _HEAT_NARROWEST = 118, 54  # of a column
_SCALE = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What is known of an optimization on a workload; without an estimate, whether it is still to be measured."""

    estimate: Estimate | Composed | None = None
    is_open: bool = False
    is_otherwise: bool = False  # it no longer learns what the reference learns
    is_conditional: bool = False  # measured on top of something, and not on the baseline system

    @property
    def is_composed(self) -> bool:
        """Whether a part alone was timed, and this is what it comes to on steps."""
        return isinstance(self.estimate, Composed)


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
    width = max(WIDTH, _HEAT_LABELS + _HEAT_NARROWEST * len(grid.columns) + 8)
    height = _HEAT_TOP + _HEAT_ROW * len(grid.rows) + _LEGEND
    described = (
        f"{len(grid.rows)} optimizations against {len(grid.columns)} workloads. Green tiles are faster, red slower, "
        "dashed ones undecided or disturbed; the number is the ratio. The tables of each workload have all numbers "
        "with intervals."
    )
    frame = Frame(width=width, height=height, title=grid.title, description=described)
    return drawn(frame, _heat_marks(grid, width))


def _heat_marks(grid: Grid, width: float) -> Iterator[Shape]:
    step = min(_HEAT_WIDEST, (width - _HEAT_LABELS - 8) / max(1, len(grid.columns)))
    yield heading(grid.title)
    for number, (name, below) in enumerate(grid.columns):
        x = _HEAT_LABELS + step * (number + 0.5)
        yield Label(x=x, y=33, text=shortened(name, int(step / 7)), anchor="center", size=12, is_bold=True)
        yield Label(x=x, y=47, text=shortened(below, int(step / 5.5)), anchor="center", size=10)
    for line, row in enumerate(grid.rows):
        y = _HEAT_TOP + _HEAT_ROW * line
        yield Label(x=_HEAT_LABELS - 10, y=y + _HEAT_ROW / 2, text=shortened(row, 27), anchor="right", size=12)
        for number, (name, _) in enumerate(grid.columns):
            place = Box(x=_HEAT_LABELS + step * number + 1.5, y=y + 1.5, width=step - 3, height=_HEAT_ROW - 3)
            what = grid.tiles.get((row, name))
            yield from tile(place, what) if what else ()
    if 0 < grid.stacks < len(grid.rows):
        y = _HEAT_TOP + _HEAT_ROW * grid.stacks
        yield Line(x1=8, y1=y, x2=_HEAT_LABELS + step * len(grid.columns), y2=y, opacity=0.5)
    yield from legend(_HEAT_LABELS, _HEAT_TOP + _HEAT_ROW * len(grid.rows) + 12)


def tile(place: Box, what: Tile) -> Iterator[Shape]:
    """One tile: filled by its ratio, outlined where undecided, a sign where there is no ratio."""
    x, y = place.x + place.width / 2, place.y + place.height / 2
    one = what.estimate
    if one is None:
        yield Label(x=x, y=y, text="·" if what.is_open else "-", anchor="center", size=12)
        return
    marks = (" ≠" if what.is_otherwise else "") + (" *" if what.is_conditional else "")
    decided = not one.verdict.is_open
    text = f"{'~' * what.is_composed}{factor(one.ratio, 2 if one.ratio < 9.995 else 1)}{marks}"
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
    yield Label(x=right, y=y + 59, text="~  composed from a part that was timed alone", size=11)


# The interval plot: every speedup of a table with its interval on a log axis, as SVG for light and dark pages.

_PLOT_ROW, _PLOT_TOP, _PLOT_LABELS, _PLOT_NUMBERS = 24, 44, 190, 230  # pixels
_PLOT_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
# Middle tones that keep their contrast on white and on black, so that no page colour has to be known.
_PLOT_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#767676}.title{font-weight:600}.tick{font-size:11px}"
    ".axis{stroke:#767676;stroke-opacity:.3}.one{stroke:#767676}line{stroke-width:1}.interval{stroke-width:2}"
    ".faster{stroke:#2e8b57;fill:#2e8b57}.slower{stroke:#d0563f;fill:#d0563f}"
    ".none{stroke:#767676;fill:#767676}.undecided{stroke:#b8860b;fill:#b8860b}"
)


def _tone(verdict: Verdict) -> str:
    """The class of a verdict's marks."""
    if verdict.gains or verdict.loses:
        return "faster" if verdict.gains else "slower"
    return "none" if verdict is Verdict.NO_EFFECT else "undecided"


def interval_plot(table: Table) -> str:
    """A forest plot of the table's estimates, or of an empty axis where there is none."""
    estimates = [(row.label, row.estimate) for row in table.rows if row.estimate is not None]
    limits = _plot_limits(estimate for _, estimate in estimates)
    height = _PLOT_TOP + _PLOT_ROW * len(estimates) + 34
    title = sentences.title(table)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_PLOT_STYLE}</style>",
            f'<text class="title" x="8" y="20">{escape(title)}</text>',
            *_plot_axis(limits, _PLOT_TOP + _PLOT_ROW * len(estimates)),
            *(line for index, (name, one) in enumerate(estimates) for line in _interval(name, one, limits, index)),
            "</svg>\n",
        )
    )


def _plot_limits(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """The ends of the axis: all ratios and the inner part of their intervals; a useless interval runs out of sight."""
    ends = [end for one in estimates for end in (max(one.low, one.ratio / 2), min(one.high, one.ratio * 2))]
    return min([0.8, *ends]) / 1.05, max([1.25, *ends]) * 1.05


def _plot_x(value: float, limits: tuple[float, float]) -> float:
    """The place of a ratio, held inside the axis."""
    low, high = limits
    share = math.log(min(max(value, low), high) / low) / math.log(high / low)
    return round(_PLOT_LABELS + share * (WIDTH - _PLOT_LABELS - _PLOT_NUMBERS), 1)


def _plot_axis(limits: tuple[float, float], bottom: int) -> Iterator[str]:
    last = -math.inf
    for tick in (tick for tick in _PLOT_TICKS if limits[0] <= tick <= limits[1]):
        x = _plot_x(tick, limits)
        kind = "one" if tick == 1 else "axis"
        yield f'<line class="{kind}" x1="{x}" y1="{_PLOT_TOP - 8}" x2="{x}" y2="{bottom}"/>'
        if x - last > 30:  # so that labels never touch
            last = x
            yield f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{tick:g}x</text>'


def _interval(label: str, one: Estimate, limits: tuple[float, float], index: int) -> Iterator[str]:
    low, middle, high = (_plot_x(value, limits) for value in (one.low, one.ratio, one.high))
    y, kind = _PLOT_TOP + _PLOT_ROW * index + _PLOT_ROW // 2, _tone(one.verdict)
    name, numbers = words.one_line(label), f"{words.ratio(one)} {one.verdict}"
    yield f"<g><title>{escape(f'{name}: {numbers}')}</title>"
    yield f'<text x="{_PLOT_LABELS - 12}" y="{y + 4}" text-anchor="end">{escape(shortened(name, 25))}</text>'
    yield f'<line class="interval {kind}" x1="{low}" y1="{y}" x2="{high}" y2="{y}"/>'
    yield f'<circle class="{kind}" cx="{middle}" cy="{y}" r="3.5"/>'
    yield f'<text x="{WIDTH - _PLOT_NUMBERS + 14}" y="{y + 4}">{escape(numbers)}</text></g>'


# Stage bars: what a workload trains, beside what its loader and its step would give alone.

_BARS_TOP, _TITLE, _BAR, _GAP, _ARM, _BARS_LABELS, _BARS_NUMBERS = 54, 24, 11, 2, 48, 214, 118  # pixels
_REACH = 2.0  # an upper bound is cut where it is so many times further up than all else
LOADER, STEP, MEASURED = "loader alone", "step alone", "both: what it trains"
SLOW_PROBE = "* in a probe at a slow moment: what it trains is faster"
_NOTE = 18  # pixels


Arms = Mapping[str, Bottleneck]  # the stacks of one workload, which share an axis: their rates and both upper bounds


def stage_bars(title: str, groups: Mapping[str, Arms]) -> str:
    """The arms of each workload as SVG; each workload has an axis of its own that begins at 0."""
    every = [(name, arm, found) for name, arms in groups.items() for arm, found in arms.items()]
    note = SLOW_PROBE if any(min(one.loader_rate, one.compute_rate) < one.rate for *_, one in every) else ""
    height = _BARS_TOP + sum(_TITLE + _ARM * len(arms) for arms in groups.values()) + 4 + (_NOTE if note else 0)
    described = [
        f"{name}, {arm}: loader alone {_probed(found.loader_rate, found)}, "
        f"step alone {_probed(found.compute_rate, found)}, trains {rate(found.rate)}"
        for name, arm, found in every
    ]
    description = "; ".join((*described, note) if note else described)
    frame = Frame(width=WIDTH, height=height, title=title, description=description)
    return drawn(frame, _bars_marks(title, groups, note))


def _probed(value: float, found: Bottleneck) -> str:
    """A rate, with a star where what is trained beats it, which it should bound."""
    return rate(value) + ("*" if value < found.rate else "")


def _bars_marks(title: str, groups: Mapping[str, Arms], note: str) -> Iterator[Shape]:
    yield heading(title)
    x, y = float(_BARS_LABELS), float(_BARS_TOP)
    for colour, text in ((BLUE, LOADER), (VIOLET, STEP), (GREY, MEASURED)):
        yield Box(x=x, y=31, width=16, height=10, fill=colour)
        yield Label(x=x + 22, y=36, text=text, size=11)
        x += 44 + 7.2 * len(text)
    for name, arms in groups.items():
        yield Line(x1=8, y1=y + 2, x2=WIDTH - 8, y2=y + 2, opacity=0.3)
        yield Label(x=8, y=y + 15, text=name, size=12, is_bold=True)
        y += _TITLE
        limit = _limit(arms.values())
        for arm, found in arms.items():
            yield Label(x=_BARS_LABELS - 10, y=y + 1.5 * _BAR + _GAP, text=shortened(arm, 27), anchor="right", size=12)
            rates = ((BLUE, found.loader_rate), (VIOLET, found.compute_rate), (GREY, found.rate))
            for number, (colour, value) in enumerate(rates):
                yield from _bars_bar(value, limit, y + number * (_BAR + _GAP), colour, _probed(value, found))
            y += _ARM
    if note:
        yield Label(x=8, y=y + _NOTE / 2, text=note, size=11)


def _limit(arms: Collection[Bottleneck]) -> float:
    """Where the axis ends: at the largest rate, unless one upper bound would squeeze all others."""
    lower = max(max(arm.rate, min(arm.loader_rate, arm.compute_rate)) for arm in arms)
    upper = max(max(arm.rate, arm.loader_rate, arm.compute_rate) for arm in arms)
    return min(upper, _REACH * lower)


def _bars_bar(value: float, limit: float, y: float, colour: str, text: str) -> Iterator[Shape]:
    room = WIDTH - _BARS_LABELS - _BARS_NUMBERS - 20
    width = max(1.5, room * min(value, limit) / limit)
    middle = y + _BAR / 2
    yield Box(x=_BARS_LABELS, y=y, width=width, height=_BAR, fill=colour)
    if value > limit:  # it goes on: a gap, and a piece beyond it
        width += 16
        yield Box(x=_BARS_LABELS + width - 12, y=y, width=5, height=_BAR, fill=colour, opacity=0.7)
        yield Box(x=_BARS_LABELS + width - 4, y=y, width=3, height=_BAR, fill=colour, opacity=0.45)
    is_measured = colour == GREY
    yield Label(x=_BARS_LABELS + width + 6, y=middle, text=text, size=11, is_bold=is_measured)


# The waterfall: a stack's speedup in parts that multiply to the whole, on a log axis.

_FALL_ROW, _FALL_TOP, _FALL_LABELS, _FALL_NUMBERS = 27, 76, 214, 222  # pixels
BEYOND = "together beyond the parts"
_FALL_NOTES = {Basis.BOTH: "", Basis.FIRST: ", alone", Basis.LAST: ", put on last"}


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
    described = "; ".join(f"{bar.name} {_fall_numbers(bar)}" for bar in bars)
    height = _FALL_TOP + _FALL_ROW * len(bars) + 34
    frame = Frame(width=WIDTH, height=height, title=title, description=described)
    return drawn(frame, _fall_marks(title, parts, bars))


def _bars(parts: Attribution) -> Iterator[_Bar]:
    at, mixed = 0.0, len({share.basis for share in parts.shares}) > 1
    for share in parts.shares:
        yield _Bar(
            name=share.name,
            start=at,
            gain=share.gain,
            colour=_colour(share.gain),
            note=_FALL_NOTES[share.basis] if mixed else "",
        )
        at += share.gain.log
    yield _Bar(name=BEYOND, start=at, gain=parts.beyond, colour=AMBER)


def _colour(gain: Gain) -> str:
    if not gain.is_clear:
        return GREY
    return GREEN if gain.log > 0 else RED


def _fall_marks(title: str, parts: Attribution, bars: Sequence[_Bar]) -> Iterator[Shape]:
    limits = _fall_limits(bars)
    bottom = _FALL_TOP + _FALL_ROW * len(bars)
    yield heading(title)
    yield from (Label(x=8, y=33 + 15 * number, text=text, size=11) for number, text in enumerate(_method(parts)))
    yield from _fall_axis(limits, bottom)
    yield Line(x1=8, y1=bottom - _FALL_ROW, x2=WIDTH - 8, y2=bottom - _FALL_ROW, opacity=0.4)
    for number, bar in enumerate(bars):
        yield from _fall_bar(bar, limits, _FALL_TOP + _FALL_ROW * number, is_last=number == len(bars) - 1)


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


def _fall_limits(bars: Iterable[_Bar]) -> tuple[float, float]:
    """The ends of the axis as log ratios: all bars, and the inner part of their intervals."""
    ends = [0.0, math.log(1.15)]
    for bar in bars:
        end, reach = bar.start + bar.gain.log, min(bar.gain.half_width, 0.35)
        ends += [bar.start, end - reach, end + reach]
    margin = 0.03 * (max(ends) - min(ends))
    return min(ends) - margin, max(ends) + margin


def _fall_x(log: float, limits: tuple[float, float]) -> float:
    low, high = limits
    share = (min(max(log, low), high) - low) / (high - low)
    return _FALL_LABELS + share * (WIDTH - _FALL_LABELS - _FALL_NUMBERS)


def _fall_axis(limits: tuple[float, float], bottom: float) -> Iterator[Shape]:
    shown = [tick for tick in TICKS if limits[0] <= math.log(tick) <= limits[1]]
    labelled: list[float] = []
    for tick in sorted(shown, key=lambda tick: tick != 1):  # 1 first, as the others must not touch it
        x = _fall_x(math.log(tick), limits)
        yield Line(x1=x, y1=_FALL_TOP - 8, x2=x, y2=bottom, opacity=1.0 if tick == 1 else 0.25)
        if all(abs(x - other) > 34 for other in labelled):
            labelled.append(x)
            yield Label(x=x, y=bottom + 12, text=f"{tick:g}x", anchor="center", size=11)


def _fall_bar(bar: _Bar, limits: tuple[float, float], y: float, *, is_last: bool) -> Iterator[Shape]:
    start, end = _fall_x(bar.start, limits), _fall_x(bar.start + bar.gain.log, limits)
    middle = y + _FALL_ROW / 2
    yield Label(x=_FALL_LABELS - 10, y=middle, text=shortened(bar.name, 27), anchor="right", size=12, is_bold=is_last)
    width = max(abs(end - start), 1.5)
    yield Box(x=min(start, end), y=y + 6, width=width, height=_FALL_ROW - 12, fill=bar.colour, opacity=0.65)
    reach = min(bar.gain.half_width, 100.0)
    low, high = (_fall_x(bar.start + bar.gain.log + side * reach, limits) for side in (-1, 1))
    yield Line(x1=low, y1=middle, x2=high, y2=middle, width=1.4)
    yield from (Line(x1=x, y1=middle - 3.5, x2=x, y2=middle + 3.5, width=1.4) for x in (low, high))
    if not is_last:
        yield Line(x1=end, y1=y + _FALL_ROW - 6, x2=end, y2=y + _FALL_ROW + 6, opacity=0.6)
    yield Label(x=WIDTH - _FALL_NUMBERS + 14, y=middle, text=_fall_numbers(bar), size=12, is_bold=is_last)


def _fall_numbers(bar: _Bar) -> str:
    return ratio(bar.gain) + bar.note
