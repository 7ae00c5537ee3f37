"""The sweep as a document and as a figure: speedup against the step time of an emulated device."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from harness.analyze.matrix import Matrix
from harness.analyze.sweep import PAYS, Crossover, Curve, KnownTime, Sweep, between
from harness.core.configuration import Configuration
from harness.report.document import Column, Heading, Part, Text, tabled
from harness.report.figures import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    RED,
    TICKS,
    VIOLET,
    WIDTH,
    Frame,
    Label,
    Line,
    Shape,
    drawn,
    heading,
)
from harness.report.published import file_name
from harness.report.words import NOTHING, duration, factor, one_line, ratio, shortened

EMULATED = (
    "Emulated: the device's step time is set and not measured, and copies take what the link's rate says; loader, "
    "workers and waits are real. A device's name stands at an estimated step time: that of the full-size model at the "
    "real system's batch, divided down to this batch. It is taken from the fastest of float32, bfloat16 and bfloat16 "
    "with channels-last in the device's table, and is never shorter than the host's launches of that step. The speedup "
    "beside a name covers all step times that the table leaves possible. Pages of one emulated device run small "
    "batches of small models, whose launches take longer per sample: there the same option has another number."
)
SLOWED = 1.25  # times as long as beside the shortest steps: what loading may take without a word about it
TOLD = 1.25  # times as far off: what is no prediction any more
MOST_NAMED = 8  # options without a curve for one reason
FORMER_LAUNCHES = (
    "The launches within these steps are those of a former table, whose host takes a quarter to a half of what that of "
    "a real H200 takes for an operator: a host that runs ahead of the device hides less behind them than it would."
)
HOW = (
    f'An option pays where its speedup is {PAYS:g}x or more. "Pays below 380 ms, undecided above" means: up to 380 ms '
    "a step for sure, beyond that perhaps. The interval beside a limit follows from the ends of the ratios' "
    "intervals. Limits of options that shorten the input are interpolated between measured step times. For other "
    "options, and where the reference loads ahead, the two measured step times are named between which the gain ends. "
    "Measurements on a disturbed machine are left out. "
    "Dashes in a figure are predicted, each from what loader and step took alone at the other step times."
)


def sweep_parts(sweeps: Sequence[Sweep], marks: Mapping[str, Mapping[str, KnownTime]]) -> Iterator[Part]:
    """All workloads of a sweep; `marks` are the step times, in seconds, of known devices by workload and name."""
    yield Text(EMULATED)
    if any(one.is_former for one in sweeps):
        yield Text(FORMER_LAUNCHES)
    for one in (one for one in sweeps if one.curves):
        known, config = marks.get(one.reference.workload, {}), one.reference
        yield Heading(one_line(f"{config.workload}, size {config.size}, batch {config.batch}, emulated devices"))
        yield Text(f"Host: {one_line(one.host)}. Reference: {one.reference.stack or 'baseline'}.")
        yield from sweep_table(one)
        yield from (Text(sentence) for sentence in sentences(one, known))
    yield Text(HOW)


def _slowed(sweep: Sweep) -> Iterator[str]:
    """That loading itself takes longer beside longer steps, where it does; prediction and gains differ by that."""
    loading = sorted(sweep.loading_s.items())
    if loading and loading[-1][1] > SLOWED * loading[0][1]:
        (short_s, soon_s), (long_s, late_s) = loading[0], loading[-1]
        yield (
            f"The reference's own loading takes {time(soon_s)} a step beside steps of {time(short_s)}, and "
            f"{time(late_s)} beside steps of {time(long_s)}: presumably what it reads leaves the caches of a shared "
            "processor while the device computes. Options that shorten loading gain by that as well, and would gain "
            "less beside long steps on a host of its own."
        )


def _unlaunched(sweep: Sweep) -> Iterator[str]:
    """That the host could not launch a step of this batch as fast as some that were emulated."""
    if sweep.host_s > min(point.step_s for curve in sweep.curves for point in curve.points):
        yield (
            f"Launching a step of this batch takes the host {time(sweep.host_s)}. Shorter steps stand for its share in "
            "a larger batch, or for a step of fewer launches, such as a CUDA graph."
        )


def sentences(sweep: Sweep, known: Mapping[str, KnownTime]) -> Iterator[str]:
    """What loading does, and what each option comes to: where it stops paying, and what it gives on known devices."""
    yield from _slowed(sweep)
    yield from _unlaunched(sweep)
    for curve in sweep.curves:
        told = [
            f"{name} ({time(at.step_s)} a step{_possible(at)}) {reached}"
            for name, at in known.items()
            if (reached := _between(curve, at))
        ]
        on = f"; at the pace of an emulated {', '.join(told)}" if told else ""
        yield f"{curve.label} {pays(curve)}{on}{_foretold(curve)}{_lacking(curve)}."


def _foretold(curve: Curve) -> str:
    """How far what loader and step take alone is from it, in words; empty where that is not known."""
    if not curve.missed:
        return ""
    if curve.missed < TOLD:
        return f"; loader and step alone predict it within {100 * (curve.missed - 1):.0f} %"
    return f"; loader and step alone do not predict it: they are off by a factor of up to {factor(curve.missed)}"


def _possible(at: KnownTime) -> str:
    """Between which step times the true one lies, in words; what the host takes for its launches has no such band."""
    if at.step_s <= at.host_s:
        return ", which its host needs" + (f", or up to {time(at.most_s)}" if at.most_s > at.step_s else "")
    return f", {time(at.least_s)} to {time(at.most_s)}"


def _lacking(curve: Curve) -> str:
    """At which step times it has no ratio, and why; empty where it has one at all."""
    by_reason: dict[str, list[str]] = {}
    for step_s, words in sorted(curve.no_results.items()):
        by_reason.setdefault(one_line(words).partition(";")[0].partition(" (")[0], []).append(time(step_s))
    return "".join(f"; no ratio at {', '.join(times)}: {words}" for words, times in by_reason.items())


def pays(curve: Curve) -> str:
    """At which step times an option pays, in words."""
    if not curve.until.high_s:
        return "pays at no step time that was measured"
    if len(curve.points) == 1:
        (point,) = curve.points
        return f"was measured at one step time only, {time(point.step_s)}: {ratio(point.estimate)}"
    if not curve.until.low_s:
        return "is not sure to pay at any step time that was measured"
    return "".join((_where(curve.since, curve.until), *_unless(curve)))


def _where(since: Crossover, until: Crossover) -> str:
    if since.at_s and math.isfinite(until.at_s):
        return f"pays from {_crossed(since)} to {_crossed(until)} a step"
    if since.at_s and not since.low_s and math.isfinite(since.high_s):
        return f"pays above {_bound(since.high_s)} a step, undecided below"
    if since.at_s:
        return f"pays above {_crossed(since)} a step"
    if math.isfinite(until.at_s) and until.low_s and math.isinf(until.high_s):
        return f"pays below {_bound(until.low_s)} a step, undecided above"
    if math.isfinite(until.at_s):
        return f"pays below {_crossed(until)} a step"
    return "pays at all step times that were measured"


def _unless(curve: Curve) -> Iterator[str]:
    """From where to where that is sure, if not up to an end at which it pays, and where it does not pay in between."""
    since, until = curve.since, curve.until
    sure = [f"above {_bound(since.high_s)}"] if since.high_s and not since.at_s else []
    sure += [f"below {_bound(until.low_s)}"] if math.isfinite(until.low_s) and math.isinf(until.at_s) else []
    if sure:
        yield f", for sure {' and '.join(sure)}"
    surely = (one for one in curve.points if since.high_s < one.step_s < until.low_s)
    if unsure := [time(one.step_s) for one in surely if one.estimate.low < PAYS <= one.estimate.ratio]:
        yield f", undecided at {', '.join(unsure)}"
    within = (one for one in curve.points if since.at_s < one.step_s < until.at_s)
    if dips := [time(one.step_s) for one in within if one.estimate.ratio < PAYS]:
        yield f", except at {', '.join(dips)}"


def _crossed(found: Crossover) -> str:
    return f"{time(found.at_s)} [{_bound(found.low_s)}, {_bound(found.high_s)}]"


def _bound(seconds: float) -> str:
    return "the shortest" if seconds == 0 else "the longest" if math.isinf(seconds) else time(seconds)


def time(seconds: float) -> str:
    """To two digits: `2 ms`, `31 ms`, `1.2 s`."""
    return duration(float(f"{seconds:.2g}"))


def _between(curve: Curve, at: KnownTime) -> str:
    """From where to where the speedup lies at a device's pace, intervals included; empty beyond what was measured."""
    within = (one.step_s for one in curve.points if at.least_s < one.step_s < at.most_s)
    times = sorted({at.step_s, at.least_s, at.most_s, *within})
    found = [one for one in (between(curve.points, step_s) for step_s in times) if one]
    if len(found) < len(times):
        return ""
    least = f"{factor(min(low for _, low, _ in found))}x"
    if at.least_s <= at.host_s and curve.launches_less:  # its own launches would take less still
        return f"{least} or more"
    return f"{least} to {factor(max(high for *_, high in found))}x"


