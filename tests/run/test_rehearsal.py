"""The whole pipeline but the training: plan, alternation, store, analysis and report on invented times."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchmarks.invented.rehearsal import STEP_S, Effects, RehearsedArm, VirtualClock
from benchmarks.invented.rehearsal_command import rehearse
from harness.analyze.matrix import Matrix
from harness.core.configuration import Configuration, Option
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.core.records import Spent, Window
from harness.report.matrix import time_spent
from harness.results import matrix_of
from harness.run.preparation import Prepared, prepared
from harness.store import MEASUREMENTS, read_records, read_run
from tests.analyze.synthetic import config
from tests.report.whole import reported

KNOWN = Effects({"workers": 2.5, "compile": 0.7, "set_to_none": 1.0, "fused_optimizer": 1.08})


def plan(seed: int, *workloads: str, rounds: int = 6) -> Prepared:
    return prepared(
        Request(workloads=workloads, size="quick", protocol="standard", rounds=rounds, seed=seed, device="cpu")
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One rehearsed run."""
    return rehearse(plan(3, "leak"), KNOWN, tmp_path_factory.mktemp("rehearsal"))


def test_known_effects_are_recovered(folder: Path) -> None:
    found = {row.label.partition("=")[0]: row.estimate for row in matrix_of(folder).rows}
    missed = wide = 0
    for name, effect in KNOWN.named.items():
        estimate = found[name]
        assert estimate is not None
        assert estimate.ratio == pytest.approx(effect, rel=0.03)
        missed += not estimate.low <= effect <= estimate.high
        wide += estimate.high / estimate.low >= 1.15
    assert max(missed, wide) <= 1  # of half a dozen at 95 %; what stands apart from the pool is told by two replicates


def test_effects_multiply_in_everything(folder: Path) -> None:
    everything = next(row for row in matrix_of(folder).rows if row.label == "all")
    assert everything.estimate is not None
    truth = KNOWN.speedup(everything.comparison.treatment, everything.comparison.reference)
    assert truth > 2.5 * 0.7 * 1.08 * 0.8
    assert everything.estimate.ratio == pytest.approx(truth, rel=0.03)


def test_every_second_is_told_by_what_it_went_to(folder: Path) -> None:
    records = read_records(folder)
    spent = [one for one in records if isinstance(one, Spent)]
    windows = [one for one in records if isinstance(one, Window)]
    attempts = {(one.arm.block, one.arm.replicate, one.arm.attempt) for one in windows}
    assert sorted((one.arm.block, one.arm.replicate, one.arm.attempt) for one in spent) == sorted(attempts)
    assert sum(one.windows_s for one in spent) == pytest.approx(sum(one.wall_s for one in windows))
    assert sum(one.lead_s for one in spent) == pytest.approx(sum(one.lead_s or 0.0 for one in windows))
    matrix = matrix_of(folder)
    assert matrix.spent_s["windows_s"] == pytest.approx(sum(one.wall_s for one in windows))
    assert "windows" in time_spent(matrix)
    assert time_spent(replace(matrix, spent_s={})) == "", "nobody took note before"


def test_everything_planned_has_a_ratio_and_nothing_is_left(folder: Path) -> None:
    matrix = matrix_of(folder)
    assert matrix.looked_at == len(matrix.rows) == len(read_run(folder).plan.comparisons)
    assert {row.estimate.processes for row in matrix.rows if row.estimate} == {2}
    rounds = {one: block.rounds or 6 for block in read_run(folder).plan.blocks for one in block.comparisons}
    for row in matrix.rows:
        assert row.estimate is not None
        assert row.estimate.pairs == 2 * rounds[row.comparison]


def test_a_rehearsal_is_never_taken_for_a_measurement(folder: Path) -> None:
    assert read_run(folder).rehearsed
    assert read_run(folder).environment.accelerator == "rehearsal"
    assert folder.parent.name == "rehearsal"


def test_every_form_of_the_report_comes_out_of_the_folder_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal has 80 columns, whatever else is said
    matrix = matrix_of(folder)
    document = json.loads(reported(folder, "json"))
    for table, shown_table in zip(matrix.tables, document["tables"], strict=True):
        for row, shown in zip(table.rows, shown_table["rows"], strict=True):
            assert row.estimate is not None
            assert (shown["subject"], shown["estimate"]["ratio"]) == (row.label, row.estimate.ratio)
    for form in ("terminal", "markdown"):
        text = reported(folder, form)
        assert all(row.label.partition("=")[0] in text.replace("\\", "") for row in matrix.rows)
        assert text == reported(folder, form)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(folder: Path, tmp_path: Path) -> None:
    again = rehearse(plan(3, "leak"), KNOWN, tmp_path / "again")
    other = rehearse(plan(4, "leak"), KNOWN, tmp_path / "other")
    assert (again / MEASUREMENTS).read_bytes() == (folder / MEASUREMENTS).read_bytes()
    assert reported(again, "markdown") == reported(folder, "markdown")
    assert again.name.partition("-")[2] == folder.name.partition("-")[2]
    assert (other / MEASUREMENTS).read_bytes() != (folder / MEASUREMENTS).read_bytes()
    assert len(read_records(other)) == len(read_records(folder))


