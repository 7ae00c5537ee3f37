import math
from dataclasses import replace

import pytest

from harness.analyze.estimate import Estimate
from harness.analyze.verdict import Verdict
from harness.core.protocol import BRIEF, STANDARD, Protocol
from harness.report import words


def estimate(ratio: float, low: float, high: float) -> Estimate:
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        pairs=8,
        processes=2,
        df=4.0,
        method="t",
        outlying=False,
        verdict=Verdict.UNDECIDED,
        drift=0.0,
        trimmed_ratio=ratio,
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1.834, 1.791, 1.879), "1.83x [1.79, 1.88]"),
        ((1.0042, 0.9991, 1.0093), "1.004x [0.999, 1.009]"),
        ((12.31, 10.2, 14.84), "12.3x [10.2, 14.8]"),
        ((1.8, 0.032, 101.0), "1.8x [0.032, 101.0]"),
        ((1.5, 0.0, math.inf), "1.5x [0.0, ∞]"),
        ((1.0, 1.0, 1.0), "1.000x [1.000, 1.000]"),
    ],
)
def test_ratios(numbers: tuple[float, float, float], expected: str) -> None:
    assert words.ratio(estimate(*numbers)) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1024, "1.0 KiB"), (432_013_312, "412 MiB"), (5 * 2**40, "5.0 TiB")],
)
def test_sizes(count: int | None, expected: str) -> None:
    assert words.size(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.35, "350 ms"),
        (0.0012, "1.2 ms"),
        (1.2401, "1.24 s"),
        (59.9, "59.9 s"),
        (125.0, "2 min 5 s"),
        (12_010.0, "3 h 20 min"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert words.duration(seconds) == expected


@pytest.mark.parametrize(
    ("rate", "expected"), [(99.96, "100"), (1234.0, "1,230"), (0.0512, "0.0512"), (0.0, "0"), (999.9, "1,000")]
)
def test_rates(rate: float, expected: str) -> None:
    assert words.rate(rate) == f"{expected} samples/s"


def test_shares() -> None:
    assert words.share(0.849) == "85 %"


def test_foreign_text_cannot_move_the_cursor_or_break_the_line() -> None:
    assert words.one_line("a\x1b[31mred\n\tb\u202ec\x07") == "a [31mred b c"


def test_looks_are_told_where_restarts_are_not_fixed() -> None:
    assert words.looks(Protocol()) == ""
    assert words.looks(BRIEF.fixed()) == ""
    expected = "; more where an interval is wider than ±5 %, looked at after 2, 3, 4, 6 and 8 replicates"
    assert words.looks(BRIEF) == expected
    later = replace(STANDARD, replicates=4, target=0.015)
    assert words.looks(later).endswith("than ±1.5 %, looked at after 4, 6, 8 and 12 replicates")
    assert words.looks(replace(BRIEF, looks=())).endswith("looked at after 2 replicates")
