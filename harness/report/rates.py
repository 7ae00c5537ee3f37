"""A range test of the learning rate in words and as a figure: the loss against the rate."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.analyze.rates import Between, agreed, found_in, reach_of, smoothed
from harness.core.workload import Ranged
from harness.report.figures import BLUE, GREEN, GREY, RED, WIDTH, Frame, Label, Line, Shape, drawn, heading

_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 64, 24, 64, 280, 58  # pixels
_CEILING = 1.3  # times the loss before training, above which nothing is drawn


def sentences(tests: Sequence[Ranged]) -> Iterator[str]:
    """What the tests of one configuration, one for each seed, say together."""
    found = [found_in(one) for one in tests]
    steepest, least, limit = (
        agreed([one.steepest for one in found]),
        agreed([one.least for one in found]),
        agreed([one.limit for one in found]),
    )
    ends = tests[0].points[0][0], max(one.points[-1][0] for one in tests)
    if steepest is None or least is None:
        tried = f"Between {_rate(ends[0])} and {_rate(ends[1])}"
        yield f"{tried} the loss does not fall by more than chance for every seed; try other rates or more --steps."
    else:
        yield f"The loss falls fastest at {_between(steepest)} and is least at {_between(least)}."
    if limit is None:
        yield f"Up to {_rate(ends[1])} it is not above where it began for every seed."
    else:
        yield f"It is above where it began from {_between(limit)} on."
    yield f"The system's own rate is {_rate(tests[0].own)}{_place(tests[0].own, steepest, least, limit)}."


def _place(own: float, steepest: Between | None, least: Between | None, limit: Between | None) -> str:
    if limit and own >= limit.low:
        return ", at which this test had lost what it had learned; a slower test loses it sooner"
    if least and own > least.high:
        return ", beyond the least loss"
    if steepest and own < steepest.low / 10:
        return f", {steepest.rate / own:.0f} times below where it falls fastest"
    return ""


def _rate(value: float) -> str:
    return f"{value:.2g}"


def _between(found: Between) -> str:
    if found.low == found.high:
        return _rate(found.rate)
    return f"{_rate(found.rate)} ({_rate(found.low)} to {_rate(found.high)} by seed)"


def figure(title: str, tests: Sequence[Ranged]) -> str:
    """The losses of all seeds over the logarithm of the rate, as SVG."""
    frame = Frame(width=WIDTH, height=_TOP + _HEIGHT + _FOOT, title=title, description=" ".join(sentences(tests)))
    return drawn(frame, _marks(title, tests), "<!-- Written by `./speedmatrix learn`. -->")


def _marks(title: str, tests: Sequence[Ranged]) -> Iterator[Shape]:
    rates = [rate for one in tests for rate, _ in one.points]
    curves = [smoothed([loss for _, loss in one.points if math.isfinite(loss)], reach_of(one)) for one in tests]
    ceiling = _CEILING * max(curve[0] for curve in curves)
    floor = min(min(curve) for curve in curves)
    across = math.log(min(rates)), math.log(max(rates))

    def x_of(rate: float) -> float:
        return _LEFT + (math.log(rate) - across[0]) / (across[1] - across[0]) * (WIDTH - _LEFT - _RIGHT)

    def y_of(loss: float) -> float:
        return _TOP + _HEIGHT * (1 - (min(loss, ceiling) - floor) / (ceiling - floor))

    yield heading(title)
    yield Label(x=8, y=34, text="loss, averaged over a tenth of the steps; one line for each seed", size=11)
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        loss = floor + part * (ceiling - floor)
        yield Line(x1=_LEFT, y1=y_of(loss), x2=WIDTH - _RIGHT, y2=y_of(loss), opacity=0.25)
        yield Label(x=_LEFT - 8, y=y_of(loss), text=f"{loss:.3g}", anchor="right", size=11)
    bottom = _TOP + _HEIGHT
    for power in range(math.ceil(across[0] / math.log(10) - 1e-9), math.floor(across[1] / math.log(10) + 1e-9) + 1):
        yield Line(x1=x_of(10.0**power), y1=bottom, x2=x_of(10.0**power), y2=bottom + 5)
        yield Label(x=x_of(10.0**power), y=bottom + 15, text=f"{10.0**power:g}", anchor="center", size=11)
    yield Label(x=(_LEFT + WIDTH - _RIGHT) / 2, y=bottom + 38, text="learning rate", anchor="center")
    for name, at, colour in _known(tests):
        if across[0] <= math.log(at) <= across[1]:
            yield Line(x1=x_of(at), y1=_TOP - 4, x2=x_of(at), y2=bottom, colour=colour, is_dashed=True)
            yield Label(x=x_of(at), y=_TOP - 12, text=name, colour=colour, anchor="center", size=11)
    for curve, one in zip(curves, tests, strict=True):
        places = [(x_of(rate), y_of(loss)) for (rate, _), loss in zip(one.points, curve, strict=False)]
        for (x1, y1), (x2, y2) in pairwise(places):
            if min(y1, y2) > _TOP:
                yield Line(x1=x1, y1=y1, x2=x2, y2=y2, colour=BLUE, width=1.6, opacity=0.7)


def _known(tests: Sequence[Ranged]) -> Iterator[tuple[str, float, str]]:
    found = [found_in(one) for one in tests]
    yield "own", tests[0].own, GREY
    for name, rates, colour in (
        ("falls fastest", [one.steepest for one in found], GREEN),
        ("lost", [one.limit for one in found], RED),
    ):
        if between := agreed(rates):
            yield name, between.rate, colour
