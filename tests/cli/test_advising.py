"""`advise`, as it is typed, on the runs that are published and on what nobody can be advised about."""

import json
import math
import sys
from pathlib import Path

import pytest

from harness.cli import main, measuring
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.results import read_kept
from harness.run.preparation import Place

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.glob("*/*/run.json"))


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "advise", *map(str, words)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_published_run_gives_advice_ordered_by_gain(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, run, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    for workload in document["workloads"]:
        gains = [_worth(one) for one in workload["items"] if one["timing"] != "evaluation"]
        assert gains == sorted(gains, reverse=True)
        for one in workload["items"]:
            assert one["gain"]["low"] <= one["gain"]["ratio"] <= (one["gain"]["high"] or math.inf)
            assert one["advice"] != "switch on" or one["quality"]["status"] in {"same bits", "close"}


def _worth(one: dict[str, dict[str, float]]) -> float:
    logs = [math.log(gain["ratio"]) for gain in (one["gain"], one["last"]) if gain]
    return sum(logs) / len(logs)


def with_ratios(run: Path) -> set[str]:
    """The workloads of a run that have any ratio."""
    return {row.comparison.reference.workload for row in read_kept(run).matrix.rows if row.estimate}


def test_all_workloads_of_a_run_have_their_chapter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names, run = max(((with_ratios(one), one) for one in RUNS), key=lambda found: len(found[0]))
    assert len(names) > 1
    assert call(monkeypatch, run, "--verbose") == 0
    shown = capsys.readouterr().out
    page = tmp_path / "advice.md"
    assert call(monkeypatch, run, "--format", "markdown", "--output", page) == 0
    for name in names:
        assert f"\n{name}, size quick" in shown
        assert f"\n## {name}, size quick" in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "pdf"), "choose terminal, markdown or json"),
        (("--results", "nowhere"), "There is no run in nowhere that was measured here"),
    ],
)
def test_mistakes_end_in_one_sentence(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_what_is_advised_first_is_written_into_a_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_bytes(b"loader = DataLoader(data)\r\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\r\n")
    alone = [one for one in RUNS if len(with_ratios(one)) == 1]
    written = set()
    for run in alone:
        status = call(monkeypatch, run, "--diff", script)
        told = capsys.readouterr()
        if status == 0:
            assert told.out == "" or told.out.startswith("--- a/train.py\n+++ b/train.py\n")
            assert told.out or "has no call in" in told.err or "is advised to be left out" in told.err
            written |= {line for line in told.out.splitlines() if line.startswith("+")}
        else:
            assert "advises 0 trainings" in told.err
    assert any("num_workers=" in line for line in written)
    several = max(RUNS, key=lambda one: len(with_ratios(one)))
    assert call(monkeypatch, several, "--diff", script) == 2
    assert "name a run that advises one" in capsys.readouterr().err
    assert call(monkeypatch, alone[0], "--diff", tmp_path / "none.py") == 2


def test_a_summary_for_a_pull_request_has_the_change_its_interval_and_the_way_to_check_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(one for one in RUNS if one.name == "20261125T135056-87d54b45")
    assert call(monkeypatch, run, "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert call(monkeypatch, run, "--format", "pull-request") == 0
    text = capsys.readouterr().out
    table = text.partition("### Options one by one")[0]
    for workload in told["workloads"]:
        assert (f"| {workload['workload']} |" in table) != (f"{workload['workload']}: " in table)
    assert "| speaker |" in table
    kept = read_kept(run)
    assert kept.environment.digest in text
    assert f"./speedmatrix bundle {run}" in text
    assert "x \\[" in table


# `advise --check`, but for the measuring itself.


@pytest.mark.parametrize(
    ("first", "budget", "status", "said"),
    [
        (None, "0s", 1, ""),
        (None, "none", 1, ""),
        (Mistake("too short"), "9m", 1, "leak: too short"),
        (KeyboardInterrupt(), "9m", 130, "Stopped; what was measured is kept"),
    ],
    ids=["no time", "all time", "a share too short", "stopped"],
)
def test_a_check_keeps_to_its_budget_and_shows_what_it_measured(
    first: BaseException | None, budget: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run, given = RESULTS / "cpu-2-amd-epyc" / "20261120T212407-478beb59", list[str]()

    def measured(_asked: Request, place: Place, *_: object, **_words: object) -> Path:
        given.append(place.budget)
        if first and len(given) == 1:
            raise first
        return run

    monkeypatch.setattr(measuring, "measured", measured)
    assert call(monkeypatch, run, "--check", "--budget", budget) == status
    told = capsys.readouterr()
    assert said in told.err
    assert ("speaker" in told.out) == (status == 1), "the table of the others"
    if budget in {"0s", "none"}:
        assert given == ["1s" if budget == "0s" else "none"] * 2


def test_a_check_of_which_nothing_could_be_measured_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = RESULTS / "cpu-2-amd-epyc" / "20261120T212407-478beb59"
    assert call(monkeypatch, run, "--check", "--budget", "1s", "--results", tmp_path) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("leak: ")
    assert last.endswith(".")
    assert not list(tmp_path.iterdir())
