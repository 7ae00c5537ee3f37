"""`claims` on runs of a synthetic trainer: what it shows, in every form, and what it refuses."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.analyze.claims import as_timed
from harness.catalogue import read_catalogue
from harness.core.claims import Metric, Tried
from harness.core.configuration import Comparison, Configuration, parse_option
from harness.core.optimization import Timing, promises
from harness.core.plan import Plan
from harness.core.records import Record
from harness.store import ORIGIN, Journal, Run, create, finish
from tests.analyze.synthetic import ENVIRONMENT, plan, records
from tests.cli.test_commands import Ended, call, elsewhere
from tests.core.invented import GPU
from tests.test_layers import ROOT

KNOWN = read_catalogue().optimizations
__all__ = ["elsewhere"]  # an empty folder and a wide terminal for every test


def compared(treatment: str, reference: str = "", workload: str = "leak", **facts: Any) -> Comparison:
    """A comparison of optimizations that are in the ledger."""
    ours, theirs = (
        Configuration(
            workload=workload,
            size=facts.get("size", "quick"),
            batch=read_catalogue(ledger=False).workload(workload).sizes[facts.get("size", "quick")].batch,
            options=tuple(sorted(map(parse_option, stack.split("+")))) if stack else (),
        )
        for stack in (treatment, reference)
    )
    return Comparison(label=treatment, treatment=ours, reference=theirs, timing=facts.get("timing", Timing.STEP))


def planned(*comparisons: Comparison) -> Plan:
    names = {option.name for one in comparisons for option in (*one.treatment.options, *one.reference.options)}
    return replace(plan(*comparisons), promises=promises(KNOWN[name] for name in sorted(names)))


def kept(of: Plan, found: list[Record], day: int = 1, *, done: bool = True, **facts: Any) -> Path:
    """The folder of a run that was made on some day, with nothing left to measure unless it is not done."""
    began = f"2026-01-{day:02d}T03:04:05+00:00"
    run = Run(
        began=began, version="0.1.0", command="speedmatrix run", rehearsed=False, environment=ENVIRONMENT, plan=of
    )
    folder = create(Path("results"), replace(run, **facts))
    journal = Journal(folder)
    for record in found:
        journal.append(record)
    journal.close()
    if done:
        finish(folder)
    return folder


MAPPED = planned(compared("file_index_cache", timing=Timing.LOADER))
EVALUATION = planned(compared("batched_evaluation+inference_mode", "inference_mode", timing=Timing.EVALUATION))


def told(arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The findings of the only machine by the names of their claims."""
    ended = call(f"claims --format json {arguments}", monkeypatch, capsys)
    assert (ended.status, ended.err) == (0, "")
    (machine,) = json.loads(ended.out)["machines"]
    return {one["claim"]["name"]: one for one in machine["findings"]}


def shown(arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ended:
    return call(f"claims {arguments}", monkeypatch, capsys)


def mapped(ratio: float, day: int = 1, **facts: Any) -> Path:
    return kept(MAPPED, records(0, ratio, timing=Timing.LOADER, losses=(2.3, 2.1, 1.9)), day, **facts)


def test_a_run_judges_the_claims_that_it_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = mapped(1.8)
    found = told("", monkeypatch, capsys)
    assert len(found) == len(read_catalogue().claims)
    one = found["leak-file-index"]
    assert (one["verdict"], one["tested"]["run"]) == ("confirmed", folder.name)
    assert one["estimate"]["low"] < 1.8 < one["estimate"]["high"]
    assert found["leak-loader-time-target"]["verdict"] == "untestable"
    assert found["leak-device-share-before"]["verdict"] == "not testable here"
    assert found["leak-chunk-cache"]["words"] == "speedmatrix run leak --design claims"
    assert [part["workload"] for part in found["tuning-guide-workers"]["workloads"]] == sorted(
        read_catalogue().workloads
    )


def test_the_newest_run_decides_and_an_older_one_stands_in_for_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8)
    newer = mapped(0.7, day=2)
    kept(EVALUATION, records(0, 2.7, timing=Timing.EVALUATION), day=3)
    found = told("", monkeypatch, capsys)
    assert (found["leak-file-index"]["verdict"], found["leak-file-index"]["tested"]["run"]) == ("harmful", newer.name)
    assert found["leak-batched-evaluation"]["verdict"] == "tested otherwise"  # without autocast
    older = next(path for path in Path("results").glob("*/20260101*"))
    assert told(str(older), monkeypatch, capsys)["leak-file-index"]["verdict"] == "confirmed"


