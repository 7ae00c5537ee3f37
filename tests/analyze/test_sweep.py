"""Sweeps: where an option stops paying, told from curves whose answer is known."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.analyze.estimate import Estimate
from harness.analyze.sweep import PAYS, Curve, Point, Sweep, last_above, spaced, with_predictions
from harness.analyze.verdict import Verdict
from harness.core.configuration import Configuration
from harness.report.document import to_markdown
from harness.report.sweep import figures_of, pays, sweep_figure, sweep_parts

LOAD_S = 0.040


def estimate(ratio: float, reach: float) -> Estimate:
    return Estimate(
        ratio=ratio, low=ratio * math.exp(-reach), high=ratio * math.exp(reach), pairs=6, processes=2, df=1.0,
        method="t", outlying=False, verdict=Verdict.FASTER, drift=0.0, trimmed_ratio=ratio,
    )  # fmt: skip


def curve(step_times: tuple[float, ...], gain: float = 4.0, reach: float = 0.02) -> Curve:
    """An option that makes loading `gain` times shorter beside a device that waits for it."""
    points = []
    for step_s in step_times:
        ratio = (LOAD_S + step_s) / (LOAD_S / gain + step_s)
        points.append(Point(step_s=step_s, estimate=estimate(ratio, reach)))
    return Curve(label="local_copy", points=tuple(points), no_results={})


def test_step_times_are_spaced_by_their_logarithm() -> None:
    assert spaced(0.002, 2.0, 4) == pytest.approx((0.002, 0.02, 0.2, 2.0))
    assert spaced(0.002, 2.0, 1) == (0.002,)


def test_an_option_stops_paying_where_a_line_through_its_ratios_falls_below_the_level() -> None:
    assert last_above([(1.0, 1.2), (4.0, 1.0)], 1.1) == pytest.approx(4 ** (math.log(1.2 / 1.1) / math.log(1.2)))
    assert last_above([(1.0, 1.2), (2.0, 1.01), (3.0, 1.2), (4.0, 1.0)], 1.1) > 3.0
    assert last_above([(1.0, 1.0), (2.0, 1.01)], 1.1) == 0.0
    assert last_above([(1.0, 1.0), (2.0, 1.2)], 1.1) == math.inf
    assert last_above([]) == 0.0


def test_the_crossover_is_found_where_it_was_put() -> None:
    # (L + D) / (L / 4 + D) = 1.05 at D = (L - 1.05 L / 4) / 0.05
    true_s = (LOAD_S - PAYS * LOAD_S / 4) / (PAYS - 1)
    found = curve(spaced(0.002, 2.0, 8)).until
    assert found.at_s == pytest.approx(true_s, rel=0.15)
    assert found.low_s < found.at_s < found.high_s
    finer = curve(spaced(0.002, 2.0, 60)).until
    assert finer.at_s == pytest.approx(true_s, rel=0.01)


def test_an_option_that_hides_work_pays_between_two_step_times() -> None:
    # Beside a worker a step takes the longer of both: nothing to hide behind, then most, then ever less of the whole.
    times = spaced(0.0005, 4.0, 80)
    points = [
        Point(step_s=one, estimate=estimate((LOAD_S + one) / max(LOAD_S, one), 0.01)) for one in times
    ]  # fmt: skip
    found = Curve(label="workers=1", points=tuple(points), no_results={})
    assert found.since.at_s == pytest.approx(LOAD_S * (PAYS - 1), rel=0.02)
    assert found.until.at_s == pytest.approx(LOAD_S / (PAYS - 1), rel=0.02)
    assert found.since.low_s < found.since.at_s < found.since.high_s
    assert pays(found) == "pays from 2 ms [1.6 ms, 2.4 ms] to 800 ms [660 ms, 1 s] a step"


def seen(step_s: float, load_s: float, workers: int | None) -> Any:
    """What an arm shows beside a device of that step time, whose host takes 1 ms a step beside it."""
    facts = {"workers": workers}
    config = Configuration(workload="imagenet", size="quick", batch=16)
    return SimpleNamespace(config=config, loader_rate=16 / load_s, compute_rate=16 / (step_s + 0.001), facts=facts)


@pytest.mark.parametrize("workers", [None, 1])
def test_loader_and_step_alone_foretell_a_ratio_at_a_step_time_that_they_were_not_seen_at(workers: int | None) -> None:
    def ratio(at: float) -> float:
        device_s = at + 0.001
        return (LOAD_S + device_s) / (max(0.02, device_s) if workers else 0.02 + device_s)

    times = (0.002, 0.02, 0.2)
    rows: list[Any] = [
        (at, SimpleNamespace(
            estimate=estimate(ratio(at), 0.02), reference=seen(at, LOAD_S, None), treatment=seen(at, 0.02, workers)
        )) for at in times
    ]  # fmt: skip
    points = tuple(with_predictions(rows))
    assert [one.predicted for one in points] == pytest.approx([ratio(at) for at in times])
    assert Curve(label="a", points=points, no_results={}).missed == pytest.approx(1.0)
    off = (points[0], replace(points[1], estimate=estimate(points[1].predicted * 1.2, 0.02)))  # type: ignore[operator]
    assert Curve(label="a", points=off, no_results={}).missed == pytest.approx(1.2)
    (alone,) = with_predictions(rows[:1])
    assert alone.predicted is None, "a point must not foretell itself"


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((2.0, 1.5, 1.0), "pays below "),
        ((1.0, 1.2, 1.3), "pays above "),
        ((1.0, 1.2, 1.0), "pays from "),
        ((1.3, 1.2, 1.1), "pays at all step times"),
        ((0.9, 1.0, 0.9), "pays at no step time"),
        ((1.04, 1.0, 0.9), "is not sure to pay at any step time that was measured"),
    ],
)
def test_where_an_option_pays_in_words(ratios: tuple[float, ...], words: str) -> None:
    points = (
        Point(step_s=at, estimate=estimate(one, 0.02)) for at, one in zip((0.002, 0.02, 0.2), ratios, strict=True)
    )
    assert pays(Curve(label="a", points=tuple(points), no_results={})).startswith(words)


def test_what_is_not_sure_is_not_said_to_pay() -> None:
    def told(*reaches: float) -> str:
        points = (Point(step_s=0.002 * 10**at, estimate=estimate(1.3, one)) for at, one in enumerate(reaches))
        return pays(Curve(label="a", points=tuple(points), no_results={}))

    assert told(0.02, 0.02, 0.02) == "pays at all step times that were measured"
    assert told(1.0, 1.0, 1.0) == "is not sure to pay at any step time that was measured"
    assert told(0.02).startswith("was measured at 2 ms a step alone, where it gives 1.30x [")
    assert told(0.02, 0.02, 1.0).startswith("pays at all step times that were measured, for sure below ")


def test_tables_sentences_and_figures_say_emulated() -> None:
    config = Configuration(workload="imagenet", size="quick", batch=16)
    other = curve(spaced(0.002, 2.0, 6), gain=1.0)
    sweep = Sweep(
        reference=config,
        host="a host, 2 cores",
        curves=(curve(spaced(0.002, 2.0, 6)), Curve(label="pin_memory", points=other.points, no_results={})),
    )
    marks = {"imagenet": {"A100": 0.012, "T4": 0.09, "abacus": 90.0}}
    page = to_markdown(sweep_parts([sweep], marks))
    assert page.lower().count("emulated") >= 4
    assert "pin\\_memory pays at no step time" in page
    assert "at the pace of an emulated A100 (12 ms a step) 2." in page
    assert "abacus" not in page
    svg = sweep_figure(sweep, marks["imagenet"])
    assert svg == figures_of([sweep], marks)["sweep-imagenet.svg"]
    assert all(word in svg for word in ("emulated", "A100", "T4", "local_copy", "pin_memory"))
    assert "abacus" not in svg
