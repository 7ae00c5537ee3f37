"""The gate of intervals on pairs of measurements whose truth is known: no alarm without a change, and none missed."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness.analyze.estimate import FIXED, OF_TABLE, Estimate
from harness.analyze.verdict import Verdict
from harness.core.codec import encode
from harness.core.mistake import Mistake
from harness.integrations.configurations import judged

SHARE, HALF_WIDTH, DF, SETS, EACH = 0.03, 0.05, 10.0, 200, 20
ABOUT = {"cell": "leak@quick#64:all", "reference": "leak@quick#64", "timed": "training steps", "environment": "e0"}
T = float(stats.t.ppf(FIXED, DF))


def estimate(log: float, half_width: float = HALF_WIDTH, **other: Any) -> Estimate:
    low, ratio, high = (math.exp(log + one) for one in (-half_width, 0.0, half_width))
    return replace(
        Estimate(
            ratio=ratio, low=low, high=high, pairs=8, processes=2, df=DF, method="moderated t", outlying=False,
            verdict=Verdict.UNDECIDED, drift=0.0, trimmed_ratio=ratio,
        ),
        **other,
    )  # fmt: skip


def told(one: Estimate, **other: str) -> dict[str, Any]:
    return {**encode(one), **ABOUT, **other}


def drawn(truth: float, generator: np.random.Generator) -> Estimate:
    """A measurement whose interval is 5 % to either side on average, with the luck of its mean and of its width."""
    error = HALF_WIDTH / T
    seen = error * math.sqrt(generator.chisquare(DF) / DF)
    return estimate(math.log(truth) + error * generator.standard_normal(), T * seen)


def alarms(change: float) -> tuple[float, float, float, float]:
    """By medians: the share of benchmarks and of sets of twenty that fail; then the same of the gate."""
    generator = np.random.default_rng(7)
    found = np.array([
        [
            (there.ratio / here.ratio > 1 + SHARE, judged(told(here), told(there), SHARE).regressed)
            for here, there in ((drawn(2 / change, generator), drawn(2.0, generator)) for _ in range(EACH))
        ]
        for _ in range(SETS)
    ])  # fmt: skip
    single, sets = found.mean(axis=(0, 1)), found.any(axis=1).mean(axis=0)
    return single[0], sets[0], single[1], sets[1]


def test_the_same_twice_fails_by_medians_and_passes_the_gate() -> None:
    median, median_sets, gate, gate_sets = alarms(1.0)
    assert 0.13 < median < 0.23
    assert median_sets > 0.95
    assert gate < 0.005
    assert gate_sets < 0.07


def test_what_became_clearly_slower_fails() -> None:
    _, _, gate, _ = alarms(1.2)
    assert gate > 0.95


def test_disturbed_rows_never_fail() -> None:
    calm, restless = estimate(0.7), estimate(0.0, drift=0.5)
    assert judged(told(estimate(0.0)), told(calm), SHARE).regressed
    for here, there in ((restless, calm), (estimate(0.0), replace(calm, contention=0.5))):
        found = judged(told(here), told(there), SHARE)
        assert not found.regressed
        assert found.words.endswith("not judged: disturbed")


def test_ratios_that_a_devices_table_decides_never_fail() -> None:
    calm = estimate(0.7)
    for here, there in ((estimate(0.0, looked_up=True), calm), (estimate(0.0), replace(calm, looked_up=True))):
        found = judged(told(here), told(there), SHARE)
        assert not found.regressed
        assert found.words.endswith(f"not judged: {OF_TABLE}")


def test_other_options_under_a_name_are_not_judged() -> None:
    found = judged(told(estimate(0.0)), told(estimate(0.7), cell="leak@quick#64:workers"), SHARE)
    assert not found.regressed
    assert found.words.endswith("not judged: other options under that name")


def test_an_endless_interval_never_fails() -> None:
    endless = estimate(0.0, high=math.inf, low=0.0)
    assert not judged(told(endless), told(estimate(0.7)), SHARE).regressed
    assert not judged(told(estimate(0.0)), told(endless), SHARE).regressed


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (told(estimate(0.0), environment="e1"), "measured in environment e1, and these in e0"),
        ({"words": "an older form"}, "measured in environment unknown, and these in e0"),
        (ABOUT, "cannot be judged"),
    ],
    ids=["another machine", "no configuration", "another form"],
)
def test_what_cannot_be_judged_is_refused_in_one_sentence(before: dict[str, Any], words: str) -> None:
    with pytest.raises(Mistake) as refused:
        judged(told(estimate(0.0)), before, SHARE)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
