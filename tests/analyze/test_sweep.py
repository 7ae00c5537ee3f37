"""Sweeps: where an option stops paying, told from curves whose answer is known."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.analyze.estimate import Estimate
from harness.analyze.sweep import (
    PAYS,
    Curve,
    KnownTime,
    Point,
    Sweep,
    between,
    last_above,
    sweep_of,
    with_predictions,
)
from harness.analyze.verdict import Verdict
from harness.core.configuration import Configuration, Option
from harness.core.optimization import Timing
from harness.report.document import to_markdown
from harness.report.sweep import figures_of, pays, sweep_figure, sweep_parts
from tests.analyze.synthetic import ENVIRONMENT

LOAD_S = 0.040


def estimate(ratio: float, reach: float) -> Estimate:
    return Estimate(
        ratio=ratio, low=ratio * math.exp(-reach), high=ratio * math.exp(reach), pairs=6, processes=2, df=1.0,
        method="t", outlying=False, verdict=Verdict.FASTER, drift=0.0, trimmed_ratio=ratio,
    )  # fmt: skip


def curve(step_times: Iterable[float], gain: float = 4.0, reach: float = 0.02) -> Curve:
    """An option that makes loading `gain` times shorter beside a device that waits for it."""
    points = []
    for step_s in step_times:
        ratio = (LOAD_S + step_s) / (LOAD_S / gain + step_s)
        points.append(Point(step_s=step_s, estimate=estimate(ratio, reach)))
    return Curve(label="local_copy", points=tuple(points), no_results={})


def test_an_option_stops_paying_where_a_line_through_its_ratios_falls_below_what_pays() -> None:
    assert last_above([(1.0, 1.5), (40.0, 1.01)]).at_s == pytest.approx(10.0), "of one that leaves nothing to load"
    assert last_above([(1.0, 1.5), (1.5, 1.01)]).at_s == 1.5
    assert last_above([(1.0, 1.2), (2.0, 1.01), (3.0, 1.2), (4.0, 1.0)]).at_s > 3.0
    assert last_above([(1.0, 1.0), (2.0, 1.01)]).at_s == 0.0
    assert last_above([(1.0, 1.0), (2.0, 1.2)]).at_s == math.inf
    assert last_above([]).at_s == 0.0


@pytest.mark.parametrize(
    ("points", "true_s", "words"),
    [
        ([(0.01, 0.90), (0.1, 1.50)], None, "pays above 20 ms [10 ms, 100 ms] a step"),
        ([(0.01, 1.02), (0.1, 1.50)], None, "pays above 12 ms [10 ms, 100 ms] a step"),
        # A worker that loads in 200 ms and costs 20 ms of every step.
        (
            [(0.004, 0.93), (0.025, 1.02), (0.15, 1.59), (0.8, 1.22)],
            0.031,
            "pays above 28 ms [25 ms, 150 ms] a step",
        ),
        # An option that loads in 10 ms of 40 and costs 5 % of the device's step.
        ([(0.02, 1.94), (0.15, 1.13), (1.0, 0.98)], 0.288, "pays below 400 ms [150 ms, 1 s] a step"),
    ],
)
def test_where_nothing_but_two_points_is_known_a_crossing_lies_somewhere_between_them(
    points: list[tuple[float, float]], true_s: float | None, words: str
) -> None:
    held = tuple(Point(step_s=at, estimate=estimate(ratio, 0.02)) for at, ratio in points)
    found = Curve(label="workers=1", points=held, no_results={})
    assert pays(found) == words
    crossed = found.since if found.since.at_s else found.until
    assert true_s is None or crossed.low_s < true_s < crossed.high_s


@pytest.mark.parametrize("reach", [0.002, 0.008, 0.03])
@pytest.mark.parametrize("hides", [True, False])
def test_a_steep_fall_lies_anywhere_between_two_points(reach: float, hides: bool) -> None:
    """A reference with workers hides its loading at once: 300 ms become 70 ms, beside which 1.2 % remain for ever."""
    times = (0.002, 0.0080, 0.0317, 0.126, 0.5, 2.0)
    true = [1.012 * max(0.3, one) / max(0.07, one) for one in times]
    points = [
        Point(step_s=one, estimate=estimate(ratio, reach), ahead=True, hides=hides)
        for one, ratio in zip(times, true, strict=True)
    ]
    until = Curve(label="local_copy", points=tuple(points), no_results={}).until
    assert until.low_s < 1.012 * 0.3 / PAYS < until.high_s
    assert not hides or between(points, 0.2) is None, "1.52x in truth, 1.14x on the line"


def test_the_crossover_is_found_where_it_was_put() -> None:
    # (L + D) / (L / 4 + D) = 1.05 at D = (L - 1.05 L / 4) / 0.05
    true_s = (LOAD_S - PAYS * LOAD_S / 4) / (PAYS - 1)
    for times in (np.geomspace(0.002, 2.0, 3), np.geomspace(0.002, 2.0, 8), (0.004, 0.025, 0.15, 0.8)):
        found = curve(times).until
        assert found.at_s == pytest.approx(true_s, rel=1e-6), "however few the times are, and how far apart"
        assert found.low_s < found.at_s < found.high_s


@pytest.mark.parametrize(("load_s", "gain", "true_s"), [(0.00557, 100.0, 0.110), (0.026, 12.0, 0.475)])
def test_a_crossing_between_distant_times_is_not_too_late(load_s: float, gain: float, true_s: float) -> None:
    points = [(at, (load_s + at) / (load_s / gain + at)) for at in (0.004, 0.025, 0.15, 0.8)]
    assert last_above(points).at_s == pytest.approx(true_s, rel=0.01)
    known = [Point(step_s=at, estimate=estimate(ratio, 0.02)) for at, ratio in points]
    for at in (0.01, 0.09, 0.5):
        found, true = between(known, at), (load_s + at) / (load_s / gain + at)
        assert found == pytest.approx((true, true * math.exp(-0.02), true * math.exp(0.02)))
    assert between(known, 1.0) is None


@pytest.mark.parametrize("falls", [True, False])
def test_a_crossing_lies_within_its_interval_however_close_to_one_the_ratios_are(falls: bool) -> None:
    for far in (0.9, 0.99, 0.999, 1.001, 1.01, 1.03, 1.049):
        for reach in (0.005, 0.02, 0.06):
            ratios = (1.3, far) if falls else (far, 1.3)
            points = [
                Point(step_s=at, estimate=estimate(one, reach)) for at, one in zip((0.01, 0.3), ratios, strict=True)
            ]  # fmt: skip
            found = Curve(label="a", points=tuple(points), no_results={})
            crossed = found.until if falls else found.since
            assert crossed.low_s <= crossed.at_s <= crossed.high_s
            assert 0.01 <= crossed.at_s <= 0.3
            held = between(points, 0.1)
            assert held is not None
            assert held[1] < held[0] < held[2]


def test_a_curve_is_of_whole_steps_on_a_calm_machine() -> None:
    """The loader alone is 30 times as fast beside every device, which is no speedup of training."""

    def table(timing: Timing, ratio: float, **facts: Any) -> Any:
        row = SimpleNamespace(
            label="mapped_noise", estimate=replace(estimate(ratio, 0.02), **facts), absence=None, treatment=None,
            reference=None, comparison=SimpleNamespace(treatment=config),
        )  # fmt: skip
        return SimpleNamespace(config=config, timing=timing, rows=[row])

    config = Configuration(workload="speaker", size="quick", batch=5)
    environment: Any = replace(ENVIRONMENT, device="emulated:2ms")
    told = [
        (0.03, environment, [table(Timing.LOADER, 31.5), table(Timing.STEP, 3.65)]),
        (2.0, environment, [table(Timing.STEP, 1.04), table(Timing.LOADER, 31.5)]),
        (0.2, environment, [table(Timing.STEP, 9.0, drift=1.0)]),
        (0.5, environment, [table(Timing.STEP, 1.2, looked_up=True)]),
    ]
    (sweep,) = sweep_of(told)
    (found,) = sweep.curves
    assert [(one.step_s, one.estimate.ratio) for one in found.points] == [(0.03, 3.65), (2.0, 1.04)]
    assert "too disturbed" in found.no_results[0.2]
    assert "nothing of it was measured" in found.no_results[0.5]


def test_stacks_of_one_name_are_curves_of_their_own() -> None:
    config = Configuration(workload="speaker", size="quick", batch=5)
    environment: Any = replace(ENVIRONMENT, device="emulated:2ms")

    def told(step_s: float, *names: str) -> Any:
        treatment = replace(config, options=tuple(Option(name=name) for name in names))
        row = SimpleNamespace(
            label="all", estimate=estimate(1.5, 0.02), absence=None, treatment=None, reference=None,
            comparison=SimpleNamespace(treatment=treatment),
        )  # fmt: skip
        return step_s, environment, [SimpleNamespace(config=config, timing=Timing.STEP, rows=[row])]

    (sweep,) = sweep_of([told(0.01, "amp", "workers"), told(0.1, "amp", "workers"), told(0.5, "amp")])
    found = {one.label: [point.step_s for point in one.points] for one in sweep.curves}
    assert found == {"all with workers": [0.01, 0.1], "all without workers": [0.5]}
    (alone,) = sweep_of([told(0.01, "amp"), told(0.1, "amp")])
    assert [one.label for one in alone.curves] == ["all"]


def test_loading_that_takes_longer_beside_longer_steps_is_told() -> None:
    """As on a host whose caches others fill while the device computes; not of what workers load meanwhile."""

    def words(load_s: tuple[float, float], workers: int | None = None, launching_s: float = 0.0) -> str:
        told: list[Any] = []
        for step_s, each_s in zip((0.002, 0.5), load_s, strict=True):
            arm = seen(step_s, each_s, workers)
            arm.launching_s = launching_s
            row = SimpleNamespace(
                label="a", estimate=estimate(1.5, 0.02), absence=None, treatment=arm, reference=arm,
                comparison=SimpleNamespace(treatment=arm.config),
            )  # fmt: skip
            table = SimpleNamespace(config=arm.config, timing=Timing.STEP, rows=[row])
            told.append((step_s, replace(ENVIRONMENT, device="emulated:2ms"), [table]))
        return to_markdown(sweep_parts(sweep_of(told), {}))

    assert "takes 18 ms a step beside steps of 2 ms, and 80 ms beside steps of 500 ms" in words((0.018, 0.080))
    assert "own loading" not in words((0.018, 0.022))
    assert "own loading" not in words((0.018, 0.080), workers=2)
    assert "Launching a step of this batch takes the host 4 ms." in words((0.018, 0.080), launching_s=0.004)
    assert "Launching" not in words((0.018, 0.080), launching_s=0.001)


def test_an_option_that_hides_work_pays_between_two_step_times() -> None:
    # Beside a worker a step takes the longer of both: nothing to hide behind, then most, then ever less of the whole.
    times = np.geomspace(0.0005, 4.0, 80)
    points = [
        Point(step_s=one, estimate=estimate((LOAD_S + one) / max(LOAD_S, one), 0.01)) for one in times
    ]  # fmt: skip
    found = Curve(label="workers=1", points=tuple(points), no_results={})
    assert found.since.at_s == pytest.approx(LOAD_S * (PAYS - 1), rel=0.02)
    assert found.until.at_s == pytest.approx(LOAD_S / (PAYS - 1), rel=0.02)
    assert found.since.low_s < found.since.at_s < found.since.high_s
    assert pays(found) == "pays from 2 ms [1.6 ms, 2.5 ms] to 800 ms [660 ms, 1 s] a step"


def test_beside_the_peak_of_workers_nothing_is_said_of_a_device_between_two_points() -> None:
    """At 60 ms the truth is 2.00x, and a line from 25 to 150 ms knows of no more than 1.42x."""
    times = (0.004, 0.025, 0.15, 0.8)
    points = [
        Point(step_s=one, estimate=estimate((0.06 + one) / max(0.06, one), 0.03), ahead=True) for one in times
    ]  # fmt: skip
    assert between(points, 0.06) is None
    assert between(points, 0.01) is None
    held = between(points, 0.4)
    assert held
    assert held[1] < (0.06 + 0.4) / 0.4 < held[2]


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
        ((1.5, 0.9, 1.2), "pays at all step times that were measured, except at 20 ms"),
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
    assert told(0.02, 1.0, 0.02) == "pays at all step times that were measured, undecided at 20 ms"
    assert told(0.02).startswith("was measured at one step time only, 2 ms: 1.30x [")
    assert told(0.02, 0.02, 1.0).startswith("pays at all step times that were measured, for sure below ")
    assert told(1.0, 0.02, 0.02).startswith("pays at all step times that were measured, for sure above ")


def test_a_sweep_over_another_reference_has_a_figure_of_its_own() -> None:
    config = Configuration(workload="imagenet", size="quick", batch=16)
    held = (curve(np.geomspace(0.002, 2.0, 3)),)
    references = config, replace(config, options=(Option(name="workers", level=1),))
    found = figures_of([Sweep(reference=one, host="a host, 2 cores", curves=held) for one in references], {})
    usual, other = found
    assert usual == "sweep-imagenet.svg"
    assert re.fullmatch(r"sweep-imagenet-over-workers-1-[0-9a-f]{8}\.svg", other)
    assert ["speedup over workers=1 against" in svg for svg in found.values()] == [False, True]


def test_tables_sentences_and_figures_say_emulated() -> None:
    config = Configuration(workload="imagenet", size="quick", batch=16)
    other = curve(np.geomspace(0.002, 2.0, 6), gain=1.0)
    sweep = Sweep(
        reference=config,
        host="a host, 2 cores",
        curves=(curve(np.geomspace(0.002, 2.0, 6)), Curve(label="pin_memory", points=other.points, no_results={})),
    )
    known = {
        "A100": KnownTime(0.012, 0.008, 0.018),
        "H100": KnownTime(0.01, 0.01, 0.01, 0.01),
        "B200": KnownTime(0.02, 0.02, 0.05, 0.02),
        "T4": KnownTime(0.09, 0.045, 0.18),
        "abacus": KnownTime(90.0, 75.0, 108.0),
    }
    marks = {"imagenet": known}
    page = to_markdown(sweep_parts([sweep], marks))
    assert page.lower().count("emulated") >= 4
    assert "pin\\_memory pays at no step time" in page
    assert (found := re.search(r"emulated A100 \(12 ms a step, 8 ms to 18 ms\) ([\d.]+)x to ([\d.]+)x", page))
    assert between(sweep.curves[0].points, 0.012 * 1.5)[1] == pytest.approx(float(found[1]), abs=0.006)
    assert between(sweep.curves[0].points, 0.012 / 1.5)[2] == pytest.approx(float(found[2]), abs=0.006)
    assert "H100 (10 ms a step, which its host needs)" in page
    assert (held := re.search(r"B200 \(20 ms a step, which its host needs, or up to 50 ms\) ([\d.]+)x to", page))
    less = replace(sweep, curves=tuple(replace(one, launches_less=True) for one in sweep.curves))
    assert f"up to 50 ms) {held[1]}x or more" in to_markdown(sweep_parts([less], marks))
    assert "abacus" not in page
    svg = sweep_figure(sweep, marks["imagenet"])
    assert svg == figures_of([sweep], marks)["sweep-imagenet.svg"]
    assert all(word in svg for word in ("emulated", "A100", "T4", "local_copy", "pin_memory"))
    assert "abacus" not in svg
