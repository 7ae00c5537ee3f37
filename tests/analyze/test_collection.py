"""The collection: several answers to one question are shown as their average, whatever they say."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.collection import StoredRow, StoredRun, answered
from harness.analyze.composition import Arrival, Composed
from harness.analyze.estimate import BY_WIDTH, FIXED, Estimate
from harness.analyze.matrix import Row
from harness.analyze.quality import Agreement, Quality
from harness.analyze.verdict import Verdict
from harness.core.plan import WINNER
from tests.report.collected import Made, kept

WORKERS = Made(treatment=("workers",), ratio=1.5)


def known_to(run: StoredRun, half_width: float, version: str = "0.2.0") -> StoredRun:
    """The same run with intervals of that width, by the harness of that version."""
    tables = tuple(
        replace(table, rows=tuple(_widened(row, half_width) for row in table.rows)) for table in run.matrix.tables
    )
    return replace(run, version=version, matrix=replace(run.matrix, tables=tables))


def changed(run: StoredRun, **facts: Any) -> StoredRun:
    """The same run with estimates that say so."""
    tables = tuple(
        replace(table, rows=tuple(replace(row, result=replace(row.estimate, **facts)) for row in table.rows))
        for table in run.matrix.tables
    )
    return replace(run, matrix=replace(run.matrix, tables=tables))


def counted(run: StoredRun, replicates: int, pairs: int) -> StoredRun:
    """The same run with ratios of so many replicates and pairs."""
    return changed(run, processes=replicates, pairs=pairs, df=9.0, freedom=9.0)


def _widened(row: Row, half_width: float) -> Row:
    assert row.estimate is not None
    low, high = (row.estimate.ratio * math.exp(sign * half_width) for sign in (-1, 1))
    return replace(row, result=replace(row.estimate, low=low, high=high, df=9.0, freedom=9.0))


def shown(*runs: StoredRun) -> Estimate:
    (entry,) = answered(runs)
    assert entry.row.estimate is not None
    return entry.row.estimate


def answer(*runs: StoredRun) -> StoredRow:
    (entry,) = answered(runs)
    return entry


@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_several_runs_answer_together_whatever_they_say_and_whenever_they_were_measured(ratio: float) -> None:
    for days in ((2, 3), (3, 2)):
        one, other = kept(WORKERS, day=days[0]), kept(replace(WORKERS, ratio=ratio), day=days[1])
        found = answer(known_to(one, 0.1), known_to(other, 0.1))
        assert found.row.estimate is not None
        assert found.row.estimate.ratio == pytest.approx(math.sqrt(1.5 * ratio), rel=0.01)
        assert found.row.estimate.scale > 5
        assert len(found.repeats) == 2
        assert found.alone.row.estimate in {each.row.estimate for each in found.repeats}
        assert any("average of 2 runs, which disagree" in note for note in found.row.notes)


def test_what_is_known_better_counts_more() -> None:
    narrow, wide = known_to(kept(WORKERS, day=2), 0.01), known_to(kept(replace(WORKERS, ratio=1.6), day=3), 0.2)
    assert shown(narrow, wide).ratio == pytest.approx(1.5, rel=0.001)


def test_settings_and_memory_are_of_the_run_with_most_replicates_of_several_the_newest() -> None:
    for days in ((2, 3), (3, 2)):
        long, short = counted(kept(WORKERS, day=days[0]), 6, 6), counted(kept(WORKERS, day=days[1]), 4, 12)
        assert answer(long, short).run is long
    older, newer = (known_to(kept(WORKERS, day=day), 0.1) for day in (2, 3))
    assert answer(older, newer).run is newer


def few(run: StoredRun, half_width: float, point: float = BY_WIDTH) -> StoredRun:
    """The same run with intervals of that width, known with one degree of freedom."""
    return changed(known_to(run, half_width), df=1.0, point=point)


def test_two_replicates_alone_are_not_averaged() -> None:
    """By luck some of them seem far surer than they are, and would outweigh the rest."""
    older, newer = few(kept(WORKERS, day=2), 0.1), few(kept(replace(WORKERS, ratio=1.6), day=3), 0.1)
    assert shown(older, newer).ratio == pytest.approx(1.6)
    assert shown(older, newer).runs == 1


@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_of_the_newest_two_of_them_the_narrower_answers_whatever_it_says(ratio: float) -> None:
    other = replace(WORKERS, ratio=ratio)
    for days in ((2, 3), (3, 2)):
        assert shown(few(kept(WORKERS, day=days[0]), 0.01), few(kept(other, day=days[1]), 0.2)).ratio == pytest.approx(
            1.5
        )


@pytest.mark.parametrize("points", [(FIXED, FIXED), (FIXED, BY_WIDTH), (BY_WIDTH, FIXED)])
def test_where_their_number_was_fixed_the_newest_answers_however_wide(points: tuple[float, float]) -> None:
    """No wider point pays for a choice by width: of such intervals the narrower holds in 92 % of cases."""
    narrow = few(kept(replace(WORKERS, ratio=9.0), day=2), 0.01, points[0])
    assert shown(narrow, few(kept(WORKERS, day=3), 0.2, points[1])).ratio == pytest.approx(1.5)


def test_of_many_of_them_the_narrowest_does_not_answer() -> None:
    """It is the one whose scatter was underestimated."""
    lucky = few(kept(replace(WORKERS, ratio=9.0), day=1), 0.001)
    assert shown(lucky, *(few(kept(WORKERS, day=day), 0.1) for day in (2, 3))).ratio == pytest.approx(1.5)


def test_what_a_search_measured_afresh_is_not_averaged_with_what_led_it_there() -> None:
    first, afresh = known_to(kept(WORKERS, day=2), 0.1), known_to(kept(replace(WORKERS, ratio=1.6), day=3), 0.1)
    afresh = replace(afresh, matrix=replace(afresh.matrix, design=WINNER))
    assert shown(first, afresh).ratio == pytest.approx(1.6)


def test_what_a_search_measured_afresh_answers_however_few_degrees_of_freedom_it_has() -> None:
    """One or two comparisons of four replicates, as a search ends with, borrow no variance from others."""
    chosen, afresh = known_to(kept(WORKERS, day=2), 0.05), few(kept(replace(WORKERS, ratio=1.4), day=3), 0.3)
    afresh = replace(afresh, matrix=replace(afresh.matrix, design=WINNER))
    assert shown(chosen, afresh).ratio == pytest.approx(1.4)
    assert shown(chosen, changed(afresh, drift=1.0)).ratio == pytest.approx(1.5)
    assert shown(chosen, changed(afresh, low=0.0, high=math.inf)).ratio == pytest.approx(1.5), "it has no interval"
    later = known_to(kept(replace(WORKERS, ratio=1.45), day=4), 0.05)
    assert shown(chosen, afresh, later).ratio == pytest.approx(1.45), "what came after it was chosen by nothing"


def test_what_a_second_search_chose_does_not_answer_for_what_both_measured_afresh() -> None:
    first, second = (few(kept(replace(WORKERS, ratio=1.2), day=day), 0.2) for day in (2, 4))
    first, second = (replace(one, matrix=replace(one.matrix, design=WINNER)) for one in (first, second))
    chosen = known_to(kept(WORKERS, day=3), 0.05)
    assert shown(first, chosen, second).ratio == pytest.approx(1.2)


def test_a_run_whose_replicates_contradict_each_other_is_averaged_too() -> None:
    """Else an average would hold those alone whose replicates agreed, by luck."""
    usual = [known_to(kept(WORKERS, day=day), 0.03) for day in (2, 3)]
    restless = changed(few(kept(replace(WORKERS, ratio=1.2), day=4), 0.2), outlying=True)
    assert len(answer(*usual, restless).repeats) == 3
    assert shown(*usual, restless).half_width > shown(*usual).half_width


def test_replicates_that_agree_by_luck_are_not_averaged_for_it() -> None:
    """Their interval rests on windows, of which there are many; how processes differ is known no better for that."""
    usual = [few(kept(WORKERS, day=day), 0.1) for day in (2, 3)]
    lucky = changed(few(kept(replace(WORKERS, ratio=1.9), day=1), 0.03), df=22.0, freedom=1.0)
    assert shown(*usual, lucky).ratio == pytest.approx(1.5)


def test_notes_of_every_run_and_the_worst_quality_stay() -> None:
    older, newer = (known_to(kept(WORKERS, day=day), 0.1) for day in (2, 3))
    (table,) = older.matrix.tables
    (row,) = table.rows
    worse = replace(row, remarks=("its cache was filling",), quality=Quality(Agreement.DIFFERS, "they differ"))
    older = replace(older, matrix=replace(older.matrix, tables=(replace(table, rows=(worse,)),)))
    found = answer(older, newer).row
    assert "its cache was filling" in found.notes
    assert found.quality is not None
    assert found.quality.status is Agreement.DIFFERS


def test_losses_that_differ_in_a_run_that_no_average_holds_count_all_the_same() -> None:
    calm, restless = (known_to(kept(WORKERS, day=day), 0.1) for day in (2, 3))
    restless = changed(restless, drift=1.0)
    (table,) = restless.matrix.tables
    (row,) = table.rows
    worse = replace(row, quality=Quality(Agreement.NAN, "the treatment's loss is not a finite number from step 6 on"))
    restless = replace(restless, matrix=replace(restless.matrix, tables=(replace(table, rows=(worse,)),)))
    found = answer(calm, restless).row
    assert found.quality is not None
    assert found.quality.status is Agreement.NAN
    assert any(one.startswith("quality nan in another run") for one in found.notes)


def test_one_run_is_what_it_is() -> None:
    run = kept(WORKERS, day=2)
    assert answer(run).row is run.matrix.tables[0].rows[0]
    assert answer(run).repeats == ()


def test_what_a_part_comes_to_is_averaged_and_no_narrower_for_it() -> None:
    runs = [composed_to(known_to(kept(WORKERS, day=day), 0.1), ratio) for day, ratio in ((2, 1.2), (3, 1.21))]
    found = answer(*runs).row.on_steps
    assert found is not None
    assert 1.2 < found.ratio < 1.21
    assert found.half_width == pytest.approx(0.05, rel=0.01)


def composed_to(run: StoredRun, ratio: float) -> StoredRun:
    """The same run, whose rows are of a part and come to that on whole steps."""
    low, high = ratio * math.exp(-0.05), ratio * math.exp(0.05)
    on_steps = Composed(ratio=ratio, low=low, high=high, verdict=Verdict.FASTER, share=0.5, arrives=Arrival())
    tables = tuple(
        replace(table, rows=tuple(replace(row, on_steps=on_steps) for row in table.rows)) for table in run.matrix.tables
    )
    return replace(run, matrix=replace(run.matrix, tables=tables))


def test_an_earlier_version_answers_only_where_the_newest_does_not() -> None:
    before, now = known_to(kept(WORKERS, day=2), 0.01, version="0.1.0"), known_to(kept(WORKERS, day=3), 0.2)
    assert shown(before, now).half_width == pytest.approx(0.2)
    (entry,) = answered([before, kept(replace(WORKERS, ratio=None), day=3)])
    assert entry.run.version == "0.1.0"


def disturbed(run: StoredRun) -> StoredRun:
    """The same run on a machine that was too restless."""
    return changed(run, drift=1.0)


@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_a_disturbed_machine_answers_only_where_no_other_does(ratio: float) -> None:
    other = replace(WORKERS, ratio=ratio)
    for days in ((2, 3), (3, 2)):
        restless, calm = known_to(kept(WORKERS, day=days[0]), 0.01), known_to(kept(other, day=days[1]), 0.2)
        assert shown(disturbed(restless), calm).ratio == pytest.approx(ratio)
        newest = 1.5 if days[0] > days[1] else ratio
        assert shown(*(disturbed(one) for one in (restless, calm))).ratio == pytest.approx(newest)


def test_where_nothing_was_measured_the_newest_words_stand() -> None:
    nothing = replace(WORKERS, ratio=None)
    (entry,) = answered([kept(nothing, day=3), kept(nothing, day=2)])
    assert entry.row.estimate is None
    assert entry.run.began.startswith("2026-01-03")
