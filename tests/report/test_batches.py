"""Tables of other batches: apart from what options give, with outcomes for what found no memory or took too long."""

import json
from dataclasses import replace

import pytest

from harness.analyze.claims import trials
from harness.analyze.matrix import Matrix
from harness.analyze.quality import Agreement
from harness.analyze.soundness import Outcome
from harness.core.configuration import Comparison, Option
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Plan
from harness.core.records import Fault, Lost, Record
from harness.report.batches import outcome
from harness.report.html import Shown, to_html
from harness.report.matrix import matrix_to_json
from harness.report.overview import overview
from harness.report.published_pages import workload_page
from tests.analyze.synthetic import KNOWN, arm, comparison, config, matrix, plan, ready, records
from tests.report.collected import Made, kept, placed
from tests.report.exhibits import exhibit
from tests.report.whole import matrix_to_markdown, matrix_to_terminal

ADDING = Promise(numerics=Numerics.DIFFERENT, proof=("micro_batches",), pointless_where={})


def other(label: str, batch: int, *options: Option) -> Comparison:
    treatment = replace(config(batch=batch), options=options)
    return Comparison(label=label, treatment=treatment, reference=config(), timing=Timing.STEP)


def run() -> tuple[Plan, list[Record]]:
    """An option, a larger batch, one that adds up, one without memory and one that took too long."""
    made = (
        comparison("workers"),
        other("batch=128", 128),
        other("batch=4x64", 256, Option(name="adding", level=4)),
        other("batch=512", 512),
        other("batch=1024", 1024),
        replace(comparison("amp"), treatment=config("amp", batch=128)),  # two batches, and no word of it
    )
    the_plan = replace(plan(*made), promises={**KNOWN, "adding": ADDING})
    found: list[Record] = [*records(0, 3.0), *records(1, 1.5, losses=(2.3, 2.2, 2.05)), *records(2, 0.8)]
    for block, kind in ((3, Fault.DEVICE_MEMORY), (4, Fault.WINDOW_TIME_OUT)):
        lost = Lost(arm=arm(block, 0, 1), outcome="failed", reason="it was | too much", kind=kind)
        found += [ready(arm(block, 0, 0)), lost]
    return the_plan, [*found, *records(5, 2.0)]


@pytest.fixture
def found() -> Matrix:
    return matrix(*run())


def test_other_batches_are_no_rows_about_options(found: Matrix) -> None:
    assert [row.label for row in found.rows] == ["workers", "amp"]
    (table,) = found.batch_tables
    assert {row.label for row in table.rows} == {"batch=128", "batch=4x64", "batch=512", "batch=1024"}
    assert found.looked_at == 3
    assert [one.evidence.comparison.label for one in trials(*run())] == ["workers", "amp"]


def test_two_batches_without_a_word_are_not_comparable(found: Matrix) -> None:
    silent = next(row for row in found.rows if row.label == "amp")
    assert silent.absence is not None
    assert silent.absence.outcome is Outcome.NOT_COMPARABLE


def test_a_batch_is_another_training_and_what_was_lost_is_a_typed_outcome(found: Matrix) -> None:
    rows = {row.label: row for row in found.batch_tables[0].rows}
    assert rows["batch=128"].quality is not None
    assert rows["batch=128"].quality.status is Agreement.ANOTHER
    assert [outcome(rows[f"batch={one}"]) for one in ("128", "512", "1024")] == [
        None, "out of device memory", "timed out",
    ]  # fmt: skip
    assert rows["batch=512"].absence is not None
    assert rows["batch=512"].absence.kind is Fault.DEVICE_MEMORY


TABLE = """\
| batch | samples/s | speedup, 95 % | step | memory | first losses | quality |
|---|---|---|---|---|---|---|
| 64 | 100 | 1 (reference) | 640 ms | 412 MiB host | 2.3 to 1.9 | - |
| 128 | 150 | 1.50x \\[1.48, 1.52\\] | 853 ms | 412 MiB host | 2.3 to 2.05 | another training |
| 256 (4x64) | 80 | 0.80x \\[0.79, 0.81\\] | 3.2 s | 412 MiB host | 2.3 to 1.9 | another training |
| 512 | - | out of device memory | - | - | - | - |
| 1024 | - | timed out | - | - | - | - |
"""


def test_a_table_has_a_row_for_each_batch_and_names_the_largest_that_fits(found: Matrix) -> None:
    shown = matrix_to_markdown(found, "")
    assert TABLE in shown
    assert "The largest batch in one piece that fits, of those that were tried, is 128; 512 ran out of memory." in shown
    assert "- batch=512: failed: it was \\| too much (replicate 1)." in shown
    assert "batch=128" not in shown.partition("## leak, size quick: other batches")[0]


def test_every_view_has_the_table(found: Matrix) -> None:
    assert "out of device memory" in matrix_to_terminal(found)
    assert "out of device memory" in " ".join(map(str, overview(found, "0")))
    told = json.loads(matrix_to_json(found))
    assert told["batches"][0]["outcomes"]["batch=1024"] == "timed out"
    assert told["batches"][0]["rows"][0]["estimate"]["ratio"] == pytest.approx(1.5)
    assert [row["subject"] for row in told["tables"][0]["rows"]] == ["workers", "amp"]
    made = exhibit(*run())
    page = to_html(Shown(exhibits=(made,), known={}, version="0"))
    assert (
        '<tr role="row"><td role="cell">512</td><td role="cell">-</td><td role="cell">out of device memory</td>' in page
    )
    assert "<li>batch=512: failed: it was | too much (replicate 1).</li>" in page
    assert "<h3>leak, size quick: other batches against 64, the baseline</h3>" in page
    assert "3 of 6 comparisons have a ratio" in page


def test_a_run_of_batches_alone_says_nothing_of_options() -> None:
    the_plan = plan(other("batch=128", 128))
    said = " ".join(map(str, overview(matrix(the_plan, records(0, 1.5)), "0")))
    assert "other batches" in said
    assert "Speedup of" not in said


def test_a_published_page_has_the_newest_table_and_no_best_stack_of_it() -> None:
    old, new = (
        replace(kept(day=day), matrix=matrix(plan(other("batch=128", 128)), records(0, ratio)))
        for day, ratio in ((2, 1.5), (3, 1.7))
    )
    place = placed(kept(Made(treatment=("workers",), ratio=1.2)), old, new)
    ((_, topic),) = place.answers
    assert topic.best is not None
    assert topic.best.row.label == "workers"
    text = workload_page(place, "leak", has_claims=False).text
    assert text.count("### leak, size quick: other batches against 64, the baseline") == 1
    assert "| 128 | 170 |" in text
    assert "| 128 | 150 |" not in text
