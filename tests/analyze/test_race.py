"""Races with known times: what is sooner, by how much, and when nothing may be said."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analyze.race import Heat, Race, newest, sooner
from harness.core.workload import Goal, Trained
from harness.report.document import to_markdown
from harness.report.race import LEFT_OUT, race_parts
from harness.results import races_below
from tests.analyze.synthetic import ENVIRONMENT

GOAL = Goal(score=20.0, better="less", every=5)
FAILED = Trained(scores=(), reached=False, inactive=(), failed="leak@quick#4:amp could not be trained: out of memory")


def trained(steps: int, seconds: float, *, reached: bool = True, every: float = 1e-6) -> Trained:
    """One that was looked at a moment before it got there, or a share `every` of its time before."""
    scores = ((round(steps * (1 - every)), seconds * (1 - every), 40.0), (steps, seconds, 18.0 if reached else 25.0))
    return Trained(scores=scores, reached=reached, inactive=())


def started(one: Trained, start_s: float) -> Trained:
    return replace(one, start_s=start_s)


def race(pairs: Sequence[tuple[Trained, Trained]]) -> Race:
    heats = (Heat(seed=seed, treatment=ours, reference=theirs) for seed, (ours, theirs) in enumerate(pairs))
    return Race(
        version="0", began="2026-01-01T00:00:00+00:00", environment=ENVIRONMENT, workload="leak", size="quick", batch=4,
        treatment="amp", reference="baseline", names=("amp", "baseline"), goal=GOAL, steps=400, heats=tuple(heats),
    )  # fmt: skip


def test_a_goal_is_met_from_its_own_side() -> None:
    assert [GOAL.is_met(score) for score in (19.0, 20.0, 21.0)] == [True, True, False]
    more = Goal(score=20.0, better="more", every=1)
    assert [more.is_met(score) for score in (19.0, 20.0, 21.0)] == [False, True, True]


def test_twice_as_fast_in_as_many_steps() -> None:
    found = race([(trained(50, 5.0), trained(50, 10.0))] * 4)
    assert sooner(found) is not None
    assert sooner(found).ratio == pytest.approx(2.0)  # type: ignore[union-attr]
    steps = sooner(found, in_steps=True)
    assert steps is not None
    assert (steps.ratio, steps.low, steps.high) == (1.0, 1.0, 1.0)


def looked_at(true_steps: int, every: int = 100) -> Trained:
    """A training that reached its goal after so many steps and was looked at now and then."""
    last = -(-true_steps // every) * every
    return Trained(
        scores=tuple((at, at / 10, 18.0 if at == last else 40.0) for at in range(every, last + 1, every)),
        reached=True, inactive=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs", "truth"),
    [((105, 109, 118), (181, 190, 199), 1.72), ((188, 193, 199), (202, 207, 211), 1.07), ((110,) * 3, (450,) * 3, 4.1)],
)
def test_what_was_looked_at_seldom_is_known_no_better_than_that(
    ours: Sequence[int], theirs: Sequence[int], truth: float
) -> None:
    heats = race([(looked_at(one), looked_at(other)) for one, other in zip(ours, theirs, strict=True)])
    for in_steps in (True, False):
        found = sooner(heats, in_steps=in_steps)
        assert found is not None
        assert found.low < truth < found.high
        assert found.high / found.low > 1.5, "seeds that agree do not tell what happened between two looks"


def test_a_goal_at_the_first_look_may_have_been_reached_at_once() -> None:
    found = sooner(race([(looked_at(80), looked_at(350))] * 4))
    assert found is not None
    assert found.high == math.inf
    assert found.low > 2.5


def test_a_race_in_words() -> None:
    found = race([(trained(50, 5.0), trained(50, 10.0))] * 4)
    (row,) = [line for line in to_markdown(race_parts([found])).splitlines() if line.startswith("| leak")]
    assert "at most 20 | all | 1.000x" in row
    assert "2.000x" in row


def test_start_up_counts_in_both_trainings() -> None:
    """Twice as fast in its steps, and all that is gained was lost before the first of them."""
    found = race([(started(trained(50, 5.0), 6.0), started(trained(50, 10.0), 1.0))] * 4)
    assert sooner(found) is not None
    assert sooner(found).ratio == pytest.approx(1.0, rel=1e-5)  # type: ignore[union-attr]
    assert LEFT_OUT not in to_markdown(race_parts([found]))
    steps = sooner(found, in_steps=True)
    assert steps is not None
    assert steps.ratio == 1.0


def test_who_reaches_the_goal_at_the_first_look_has_at_least_started() -> None:
    ours, theirs = (started(looked_at(steps), 5.0) for steps in (80, 350))
    found = sooner(race([(ours, theirs)] * 4))
    assert found is not None
    assert found.high == pytest.approx((40 + 5) / 5), "its start alone took 5 s"


def test_a_race_that_does_not_know_both_starts_counts_none_and_says_so() -> None:
    found = race([(started(trained(50, 5.0), 6.0), trained(50, 10.0))] * 4)
    assert sooner(found) is not None
    assert sooner(found).ratio == pytest.approx(2.0)  # type: ignore[union-attr]
    assert f"2.000\\], {LEFT_OUT} |" in to_markdown(race_parts([found]))


def test_published_races_are_read_with_their_names_and_say_what_they_leave_out() -> None:
    races = races_below(Path(__file__).parents[2] / "results" / "cpu-2-amd-epyc")
    first = [one for one in races if not one.counts_start]
    assert {f"{one.workload}-{one.key}" for one in first} >= {"speaker-3ac40ee7", "spoof-32cc52d0"}
    rows = [line for line in to_markdown(race_parts(first)).splitlines() if "| all | baseline |" in line]
    assert len(rows) >= 2
    assert all(LEFT_OUT in row for row in rows)


@pytest.mark.repeats
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Seeds scatter by a fifth; 95 % of intervals of five seeds hold the true 1.3x."""
    generator, held = np.random.default_rng(3), 0
    for _ in range(1000):
        times = [(math.exp(generator.normal(0, 0.2)), 1.3 * math.exp(generator.normal(0, 0.2))) for _ in range(5)]
        found = sooner(race([(trained(50, ours), trained(50, theirs)) for ours, theirs in times]))
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert 925 <= held <= 975


