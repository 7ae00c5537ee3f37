"""`advise`, as it is typed, on the runs that are published and on what nobody can be advised about."""

import json
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from harness import __version__
from harness.catalogue import read_catalogue
from harness.cli import main, measuring
from harness.core.configuration import Comparison, Option
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.results import read_kept
from harness.run.preparation import Place
from harness.store import Run, files_of, folder_of
from tests.analyze.synthetic import ENVIRONMENT, config, plan, records
from tests.conftest import WORKLOADS

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.glob("*/*/run.json"))
NEWEST = {run for folder in RESULTS.iterdir() for run in [one for one in RUNS if one.parent == folder][-3:]}


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "advise", *map(str, words)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize(
    "run",
    [one if one in NEWEST else pytest.param(one, marks=pytest.mark.thorough) for one in RUNS],
    ids=lambda run: run.name,
)
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


@cache
def with_ratios(run: Path) -> frozenset[str]:
    """The workloads of a run that have any ratio."""
    return frozenset(row.comparison.reference.workload for row in read_kept(run).matrix.rows if row.estimate)


@cache
def of_all_workloads() -> Path:
    """The first run that has ratios of every workload; those that cannot have them are not read for it."""
    planned = (one for one in RUNS if all(f'"{name}"' in (one / "run.json").read_text() for name in WORKLOADS))
    return next(one for one in planned if len(with_ratios(one)) == len(WORKLOADS))


def test_all_workloads_of_a_run_have_their_chapter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = of_all_workloads()
    assert call(monkeypatch, run, "--verbose") == 0
    shown = capsys.readouterr().out
    page = tmp_path / "advice.md"
    assert call(monkeypatch, run, "--format", "markdown", "--output", page) == 0
    for name in WORKLOADS:
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


