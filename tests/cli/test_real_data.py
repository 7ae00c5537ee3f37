"""Real data are named, checked and told of without saying where they lie."""

import json
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.measuring import shown_command

ROOT = Path(__file__).parents[2]


def call(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", *arguments])
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "--data-root", "."], "Whose data lie in .? Name one workload, or write --data-root WORKLOAD=."),
        (["plan", "leak", "speaker", "--data-root", "."], "Whose data lie in ."),
        (["plan", "leak", "--data-root", "nowhere"], "There is no folder nowhere; --data-root takes the folder"),
        (["plan", "leak", "--data-root", "speaker=."], "speaker has data but is not measured; name it"),
        (["plan", "nope", "--data-root", "."], "There is no workload 'nope'"),
        (["best", "leak", "--data-root", "nowhere"], "There is no folder nowhere; --data-root takes the folder"),
        (["learn", "leak@smoke", "--data-root", "nowhere"], "There is no folder nowhere"),
        (
            ["plan", "--workload", str(ROOT / "docs/example_workload.py"), "--data-root", "."],
            "pictures takes no data from elsewhere; leave out --data-root.",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = call(arguments, monkeypatch, capsys)
    assert status == 2
    assert err.startswith(words)
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["imagenet", "leak", "patches3d", "speaker", "spoof"])
def test_every_workload_refuses_a_folder_that_holds_none_of_its_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = call(["plan", name, "--data-root", str(tmp_path)], monkeypatch, capsys)
    assert status == 2
    assert len(err.splitlines()) == 1
    assert str(tmp_path) in err


@pytest.mark.parametrize("name", ["imagenet", "leak", "patches3d", "speaker", "spoof"])
def test_a_tree_in_the_real_layout_is_counted_into_the_plan(
    name: str,
    smoke_data: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["plan", name, "--size", "smoke", "--device", "cpu", "--data-root", f"{name}={smoke_data[name]}", "--json"]
    status, out, err = call(words, monkeypatch, capsys)
    assert status == 0, err
    told = json.loads(out)["plan"]["data"]
    assert told[name].startswith("real data on ")
    assert str(smoke_data[name]) not in out


@pytest.mark.parametrize("form", [["--data-root", "leak=/secret/a=b"], ["--data-root=leak=/secret/a=b"]])
def test_the_command_that_is_kept_does_not_say_where_data_lie(form: list[str]) -> None:
    shown = shown_command(["run", "leak", *form, "--seed", "3"])
    assert shown == "speedmatrix run leak --data-root leak=FOLDER --seed 3"
    written = ["sweep", "leak", "--figures", "/secret/figures", "--output=/secret/page.md", "--seed", "3"]
    assert shown_command(written) == "speedmatrix sweep leak --seed 3"
    assert shown_command(["run", "leak", "--data-root", "/secret/a=b"]) == "speedmatrix run leak --data-root FOLDER"


@pytest.mark.parametrize(("probe", "status"), [("loader", 2), ("compute", 0)])
def test_files_that_do_not_fit_in_memory_compare_no_loader(
    probe: str,
    status: int,
    smoke_data: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The reference would read them from storage, and the other arms what it has left in memory."""
    monkeypatch.setattr("harness.run.data.FITS", 0.0)
    monkeypatch.chdir(tmp_path)
    options = ["--size", "smoke", "--device", "cpu", "--data-root", str(smoke_data["leak"]), "--probe", probe]
    asked = ["run", "leak", *options, "--only", "tuned_malloc", "--replicates", "2", "--results", str(tmp_path)]
    got, _, err = call([*asked, "--budget", "none"], monkeypatch, capsys)
    assert got == status, err
    assert ("take more than half of the free memory" in err) == (status == 2)