def test_a_training_that_does_not_get_there_has_no_time() -> None:
    found = race([(trained(50, 5.0), trained(50, 10.0))] * 4 + [(trained(400, 40.0, reached=False), trained(50, 10.0))])
    assert sooner(found) is None
    assert found.reached() == (4, 5)
    page = to_markdown(race_parts([found]))
    assert "4 of 5, against 5 of 5 | - | - |" in page
    assert sooner(race([(trained(50, 5.0), trained(50, 10.0))] * 2)) is None, "two seeds tell nothing"


def test_a_training_that_failed_has_not_reached_the_goal() -> None:
    others = [(started(trained(50, 5.0), 1.0), started(trained(50, 10.0), 1.0))] * 4
    found = race([*others, (FAILED, others[0][1])])
    assert sooner(found) is None
    assert sooner(found, in_steps=True) is None
    assert found.counts_start, "one that failed has no start to tell of"
    page = to_markdown(race_parts([found]))
    assert "4 of 5, against 5 of 5; 1 failed | - | - | 5 |" in page


def test_a_race_that_is_not_complete_has_no_interval_and_takes_nobody_s_place() -> None:
    whole = replace(race([(trained(50, 5.0), trained(50, 10.0))] * 5), seeds=5)
    stopped = replace(whole, began="2026-01-02T00:00:00+00:00", heats=whole.heats[:4])
    assert sooner(whole) is not None
    assert sooner(stopped) is None
    assert "4 of 4, against 4 of 4 | - | - | 4 of 5 |" in to_markdown(race_parts([stopped]))
    assert newest([stopped, whole]) == (whole,)


def test_a_race_that_was_interrupted_takes_nobody_s_place() -> None:
    whole = race([(trained(50, 5.0), trained(50, 10.0))] * 5)
    broken = replace(whole, began="2026-01-02T00:00:00+00:00", heats=whole.heats[:1])
    assert newest([broken, whole]) == (whole,)
    again = replace(whole, began="2026-01-03T00:00:00+00:00", heats=whole.heats[:3])
    assert newest([broken, whole, again]) == (again,)


def test_of_one_question_the_page_has_the_newest_race_of_each_environment() -> None:
    first = race([(trained(50, 5.0), trained(50, 10.0))] * 4)
    later = replace(first, began="2026-01-03T00:00:00+00:00", heats=first.heats[:3])
    elsewhere = replace(first, environment=replace(ENVIRONMENT, python="3.12.1"))
    assert len({one.file_name for one in (first, later, elsewhere)}) == 3
    assert newest([later, elsewhere, first]) in {(later, elsewhere), (elsewhere, later)}
    page = to_markdown(race_parts([later, first]))
    (row,) = [line for line in page.splitlines() if line.startswith("| leak")]
    assert f"| 3 | 2026-01-03, {ENVIRONMENT.machine}, {ENVIRONMENT.digest} |" in row


def test_the_key_tells_races_apart() -> None:
    one = race([])
    assert one.key == race([(trained(1, 1.0), trained(1, 1.0))]).key
    assert one.key != Race(**{**{name: getattr(one, name) for name in Race.__slots__}, "treatment": "all"}).key


def test_races_on_other_data_code_or_schedules_stand_beside_each_other() -> None:
    suite = race([(trained(50, 5.0), trained(50, 10.0))] * 4)
    real = replace(suite, data="real data; 1,500 files; 40 evaluation items")
    assert newest([suite, real]) in {(suite, real), (real, suite)}
    page = to_markdown(race_parts([suite, real]))
    assert "| leak quick, 4 |" in page
    assert "| leak quick, 4; real data; 1,500 files; 40 evaluation items |" in page
    scheduled = replace(suite, scheduled=True)
    assert len({one.key for one in (suite, real, scheduled, replace(scheduled, steps=800))}) == 4
    assert replace(suite, steps=800).key == suite.key, "when it is given up decides nothing that was reached"