def test_machines_are_never_mixed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mapped(1.8)
    mapped(0.7, day=2, environment=GPU)
    ended = shown("--format json", monkeypatch, capsys)
    machines = {one["machine"]: one["findings"] for one in json.loads(ended.out)["machines"]}
    verdicts = {
        name: next(one["verdict"] for one in findings if one["claim"]["name"] == "leak-file-index")
        for name, findings in machines.items()
    }
    assert sorted(verdicts.values()) == ["confirmed", "harmful"]
    assert verdicts["h200"] == "harmful"


def test_a_stranger_decides_only_where_we_measured_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8)
    for theirs in (mapped(0.7, day=2), mapped(0.7, day=3, environment=GPU)):
        (theirs / ORIGIN).write_text("{}")
    (mapped(0.7, day=4, done=False, environment=replace(GPU, accelerator="NVIDIA B200")) / ORIGIN).write_text("{}")
    ended = shown("--format json", monkeypatch, capsys)
    verdicts = {
        one["machine"]: found["verdict"]
        for one in json.loads(ended.out)["machines"]
        for found in one["findings"]
        if found["claim"]["name"] == "leak-file-index"
    }
    assert verdicts == {"cpu-2-example-9000": "confirmed", "h200 (contributed)": "harmful"}


def test_what_proves_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mapped(1.8)
    small = planned(compared("file_index_cache", timing=Timing.LOADER, size="smoke"))
    tiny = kept(small, records(0, 0.7, timing=Timing.LOADER), day=2)
    rehearsed = mapped(0.6, day=3, rehearsed=True)
    assert told("", monkeypatch, capsys)["leak-file-index"]["verdict"] == "confirmed"
    assert told(str(tiny), monkeypatch, capsys)["leak-file-index"]["verdict"] == "harmful"  # asked for by name
    ended = shown(str(rehearsed), monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert "was rehearsed: its times are invented and prove nothing" in ended.err


def test_only_one_workloads_claims(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mapped(1.8)
    found = told("--only leak", monkeypatch, capsys)
    assert {one["workload"] for one in found.values()} == {"leak"}
    assert {"leak-file-index", "tuning-guide-workers"} <= set(found)  # one of its own, one in general


def test_the_page_is_the_same_whenever_it_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8)
    for name in ("one.md", "two.md"):
        assert shown(f"--format markdown --output {name}", monkeypatch, capsys).status == 0
    page = Path("one.md").read_text(encoding="utf-8")
    assert page == Path("two.md").read_text(encoding="utf-8")
    assert "## cpu-2-example-9000" in page
    assert " claims: 1 confirmed, " in page
    assert "### Claims that contradict each other" in page


def test_the_terminal_shows_promise_conditions_and_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8)
    ended = shown("--only leak", monkeypatch, capsys)
    (line,) = [line for line in ended.out.splitlines() if "leak-file-index" in line]
    assert "1.80x [" in line
    assert "confirmed" in line
    assert "RTX 5090" in ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "There is no measured run in results; ./speedmatrix run --design claims makes one."),
        ("--results absent", "There is no measured run in absent; ./speedmatrix run --design claims makes one."),
        ("absent", "absent is not a run: it has no run.json"),
        ("--format pdf", "There is no format 'pdf'; choose terminal, markdown or json."),
        ("--only nope", "There is no workload 'nope'; choose one of"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = shown(arguments, monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_page_that_cannot_be_written_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8)
    ended = shown("--format markdown --output absent/claims.md", monkeypatch, capsys)
    assert ended.status == 2
    assert "choose another path for --output" in ended.err


def test_an_optimizations_page_shows_the_claims_about_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = call("explain file_index_cache", monkeypatch, capsys).out
    assert "claim leak-file-index: faster" in page
    assert (
        "claim speaker-vectorised-operations: about 1.3x faster"
        in call("explain looped_front_end", monkeypatch, capsys).out
    )  # a harm: what others would cure


def test_where_nothing_was_measured_there_is_nothing_to_hold_against(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(1.8, rehearsed=True)
    ended = shown("", monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert "There is no measured run in results" in ended.err


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import harness.cli
sys.argv = ["speedmatrix", "claims", "--only", "leak"]
harness.cli.main()
"""


def test_it_needs_no_torch() -> None:
    mapped(1.8)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 confirmed" in done.stdout


def test_the_design_calls_the_real_system_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call("plan leak --design claims --device cpu --json", monkeypatch, capsys)
    found = json.loads(ended.out)["plan"]
    assert set(found["names"].values()) == {"baseline", "original"}
    named = {block["identity"] for block in found["blocks"] if len(block["reference"]["switches"]) > 3}
    assert named


def test_the_design_rehearses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call("rehearse leak --design claims --protocol brief --seed 3", monkeypatch, capsys)
    assert ended.status == 0
    assert "intervals cover the truth" in ended.out


def test_an_emulated_device_has_verdicts_of_its_own_and_a_step_time_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of, found = planned(compared("batched_fetch", size="standard")), records(0, 3.0)
    device = replace(ENVIRONMENT, device="emulated:a100", accelerator="emulated A100")
    kept(of, found, environment=device)
    times = kept(of, found, day=2, environment=replace(device, device="emulated:18ms", accelerator="emulated 18ms"))
    told = json.loads(shown("--format json", monkeypatch, capsys).out)
    (machine,) = told["machines"]
    assert machine["machine"].startswith("emulated-a100")
    verdicts = {one["verdict"] for one in machine["findings"]}
    assert verdicts <= {
        "holds on an emulated device", "fails on an emulated device", "not measured yet", "not testable here",
        "untestable", "undecided", "tested otherwise",
    }  # fmt: skip
    ended = shown(str(times), monkeypatch, capsys)
    assert (ended.status, "emulates a step time" in ended.err) == (2, True)


def test_epochs_and_passes_that_are_shorter_than_the_real_systems_test_otherwise() -> None:
    leak = read_catalogue().workload("leak")

    def at(size: str, workers: int = 2) -> Any:
        config = SimpleNamespace(size=size, batch=leak.sizes[size].batch)
        both = SimpleNamespace(reference=config, treatment=config)
        begun = (SimpleNamespace(effective={"evaluation_workers": workers}),)
        return SimpleNamespace(evidence=SimpleNamespace(comparison=both, windows=(), readies=begun))

    (speed, *_) = (one for one in read_catalogue().claims if one.metric is Metric.THROUGHPUT)
    tried = Tried(treatment=(), reference=(), timing=Timing.EPOCH)
    short = as_timed(speed, tried, at("quick"), leak)
    assert isinstance(short, Tried)
    assert "32 steps in place of 562" in short.shortfalls[0]
    assert as_timed(speed, tried, at("standard"), leak) == tried
    steps = replace(tried, timing=Timing.STEP)
    smaller = ("with a step of size quick, smaller than the real system's",)
    assert as_timed(speed, steps, at("quick"), leak) == replace(steps, shortfalls=smaller)
    assert as_timed(speed, steps, at("standard"), leak) == steps
    passes = replace(tried, timing=Timing.EVALUATION)
    short = as_timed(speed, passes, at("quick"), leak)
    assert isinstance(short, Tried)
    assert "a pass had 40 items in place of 7,913" in short.shortfalls[0]
    assert as_timed(speed, passes, at("standard"), leak) == passes
    assert as_timed(speed, passes, at("quick", workers=0), leak) == passes, "nothing starts"
    unknown = replace(leak, original_evaluation_items=None)
    assert as_timed(speed, passes, at("quick"), unknown) == passes
