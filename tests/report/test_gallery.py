"""The gallery's numbers: one row for each published answer, which questions are the same, and what stands aside."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.collection import StoredRun
from harness.analyze.verdict import Verdict
from harness.catalogue import read_catalogue
from harness.core.optimization import Timing
from harness.report.figures import MARK
from harness.report.gallery import COLUMNS, gallery, rows
from harness.report.published import Place, Publication
from tests.report.collected import ANOTHER, Made, composed, kept, placed, shared
from tests.report.test_html import EVIL

WORKERS = Made(treatment=("workers",), ratio=1.5)
AMP = Made(treatment=("amp",), ratio=1.2)
FORMER = Made(treatment=("amp", "tuned_malloc"), ratio=1.3, reference=("tuned_malloc",), label="amp")


def shown(*places: Place) -> list[dict[str, Any]]:
    return list(rows(Publication(places=places), read_catalogue().optimizations))


def test_every_published_ratio_is_a_row_with_all_columns() -> None:
    copy = Made(treatment=(), ratio=1.0, label="itself")
    found = shown(placed(kept(WORKERS, AMP, copy, Made(treatment=("chunk_cache",), ratio=None))))
    assert [row["optimization"] for row in found] == ["workers", "amp"], "no copies, and nothing without a ratio"
    assert all(tuple(row) == COLUMNS for row in found)
    first = found[0]
    assert first["stage"] == "input"
    assert first["ratio"] == pytest.approx([1.5, 1.48, 1.52], abs=0.005)
    assert first["run"] == "example-9000/20260102T030405-01234562"


def test_the_key_of_a_question_stays_and_differs_from_all_others() -> None:
    before = shown(placed(kept(WORKERS, AMP)))
    after = shown(placed(kept(replace(WORKERS, ratio=1.7), AMP, FORMER, day=3)))
    keys = {row["optimization"]: row["key"] for row in after if row["against"] == "baseline"}
    assert {row["optimization"]: row["key"] for row in before} == keys
    assert len({row["key"] for row in after}) == 3


def test_a_composed_ratio_is_of_training_steps_and_arms_that_load_alone_tell_no_memory() -> None:
    loads = Made(treatment=("pin_memory",), ratio=9.0, timing=Timing.LOADER)
    found = {row["optimization"]: row for row in shown(placed(composed(kept(WORKERS, loads), Verdict.UNDECIDED)))}
    part, whole = found["pin_memory"], found["workers"]
    assert (part["timed"], part["verdict"], part["ratio"]) == ("training steps, composed", "undecided", [1.7, 1.5, 1.9])
    assert part["part"] == pytest.approx([9.0, 8.88, 9.12], abs=0.05)
    assert (part["memory"], part["memory_kind"]) == (None, "")
    assert (whole["timed"], whole["part"], whole["memory_kind"]) == ("training steps", None, "host peak")
    assert whole["memory"] > 432_000_000


def test_two_machines_answer_a_question_with_the_same_options_in_the_same_way_alone() -> None:
    def question(run: StoredRun) -> object:
        (row,) = shown(placed(run))
        return row["question"]

    usual, loads = question(kept(WORKERS)), kept(replace(WORKERS, timing=Timing.LOADER))
    assert question(kept(replace(WORKERS, ratio=2.0), environment=ANOTHER)) == usual
    other = replace(WORKERS, treatment=("amp", "workers"), label="workers")
    unlike = [kept(other), shared(kept(WORKERS)), loads, composed(loads)]
    assert len({usual, *map(question, unlike)}) == 5


def asides(*runs: StoredRun) -> list[tuple[str, int]]:
    return [(row["optimization"], row["aside"]) for row in shown(placed(*runs))]


def test_the_environment_with_most_ratios_stands_in_front_and_of_equals_the_newest() -> None:
    whole, first_look = kept(WORKERS, AMP, day=2), kept(AMP, day=3, environment=ANOTHER)
    assert asides(whole, first_look) == [("amp", 1), ("workers", 0), ("amp", 0)]
    assert asides(kept(AMP, day=2), first_look) == [("amp", 0), ("amp", 1)]


def test_a_former_baseline_stands_aside_however_many_ratios_it_has() -> None:
    assert [aside for _, aside in asides(kept(FORMER, AMP))] == [0, 1]
    many = kept(FORMER, replace(FORMER, treatment=("workers", "tuned_malloc"), label="workers"), day=2)
    assert asides(many, kept(AMP, day=3, environment=ANOTHER)) == [("amp", 0), ("amp", 1), ("workers", 1)]


@pytest.mark.parametrize("evil", EVIL)
def test_foreign_text_ends_no_element(evil: str) -> None:
    made = kept(replace(WORKERS, label=evil))
    page = gallery(Publication(places=(placed(made),)), {}, "0")
    assert page.startswith(MARK)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert len(json.loads(data[1])["rows"]) == 1
    assert page.count("<script") == 2
