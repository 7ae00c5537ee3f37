"""A calibration in words: what the machine shows, and every delay beside what was found of it."""

from collections.abc import Iterator

from harness.analyze.calibration import CORRELATED, Calibration, Known, Span
from harness.analyze.soundness import Absence
from harness.report.document import Part, Table, Text
from harness.report.words import NOTHING, duration, one_line, ratio

HEADINGS = "workload", "control", "put in", "found", "recovered"


def calibration_parts(calibration: Calibration) -> Iterator[Part]:
    """The delays that were put in and what was found of each, what else is known, and the header's sentence."""
    yield Text("Are delays found that were put in?", style="bold")
    yield Table(HEADINGS, tuple(controls(calibration)))
    yield from map(Text, facts(calibration))
    yield Text(f"{calibration.sentence}.", style="bold")


def controls(calibration: Calibration) -> Iterator[tuple[str, ...]]:
    """One row for each delay, under HEADINGS, the smallest delays first."""
    for level in calibration.levels:
        for one in level.controls:
            truth = f"{one.truth:.3f}x" if one.truth else NOTHING
            named = one.comparison.treatment.workload, one_line(one.comparison.label)
            yield *named, truth, ratio(one.estimate), _became(one)


def _became(known: Known) -> str:
    if isinstance(known.result, Absence):
        return one_line(f"no: {known.result.words}")
    if not known.holds:
        return "no: its interval leaves out what was put in"
    return "yes" if known.recovered else "no: too wide to tell it from nothing"


def facts(calibration: Calibration) -> Iterator[str]:
    """What is said of the machine beside the header's sentence, each with what follows from it."""
    yield _order("The order of start", calibration.order_of_start, "an arm that is started last", "the first")
    yield _order(
        "The order of turns", calibration.order_in_round, "a window right after the reference's", "one that comes later"
    )
    yield _correlation(calibration.correlation)
    yield _transient(calibration.window_s)
    spread = 100 * calibration.thresholds.least_spread
    yield f"Replicates lie {spread:.2f} % from the truth (standard deviation): no interval rests on less than that."


def _order(what: str, span: Span | None, one: str, other: str) -> str:
    if span is None:
        return f"{what}: too few configurations tell of it."
    matters = f"{one} differs from {other}" if span.excludes_zero else "shows no effect"
    return f"{what}: {matters}, by {_percent(span)}."


def _correlation(found: float | None) -> str:
    if found is None:
        return "Neighbouring pairs: too few to tell whether they are alike."
    advice = ": windows are too short, so take twice as long ones" if found > CORRELATED else ""
    return f"Neighbouring pairs correlate by {found:.2f}{advice}."


def _transient(span: Span | None) -> str:
    """Windows of several lengths show what is lost once in each of them."""
    if span is None:
        return (
            "Resumption: windows have one length, so that only their two halves tell what one loses at its beginning."
        )
    low, high = (f"{1000 * one:.0f}" for one in (span.low, span.high))
    lost = "nothing that can be told" if not span.excludes_zero else duration(abs(span.value))
    return f"Resumption: beside its steps a window takes {lost} ([{low}, {high}] ms)."


def _percent(span: Span) -> str:
    value, low, high = (100 * one for one in (span.value, span.low, span.high))
    return f"{value:+.2f} % [{low:+.2f}, {high:+.2f}]"
