"""The interaction map: for each pair that was measured, how far it goes beyond the product of its parts."""

from collections.abc import Iterator, Sequence

from harness.analyze.attribution import Interaction
from harness.report.figures.heat_map import box
from harness.report.figures.style import GREY, ON_TILE, WIDTH, Box, Frame, Label, Shape, drawn, heading, shortened
from harness.report.words import factor, ratio

_ROW, _TOP, _LABELS, _BOTTOM = 40, 66, 214, 34  # pixels
_WIDEST, _NARROWEST = 118, 64  # of a column


def interaction_map(title: str, pairs: Sequence[Interaction]) -> str:
    """The pairs as the lower half of a square, as SVG; raises ValueError where there is no pair."""
    if not pairs:
        raise ValueError("a map needs one measured pair at least")
    names = tuple(sorted({name for pair in pairs for name in (pair.first, pair.second)}))
    described = "; ".join(f"{pair.first} with {pair.second}: {_numbers(pair)}" for pair in pairs)
    width = max(WIDTH, _LABELS + _NARROWEST * (len(names) - 1) + 8)
    height = _TOP + _ROW * (len(names) - 1) + _BOTTOM
    frame = Frame(width=width, height=height, title=title, description=described)
    return drawn(frame, _marks(frame, names, pairs))


def _marks(frame: Frame, names: Sequence[str], pairs: Sequence[Interaction]) -> Iterator[Shape]:
    columns, rows = names[:-1], names[1:]
    step = min(_WIDEST, (frame.width - _LABELS - 8) / len(columns))
    yield heading(frame.title)
    for number, name in enumerate(columns):
        text = shortened(name, int(step / 3.6))
        reach = min(3.3 * len(text), frame.width - _LABELS)  # about half of it
        x = min(_LABELS + step * (number + 0.5), frame.width - reach - 4)
        y = 36.0 + 16 * (number % 2)  # two heights, so that neighbours do not touch
        yield Label(x=x, y=y, text=text, anchor="center", size=11)
    for number, name in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        yield Label(x=_LABELS - 10, y=y, text=shortened(name, 27), anchor="right", size=12)
    for pair in pairs:
        corner = _LABELS + step * columns.index(pair.first), _TOP + _ROW * rows.index(pair.second)
        yield from _tile(Box(x=corner[0] + 1.5, y=corner[1] + 1.5, width=step - 3, height=_ROW - 3), pair)
    y = _TOP + _ROW * len(rows) + 14
    yield Label(x=_LABELS, y=y, text="above 1 they help each other; dashed: it may be 1", size=11)


def _tile(place: Box, pair: Interaction) -> Iterator[Shape]:
    clear, x, y = pair.gain.is_clear, place.x + place.width / 2, place.y + place.height / 2
    colour = ON_TILE if clear else GREY
    yield box(place, pair.gain.ratio, is_decided=clear)
    yield Label(
        x=x, y=y - 7, text=f"{factor(pair.gain.ratio)}x", anchor="center", size=12, colour=colour, is_bold=clear
    )
    if place.width > 74:
        ends = f"[{factor(pair.gain.low)}, {factor(pair.gain.high)}]"
        yield Label(x=x, y=y + 8, text=ends, anchor="center", size=10, colour=colour)


def _numbers(pair: Interaction) -> str:
    return ratio(pair.gain)