@pytest.mark.thorough
def test_intervals_cover_the_known_effects_as_often_as_they_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Configurations of one run share references, so that they miss together: it takes many runs, and waiting for the
    # disk in each would take longer than the rest.
    monkeypatch.setattr("os.fsync", lambda _: None)
    plans = [plan(seed, "leak", "speaker", rounds=2) for seed in range(20)]
    held = [one for ready in plans for one in covered(matrix_of(rehearse(ready, Effects(), tmp_path / str(id(ready)))))]
    assert len(held) >= 200
    assert 0.92 <= sum(held) / len(held) <= 0.98


def covered(matrix: Matrix) -> list[bool]:
    """Whether each interval holds the truth."""
    truth = {
        row.comparison: Effects().speedup(row.comparison.treatment, row.comparison.reference) for row in matrix.rows
    }
    return [row.estimate.low <= truth[row.comparison] <= row.estimate.high for row in matrix.rows if row.estimate]


def test_effects_not_named_are_drawn_from_the_name_alone() -> None:
    drawn = [Effects().of(Option(name=f"switch{index}")) for index in range(300)]
    assert drawn == [Effects().of(Option(name=f"switch{index}")) for index in range(300)]
    assert 0.25 < drawn.count(1.0) / 300 < 0.42
    assert max(drawn) <= 1.8
    assert min(drawn) >= 1.0


def test_a_speedup_is_the_quotient_of_what_differs() -> None:
    effects = Effects({"workers": 2.0, "amp": 0.5, "augment": 3.0})
    assert effects.speedup(config("workers", "augment"), config("amp", "augment")) == pytest.approx(4.0)
    assert effects.speedup(config("amp"), config("amp")) == 1.0


def test_invented_time_passes_as_fast_as_the_cell_is() -> None:
    clock = VirtualClock()
    arms = [rehearsed(one, clock) for one in (config("workers"), config())]
    fast, slow = (sum(arm.window(1, 20, 0)["wall_s"] for _ in range(200)) for arm in arms)
    assert slow / fast == pytest.approx(2.5, rel=0.05)
    assert clock() > 200


def test_a_window_tells_what_led_into_it_and_of_its_slowest_steps() -> None:
    clock = VirtualClock()
    arm = rehearsed(config(), clock)
    arm.slowed, arm.mean_wait = (lambda work_s, _now_s, _random: work_s), 0.5
    arm.waits = lambda first, steps: [20.0 if step % 40 == 0 else 0.0 for step in range(first, first + steps)]
    began_s = clock()
    assert arm.settle(8, 60) == arm.transient_steps
    found = arm.window(2, 60, 60)  # steps 60 to 119, with the stall of step 80
    assert (found["steps"], found["lead_steps"], found["lead_s"]) == (60, 2, pytest.approx(0.1))
    assert found["wall_s"] == pytest.approx(60 * STEP_S + 20 * STEP_S)
    assert found["slowest_s"] == pytest.approx([21 * STEP_S, STEP_S])
    assert found["first_half_s"] == pytest.approx(50 * STEP_S)
    assert clock() - began_s == pytest.approx((8 + 2 + 60 + 20) * STEP_S + 2 * arm.delays.resume_s)


def test_waits_take_the_same_seconds_in_every_cell_and_effects_are_those_on_the_whole() -> None:
    totals = []
    for one in (config("workers"), config()):
        arm = rehearsed(one, VirtualClock())
        arm.slowed, arm.mean_wait = (lambda work_s, _now_s, _random: work_s), 0.5
        arm.waits = lambda _first, steps: [0.5] * steps
        totals.append(arm.window(1, 100, 0)["wall_s"])
    assert totals[1] / totals[0] == pytest.approx(2.5)
    assert totals[1] == pytest.approx(100 * 1.5 * STEP_S)


def rehearsed(one: Configuration, clock: VirtualClock) -> RehearsedArm:
    return RehearsedArm(config=one, timing=Timing.STEP, effects=KNOWN, clock=clock, random=Random(1))
