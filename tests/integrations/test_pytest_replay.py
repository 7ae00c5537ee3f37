"""Samples through the timer, and what is told beside them."""

import json
import math
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.matrix import Row
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import Verdict
from harness.integrations.configurations import Clock, Found, facts, found_in, machine_facts, sentence, shown, words
from harness.measure.surroundings import read_environment
from harness.report.words import ratio
from harness.store import read_run
from tests.integrations.recorded import COMMAND, record

ROOT = Path(__file__).parents[2]


class Timed:
    """As pytest-benchmark's fixture: its timer before and after each round."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self.timer, self.group, self.extra_info = timer, None, {}
        self.data: list[float] = []

    def pedantic(self, target: Any, *, setup: Any, rounds: int, iterations: int) -> None:
        assert iterations == 1
        for _ in range(rounds):
            setup()
            began = self.timer()
            target()
            self.data.append(self.timer() - began)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def found(run: Path) -> Found:
    return found_in(run)


def row_of(found: Found, workload: str, label: str) -> Row:
    return next(
        one.row
        for comparison, one in found.samples.items()
        if (comparison.reference.workload, comparison.label) == (workload, label)
    )


def test_samples_come_out_bit_for_bit() -> None:
    # Differences of running sums would not: 0.1 + 0.2 - 0.1 is not 0.2.
    given = [0.1, 0.2, 1 / 3, 1e-9, 86_400.0, 0.1]
    clock = Clock()
    timed = Timed(clock.replayed)
    clock.show(timed, given)
    assert timed.data == given


def test_both_arms_and_their_relative_times(found: Found) -> None:
    one = found.samples[row_of(found, "leak", "all").comparison]
    assert shown(one, treatment=False, relative=False) == one.reference_s
    assert shown(one, treatment=True, relative=False) == one.treatment_s
    assert shown(one, treatment=True, relative=True) == one.relative
    assert shown(one, treatment=False, relative=True) == (1.0,)


def test_what_stands_behind_a_ratio_is_told(run: Path, found: Found) -> None:
    row = row_of(found, "leak", "chunk_cache")
    told = facts(found, row, relative=False)
    estimate = row.estimate
    assert estimate is not None
    assert (told["ratio"], told["low"], told["high"]) == (estimate.ratio, estimate.low, estimate.high)
    assert (told["pairs"], told["processes"], told["verdict"]) == (8, 2, "undecided")
    assert told["cell"] == "leak@quick#64:chunk_cache"
    assert told["reference"] == "leak@quick#64"
    assert told["seen"]["chunk_cache_bytes"] == 33_554_432
    assert told["quality"]["status"] == "same bits"
    assert told["run"] == f"{run.parent.name}/{run.name}"
    assert told["command"] == f"./{COMMAND}"
    assert told["environment"] == read_run(run).environment.digest
    assert told["unit"] == "seconds"
    assert told["timed"] == "training steps"
    assert facts(found, row, relative=True)["unit"] == "relative"


def test_an_endless_bound_is_json_that_everybody_reads(found: Found) -> None:
    row = row_of(found, "leak", "all")
    assert row.estimate is not None
    endless = replace(row, result=replace(row.estimate, high=math.inf))
    told = facts(found, endless, relative=False)
    assert told["high"] == "inf"
    json.dumps(told, allow_nan=False)
    assert "∞" in told["words"]


def test_a_sentence_says_ratio_reference_verdict_and_evidence(found: Found) -> None:
    row = row_of(found, "speaker", "all")
    assert row.estimate is not None
    assert (
        sentence(row) == f"{ratio(row.estimate)} against the baseline, faster; 8 pairs in 2 replicates; losses: close"
    )


def test_foreign_words_cannot_draw_on_the_terminal(found: Found) -> None:
    row = row_of(found, "leak", "all")
    assert row.estimate is not None
    evil = replace(row, reference_name="plain\x1b[31m\n", result=replace(row.estimate, verdict=Verdict.FASTER))
    assert "\x1b" not in sentence(evil)
    assert "\n" not in sentence(evil)


def test_no_sentence_without_a_ratio(found: Found) -> None:
    row = row_of(found, "leak", "all")
    with pytest.raises(ValueError, match="has no ratio"):
        sentence(replace(row, result=Absence(outcome=Outcome.FAILED, words="failed: out of memory")))


@pytest.mark.parametrize("outcome", [Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE])
def test_where_the_budget_ran_out_the_remedy_is_a_larger_one(outcome: Outcome) -> None:
    absence = Absence(outcome=outcome, words=f"{outcome}: run the same command again to continue")
    told = words(absence, "5m")
    assert told == f"{outcome}: the budget of 5m did not suffice; --speedmatrix-budget gives more"
    assert words(absence, None) == absence.words


def test_other_words_stay() -> None:
    absence = Absence(outcome=Outcome.NOT_ACTIVE, words="not active: workers: 0 instead of 2")
    assert words(absence, "5m") == absence.words


def test_the_machine_has_no_host_and_no_folder() -> None:
    told = machine_facts(read_environment("cpu"))
    text = json.dumps(told, allow_nan=False)
    assert {"name", "environment", "cpu", "cores", "accelerator", "packages"} <= set(told)
    assert "node" not in told
    assert platform.node() not in text
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert told == machine_facts(read_environment("cpu")), "differs from call to call"
