import math
from dataclasses import replace

import pytest

from benchmarks.precision.records import Record
from benchmarks.precision.table import Count, page, score
from tests.benchmarks.precision.invented import record


def answers(tool: str, offsets: list[float], half_width: float, truth: float = 1.05) -> list[Record]:
    """Answers that are off by so many log points, all with the same interval, which decides what is a change."""
    found = []
    for repetition, offset in enumerate(offsets):
        ratio = truth * math.exp(offset)
        low, high = ratio * math.exp(-half_width), ratio * math.exp(half_width)
        told = record(tool=tool, truth=truth, repetition=repetition, ratio=ratio, low=low, high=high)
        found.append(replace(told, changed=not low <= 1 <= high))
    return found


def test_a_score_counts_what_was_planted() -> None:
    both = answers("asv", [0.01, -0.03, 0.0], 0.02) + answers("asv", [0.0, 0.05, 0.0], 0.02, truth=1.0)
    found = score(both)
    assert found
    assert (found.held, found.answers) == (4, 6)
    assert found.half_width == pytest.approx(0.02)
    assert found.error == pytest.approx(math.sqrt((0.01**2 + 0.03**2 + 0.05**2) / 6))
    assert found.bias == pytest.approx(0.03 / 6)
    assert found.found == Count(changed=2, withheld=0, asked=3)  # 1.05 less 0.03 and 0.02 reaches 1
    assert found.false_alarms == Count(changed=1, withheld=0, asked=3)


def test_a_failure_is_no_answer_and_an_answer_withheld_is_no_change() -> None:
    failed = record(repetition=7, ratio=None, low=None, high=None, changed=None, failure="its process ended")
    found = score([record(), record(repetition=1, changed=None), failed])
    assert found
    assert (found.answers, found.failures, found.held) == (2, 1, 2)
    assert str(found.found) == "1 of 2 (1 withheld)"
    assert score([failed]) is None
    assert "asv failed: `its process ended`" in page([record(), failed], "some.jsonl")


def test_the_faster_one_called_slower_is_no_find() -> None:
    found = score(answers("asv", [0.0, -0.15], 0.02))
    assert found
    assert found.found == Count(changed=1, withheld=0, asked=2, reversed=1)
    assert str(found.found) == "1 of 2 (1 the wrong way)"


@pytest.mark.parametrize(("missed", "plausible"), [(0, True), (2, True), (3, False)])
def test_how_many_of_eight_may_miss(missed: int, plausible: bool) -> None:
    found = score(answers("asv", [0.1] * missed + [0.0] * (8 - missed), 0.01))
    assert found
    assert found.plausible is plausible


def test_the_narrowest_is_sought_among_those_that_hold() -> None:
    wrong = answers("asv", [0.03] * 8, 0.002)
    wide = answers("pyperf", [0.0] * 8, 0.08)
    right = answers("speedmatrix", [0.005, -0.005] * 4, 0.01)
    text = page([*wrong, *wide, *right], "some.jsonl")
    assert "Narrowest of those that hold: speedmatrix, ±1.00 %." in text
    assert "which (!) marks: asv." in text
    assert "| 0 of 8 (!) | ±0.20 % |" in text
    assert "found most often by: speedmatrix, asv." in text  # pyperf's intervals reach 1


def test_nobody_wins_where_nothing_holds() -> None:
    assert "No tool's intervals hold often enough" in page(answers("asv", [0.1] * 8, 0.01), "some.jsonl")


def test_each_condition_has_a_table_of_its_own() -> None:
    records = [record(condition="neighbour on 1 of the cores"), record(), record(given_s=60.0)]
    heads = [line for line in page(records, "some.jsonl").splitlines() if line.startswith("## cpu")]
    assert heads == [
        "## cpu-2-invented, 60 s, nothing else",
        "## cpu-2-invented, 30 s, nothing else",
        "## cpu-2-invented, 30 s, neighbour on 1 of the cores (5 s at work, 10 s at rest)",
    ]
