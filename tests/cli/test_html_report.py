"""`report --format html` and `--all`, as they are typed."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.core.plan import BOTH_WAYS
from harness.results import newest
from harness.store import ORIGIN, Journal, create, finish
from tests.analyze.synthetic import ENVIRONMENT
from tests.report.exhibits import five, five_told
from tests.test_store import RUN_FACTS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished run, one that goes on, one of another machine and one that was rehearsed."""
    made = replace(RUN_FACTS, plan=five(), environment=ENVIRONMENT, rehearsed=False, command="speedmatrix run leak")
    runs = (
        made,
        replace(made, began="2026-11-23T10:00:00+00:00"),
        replace(made, environment=replace(ENVIRONMENT, accelerator="NVIDIA H200")),
        replace(made, rehearsed=True),
    )
    for number, run in enumerate(runs):
        folder = create(tmp_path / "results", run)
        journal = Journal(folder)
        for record in five_told():
            journal.append(record)
        journal.close()
        if number != 1:
            finish(folder)
    return tmp_path / "results"


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "report", *map(str, words)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_one_run_becomes_one_file(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "one.html"
    assert call(monkeypatch, "--results", results, "--format", "html", "--output", page) == 0
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "Speedup matrix of cpu-2-example-9000" in text
    assert text.count('<tr role="row" class="main">') == 5
    again = tmp_path / "again.html"
    assert call(monkeypatch, "--results", results, "--format", "html", "--output", again) == 0
    assert again.read_bytes() == page.read_bytes()


def test_all_finished_runs_of_measured_times_become_one_file(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "all.html"
    assert call(monkeypatch, "--all", "--results", results, "--format", "html", "--output", page) == 0
    text = page.read_text()
    assert "Speedup matrix of 2 runs on 2 machines" in text
    assert "20261123T100000" not in text
    assert "invented" not in text


def test_a_run_that_was_taken_in_is_marked(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs,) = (results / "h200").iterdir()
    (theirs / ORIGIN).write_text("{}")
    page = tmp_path / "all.html"
    assert call(monkeypatch, "--all", "--results", results, "--format", "html", "--output", page) == 0
    assert page.read_text().count('data-machine="h200 (contributed)" data-workload="leak" data-timed') == 5
    capsys.readouterr()
    assert call(monkeypatch, theirs) == 0
    assert "Contributed: somebody else measured this run" in capsys.readouterr().out
    assert call(monkeypatch, theirs, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["contributed"]


def test_a_run_that_was_taken_in_is_not_the_newest(results: Path) -> None:
    mine = newest(results)
    theirs = mine.with_name("29991231T000000-0a1b2c3d")
    shutil.copytree(mine, theirs)
    assert newest(results) == theirs
    (theirs / ORIGIN).write_text("{}")
    assert newest(results) == mine


def test_a_run_that_holds_two_ways_to_measure_together_answers_nothing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = replace(five(), design=BOTH_WAYS)
    finish(create(results, replace(RUN_FACTS, plan=both, environment=ENVIRONMENT, rehearsed=False)))
    page = tmp_path / "all.html"
    assert call(monkeypatch, "--all", "--results", results, "--format", "html", "--output", page) == 0
    assert "Speedup matrix of 2 runs on 2 machines" in page.read_text()


def test_each_of_all_runs_says_what_to_do_and_how_to_ask_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was really measured, since what is asked on needs rows that are undecided and a catalogue."""
    run = next((ROOT / "results").glob("cpu-1-*/*/run.json")).parent
    shutil.copytree(run, tmp_path / "results" / run.parent.name / run.name)
    page = tmp_path / "all.html"
    assert call(monkeypatch, "--all", "--results", tmp_path / "results", "--format", "html", "--output", page) == 0
    advice = page.read_text().partition("What to do, by this run alone")[2]
    assert "Switch on" in advice
    assert '<div class="command"><pre><code>./speedmatrix run' in advice


def test_a_rehearsed_run_is_called_so(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    folders = sorted(path.parent for path in results.glob("*/*/run.json"))
    rehearsed = next(folder for folder in folders if '"rehearsed": true' in (folder / "run.json").read_text())
    assert call(monkeypatch, rehearsed, "--format", "html", "--output", page) == 0
    assert "every time in this report is invented" in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--all", "--format", "pdf"), "There is no format 'pdf'"),
        (("--all", "--results", "nowhere"), "no finished run in nowhere"),
        (("--all", "--format", "html", "--results", "nowhere"), "no finished run in nowhere"),
        (("here", "--all", "--format", "html"), "leave out here, or --all"),
        (("--format", "pdf"), "choose terminal, markdown, json or html"),
        (("--format", "html", "--output", "no/such/folder.html"), "choose another path for --output"),
    ],
)
def test_mistakes_end_in_one_sentence(
    words: tuple[str, ...],
    said: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = words if "--results" in words else (*words, "--results", results)
    assert call(monkeypatch, *given) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


WITHOUT_TORCH = """
import shutil
import subprocess
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
from harness.cli import main
main()
"""


def test_it_needs_no_torch(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "all.html"
    words = ("report", "--all", "--results", results, "--format", "html", "--output", page)
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *map(str, words)], check=True, cwd=Path(__file__).parents[2])
    assert "Speedup matrix of 2 runs" in page.read_text()


def test_a_page_is_not_poured_into_a_terminal(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert call(monkeypatch, "--results", results, "--format", "html") == 2
    assert "name a file for it with --output" in capsys.readouterr().err
