"""Every hostile bundle ends in one sentence with a remedy and status 2, and leaves nothing behind."""

import json
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.store import RUN
from tests.intake.hostile import HOSTILE
from tests.intake.made import GOOD, run_data

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
    assert "2 of 2 cells with a ratio" in capsys.readouterr().out


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
