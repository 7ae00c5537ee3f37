"""Repeated answers: which runs are held against each other, and what counts as agreeing."""

from dataclasses import replace

import numpy as np

from harness.analyze.collection import Repeated, StoredRun, repeated
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


def test_inside_means_each_inside_the_others_interval() -> None:
    (pair,) = repeated([kept(WORKERS, day=2), kept(WORKERS, day=3)])
    assert bounded(pair, half_widths=(0.03, 0.04), logs=(0.0, 0.029)).is_inside
    assert not bounded(pair, half_widths=(0.03, 0.04), logs=(0.0, 0.035)).is_inside


def test_honest_intervals_agree_in_95_of_100_and_hold_each_other_in_83() -> None:
    """What the page says of honest intervals, by drawing pairs with known errors."""
    (pair,) = repeated([kept(WORKERS, day=2), kept(WORKERS, day=3)])
    drawn = np.random.default_rng(0).normal(0, 0.01, (4000, 2))
    made = [bounded(pair, half_widths=(0.0196, 0.0196), logs=(float(one), float(two))) for one, two in drawn]
    assert 0.94 < np.mean([one.agrees for one in made]) < 0.96
    assert 0.815 < np.mean([one.is_inside for one in made]) < 0.85
