"""Repeated answers: which runs are held against each other, and what counts as agreeing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.analyze.collection import Repeated, StoredRun, repeated
from harness.analyze.estimate import BY_WIDTH, FIXED
from harness.report.published_pages import repeats
from tests.report.collected import ANOTHER, Made, kept

WORKERS = Made(treatment=("workers",), ratio=1.5)
AMP = Made(treatment=("amp",), ratio=1.2)


def bounded(pair: Repeated, *, half_widths: tuple[float, float], logs: tuple[float, float]) -> Repeated:
    """The pair with intervals and ratios of one's choice."""
    made = [
        replace(one, ratio=float(np.exp(log)), low=float(np.exp(log - width)), high=float(np.exp(log + width)))
        for one, log, width in zip((pair.first, pair.second), logs, half_widths, strict=True)
    ]
    return replace(pair, first=made[0], second=made[1])


def test_a_question_of_two_runs_is_one_pair_the_earlier_first() -> None:
    (pair,) = repeated([kept(replace(WORKERS, ratio=1.8), AMP, day=3), kept(WORKERS, day=2)])
    assert (pair.earlier.run.began[:10], pair.later.run.began[:10]) == ("2026-01-02", "2026-01-03")
    assert np.isclose(pair.apart, np.log(1.8 / 1.5), atol=0.01)
    assert not pair.agrees


def test_three_runs_make_two_pairs_and_the_furthest_apart_comes_first() -> None:
    ratios = {1: 1.5, 2: 1.5, 3: 1.9}
    pairs = repeated([kept(replace(WORKERS, ratio=ratio), day=day) for day, ratio in ratios.items()])
    assert [one.later.run.began[9] for one in pairs] == ["3", "2"]


def test_what_differs_in_environment_version_question_or_owner_is_not_repeated() -> None:
    first = kept(WORKERS, day=2)
    others: list[StoredRun] = [
        kept(AMP, day=3),
        kept(WORKERS, day=3, environment=ANOTHER),
        kept(WORKERS, day=3, contributed=True),
        replace(kept(WORKERS, day=3), version="0.3.0"),
        kept(replace(WORKERS, ratio=None), day=3),
    ]
    for other in others:
        assert repeated([first, other]) == ()


def test_agreement_is_judged_by_the_interval_of_the_difference() -> None:
    (pair,) = repeated([kept(WORKERS, day=2), kept(WORKERS, day=3)])
    assert pair.agrees
    assert bounded(pair, half_widths=(0.03, 0.04), logs=(0.0, 0.049)).agrees
    assert not bounded(pair, half_widths=(0.03, 0.04), logs=(0.0, 0.051)).agrees


@pytest.mark.parametrize("point", [FIXED, BY_WIDTH])
def test_honest_intervals_agree_as_often_as_expected(point: float) -> None:
    """What the page says of honest intervals, by drawing pairs with known errors."""
    (pair,) = repeated([kept(WORKERS, day=2), kept(WORKERS, day=3)])
    pair = replace(pair, first=replace(pair.first, point=point), second=replace(pair.second, point=point))
    drawn = np.random.default_rng(0).normal(0, 0.01, (4000, 2))
    half = 0.01 * float(stats.norm.ppf(point))
    made = [bounded(pair, half_widths=(half, half), logs=(float(one), float(two))) for one, two in drawn]
    assert np.mean([one.agrees for one in made]) == pytest.approx(pair.expected, abs=0.01)


def test_what_is_disturbed_or_wide_cannot_disagree() -> None:
    (pair,) = repeated([kept(WORKERS, day=2), kept(WORKERS, day=3)])
    assert pair.can_disagree
    assert not replace(pair, second=replace(pair.second, drift=1.0)).can_disagree
    assert bounded(pair, half_widths=(0.03, 0.4), logs=(0.0, 0.0)).can_disagree
    assert not bounded(pair, half_widths=(0.03, 0.41), logs=(0.0, 0.0)).can_disagree


def test_what_the_table_of_an_emulated_device_decides_is_no_repetition() -> None:
    first, second = kept(WORKERS, day=2), kept(WORKERS, day=3)
    (table,) = first.matrix.tables
    (row,) = table.rows
    assert row.estimate is not None
    told = replace(row, result=replace(row.estimate, looked_up=True))
    first = replace(first, matrix=replace(first.matrix, tables=(replace(table, rows=(told,)),)))
    assert repeated([first, second]) == ()


def test_the_page_counts_by_day_and_leaves_out_what_cannot_disagree() -> None:
    first = kept(WORKERS, day=2)
    again = replace(kept(WORKERS, day=2), name="20260102T090000-01234569", began="2026-01-02T09:00:00+00:00")
    pairs = repeated([first, again, kept(replace(WORKERS, ratio=1.9), day=3)])
    restless = replace(pairs[0], first=replace(pairs[0].first, drift=1.0))
    text = "\n".join(map(str, repeats((*pairs, restless))))
    assert "On the same day: 1 of 1 compatible (100 %, expected at least 95 %)." in text
    assert "On another day: 0 of 1 compatible (0 %, expected at least 95 %)." in text
    assert "1 more pair was left out: one run was disturbed or wider than ±50 %, so they could not disagree." in text
    assert [line.endswith("| no |") for line in text.splitlines() if line.startswith("| leak")] == [True, False]
