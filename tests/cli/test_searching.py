import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from harness import search
from harness.analyze.estimate import Estimate, narrowest
from harness.analyze.matrix import build_matrix
from harness.analyze.search import prediction
from harness.analyze.search.prediction import Validation
from harness.analyze.search.winner import Winner, paired, preferred
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.cli import measuring
from harness.cli.measuring import best
from harness.core.configuration import Configuration
from harness.core.mistake import Mistake
from harness.report.prediction import headline, winner_parts, winner_sentences, winner_to_json
from harness.report.words import ratio
from harness.run import preparation
from harness.run.preparation import Place, Prepared
from harness.search import QualityClass, Search, searched
from harness.store import read_run
from tests.analyze.synthetic import ENVIRONMENT, comparison, config, plan, records
from tests.cli.simulated import Laboratory, Truth, fastest, on_in, truth


@pytest.fixture(scope="module")
def known() -> Truth:
    return truth()


def won(search: Search) -> Winner:
    found = searched(search)
    assert isinstance(found, Winner)
    return found


def names(found: Winner) -> frozenset[str]:
    return frozenset(map(str, found.stack))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, known: Truth) -> tuple[Laboratory, Winner]:
    """One search from beginning to end."""
    there = Laboratory(results=tmp_path_factory.mktemp("results"), truth=known)
    return there, won(there.search())


def test_the_winner_is_next_to_the_best_there_is(whole: tuple[Laboratory, Winner], known: Truth) -> None:
    there, found = whole
    assert known.ratio(names(found)) > 0.98 * fastest(known)
    assert isinstance(found.certainty.model, Validation)
    assert there.measured[0] == "matrix"
    assert there.measured[-1] == "winner"
    assert "garbage_collector_off" not in names(found)
    assert found.unfinished == ()


def test_whatever_gains_nothing_in_the_winner_is_left_out(whole: tuple[Laboratory, Winner], known: Truth) -> None:
    _, found = whole
    for one in names(found) - {"workers=1"}:  # what prefetching needs
        assert known.ratio(names(found)) > 1.003 * known.ratio(names(found) - {one}), one


