"""The command line as a user meets it: help with examples, and mistakes that end in one sentence."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from harness.catalogue import read_catalogue
from harness.cli import main
from harness.cli.commands import app
from harness.run.data import data_folder
from harness.run.preparation import Place
from harness.store import MEASUREMENTS, RUN, create
from tests.test_catalogue import WORKLOAD_FILE
from tests.test_store import RUN_FACTS


def commands_of(group: Any, before: str = "") -> Iterator[str]:
    """All commands as they are typed: `list`, `data write`."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands_of(one, f"{before}{name} ")
        else:
            yield before + name


GROUP: Any = get_command(app)
COMMANDS = tuple(commands_of(GROUP))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in an empty folder, with a lock of its own and a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))
    monkeypatch.setenv("COLUMNS", "200")


class Ended:
    """How a command ended: its status and what it said."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


def call(arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ended:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", *arguments.split()])
    monkeypatch.setattr("harness.cli.measuring.age_s", lambda: 1.0)  # this process is as old as all tests before it
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    captured = capsys.readouterr()
    return Ended(status, captured.out, captured.err)


def is_one_sentence(ended: Ended, said: str, folder: Path) -> bool:
    """Whether a mistake ended a command as every mistake does, in a folder that it left as empty as it was."""
    return ended.status == 2 and said in ended.err and ended.err.count("\n") == 1 and not [*folder.iterdir()]


def everything_in(folder: Path) -> dict[str, bytes]:
    """All files by their paths, but for the bytecode that Python leaves beside a file that it has read."""
    found = [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(f"{command} --help", monkeypatch, capsys)
    assert ended.status == 0
    assert f"speedmatrix {command}" in ended.out.split("Examples")[1]


def test_the_examples_in_the_help_name_options_that_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        options, _, examples = call(f"{command} --help", monkeypatch, capsys).out.partition("Examples")
        used = {word for word in examples.split() if word.startswith("--")}
        assert used <= set(options.split()), command


def test_without_a_command_the_commands_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call("", monkeypatch, capsys)
    assert {"run", "data"} <= {*GROUP.commands}
    assert [one for one in GROUP.commands if not re.search(rf"^\W*{one} +[A-Z]", ended.out, re.MULTILINE)] == []


BAD = {
    "plan nope": "There is no workload 'nope'; choose one of",
    "plan leak --only nope": "There is no optimization 'nope'; ./speedmatrix list shows them all.",
    "plan leak --stack nope": "There is no optimization 'nope'",
    "plan leak --reference nope": "There is no optimization 'nope'",
    "plan leak --only workers=many": "workers has no level many; its levels are 1, 2, 4, 8, 16, or another number",
    "plan leak --only workers=100000": "workers has no level 100000; its levels are",
    "plan leak --replicates 101": "--replicates cannot be 101; choose 2 to 100.",
    "plan leak --rounds 5000": "--rounds cannot be 5000; choose 1 to 1,000.",
    "plan leak --seed -1": "--seed cannot be -1; choose 0 to 2,147,483,647.",
    "plan leak --stack=": "A stack cannot be empty; name options (A+B=2), baseline or original.",
    "plan leak --only workers=²": "workers has no level ²",
    "plan leak --stack workers": "workers needs a level: workers=1",
    "plan leak --stack tf32_matmul=2": "tf32_matmul has no level 2; its levels are none; write the bare name.",
    "plan leak --stack prefetch_factor=4": "The stack prefetch_factor=4 is impossible on leak: prefetch_factor needs",
    "plan leak --stack workers=2+workers=4": "workers=2 and workers=4 both set workers",
    "plan leak --stack seek_read": "leak has no choice named audio_read",
    "plan leak --stack gradient_accumulation=3": "a batch of 256 cannot be taken in 3 equal parts",
    "plan leak --stack workers=2 --stack all": "--stack asks one question; give it once",
    "plan leak --reference prefetch_factor=4": "is impossible: prefetch_factor needs loader workers",
    "plan leak --only pin_memory --device cpu": "can be measured here (pin_memory: needs a CUDA device)",
    "plan leak --only seek_read": "Nothing of this can be measured here (seek_read: belongs to speaker)",
    "plan leak --design nope": "There is no design 'nope'; choose one of stages, alone, combined, levels",
    "plan leak --design claims --reference workers=2": "A claim names its own reference and what it is timed on",
    "plan leak --device emulated:a100 --isolation shared": "An emulated device serves one arm of a process alone",
    "plan leak --design claims --probe loader": "A claim names its own reference and what it is timed on",
    "plan leak --protocol nope": "There is no protocol 'nope'; choose one of standard, brief.",
    "plan leak --probe nope": "There is no probe 'nope'; choose one of loader, compute.",
    "plan leak --device nope": "There is no device 'nope'; choose auto, cpu, cuda, emulated.",
    "plan leak --size nope": "leak has no size 'nope'; choose one of smoke, quick, standard.",
    "plan leak --batch 99999999": "choose a batch of at most 8192.",
    "plan --workload absent.py": "absent.py; give the path of a Python file that defines WORKLOAD or a job.",
    "plan --workload blank.py": "blank.py defines no WORKLOAD",
    "explain nope": "There is no workload 'nope'",
    "explain leak:nope": "There is no optimization 'nope'",
    "explain leak@quick@smoke": "is not a configuration: write WORKLOAD",
    "explain leak#0": "is not a configuration: write WORKLOAD",
    "explain leak:prefetch_factor=4": "is impossible: prefetch_factor needs loader workers",
    "explain leak:all+nope": "There is no optimization 'nope'",
    "explain leak:all --protocol nope": "There is no protocol 'nope'; choose one of standard, brief.",
    "plan leak --stack all+nope": "There is no optimization 'nope'",
    "document --output file": "Cannot write to file (File exists); choose another folder with --output.",
    "explain leak:workers=2 --reference nope": "There is no optimization 'nope'",
    "advise --check --format json": "--diff and --check print one thing of their own; leave --format",
    "advise --check --diff file": "ask for one at a time.",
    "learn leak --against original": "add --until SCORE.",
    "learn leak --seeds 3": "--seeds goes with --until or --range.",
    "rehearse nope": "There is no workload 'nope'",
    "rehearse --effect workers": "'workers' is not an effect; write NAME=TIMES, for example workers=1.8.",
    "rehearse --effect workers=0": "'workers=0' is not an effect",
    "rehearse --effect workers=-2": "'workers=-2' is not an effect",
    "rehearse --effect workers=nan": "'workers=nan' is not an effect",
    "rehearse --effect nope=2": "There is no optimization 'nope'",
    "rehearse leak --results file": "choose another folder with --results.",
    "run leak --budget soon": "'soon' is not a time; write 90s, 4m40s, 2h or none.",
    "run leak --budget 3": "'3' is not a time",
    "run nope": "There is no workload 'nope'",
    "run leak --size smoke --data file": "file for data (File exists); choose another folder with --data.",
    "report": "There is no run in results that was measured here; ./speedmatrix run makes one.",
    "report absent": "absent is not a run: it has no run.json; ./speedmatrix run makes one.",
    "report file": "cannot be read",
    "report --results file": "There is no run in file",
}


@pytest.mark.parametrize("arguments", BAD)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "blank.py").write_text("")
    before = everything_in(tmp_path)
    ended = call(arguments, monkeypatch, capsys)
    assert (ended.status, ended.out.strip()) == (2, "")
    assert BAD[arguments] in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.err.endswith(".\n")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize(
    "arguments", ["plan --replicates 1", "plan --rounds 0", "plan --batch 0", "plan --seed x", "nope"]
)
def test_what_is_no_number_or_too_small_is_refused(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(arguments, monkeypatch, capsys)
    assert ended.status == 2
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (RUN, "{", "cannot be read"),
        (RUN, '{"schema": 9}', "has schema 9, newer than 4; update speedmatrix to read it."),
        (RUN, '{"schema": 1, "began": 3}', "is damaged"),
        (MEASUREMENTS, "{}\n", "line 1 states no schema"),
        (MEASUREMENTS, '{"schema": 1, "record": "window"}\n', "line 1 is damaged"),
        (MEASUREMENTS, '{"schema": 9}\n', "line 1 has schema 9, newer than 4; update speedmatrix to read it."),
    ],
)
def test_a_damaged_run_is_one_sentence(
    name: str, text: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(Path("results"), RUN_FACTS)
    (folder / name).write_text(text)
    ended = call("report", monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_report_in_every_form_and_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(Path("results"), RUN_FACTS)
    assert "No result: " in call("report", monkeypatch, capsys).out
    assert "without a ratio" in call("report --verbose", monkeypatch, capsys).out
    assert call(f"report {folder} --format markdown", monkeypatch, capsys).out.startswith("# Speedup matrix")
    assert call("report --format json --output matrix.json", monkeypatch, capsys).out == ""
    assert json.loads((tmp_path / "matrix.json").read_text())["schema"] == 1
    unknown = call("report --format pdf", monkeypatch, capsys)
    assert (unknown.status, unknown.err) == (2, "There is no format 'pdf'; choose terminal, markdown, json or html.\n")
    unwritable = call("report --output results", monkeypatch, capsys)
    assert unwritable.status == 2
    assert "choose another path for --output" in unwritable.err


def test_a_report_in_a_file_has_no_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create(Path("results"), RUN_FACTS)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in call("report --verbose", monkeypatch, capsys).out
    call("report --output report.txt", monkeypatch, capsys)
    assert "\x1b" not in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ('{"segments.h5": [10, 0]}', "segments.h5 has changed since it was written; delete"),
        ('{"segments.h5": [3, 891568579]}', "segments.h5 has changed since it was written; delete"),  # abc has ...578
        ('{"gone.h5": [10, 0]}', "cannot be read"),
        ("{", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_data_that_was_tampered_with_is_never_measured(
    manifest: str | None, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_folder(Path("data"), read_catalogue().workload("leak"), "smoke")
    folder.mkdir(parents=True)
    (folder / "segments.h5").write_bytes(b"abc")
    if manifest is not None:
        (folder / "complete.json").write_text(manifest)
    ended = call("run leak --size smoke --data data", monkeypatch, capsys)
    assert ended.status == 2
    assert words in ended.err
    assert "run again to write it anew." in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not Path("results").exists()


def test_results_that_are_a_file_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_folder(Path("data"), read_catalogue().workload("leak"), "smoke")
    folder.mkdir(parents=True)
    (folder / "complete.json").write_text("{}")
    Path("file").write_text("in the way")
    ended = call("run leak --size smoke --data data --results file", monkeypatch, capsys)
    assert ended.status == 2
    assert ended.err.startswith("Cannot write results to file")


@pytest.mark.parametrize(
    ("words", "measures"),
    [
        ("run leak", "measure"),
        ("tune train.py", "tune"),
        ("best leak", "best"),
        ("calibrate leak", "measure_and_show"),
        ("calibrate leak --isolation", "measure_both_ways"),
    ],
)
def test_fresh_has_a_job_looked_at_anew_whatever_is_measured_of_it(
    words: str, measures: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    anew = list[bool]()
    monkeypatch.setattr("harness.cli.commands.look_anew", lambda: anew.append(True))
    monkeypatch.setattr(f"harness.cli.measuring.{measures}", lambda *_, **_words: 0)
    assert call(words, monkeypatch, capsys).status == 0
    assert anew == []
    assert call(f"{words} --fresh", monkeypatch, capsys).status == 0
    assert anew == [True]


def test_a_plan_says_what_is_measured_and_what_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = call("plan leak --device cpu", monkeypatch, capsys).out
    assert "leak: pin_memory — needs a CUDA device" in shown
    again = [json.loads(call("plan leak --seed 4 --json", monkeypatch, capsys).out) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0]["plan"]["seed"] == 4


def test_one_can_plan_a_workload_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine_to_plan.py").write_text(WORKLOAD_FILE)
    found = json.loads(call("plan --workload mine_to_plan.py --device cpu --json", monkeypatch, capsys).out)
    assert {block["reference"]["workload"] for block in found["plan"]["blocks"]} == {"mine"}


@pytest.mark.parametrize(
    ("words", "measures", "own"),
    [
        ("tune train.py:job", "tune", "train.py:job"),
        ("run --workload train.py:job", "measure", "train.py:job"),
        ("best --workload train.py:job", "best", "train.py:job"),
        ("run leak", "measure", None),
    ],
)
def test_places_are_found_again_where_a_file_of_ones_own_goes_to_another_folder(
    words: str, measures: str, own: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[Any]()

    def note(*given: Any, **_words: Any) -> int:
        asked.extend(given)
        return 0

    monkeypatch.setattr(f"harness.cli.measuring.{measures}", note)
    assert call(f"{words} --results kept --data here", monkeypatch, capsys).status == 0
    request, place = asked[0], next(one for one in asked if isinstance(one, Place))
    top = Path.cwd() if own else Path()
    assert (request.own, place.results, place.data) == (top / own if own else None, top / "kept", top / "here")


def test_explaining_an_optimization_prints_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = call("explain prefetch_factor", monkeypatch, capsys).out
    assert "requires: workers" in shown
    assert "claim leak-loader-settings: about 1.48x faster" in shown


def test_the_doctor_says_what_it_found_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call("doctor", monkeypatch, capsys)
    assert ended.status in {0, 1}
    assert all(what in ended.out for what in ("processor", "memory", "GPU", "room for results", "torch"))
    assert everything_in(tmp_path) == {}


def test_a_rehearsal_is_kept_where_it_is_told_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = call("rehearse leak --design combined --effect workers=1.8 --results kept", monkeypatch, capsys).out
    assert "intervals cover the truth; 95 % should." in shown
    assert len(list(Path("kept").glob("rehearsal/*/run.json"))) == 1
    assert "all" in call("report --results kept", monkeypatch, capsys).out


@pytest.mark.thorough
def test_explaining_a_cell_shows_what_differs_what_is_bound_and_the_step() -> None:
    shown = shell("explain", "leak@smoke:workers=2+batched_fetch", "--device", "cpu").stdout
    assert "workers 0 → 2 Loader worker processes workers = 2" in " ".join(shown.split())
    assert "Of a DataLoader with 2 workers, 4 batches ahead, whole batches" in shown
    assert "618,758 parameters" in " ".join(shown.split())
    assert "def " in shown


@pytest.mark.parametrize(("arguments", "status"), [("report absent", 2), ("--help", 0), ("plan nope", 2)])
def test_the_same_from_a_shell(arguments: str, status: int) -> None:
    done = shell(*arguments.split())
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (1 if status else 0)


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own, with one thread."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["explain leak:workers=2+workers=3", "explain leak --reference workers=2+workers=3"])
def test_two_levels_of_one_optimization_are_refused(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "is impossible: workers=2 and workers=3 both set workers; leave one out."
    assert is_one_sentence(call(words, monkeypatch, capsys), said, tmp_path)


def test_a_workload_that_is_named_twice_is_planned_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--size smoke --device cpu --only workers=1 --json"
    once, twice = (call(f"plan {names} {words}", monkeypatch, capsys).out for names in ("leak", "leak leak"))
    assert json.loads(once) == json.loads(twice)


@pytest.mark.parametrize("called", ["./speedmatrix", "./speedmatrix --here", None])
def test_a_usage_error_names_a_command_that_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], called: str | None
) -> None:
    monkeypatch.delenv("SPEEDMATRIX_CALLED", raising=False)
    if called:
        monkeypatch.setenv("SPEEDMATRIX_CALLED", called)
    assert f"Usage: {called or 'speedmatrix'} run" in call("run --nonsense", monkeypatch, capsys).err