def without_curve(matrices: Iterable[Matrix], sweeps: Sequence[Sweep]) -> Iterator[Part]:
    """What was asked for and is fit for a curve at no step time, and why."""
    shown = {(one.reference.workload, curve.label) for one in sweeps for curve in one.curves}
    missing: dict[tuple[str, str], str] = {}
    for one in sweeps:
        missing |= {(one.reference.workload, label): words for label, words in one.no_results.items()}
    for result in (result for matrix in matrices for result in matrix.no_results):
        if (name := (result.workload, result.label)) not in shown:
            missing[name] = result.reason
    by_reason: dict[str, list[str]] = {}
    for (workload, label), words in sorted(missing.items()):
        by_reason.setdefault(one_line(words), []).append(one_line(f"{workload} {label}"))
    for words, names in by_reason.items():
        named = f"{len(names)} options" if len(names) > MOST_NAMED else ", ".join(names)
        yield Text(f"No result: {named}: {words}.")


def sweep_table(sweep: Sweep) -> Iterator[Part]:
    """One row for each step time, one column for each option."""
    times = sorted({point.step_s for curve in sweep.curves for point in curve.points})
    columns = [Column(name="step, emulated", whole=True), *(Column(name=one.label) for one in sweep.curves)]
    rows = []
    for at in times:
        held = ({one.step_s: one for one in curve.points}.get(at) for curve in sweep.curves)
        rows.append((time(at), *(ratio(one.estimate) if one else NOTHING for one in held)))
    yield from tabled(columns, rows)


