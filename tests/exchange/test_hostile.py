"""Every hostile bundle ends in one sentence with a remedy and status 2, and leaves nothing behind."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.cli import main
from harness.exchange.bundle import read, unpacked
from harness.store import RUN
from tests.exchange.hostile import HOSTILE, of_passes, with_steps, with_workers
from tests.exchange.made import GOOD, Data, bundled, line_data, run_data

REMEDIES = (
    "ask for",
    "update",
    "fetch it again",
    "set the clock",
    "choose a run",
    "measure more",
    "give the file",
    "tell who",
)


def refusal(content: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What `import` says of a bundle that it refuses, with the results folder as empty as before."""
    bundle, results = folder / "run.zip", folder / "results"
    bundle.write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "import", str(bundle), "--results", str(results)])
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert captured.out == ""
    assert not results.exists()
    assert sorted(folder.iterdir()) == [bundle]
    return captured.err


@pytest.mark.parametrize("name", HOSTILE)
def test_one_sentence_and_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words = HOSTILE[name]
    said = refusal(make(), tmp_path, monkeypatch, capsys)
    assert words in said
    assert said.startswith(f"{tmp_path / 'run.zip'} is not taken in: ")
    assert said.endswith(".\n")
    assert said[:-1].isprintable(), "one line, and nothing that a terminal would obey"
    assert len(said) < 700
    assert any(remedy in said for remedy in REMEDIES)


def test_the_bundle_that_all_were_made_from_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.zip").write_bytes(GOOD)
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "import", "run.zip", "--results", "results"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "2 of 2 configurations with a ratio" in capsys.readouterr().out


@pytest.mark.parametrize(
    "make",
    [
        with_workers(),
        with_workers(produced=14, slipped=5),
        with_workers(produced=6),
        with_steps(1.0, first_half_s=2.0),
        with_steps(0.5, first_half_s=2.5),
        of_passes(640),
    ],
)
def test_what_may_be_is_taken_in(make: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "run.zip").write_bytes(make())
    assert read(unpacked(tmp_path / "run.zip"), datetime(2027, 1, 1, tzinfo=UTC)).records


def test_a_block_of_more_replicates_than_the_protocol_has_is_sound(tmp_path: Path) -> None:
    """As `run --target none` measures whole steps in a first look: in four fresh processes instead of two."""
    further = [{**one, "arm": {**one["arm"], "restart": one["arm"]["restart"] + 2}} for one in line_data()]
    run = run_data()
    for block in run["plan"]["blocks"]:
        block["restarts"] = 4
    lines = [*line_data(), *further]
    (tmp_path / "run.zip").write_bytes(bundled(json.dumps(run).encode(), lines, records=len(lines)))
    assert read(unpacked(tmp_path / "run.zip"), datetime(2027, 1, 1, tzinfo=UTC)).records


def test_a_short_last_batch_is_what_an_arm_that_keeps_it_may_have(tmp_path: Path) -> None:
    def told(line: Data) -> Data:
        if line["record"] == "ready":
            return {**line, "effective": {**line["effective"], "last_batch": "short"}}
        return {**line, "samples": 640 - 32} if line["record"] == "burst" else line

    (tmp_path / "run.zip").write_bytes(bundled(lines=[told(line) for line in line_data()]))
    assert read(unpacked(tmp_path / "run.zip"), datetime(2027, 1, 1, tzinfo=UTC)).records


def test_a_folder_that_was_copied_by_hand_commands_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RUN).write_text(json.dumps({**run_data(), "\x1b]0;owned\x07": 1}))
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "report", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "run.json. ]0;owned is unknown" in said
    assert said[:-1].isprintable()
