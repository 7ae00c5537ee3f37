"""A timeline as text and as a figure: a bar for each period."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from harness.core.workload import Timeline
from harness.report.figures import BLUE, GREY, WIDTH, Box, Frame, Label, Line, Shape, drawn, heading
from harness.report.words import duration, share

IDLE, FULL = 0.05, 0.95  # of a period, below and above which it counts as idle or as full
_BARS = " ▁▂▃▄▅▆▇█"
_ROW = 60  # periods in a line of text
_LEFT, _TOP, _HEIGHT, _BELOW = 44, 56, 110, 34  # pixels


def summary(found: Timeline) -> str:
    """What a reader of the figure would say of it."""
    idle, full = sum(one < IDLE for one in found.busy), sum(one > FULL for one in found.busy)
    count, seconds = len(found.busy), len(found.busy) * found.period_s
    return (
        f"{found.steps} steps in {duration(seconds)}: the device computes {share(fmean(found.busy))} of the time, "
        f"and {share(fmean(found.waiting))} of it the training waits for a batch. Of {count} periods of "
        f"{duration(found.period_s)}, the finest that nvidia-smi shows, {idle} were idle and {full} full."
    )


def lines(found: Timeline) -> Iterator[str]:
    """The device's share of each period as bars of text, ten seconds a line."""
    for first in range(0, len(found.busy), _ROW):
        bars = "".join(_BARS[round(one * (len(_BARS) - 1))] for one in found.busy[first : first + _ROW])
        yield f"{first * found.period_s:4.0f} s |{bars}|"


def figure(title: str, found: Timeline) -> str:
    """The same as SVG, with the waiting as bars from above."""
    frame = Frame(width=WIDTH, height=_TOP + _HEIGHT + _BELOW, title=title, description=summary(found))
    return drawn(frame, _marks(title, found), "<!-- Written by `./speedmatrix timeline`. -->")


def _marks(title: str, found: Timeline) -> Iterator[Shape]:
    yield heading(title)
    for left, colour, text in ((8, BLUE, "the device computes"), (190, GREY, "the training waits for a batch")):
        yield Box(x=left, y=31, width=16, height=10, fill=colour, opacity=1.0 if colour == BLUE else 0.45)
        yield Label(x=left + 22, y=36, text=text, size=11)
    for part in (0.0, 0.5, 1.0):
        y = _TOP + _HEIGHT * (1 - part)
        yield Line(x1=_LEFT, y1=y, x2=WIDTH - 8, y2=y, opacity=0.3)
        yield Label(x=_LEFT - 6, y=y, text=share(part), anchor="right", size=11)
    yield from _bars(found.busy, BLUE, 1.0, is_top=False)
    yield from _bars(
        [min(one, 1 - busy) for one, busy in zip(found.waiting, found.busy, strict=True)], GREY, 0.45, is_top=True
    )
    seconds = len(found.busy) * found.period_s
    right, y = WIDTH - 8, _TOP + _HEIGHT + 16
    yield Label(x=_LEFT, y=y, text="0 s", size=11)
    yield Label(x=(_LEFT + right) / 2, y=y, text=f"{seconds / 2:.0f} s", anchor="center", size=11)
    yield Label(x=right, y=y, text=f"{seconds:.0f} s", anchor="right", size=11)


def _bars(shares: Sequence[float], colour: str, opacity: float, *, is_top: bool) -> Iterator[Shape]:
    width = (WIDTH - 8 - _LEFT) / len(shares)
    for place, part in enumerate(shares):
        height = _HEIGHT * part
        y = _TOP if is_top else _TOP + _HEIGHT - height
        yield Box(x=_LEFT + place * width, y=y, width=width, height=height, fill=colour, opacity=opacity)
