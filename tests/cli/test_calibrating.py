"""`calibrate`: what it measures, what it prints, and which runs rest on what it found."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.invented.rehearsal import Effects
from benchmarks.invented.rehearsal_command import rehearse
from harness.catalogue import APART
from harness.cli import commands
from harness.cli import measuring as calibrating
from harness.cli.measuring import show
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.report.document import Heading
from harness.results import calibration_beside, decides, matrix_of
from harness.run.preparation import Prepared, prepared
from harness.store import IN_PROGRESS, ORIGIN, RUN, files_of, read_records, read_run, run_text
from tests.report.whole import reported


def plan(design: str, *workloads: str, seed: int = 1) -> Prepared:
    return prepared(
        Request(
            workloads=workloads, size="quick", design=design, protocol="standard", replicates=2, rounds=4, seed=seed,
            device="cpu",
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibration and another run of the same invented machine."""
    folder = tmp_path_factory.mktemp("results")
    rehearse(plan("calibration", "leak", "imagenet"), Effects(), folder)
    rehearse(plan("combined", "leak"), Effects(), folder)
    return folder


def run_of(results: Path, design: str) -> Path:
    return next(one.parent for one in results.glob("*/*/run.json") if read_run(one.parent).plan.design == design)


@pytest.mark.parametrize("given", [{"output": Path("page.md")}, {"only": ["workers"]}])
def test_what_is_meant_for_isolation_is_refused_without_it(given: dict[str, Any]) -> None:
    with pytest.raises(Mistake, match="meant for --isolation"):
        commands.calibrate(**given)


def test_a_page_of_no_runs_leaves_the_list_that_planning_reads(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "ROOT", tmp_path)
    with pytest.raises(Mistake, match=r"There is no finished run both ways in .*; .* measures one\."):
        calibrating.write_isolation(results, tmp_path / "page.md")
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "measured_both_ways", lambda _: ["one"])
    monkeypatch.setattr(calibrating, "apart_of", lambda _: [])
    monkeypatch.setattr(calibrating, "page_parts", lambda *_: [])
    with pytest.raises(Mistake, match=r"Cannot write .*page\.md .*; choose another file with --output\."):
        calibrating.write_isolation(tmp_path, tmp_path / "none" / "page.md")


@pytest.mark.parametrize("place", ["page.md", "docs/isolation.md"])
def test_the_list_that_planning_reads_comes_with_the_clones_own_page_alone(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "ROOT", tmp_path)
    monkeypatch.setattr(calibrating, "measured_both_ways", lambda _: ["one"])
    monkeypatch.setattr(calibrating, "apart_of", lambda _: [])
    monkeypatch.setattr(calibrating, "page_parts", lambda *_: [Heading("Arms", 1)])
    for name in ("docs", "harness"):
        (tmp_path / name).mkdir()
    page, others = tmp_path / place, "# Notes\n"
    page.write_text(others)
    with pytest.raises(Mistake, match=r"was not written by this command; choose another file with --output\."):
        calibrating.write_isolation(tmp_path, page)
    assert page.read_text() == others
    assert not (tmp_path / "harness" / APART).exists()
    page.write_text("# Arms\n\nof before\n")
    calibrating.write_isolation(tmp_path, page)
    assert page.read_text() == "# Arms\n"
    assert (tmp_path / "harness" / APART).exists() is (place == "docs/isolation.md")


def test_a_calibration_of_arms_that_share_a_process_decides_nothing(results: Path) -> None:
    run = read_run(run_of(results, "calibration"))
    blocks = tuple(replace(one, shared=True) for one in run.plan.blocks)
    assert decides(run)
    assert not decides(replace(run, plan=replace(run.plan, blocks=blocks)))


def test_a_known_delay_is_recovered_in_a_rehearsal(results: Path) -> None:
    run = run_of(results, "calibration")
    found = calibration_beside(run, read_run(run))
    assert found is not None
    assert len(found.copies) == 20
    assert found.least == 3
    assert found.passed


def test_the_other_runs_of_the_machine_rest_on_it(results: Path) -> None:
    other, run = run_of(results, "combined"), run_of(results, "calibration")
    found = calibration_beside(other, read_run(other))
    assert found is not None
    matrix = matrix_of(other)
    assert matrix.noise == found.sentence == matrix_of(run).noise
    assert {row.estimate.thresholds for row in matrix.rows if row.estimate} == {found.thresholds}
    assert "A/A: 20 configurations" in reported(other, "markdown")


