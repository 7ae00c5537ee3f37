"""Configurations for asv: one measurement for all values, words for what has none, and samples that print shortly."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from harness import api
from harness.catalogue import read_catalogue
from harness.core import protocol
from harness.core.mistake import Mistake
from harness.core.plan import NoResult, Plan, Request
from harness.integrations import asv_cells, configurations
from harness.plan.cost import Forecast
from harness.plan.planning import planned
from harness.run.preparation import Place, Prepared, check_budget
from harness.store import MEASUREMENTS, Journal, Run, create
from tests.analyze.synthetic import ENVIRONMENT, comparison, config, plan, records
from tests.run.test_campaign import WISH
from tests.test_store import RUN_FACTS

EVERYTHING = replace(comparison("amp", "workers"), label="all")
LEVELLED = replace(comparison("workers"), label="workers=2")
FAILED = comparison("pin_memory")
WITH_NO_RESULTS: Plan = plan(
    EVERYTHING,
    LEVELLED,
    FAILED,
    no_results=(NoResult(workload="leak", label="data_on_device", reason="needs a CUDA device"),),
)


class Measuring:
    """Stands in for the measurement: writes a run of known ratios, or fails, and counts how often it was asked."""

    def __init__(self, failure: str = "") -> None:
        self.asked: list[Request] = []
        self.budgets: list[str] = []
        self.failure = failure

    def __call__(self, wanted: Request, place: Place) -> Path:
        self.asked.append(wanted)
        self.budgets.append(place.budget)
        if self.failure:
            raise Mistake(self.failure)
        run = Run(
            began="2026-11-21T12:00:00+00:00",
            version="0",
            command="speedmatrix run leak",
            rehearsed=False,
            environment=ENVIRONMENT,
            plan=WITH_NO_RESULTS,
        )
        folder = create(place.results, run)
        journal = Journal(folder)
        for record in (*records(0, 2.0), *records(1, 0.8, effective={"workers": 2, "layout": "contiguous"})):
            journal.append(record)
        journal.close()
        return folder


@pytest.fixture
def call_of_asv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (asv_cells.SIZE, asv_cells.BUDGET):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asv_cells, "ROOT", tmp_path)
    monkeypatch.setenv(asv_cells.RUN, "20261121T120000-0123456789ab-1")
    return tmp_path / ".asv" / "measured"


@pytest.fixture
def measuring(call_of_asv: Path, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    found = Measuring()
    monkeypatch.setattr(api, "measured", found)
    return found


def test_all_values_of_a_workload_come_from_one_measurement(measuring: Measuring, call_of_asv: Path) -> None:
    first = asv_cells.shown("leak", "all")
    low, time, high = first.relative
    assert time == pytest.approx(0.5)
    assert low < time < high
    assert median(asv_cells.shown("leak", "workers").relative) == pytest.approx(1.25)
    assert asv_cells.shown("leak", "all") == first
    assert [one.workloads for one in measuring.asked] == [("leak",)]
    kept = json.loads((call_of_asv / "20261121T120000-0123456789ab-1" / "leak" / "values.json").read_text())
    assert kept["holes"]["data_on_device"] == "needs a CUDA device"


def test_peaks_and_starts_are_those_of_the_optimized_side_in_each_restart(measuring: Measuring) -> None:
    found = asv_cells.shown("leak", "all")
    last = 7  # the treatment's last window in a replicate, and the highest
    assert found.peak_bytes == (432_013_312 + last,) * 2
    assert found.start_s == pytest.approx((1.35, 2.35))


def test_another_call_of_asv_measures_anew(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    asv_cells.shown("leak", "all")
    monkeypatch.setenv(asv_cells.RUN, "20261121T130000-0123456789ab-2")
    asv_cells.shown("leak", "all")
    assert len(measuring.asked) == 2


def test_outside_a_call_of_asv_nothing_is_measured(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(asv_cells.RUN)
    with pytest.raises(Mistake, match="asv run"):
        asv_cells.shown("leak", "all")
    assert measuring.asked == []


TOO_SHORT = "[0-9]+s did not suffice; give each workload twice as much in SPEEDMATRIX_ASV_BUDGET"


@pytest.mark.parametrize(
    ("label", "words"),
    [("data_on_device", "needs a CUDA device"), ("pin_memory", TOO_SHORT), ("unheard_of", "says nothing")],
)
def test_what_has_no_value_is_skipped_with_its_words(measuring: Measuring, label: str, words: str) -> None:
    with pytest.raises(NotImplementedError, match=f"leak, {label}: .*{words}"):
        asv_cells.shown("leak", label)


def test_a_failure_is_told_again_and_not_tried_again(call_of_asv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Measuring("There is no room for the data.")
    monkeypatch.setattr(api, "measured", failing)
    for _ in range(3):
        with pytest.raises(Mistake, match="There is no room for the data"):
            asv_cells.shown("leak", "all")
    assert len(failing.asked) == 1


def test_a_damaged_note_is_refused(measuring: Measuring, call_of_asv: Path) -> None:
    asv_cells.shown("leak", "all")
    (path,) = call_of_asv.glob("*/leak/values.json")
    path.write_text('{"run": 3}')
    with pytest.raises(Mistake, match="is damaged"):
        asv_cells.shown("leak", "all")


def test_the_environment_chooses_size_and_time(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    asv_cells.shown("leak", "all")
    monkeypatch.setenv(asv_cells.SIZE, "smoke")
    monkeypatch.setenv(asv_cells.BUDGET, "10m")
    asv_cells.shown("speaker", "all")
    usual, chosen = measuring.asked
    assert (usual.size, usual.stack) == (None, "all")
    assert 30 < int(measuring.budgets[0].removesuffix("s")) < 120
    assert (chosen.size, measuring.budgets[1]) == ("smoke", "10m")
    assert chosen.only == ("seek_read", "workers", "split_noise")


@pytest.mark.parametrize("workload", ["imagenet", "leak", "patches3d", "speaker", "spoof"])
def test_the_time_that_every_workload_gets_is_enough_for_a_ratio(
    workload: str, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = replace(ENVIRONMENT, device="cpu")
    monkeypatch.setattr("harness.measure.surroundings.read_environment", lambda _: environment)
    asv_cells.shown(workload, "all")
    (asked,) = measuring.asked
    wish = replace(WISH, workloads=(workload,), only=asked.only, stack=asked.stack)
    ready = Prepared(
        catalogue=read_catalogue(), environment=environment, plan=planned(wish, read_catalogue(), environment)
    )
    spent_s = 8.0  # imports and planning on a slow machine
    check_budget(measuring.budgets[0], spent_s, Forecast(plan=ready.plan, kept={}, paces=ready.paces, arm_s={}))


def test_a_rare_stall_tells_in_what_asv_prints(call_of_asv: Path) -> None:
    folder, stalled = Measuring()(Request(workloads=("leak",)), Place(results=call_of_asv)), []
    path = folder / MEASUREMENTS
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        if fields["record"] == "burst" and (fields["arm"]["block"], fields["order"]) == ("0", 3):
            fields["wall_s"] *= 9
        stalled.append(json.dumps(fields))
    path.write_text("\n".join([*stalled, ""]))
    found = {one.row.label: one for one in configurations.samples(folder)}["all"]
    assert found.row.estimate
    assert median(found.relative) == pytest.approx(1 / found.row.estimate.ratio)
    assert median(found.relative) == pytest.approx(1.5, rel=0.01)  # (3 + 9) / 4 of a half


def test_another_protocol_or_size_begins_another_series(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = next(one for one in asv_cells.workloads() if one.name == "leak")
    usual = asv_cells.series(leak)
    assert usual == asv_cells.series(leak)
    smaller = leak.sizes | {"quick": replace(leak.sizes["quick"], batch=128)}
    assert asv_cells.series(replace(leak, sizes=smaller)) != usual
    monkeypatch.setattr(protocol, "BRIEF", replace(protocol.BRIEF, window_s=0.7))
    assert asv_cells.series(leak) != usual


@pytest.mark.parametrize("values", [[0.743312345, 0.743398765], [1 / 3, 1 / 7, 0.1], [0.1 + 0.2] * 4, [0.9999501, 1.0]])
def test_what_asv_prints_is_short(values: list[float]) -> None:
    from asv_runner.statistics import compute_stats

    found = asv_cells.as_samples(values, asv_cells.DIGITS)
    shown, _ = compute_stats(found["samples"], found["number"])
    assert len(json.dumps(shown)) <= len("0.3333")
    assert shown == pytest.approx(median(values), abs=1e-4)
    assert len(found["samples"]) == len(values)


def test_bytes_and_seconds_are_left_as_they_are() -> None:
    assert asv_cells.as_samples((3, 1))["samples"] == [1, 3]
    assert asv_cells.as_samples((0.123456789,))["samples"] == [0.123456789]


def test_one_treatment_against_two_references_has_both_ratios(tmp_path: Path) -> None:
    whole = comparison("amp", "workers")
    beside = replace(whole, label="amp", reference=config("workers"))
    run = replace(RUN_FACTS, plan=plan(whole, beside), environment=ENVIRONMENT, rehearsed=False)
    journal = Journal(folder := create(tmp_path, run))
    for record in (*records(0, 2.0), *records(1, 1.25)):
        journal.append(record)
    journal.close()
    found = [one.row.estimate for one in configurations.samples(folder)]
    assert [one.ratio for one in found if one] == pytest.approx([2.0, 1.25])