# The figure: one line for each option, over the logarithm of the step time.

_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 64, 176, 100, 300, 62  # pixels
LETTER = 7.0  # the width of one of a device's name at most
COLOURS = (BLUE, GREEN, VIOLET, AMBER, RED, GREY)
Scale = Callable[[float], float]  # a value to its place in pixels
Span = tuple[float, float]  # of an axis, as logarithms
_TIMES = tuple(factor * 10.0**power for power in range(-4, 2) for factor in (1, 2, 5))


def sweep_figure(sweep: Sweep, known: Mapping[str, KnownTime]) -> str:
    """The curves of one workload as SVG, with known devices marked on the axis."""
    config = sweep.reference
    over = f" over {shortened(config.stack, 30)}" if config.options else ""
    title = f"{config.workload}, size {config.size}, on emulated devices: speedup{over} against the device's step time"
    described = "; ".join(f"{one.label} {pays(one)}" for one in sweep.curves)
    frame = Frame(width=WIDTH, height=_TOP + _HEIGHT + _FOOT, title=title, description=f"Emulated. {described}")
    return drawn(frame, _marks(title, sweep, known))


def _marks(title: str, sweep: Sweep, known: Mapping[str, KnownTime]) -> Iterator[Shape]:
    points = [point for curve in sweep.curves for point in curve.points]
    times = [point.step_s for point in points]
    ends = [1.0, PAYS, *(point.estimate.ratio for point in points), *(min(9.0, one.estimate.high) for one in points)]
    across = math.log(min(times)), math.log(max(times) * 1.0001)
    up = math.log(min(ends) / 1.04), math.log(max(ends) * 1.04)

    def x_of(seconds: float) -> float:
        return _LEFT + (math.log(seconds) - across[0]) / (across[1] - across[0]) * (WIDTH - _LEFT - _RIGHT)

    def y_of(speedup: float) -> float:
        share = (math.log(speedup) - up[0]) / (up[1] - up[0])
        return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, share)))

    yield heading(title)
    yield Label(x=8, y=34, text=f"emulated device, real host: {shortened(sweep.host, 90)}", size=11)
    yield from _axes(x_of, y_of, across, up)
    yield from _known(x_of, {name: one.step_s for name, one in known.items() if min(times) <= one.step_s <= max(times)})
    taken: list[float] = []
    for number, curve in enumerate(sweep.curves):
        yield from _curve(curve, COLOURS[number % len(COLOURS)], x_of, y_of, taken)


