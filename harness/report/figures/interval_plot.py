"""The interval plot: every speedup of a table with its interval on a log axis, as SVG for light and dark pages."""

import math
from collections.abc import Iterable, Iterator
from html import escape

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Table
from harness.analyze.verdict import Verdict
from harness.report import matrix as sentences
from harness.report import words

_WIDTH, _ROW, _TOP, _LABELS, _NUMBERS = 820, 24, 44, 190, 230  # pixels
_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_CLASS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.NO_EFFECT: "none",
    Verdict.UNDECIDED: "undecided",
}
# Middle tones that keep their contrast on white and on black, so that no page colour has to be known.
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#767676}.title{font-weight:600}.tick{font-size:11px}"
    ".axis{stroke:#767676;stroke-opacity:.3}.one{stroke:#767676}line{stroke-width:1}.interval{stroke-width:2}"
    ".faster{stroke:#2e8b57;fill:#2e8b57}.slower{stroke:#d0563f;fill:#d0563f}"
    ".none{stroke:#767676;fill:#767676}.undecided{stroke:#b8860b;fill:#b8860b}"
)


def interval_plot(table: Table) -> str:
    """A forest plot of the table's estimates, or of an empty axis where there is none."""
    estimates = [(row.label, row.estimate) for row in table.rows if row.estimate is not None]
    limits = _limits(estimate for _, estimate in estimates)
    height = _TOP + _ROW * len(estimates) + 34
    title = sentences.title(table)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="8" y="20">{escape(title)}</text>',
            *_axis(limits, _TOP + _ROW * len(estimates)),
            *(line for index, (name, one) in enumerate(estimates) for line in _interval(name, one, limits, index)),
            "</svg>\n",
        )
    )


def _limits(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """The ends of the axis: all ratios and the inner part of their intervals; a useless interval runs out of sight."""
    ends = [end for one in estimates for end in (max(one.low, one.ratio / 2), min(one.high, one.ratio * 2))]
    return min([0.8, *ends]) / 1.05, max([1.25, *ends]) * 1.05


def _x(value: float, limits: tuple[float, float]) -> float:
    """The place of a ratio, held inside the axis."""
    low, high = limits
    share = math.log(min(max(value, low), high) / low) / math.log(high / low)
    return round(_LABELS + share * (_WIDTH - _LABELS - _NUMBERS), 1)


def _axis(limits: tuple[float, float], bottom: int) -> Iterator[str]:
    last = -math.inf
    for tick in (tick for tick in _TICKS if limits[0] <= tick <= limits[1]):
        x = _x(tick, limits)
        kind = "one" if tick == 1 else "axis"
        yield f'<line class="{kind}" x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}"/>'
        if x - last > 30:  # so that labels never touch
            last = x
            yield f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{tick:g}x</text>'


def _interval(label: str, one: Estimate, limits: tuple[float, float], index: int) -> Iterator[str]:
    low, middle, high = (_x(value, limits) for value in (one.low, one.ratio, one.high))
    y, kind = _TOP + _ROW * index + _ROW // 2, _CLASS[one.verdict]
    name, numbers = words.one_line(label), f"{words.ratio(one)} {one.verdict}"
    yield f"<g><title>{escape(f'{name}: {numbers}')}</title>"
    yield f'<text x="{_LABELS - 12}" y="{y + 4}" text-anchor="end">{escape(_shortened(name))}</text>'
    yield f'<line class="interval {kind}" x1="{low}" y1="{y}" x2="{high}" y2="{y}"/>'
    yield f'<circle class="{kind}" cx="{middle}" cy="{y}" r="3.5"/>'
    yield f'<text x="{_WIDTH - _NUMBERS + 14}" y="{y + 4}">{escape(numbers)}</text></g>'


def _shortened(text: str) -> str:
    """As much of a name as there is room for; the whole stands in the tooltip."""
    return text if len(text) <= 25 else text[:24] + "…"