def test_what_is_unfinished_or_of_another_machine_is_not_rested_on(results: Path) -> None:
    other, run = run_of(results, "combined"), run_of(results, "calibration")
    known = read_run(other)
    elsewhere = replace(known, environment=replace(known.environment, driver="other"))
    assert calibration_beside(other, elsewhere) is None
    assert calibration_beside(other, replace(known, rehearsed=False)) is None
    (run / IN_PROGRESS).touch()
    try:
        assert calibration_beside(other, known) is None
    finally:
        (run / IN_PROGRESS).unlink()
    (run / ORIGIN).touch()  # somebody else's machine
    try:
        assert calibration_beside(other, known) is None
    finally:
        (run / ORIGIN).unlink()
    assert calibration_beside(other, known) is not None


@pytest.mark.parametrize("content", [b"\xff", b'{"schema": 4, "plan": {"design": "calibration"', b'\xff"calibration"'])
def test_a_run_that_cannot_be_read_is_left_out_and_does_not_break_the_others(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    other = run_of(results, "combined")
    machine = tmp_path / other.parent.name
    shutil.copytree(other.parent, machine)
    damaged = machine / "20260104T000000-00000001"
    damaged.mkdir()
    (damaged / RUN).write_bytes(content)
    for _ in range(2):
        assert calibration_beside(machine / other.name, read_run(other)) is not None
    told = capsys.readouterr().err
    assert told.count("\n") == (b'"calibration"' in content)
    assert (str(damaged) in told) is (b'"calibration"' in content)


def test_a_calibration_without_recorded_flags_serves_a_run_that_found_none(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "20260102T000000-00000000"
    shutil.copytree(run_of(results, "calibration"), folder)
    run, other = read_run(folder), read_run(run_of(results, "combined"))
    found, none, unknown = (replace(run.environment, cpu_flags=flags) for flags in (("amx_bf16",), (), None))
    (folder / RUN).write_text(run_text(replace(run, environment=unknown)))
    beside = tmp_path / "20260103T000000-00000001"
    assert calibration_beside(beside, replace(other, environment=none)) is not None
    assert calibration_beside(beside, replace(other, environment=found)) is None


def test_of_several_calibrations_the_nearest_in_time_decides(results: Path, tmp_path: Path) -> None:
    """A busy day says nothing of a calm one."""
    folders = {day: tmp_path / f"202601{day:02d}T000000-00000000" for day in (2, 9)}
    for day, folder in folders.items():
        shutil.copytree(run_of(results, "calibration"), folder)
        run = read_run(folder)
        # Which one was read is told by the number of its copies.
        blocks = run.plan.blocks if day == 2 else run.plan.blocks[:2]
        named = {block.identity for block in blocks}
        records = [one for one in read_records(folder) if one.arm.block in named]
        run = replace(run, began=f"2026-01-{day:02d}T00:00:00+00:00", plan=replace(run.plan, blocks=blocks))
        for name, content in files_of(run, records).items():
            (folder / name).write_bytes(content)
    other = read_run(run_of(results, "combined"))
    beside = tmp_path / "20260103T000000-00000001"
    counts = {}
    for day in (1, 3, 7, 20):
        found = calibration_beside(beside, replace(other, began=f"2026-01-{day:02d}T12:00:00+00:00"))
        assert found is not None
        counts[day] = len(found.copies)
    assert counts[1] == counts[3] == 20
    assert counts[7] == counts[20] < 20


def test_a_calibration_at_a_size_that_proves_nothing_decides_nothing(results: Path) -> None:
    run = read_run(run_of(results, "calibration"))
    assert decides(run)
    (block, *others) = run.plan.blocks
    small = replace(block, reference=replace(block.reference, size="smoke"))
    assert not decides(replace(run, plan=replace(run.plan, blocks=(small, *others))))
    assert not decides(read_run(run_of(results, "combined")))


def test_the_outcome_is_printed_and_is_the_status(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(run_of(results, "calibration")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "host_delay=3" in out
    assert "A/A: 20 configurations" in out
    assert "Replicates lie" in out


def test_workloads_with_short_steps_are_taken_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Request] = []
    monkeypatch.setattr(calibrating, "measure", lambda wish, _place, _shown: seen.append(wish) or 0)
    wish = Request(size="quick", design="calibration", device="cpu")
    calibrating.measure_and_show(wish, None)  # type: ignore[arg-type]  nothing is measured
    calibrating.measure_and_show(replace(wish, workloads=("speaker",)), None)  # type: ignore[arg-type]
    first, second = seen
    assert "leak" in first.workloads
    assert "patches3d" not in first.workloads  # a step of it takes longer than a short window
    assert second.workloads == ("speaker",)
