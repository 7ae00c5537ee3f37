"""A campaign's words: the plan's table, what is left out, and what a slice says at its end."""

import math

from harness.cli.campaign import (
    DATA_HEADINGS,
    HEADINGS,
    data_rows,
    ended,
    goes_on,
    left_out,
    plan_rows,
    spent,
    taking,
    writing_s,
)
from harness.plan.campaign import Kind, Phase

MATRIX = Phase(kind=Kind.MATRIX, workloads=("leak",), comparisons=41, seconds=2400.0)
LAST = Phase(kind=Kind.BEST, workloads=("spoof",), seconds=math.inf)
BEST = Phase(kind=Kind.BEST, workloads=("leak",), seconds=math.inf)
ABSENT = Phase(kind=Kind.CLAIMS, workloads=("spoof",), problem="no codec\n\x1b[31mhere")


def test_the_table_has_a_row_for_each_phase_and_the_pages() -> None:
    quotas = {"matrix leak": 300.0, "best leak": 695.0, "best spoof": 0.0}
    rows = list(plan_rows([MATRIX, BEST, LAST], quotas, 17.0))
    assert rows == [
        ("matrix", "leak", "41", "40.0 min", "5.0 min", "minute 5.0"),
        ("best", "leak", "-", "as long as it finds", "11.6 min", "minute 16.6"),
        ("best", "spoof", "-", "as long as it finds", "what others leave", "minute 16.6"),
        ("pages", "-", "-", "-", "25 s", "minute 17.0"),
    ]
    assert {len(one) for one in rows} == {len(HEADINGS)}


def test_what_is_left_out_says_why_on_one_line() -> None:
    assert list(left_out([MATRIX, ABSENT])) == ["claims spoof: no codec [31mhere."]


def test_files_are_told_with_their_weight_and_time() -> None:
    rows = list(data_rows({"leak, size quick": 260_000_000}, cores=2))
    assert rows == [("leak, size quick", "0.26 GB", "10 s")]
    assert {len(one) for one in rows} == {len(DATA_HEADINGS)}
    assert writing_s(260_000_000, 16) == writing_s(260_000_000, 1) / 16


def test_times_are_short() -> None:
    assert [taking(one) for one in (0.4, 99.0, 100.0, math.inf)] == ["0 s", "99 s", "1.7 min", "as long as it finds"]


def test_a_slice_says_how_far_it_came() -> None:
    assert spent(252.0, 30.0) == "4.2 of 30 minutes spent"
    assert goes_on(252.0, 7.5) == "4.2 of 7.5 minutes spent; the same command continues."


def test_the_end_names_what_was_not_reached() -> None:
    first, second = ended(1790.0, 30.0, ["matrix leak", "best leak"])
    assert first == "29.8 of 30 minutes spent; the campaign is over."
    assert second.startswith("Not all was reached in matrix leak, best leak: what is missing is named on the pages")
    assert len(list(ended(60.0, 30.0, []))) == 1