def _axes(x_of: Scale, y_of: Scale, across: Span, up: Span) -> Iterator[Shape]:
    bottom = _TOP + _HEIGHT
    for tick in TICKS:
        if up[0] <= math.log(tick) <= up[1]:
            y = y_of(tick)
            yield Line(x1=_LEFT, y1=y, x2=WIDTH - _RIGHT, y2=y, opacity=1.0 if tick == 1 else 0.25)
            yield Label(x=_LEFT - 8, y=y, text=f"{tick:g}x", anchor="right", size=11)
    for tick in _TIMES:
        if across[0] - 1e-9 <= math.log(tick) <= across[1] + 1e-9:
            yield Line(x1=x_of(tick), y1=bottom, x2=x_of(tick), y2=bottom + 5)
            yield Label(x=x_of(tick), y=bottom + 15, text=time(tick), anchor="center", size=11)
    yield Line(x1=_LEFT, y1=bottom, x2=WIDTH - _RIGHT, y2=bottom)
    yield Label(x=(_LEFT + WIDTH - _RIGHT) / 2, y=bottom + 38, text="step time of the emulated device", anchor="center")


def _known(x_of: Scale, known: Mapping[str, float]) -> Iterator[Shape]:
    ends = [-1000.0] * 4  # of the names in each row, of which as many as need be stand above each other
    names: dict[float, list[str]] = {}  # by step time: those that their host holds up stand at one
    for name, at in known.items():
        names.setdefault(at, []).append(name)
    for at, alike in sorted(names.items()):
        text = ", ".join(alike)
        x, half = x_of(at), LETTER * len(text) / 2
        centre = max(x, half)  # the names of many would reach beyond the left edge
        row = next((number for number, end in enumerate(ends) if centre - half - end > LETTER), 3)
        ends[row] = centre + half
        yield Line(x1=x, y1=_TOP - 4, x2=x, y2=_TOP + _HEIGHT, is_dashed=True, opacity=0.5)
        yield Label(x=centre, y=_TOP - 12 - 12 * row, text=text, anchor="center", size=11)


def _curve(curve: Curve, colour: str, x_of: Scale, y_of: Scale, taken: list[float]) -> Iterator[Shape]:
    places = [(x_of(one.step_s), y_of(one.estimate.ratio)) for one in curve.points]
    for (x1, y1), (x2, y2) in pairwise(places):
        yield Line(x1=x1, y1=y1, x2=x2, y2=y2, colour=colour, width=2.0)
    for one, (x, _) in zip(curve.points, places, strict=True):
        low, high = y_of(one.estimate.low), y_of(one.estimate.high)
        yield Line(x1=x, y1=high, x2=x, y2=low, colour=colour, width=1.4, opacity=0.7)
    predicted = [(x_of(one.step_s), y_of(one.predicted)) for one in curve.points if one.predicted]
    for (x1, y1), (x2, y2) in pairwise(predicted):
        yield Line(x1=x1, y1=y1, x2=x2, y2=y2, colour=colour, is_dashed=True, opacity=0.6)
    first = places[-1][1]
    while any(abs(first - other) < 15 for other in taken):
        first -= 15
    taken.append(first)
    yield Line(x1=places[-1][0], y1=places[-1][1], x2=WIDTH - _RIGHT + 10, y2=first, colour=colour, opacity=0.5)
    yield Label(x=WIDTH - _RIGHT + 14, y=first, text=shortened(curve.label, 22), colour=colour, size=12)


def figures_of(sweeps: Iterable[Sweep], marks: Mapping[str, Mapping[str, KnownTime]]) -> dict[str, str]:
    """The figure of each reference by a file's name, which tells its options where it has any."""
    return {
        f"sweep-{_named(one.reference)}.svg": sweep_figure(one, marks.get(one.reference.workload, {}))
        for one in sweeps
        if one.curves
    }


def _named(reference: Configuration) -> str:
    return file_name(f"{reference.workload}-over-{reference.stack}") if reference.options else reference.workload
