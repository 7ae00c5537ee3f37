import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

from harness.analyze.attribution import Gain
from harness.analyze.search import prediction
from harness.analyze.search.prediction import Prediction, trusted
from harness.analyze.search.shares import WorkloadPrediction
from harness.analyze.search.stage_model import fit
from harness.catalogue import read_catalogue
from harness.core.configuration import Configuration
from harness.plan.designs import space_of, varied
from harness.plan.search import ranked
from harness.report import prediction as predicted
from harness.results import matrix_of
from harness.search import predictions, searched
from tests.analyze.worlds import GPU, study, world
from tests.cli.simulated import Laboratory, Truth, on_in, truth
from tests.pipelines import drawn
from tests.report.whole import reported


@pytest.fixture(scope="module")
def known() -> Truth:
    return truth()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, known: Truth) -> Path:
    """A run of the design matrix."""
    return measured(Laboratory(results=tmp_path_factory.mktemp("matrix"), truth=known))


def measured(there: Laboratory) -> Path:
    searched(there.search())
    return next(path.parent for path in sorted(there.results.glob("*/*/run.json")) if '"design": "search"' not in path.read_text() and '"design": "winner"' not in path.read_text())  # fmt: skip  # noqa: E501


def about(folder: Path) -> WorkloadPrediction:
    (found,) = predictions(matrix_of(folder), read_catalogue())
    return found


def test_predictions_are_near_what_stacks_truly_give(folder: Path, known: Truth) -> None:
    said = about(folder).prediction
    assert isinstance(said, Prediction)
    assert said.unmeasured is not None
    assert said.unmeasured > 100
    assert len(said.fastest) == 10
    true = [known.ratio(frozenset(map(str, one.arrangement.options))) for one in said.fastest]
    errors = [abs(one.ratio / ratio - 1) for one, ratio in zip(said.fastest, true, strict=True)]
    assert np.median(errors) < 0.04
    assert [one.ratio for one in said.fastest] == sorted((one.ratio for one in said.fastest), reverse=True)


def test_what_changes_losses_is_neither_the_fastest_nor_in_a_stack_that_is_foretold(
    tmp_path: Path, known: Truth
) -> None:
    def spoil(config: Configuration, told: dict[str, Any]) -> None:
        if "losses" in told and "amp_bfloat16" in on_in(config):
            told["losses"] = (9.0, 8.0)

    found = about(measured(Laboratory(results=tmp_path, truth=known, spoil=spoil)))
    assert isinstance(found.prediction, Prediction)
    assert found.prediction.fastest
    names = [{one.name for one in told.arrangement.options} for told in found.prediction.fastest]
    assert not any("amp_bfloat16" in one for one in names)
    assert found.best is not None
    assert "amp_bfloat16" not in found.best[0]
    assert found.best[0] != "all"


def test_every_form_tells_predictions_from_measurements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    found = about(folder)
    name, ratio = next(predicted.rows(found))
    assert ratio.startswith("≈ ")
    for form in ("terminal", "markdown", "html"):
        text = reported(folder, form)
        assert predicted.TITLE in text
        assert "decides no verdict" in text
        assert ratio in text.replace("\\", "")
        assert text.count("≈") <= 10
        assert form != "html" or f'<td role="cell" class="italic">{ratio}</td>' in text
    document = json.loads(reported(folder, "json"))
    (told,) = document["predicted"]
    assert told["refused"] is None
    assert len(told["stacks"]) == 10
    assert "+".join(told["stacks"][0]["switches"]) == name or "without" in name
    assert {"input", "device", "host", "sync"} == set(told["ceilings"]["all"])


def test_a_model_that_is_not_trusted_gives_words_in_every_form(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "MOST_ERROR", -1.0)
    for form in ("terminal", "markdown", "html"):
        text = reported(folder, form)
        assert "Nothing is predicted: the stage model missed" in " ".join(text.split())
        assert "≈" not in text
    (told,) = json.loads(reported(folder, "json"))["predicted"]
    assert told["refused"].startswith("the stage model missed")
    assert told["stacks"] == []


def test_shares_by_the_model_stand_beside_alone_and_last(folder: Path) -> None:
    found = about(folder)
    assert found.decomposition is not None
    parts = {str(one.option): one for one in found.decomposition.parts}
    amp = parts["amp_bfloat16"]
    for one in (amp.alone, amp.share, amp.last):
        assert isinstance(one, Gain)
    assert amp.alone is not None
    assert amp.share is not None
    assert amp.last is not None
    assert amp.alone.log < amp.share.log < amp.last.log  # behind the loader it gains little by itself
    total = sum(one.share.log for one in found.decomposition.parts if one.share)
    assert total == pytest.approx(found.decomposition.total.log, abs=0.05)


def test_designs_that_cross_nothing_predict_nothing(folder: Path) -> None:
    winner = next(path.parent for path in folder.parent.glob("*/run.json") if '"design": "winner"' in path.read_text())
    assert predictions(matrix_of(winner), read_catalogue()) == ()
    assert predicted.TITLE not in reported(winner, "markdown")


@pytest.mark.thorough
def test_thirty_switches_are_planned_fitted_and_ranked_in_seconds_of_one_core() -> None:
    """All threads count: what BLAS would spin on other cores is in it."""
    there = world(drawn(np.random.default_rng(3), 30))
    there.log_times([one.treatment.options for one in there.matrix])  # simulated before the clock starts
    began_s = process_time()
    comparisons = there.matrix
    seen = study(there, comparisons, GPU, np.random.default_rng(3))
    trusted(seen)
    model, space = fit(seen), space_of(there.scope, varied(there.scope))
    order = ranked(
        space, {()}, (), lambda stacks: model.log_times(there.arrangements(list(stacks))), np.random.default_rng(0)
    )
    assert next(order)
    assert len(comparisons) == 76
    assert process_time() - began_s < 60.0  # seen: 5 s