def test_the_leaner_stack_wins_where_fresh_replicates_find_it_as_fast(
    tmp_path: Path, known: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that stops at its first runs picks what is on by luck; what gains nothing then goes."""
    idle = "conv1d_rewrite"
    effect = replace(known, step_s={one: known.step_s[one - {idle}] for one in known.step_s})
    monkeypatch.setattr(search, "ROUNDS", 0)
    found = won(Laboratory(results=tmp_path, truth=effect).search())
    assert idle not in names(found)
    assert idle in map(str, found.idle)
    (told,) = [one for one in winner_sentences(found) if one.startswith("Left out, since")]
    assert all(str(one) in told for one in found.idle)
    assert found.idle_gain is not None
    assert found.idle_gain.low < 1.01
    assert f"{ratio(found.idle_gain)} as fast with them as without" in told
    assert isinstance(found.result, Estimate)
    assert found.result.low <= effect.ratio(names(found)) <= found.result.high
    assert not set(found.idle) & set(found.stack)


@pytest.mark.parametrize(
    ("times", "leaner"),
    [
        ((1.008, 1.008, 1.008, 1.008), True),
        ((1.04, 1.04, 1.04, 1.04), False),
        ((1.08, 1.0, 1.05, 1.01), False),
        ((0.97, 0.98, 0.97, 0.98), True),
    ],
)
def test_the_fastest_stack_keeps_what_gained_more_than_one_per_cent(times: tuple[float, ...], leaner: bool) -> None:
    """Replicate by replicate: processes of the reference, which both have in common, differ by far more."""
    names = (("amp", "workers"), ("workers",))
    luck = (1.2, 0.9, 1.1, 0.8)
    block = plan(*(comparison(*one) for one in names), replicates=4)
    told = [
        record
        for number, (gain, common) in enumerate(zip(times, luck, strict=True))
        for place, ratio_to in enumerate((common * gain, common))
        for record in records(place, ratio_to, replicates=4)
        if record.arm.replicate == number
    ]
    best, lean = (config(*one).options for one in names)
    gained = paired(block, told, best, lean, UNCALIBRATED)
    assert gained is not None
    assert gained.ratio == pytest.approx(np.exp(np.mean(np.log(times))), rel=1e-3)
    rows = {row.comparison.treatment.options: row for row in build_matrix(block, told, ENVIRONMENT).rows}
    assert preferred(rows, best, lean, gained, 0.01) == (lean if leaner else best)
    assert preferred(rows, best, lean, None, 0.01) == best
    broken = replace(rows[best], result=Absence(outcome=Outcome.FAILED, words="failed: out of memory"))
    assert preferred({**rows, best: broken}, best, lean, None, 0.01) == lean, "a stack without a number is no answer"
    few = Thresholds(least_freedom=2.0)
    known = paired(block, told, best, lean, few)
    assert known is not None
    assert known.half_width >= narrowest(few) / 2, "a spread that is known with few degrees of freedom is a wide one"
    apart = [replace(one, arm=replace(one.arm, shared=one.arm.block == "0")) for one in told]
    assert paired(block, apart, best, lean, UNCALIBRATED) is None, "they share no reference"


def test_its_number_comes_from_fresh_restarts_alone(whole: tuple[Laboratory, Winner], known: Truth) -> None:
    _, found = whole
    assert isinstance(found.result, Estimate)
    assert found.result.processes == 4
    assert found.result.low <= known.ratio(names(found)) <= found.result.high
    assert found.sought is not None
    assert found.sought != found.result.ratio
    assert found.decomposition is not None
    assert found.decomposition.total.ratio == pytest.approx(found.result.ratio)


def test_parts_are_shown_alone_as_a_share_and_last(whole: tuple[Laboratory, Winner]) -> None:
    _, found = whole
    assert found.decomposition is not None
    assert {str(one.option) for one in found.decomposition.parts} == names(found)
    shares = [one.share for one in found.decomposition.parts]
    assert all(one is not None for one in shares)
    total = sum(one.log for one in shares if one)
    assert total == pytest.approx(found.decomposition.total.log, abs=0.05)


def test_the_same_command_again_measures_nothing(whole: tuple[Laboratory, Winner]) -> None:
    there, found = whole
    before = list(there.measured)
    assert won(there.search()) == found
    assert there.measured == before


def test_what_is_printed_names_stack_number_certainty_and_command(whole: tuple[Laboratory, Winner]) -> None:
    _, found = whole
    console = Console(width=120, file=StringIO(), record=True)
    for part in winner_parts(found):
        console.print(part)
    text = " ".join(console.export_text().split())
    assert headline(found) in text
    assert "come from 4 fresh replicates of both" in text
    assert "predicted 4 stacks that it did not know" in text
    assert "The best stack that was not measured is predicted to be" in text
    assert f"--stack {'+'.join(map(str, found.stack))} --replicates 4 --device cpu --budget none" in text
    document = json.loads(winner_to_json(found))
    assert document["stack"] == [str(one) for one in found.stack]
    assert document["estimate"]["processes"] == 4
    assert document["runs"] == list(found.runs)


def test_a_search_that_ran_out_of_time_goes_on_where_it_stopped(tmp_path: Path, known: Truth) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    first = won(there.search(budget_s=250.0))
    assert first.unfinished
    assert there.clock() < 300.0
    assert any("goes on where it stopped" in one for one in winner_sentences(first))
    again = won(there.search())
    assert again.unfinished == ()
    assert again.runs[0] == first.runs[0]
    assert known.ratio(names(again)) > 0.98 * fastest(known)


@pytest.mark.repeats
def test_a_fresh_search_leaves_earlier_runs_alone(
    tmp_path: Path, known: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    first = won(there.search("amp_bfloat16", "conv1d_rewrite"))
    monkeypatch.setattr(preparation, "datetime", Later)
    second = won(there.search("amp_bfloat16", "conv1d_rewrite", fresh=True))
    assert not set(first.runs) & set(second.runs)


class Later:
    """A clock that is an hour ahead, since folders are named by the second."""

    @staticmethod
    def now(_zone: object) -> datetime:
        return datetime.now(UTC) + timedelta(hours=1)


def test_few_switches_are_measured_in_every_stack(tmp_path: Path, known: Truth) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    found = won(there.search("amp_bfloat16", "conv1d_rewrite", "channels_last"))
    assert there.measured == ["factorial", "winner"]
    assert names(found) == {"amp_bfloat16", "conv1d_rewrite"}
    assert found.certainty.measured == found.certainty.stacks == 7
    assert not any("the other stacks" in one for one in winner_sentences(found))


def standing_in(known: Truth, both: float) -> Truth:
    """Either of two options gains half as much again, and both together so much."""
    pair = {"amp_bfloat16", "conv1d_rewrite"}
    gains = (1.0, 1.5, both)
    plain_s = known.step_s[frozenset()]
    hurt = {one: 1.1 if "channels_last" in one else 1.0 for one in known.step_s}
    return replace(known, step_s={one: plain_s * hurt[one] / gains[len(one & pair)] for one in known.step_s})


@pytest.mark.parametrize("both", [1.5, 1.8])
def test_of_two_options_that_can_stand_in_for_each_other_one_stays(
    tmp_path: Path, known: Truth, monkeypatch: pytest.MonkeyPatch, both: float
) -> None:
    """Put on last neither gains anything, so that what options gain there drops both."""
    monkeypatch.setattr(prediction, "MOST_ERROR", -1.0)
    there = Laboratory(results=tmp_path, truth=standing_in(known, both))
    found = won(there.search("amp_bfloat16", "conv1d_rewrite", "channels_last"))
    assert isinstance(found.certainty.model, str)
    assert len(names(found)) == (1 if both == 1.5 else 2)
    assert isinstance(found.result, Estimate)
    assert found.result.ratio == pytest.approx(both, rel=0.05)


def test_a_winner_without_fresh_replicates_has_no_number(tmp_path: Path, known: Truth) -> None:
    class Hurried(Laboratory):
        def measure(self, ready: Prepared, folder: Path, until: float | None) -> None:
            if ready.plan.design != "winner":
                super().measure(ready, folder, until)

    found = won(Hurried(results=tmp_path, truth=known).search("amp_bfloat16", "conv1d_rewrite", "channels_last"))
    assert "was the fastest in the search, and has no number of its own yet" in headline(found)
    assert found.decomposition is None, "what the search measured of it is too good"


def test_without_a_trusted_model_what_hurts_is_dropped(
    tmp_path: Path, known: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "MOST_ERROR", -1.0)
    there = Laboratory(results=tmp_path, truth=known)
    found = won(there.search())
    assert isinstance(found.certainty.model, str)
    assert not names(found) & {"channels_last", "garbage_collector_off"}
    assert found.certainty.gain is None
    assert any(one.startswith("No prediction says what the other stacks would give") for one in winner_sentences(found))
    assert any("without what hurts in it" in one for one in winner_sentences(found))


@pytest.mark.repeats
def test_what_changes_losses_cannot_win(tmp_path: Path, known: Truth) -> None:
    def spoil(config: Configuration, told: dict[str, Any]) -> None:
        if "losses" in told and "amp_bfloat16" in on_in(config):
            told["losses"] = (9.0, 8.0)

    there = Laboratory(results=tmp_path, truth=known, spoil=spoil)
    found = won(there.search())
    assert "amp_bfloat16" not in names(found)
    assert any(one.startswith("amp_bfloat16: losses differ") for one in found.certainty.left_out)
    assert known.ratio(names(found)) > 0.97 * fastest(known, "amp_bfloat16")


def test_a_winner_whose_losses_differ_in_fresh_replicates_is_not_recommended(tmp_path: Path, known: Truth) -> None:
    def spoil(config: Configuration, told: dict[str, Any]) -> None:
        if "losses" in told and there.measured[-1] == "winner" and "amp_bfloat16" in on_in(config):
            told["losses"] = (9.0, 8.0)

    there = Laboratory(results=tmp_path, truth=known, spoil=spoil)
    found = won(there.search("amp_bfloat16", "conv1d_rewrite", "channels_last"))
    assert names(found) == {"amp_bfloat16", "conv1d_rewrite"}
    assert "but do not use it: losses differ" in headline(found)
    assert json.loads(winner_to_json(found))["spoilt_losses"].startswith("losses differ")


@pytest.mark.repeats
def test_what_does_not_fit_is_not_proposed(tmp_path: Path, known: Truth) -> None:
    """Each of two options doubles the peak: both together need more than the 8 GiB of the machine."""

    def spoil(config: Configuration, told: dict[str, Any]) -> None:
        doubled = len({"amp_bfloat16", "conv1d_rewrite"} & on_in(config))
        told["host_bytes"] = told["host_peak_bytes"] = (3 << 30) * 2**doubled

    there = Laboratory(results=tmp_path, truth=known, spoil=spoil)
    search = there.search()
    searched(search)
    proposals = [path for path in tmp_path.glob("*/*/run.json") if '"design": "search"' in path.read_text()]
    for path in proposals:
        for one in json.loads(path.read_text())["plan"]["blocks"][0]["comparisons"]:
            on = {option["name"] for option in one["treatment"]["switches"]}
            assert not {"amp_bfloat16", "conv1d_rewrite"} <= on


def test_nothing_wins_where_everything_hurts(tmp_path: Path, known: Truth) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    found = won(there.search("channels_last", "garbage_collector_off"))
    assert found.stack == ()
    assert found.result is None
    assert "no stack was measured that is faster than the baseline" in headline(found)
    assert there.measured == ["factorial"]


def test_a_quality_class_refuses_what_is_looser(tmp_path: Path, known: Truth) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    with pytest.raises(Mistake, match="amp_bfloat16 promises losses that are close, which --quality exact rules out"):
        there.search("amp_bfloat16", "workers=1", quality=QualityClass.EXACT)


@pytest.mark.repeats
def test_the_command_prints_the_winner_or_its_json(
    tmp_path: Path, known: Truth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = Laboratory(results=tmp_path, truth=known)
    monkeypatch.setattr(measuring, "measure_into", lambda ready, folder, *_: there.measure(ready, folder, None))
    monkeypatch.setattr(measuring, "written", lambda *_: {})
    monkeypatch.setattr(measuring, "measuring_alone", nullcontext)
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "best", "leak", "--results", str(tmp_path)])
    search = there.search("amp_bfloat16", "conv1d_rewrite")
    asked = replace(search.request, target=None)
    place = Place(results=tmp_path, data=None, budget="2h", fresh=False)
    assert best(asked, QualityClass.CLOSE, place, as_json=False) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "leak, size quick, batch 256: amp_bfloat16+conv1d_rewrite trains" in said
    assert "fresh replicates of both" in said
    before = list(there.measured)
    assert best(asked, QualityClass.CLOSE, place, as_json=True) == 0
    assert there.measured == before
    told = json.loads(capsys.readouterr().out)
    assert told["stack"] == ["amp_bfloat16", "conv1d_rewrite"]
    assert read_run(Path(told["runs"][0])).command == "speedmatrix best leak"
