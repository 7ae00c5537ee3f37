"""`report --all`: what could be measured on each machine, and what of it is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.composition import composed
from harness.analyze.extent import extent_of
from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.plan.planning import planned
from harness.results import stored_runs
from harness.store import finish
from tests.analyze.synthetic import ENVIRONMENT, records
from tests.cli.test_claims import compared, elsewhere, kept
from tests.cli.test_claims import planned as plan_of
from tests.cli.test_commands import call

__all__ = ["elsewhere"]
CATALOGUE = read_catalogue(ledger=False)


def whole(*words: Any, **facts: Any) -> Path:
    folder = kept(*words, **facts)
    finish(folder)
    return folder


def possible(environment: Environment = ENVIRONMENT) -> set[str]:
    asked = Request(workloads=("leak",), design="alone", device=environment.device)
    return {one.label for one in planned(asked, CATALOGUE, environment).comparisons}


def test_what_is_measured_is_counted_once_and_the_rest_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2):
        whole(plan_of(compared("memory_map")), records(0, 1.5), day)
    whole(plan_of(compared("batched_fetch", size="smoke")), records(0, 1.5), 3)
    whole(plan_of(compared("set_to_none")), [], 4)
    told = call("report --all --format json", monkeypatch, capsys)
    (one,) = json.loads(told.out)["coverage"]
    assert (one["machine"], one["workload"], one["measured"]) == (ENVIRONMENT.machine, "leak", 1)
    assert one["possible"] == len(possible())
    assert set(one["missing"]) == possible() - {"memory_map"}
    assert all(one["cannot_be_measured"].values())
    assert call("report --all", monkeypatch, capsys).out.count("not measured") == 1


def test_an_interval_counts_as_narrow_by_what_it_says_of_training_steps() -> None:
    folder = whole(plan_of(compared("memory_map")), records(0, 1.5))
    runs = stored_runs([folder])
    asked = Request(workloads=("leak",), design="alone", device="cpu")
    found = extent_of("m", "leak", planned(asked, CATALOGUE, ENVIRONMENT), runs)
    assert found.measured.keys() == {"memory_map"}
    assert found.narrow == (found.measured["memory_map"] <= 0.05)
    assert "memory_map" not in found.missing


def batched(one: Comparison, batch: int) -> Comparison:
    return replace(one, treatment=replace(one.treatment, batch=batch), reference=replace(one.reference, batch=batch))


@pytest.mark.parametrize(
    "one",
    [
        compared("memory_map", size="standard"),
        compared("memory_map", timing=Timing.LOADER),
        batched(compared("memory_map"), 3),
    ],
)
def test_another_size_batch_or_part_of_a_step_is_not_what_was_asked(one: Comparison) -> None:
    (run,) = stored_runs([whole(plan_of(one), records(0, 1.5, timing=one.timing))])
    plan = planned(Request(workloads=("leak",), design="alone", device="cpu"), CATALOGUE, ENVIRONMENT)
    assert extent_of("m", "leak", plan, [run]).measured == {}
    (table,) = run.matrix.tables
    (row,) = table.rows
    assert row.estimate is not None
    told = replace(table, rows=(replace(row, on_steps=composed(row.estimate, (0.5, 0.5))),))
    found = extent_of("m", "leak", plan, [replace(run, matrix=replace(run.matrix, tables=(told,)))])
    assert bool(found.measured) is (one.timing is Timing.LOADER), "what a part comes to on steps tells of steps"


def test_a_machine_lacks_nothing_that_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = replace(ENVIRONMENT, device="emulated:a100", accelerator="emulated A100")
    whole(plan_of(compared("memory_map")), records(0, 1.5), environment=device)
    (one,) = json.loads(call("report --all --format json", monkeypatch, capsys).out)["coverage"]
    assert "channels_last" not in one["missing"], "its step time is not known there"
    assert any("channels_last" in names for names in one["cannot_be_measured"].values())
    assert Path("results").is_dir()