@pytest.mark.parametrize("least", [12, pytest.param(len(RUNS), marks=pytest.mark.thorough)], ids=["newest", "all"])
def test_what_is_advised_first_is_written_into_a_script(
    least: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On at least so many runs of one workload, the newest first, until one advises what this script has a call for."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_bytes(b"loader = DataLoader(data)\r\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\r\n")
    newest_first = sorted(RUNS, key=lambda one: one.name, reverse=True)
    alone = (one for one in newest_first if len(with_ratios(one)) == 1)
    written, advising = set[str](), list[Path]()
    for looked_at, run in enumerate(alone):
        if looked_at >= least and any("num_workers=" in line for line in written):
            break
        status = call(monkeypatch, run, "--diff", script)
        told = capsys.readouterr()
        if status == 0:
            assert told.out == "" or told.out.startswith("--- a/train.py\n+++ b/train.py\n")
            assert told.out or "has no call in" in told.err or "is advised to be left out" in told.err
            written |= {line for line in told.out.splitlines() if line.startswith("+")}
            advising.append(run)
        else:
            assert "advises 0 trainings" in told.err
    assert any("num_workers=" in line for line in written)
    assert call(monkeypatch, of_all_workloads(), "--diff", script) == 2
    assert "name a run that advises one" in capsys.readouterr().err
    assert call(monkeypatch, advising[0], "--diff", tmp_path / "none.py") == 2
    assert "none.py cannot be read" in capsys.readouterr().err


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


# Whose training a run is of, and what of it a script or a fresh measurement bears out.

OF_TRAIN = "own training, train.py 01234567"


def run_of(results: Path, data: str, *before: Option, losses: tuple[float, ...] = (2.3, 2.1, 1.9)) -> Path:
    """A run whose plan says so of its data: one loader worker is twice as fast as a stack of the options before it."""
    base = replace(config(), options=before)
    treatment = replace(base, options=(Option(name="workers", level=1),))
    asked = plan(Comparison(label="workers=1", treatment=treatment, reference=base, timing=Timing.STEP))
    run = Run(
        began="2026-11-21T10:00:00+00:00", version=__version__, command="speedmatrix run leak", rehearsed=False,
        environment=ENVIRONMENT, plan=replace(asked, data={"leak": data} if data else {}),
    )  # fmt: skip
    folder = folder_of(results, run)
    folder.mkdir(parents=True)
    for name, content in files_of(run, records(0, 2.0, losses=losses)).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (OF_TRAIN, ""),
        ("own training, 89abcdef.job 01234567", ""),
        ("own training, other.py 01234567", "is of other.py and not of train.py; name the run"),
        ("", "is of leak and not of train.py; name the run"),
    ],
)
def test_the_newest_runs_advice_is_written_into_the_script_that_it_is_of(
    data: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("loader = DataLoader(data)\n")
    run = run_of(Path("results"), data)
    status = call(monkeypatch, "--diff", "train.py")
    told = capsys.readouterr()
    assert (status, "num_workers=1" in told.out) == ((2, False) if said else (0, True))
    assert said in told.err
    assert call(monkeypatch, run, "--diff", "train.py") == 0, "whoever names a run means it"
    assert "num_workers=1" in capsys.readouterr().out


def test_a_value_in_a_script_that_was_not_compared_stays_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("loader = DataLoader(data, num_workers=4)\n")
    assert call(monkeypatch, run_of(Path("results"), OF_TRAIN), "--diff", "train.py") == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "train.py has num_workers=4 in line 1, which was not compared; it stays" in " ".join(told.err.split())
    assert "measure with --reference original" in " ".join(told.err.split())
    compared = run_of(Path("others"), OF_TRAIN, Option(name="workers", level=4))
    assert call(monkeypatch, compared, "--diff", "train.py") == 0
    told = capsys.readouterr()
    assert "+loader = DataLoader(data, num_workers=1)\n" in told.out
    assert " ".join(told.err.split()) == "workers=1 was measured: 2.00x [1.97, 2.03] against the baseline."


@pytest.mark.parametrize(
    ("data", "own", "name", "said"),
    [
        ("", "", "leak", "yes"),
        (OF_TRAIN, OF_TRAIN, "leak", "yes"),
        (OF_TRAIN, "own training, train.py 89abcdef", "leak", "(code, job, versions) was 01234567, now is 89abcdef"),
        (OF_TRAIN, "", "leak", "leak, which train.py makes; give --workload train.py"),
        ("", OF_TRAIN, "leak", "leak, which no file of yours makes; leave out --workload"),
        ("own training, other.py 01234567", OF_TRAIN, "leak", "leak, which other.py makes; give --workload other.py"),
        ("", OF_TRAIN, "train", "advises on leak and not on train; name a run of train, or leave out --workload"),
    ],
)
def test_a_check_measures_the_training_that_is_advised_on_or_none(
    data: str, own: str, name: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    run, asked, known = run_of(tmp_path, data), list[Request](), read_catalogue(ledger=False)
    mine = replace(known.workload("leak"), name=name, source=own)
    if own:
        known = replace(known, workloads={**known.workloads, name: mine}, own=name)

    def measured(request: Request, *_: object, **_words: object) -> Path:
        asked.append(request)
        return run

    monkeypatch.setattr(measuring, "read_catalogue", lambda _: known)
    monkeypatch.setattr(measuring, "read_environment", lambda _: ENVIRONMENT)
    monkeypatch.setattr(measuring, "measured", measured)
    status = call(monkeypatch, run, "--check", "--budget", "none", *(["--workload", "train.py"] if own else []))
    told = capsys.readouterr()
    assert said in " ".join((told.out + told.err).split())
    assert status == (0 if asked else 2)
    assert bool(asked) is ("; " not in said)
    assert [one.workloads for one in asked] == [() if own else ("leak",)] * len(asked)


REAL = "real data on ext4; 3 files; 40 evaluation items"


@pytest.mark.parametrize(
    ("data", "words", "said"),
    [
        (REAL, [], "advises on leak with real data; give --data-root leak=FOLDER, or name another run."),
        ("", ["--data-root", "."], "advises on leak without real data; leave out --data-root, or name another run."),
        (REAL, ["--data-root", "leak=nowhere"], "There is no folder nowhere; --data-root takes the folder"),
        (REAL, ["--data-root", "."], "yes"),
        (REAL, ["--data-root", "leak=."], "yes"),
    ],
)
def test_a_check_of_advice_on_real_data_measures_on_real_data_or_not_at_all(
    data: str, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    run, asked = run_of(tmp_path / "results", data), list[Request]()

    def measured(request: Request, *_: object, **_words: object) -> Path:
        asked.append(request)
        return run

    monkeypatch.setattr(measuring, "read_environment", lambda _: ENVIRONMENT)
    monkeypatch.setattr(measuring, "measured", measured)
    status = call(monkeypatch, run, "--check", "--budget", "none", *words)
    told = capsys.readouterr()
    assert said in " ".join((told.out + told.err).split())
    assert "other data" not in told.out
    assert status == (0 if asked else 2)
    assert [one.data_roots for one in asked] == [(f"leak={Path.cwd()}",)] * (said == "yes")


def test_a_check_on_other_real_data_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, again = run_of(tmp_path / "then", REAL), run_of(tmp_path / "now", REAL.replace("3 files", "5 files"))
    monkeypatch.setattr(measuring, "read_environment", lambda _: ENVIRONMENT)
    monkeypatch.setattr(measuring, "measured", lambda *_, **_words: again)
    assert call(monkeypatch, run, "--check", "--budget", "none", "--data-root", tmp_path) == 0
    assert f"leak was measured on other data ({REAL});" in " ".join(capsys.readouterr().out.split())


def test_a_check_says_why_advice_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, again = run_of(tmp_path / "then", ""), run_of(tmp_path / "now", "", losses=(2.3, 2.9, 1.9))
    monkeypatch.setattr(measuring, "read_environment", lambda _: ENVIRONMENT)
    monkeypatch.setattr(measuring, "measured", lambda *_, **_words: again)
    assert call(monkeypatch, run, "--check", "--budget", "none") == 1
    told = capsys.readouterr().out
    assert "leak, workers=1: quality differs: losses differ from step 2 by 0.8." in told
    assert " yes " not in told
