"""The style of all figures: a few marks in pixels, colours for light and dark pages, and the one place that draws them.

Whatever a user has set for matplotlib is put aside while drawing, text stays text and stands on its baseline, so that
neither a settings file nor an installed font changes a byte.
"""

import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from matplotlib import rc_context, rcParamsDefault
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.text import Text

from harness.analyze.verdict import Verdict
from harness.report.words import one_line

MARK = "<!-- Written by `./speedmatrix publish`; changes by hand are lost. -->"
WIDTH = 820  # pixels, as in the interval plot
# Middle tones that keep their contrast on white and on black, so that no page colour has to be known.
GREY, GREEN, RED, AMBER, BLUE, VIOLET = "#767676", "#2e8b57", "#d0563f", "#b8860b", "#3f82c4", "#9a68b8"
ON_TILE = "#ffffff"  # text on a filled tile, which is never lighter than GREY
COLOUR = {Verdict.FASTER: GREEN, Verdict.SLOWER: RED, Verdict.NO_EFFECT: GREY, Verdict.UNDECIDED: AMBER}
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
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: str = GREY


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


Shape = Box | Line | Dot | Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The size of a figure in pixels, and what is read out in its place."""

    width: float
    height: float
    title: str
    description: str


def drawn(frame: Frame, marks: Iterable[Shape]) -> str:
    """The figure as SVG: the same bytes for the same marks, whatever the day, the folder and the user's settings."""
    ours: dict[Any, Any] = {"svg.hashsalt": "speedmatrix", "svg.fonttype": "none", "font.family": ["DejaVu Sans"]}
    plain: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if name not in _KEPT}
    with rc_context({**plain, **ours}):
        figure = Figure(figsize=(frame.width / 72, frame.height / 72), dpi=72)
        figure.patch.set_visible(False)
        for mark in marks:
            figure.add_artist(_artist(mark, frame.height))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _finished(text.getvalue(), frame)


def _artist(mark: Shape, height: float) -> Artist:
    """The mark as matplotlib has it, whose y grows upwards."""
    if isinstance(mark, Label):
        return _text(mark, height)
    flat: dict[str, Any] = {"transform": None}
    if isinstance(mark, Dot):
        return Circle((mark.x, height - mark.y), mark.radius, facecolor=mark.fill, edgecolor="none", **flat)
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
    return f'{MARK}\n<svg {names} viewBox="0 0 {frame.width:g} {frame.height:g}" role="img">\n{words}\n{body.strip()}\n'


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


def shortened(text: str, letters: int) -> str:
    """As much of a name as there is room for."""
    return text if len(text) <= letters else text[: letters - 1] + "…"
