"""`trace` and `timeline`: what a profiler saw of a real training, and how busy its device was."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.test_commands import call, is_one_sentence


@pytest.mark.thorough
@pytest.mark.parametrize("names", ["channels_last", "workers=1"])
def test_a_trace_holds_the_steps_that_were_asked_for(
    names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "leak.json.gz"
    ended = call(f"trace leak@smoke:{names} --steps 4 --output {path} --data {tmp_path}", monkeypatch, capsys)
    assert (ended.status, ended.err) == (0, "")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = [one for one in events if str(one.get("name", "")).startswith("ProfilerStep#") and one.get("ph") == "X"]
    assert len({one["name"] for one in steps}) == 4
    waits = [one for one in events if one.get("name") == "wait for the next batch" and one.get("ph") == "X"]
    assert len(waits) == 4
    assert "aten::convolution_backward" in ended.out
    assert f"leak@smoke#64:{names}" in ended.out.replace("\n", "")
    assert "Memory of a step: weights 2.4 MiB, gradients 2.4 MiB" in " ".join(ended.out.split())
    assert "opens in ui.perfetto.dev" in " ".join(ended.out.split())


@pytest.mark.thorough
def test_a_timeline_is_printed_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "busy.svg"
    ended = call(
        f"timeline leak@smoke --device emulated:20ms --over 3s --output {path} --data {tmp_path}", monkeypatch, capsys
    )
    assert (ended.status, ended.err) == (0, "")
    said = " ".join(ended.out.split())
    assert "leak@smoke#64 on emulated 20ms" in said
    assert "Of 18 periods of 167 ms" in said
    assert "the device computes" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("leak --over 1s", "A timeline cannot be 1s long; name a time from 2 s to 10 min."),
        ("leak --over none", "A timeline cannot be none long"),
        ("leak --output busy.pdf", "A timeline cannot be drawn in busy.pdf; name an .svg file"),
        ("leak:amp_float16 --device emulated:t4", "amp_float16 cannot be tried here"),
        ("nothing", "nothing"),
    ],
)
def test_what_has_no_timeline_has_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_one_sentence(call(f"timeline {words}", monkeypatch, capsys), said, tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("leak --output nowhere/trace.json", "A trace cannot be written to nowhere/trace.json"),
        ("leak --output trace.txt", "name a .json or .json.gz file"),
        ("leak --device emulated:a100", "An emulated device leaves the model out"),
        ("nothing", "nothing"),
    ],
)
def test_what_cannot_be_traced_has_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_one_sentence(call(f"trace {words}", monkeypatch, capsys), said, tmp_path)
