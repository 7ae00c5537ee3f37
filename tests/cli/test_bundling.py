"""What `bundle` passes on: the same bytes for the same data, nothing about who or where, and what import takes."""

import getpass
import json
import os
import platform
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import sharing as bundling
from harness.cli.sharing import pack, take_in
from harness.core.mistake import Mistake
from harness.core.plan import NoResult
from harness.core.records import Lost, Record
from harness.results import read_kept
from harness.store import MEASUREMENTS, RUN, Journal, Run, create, folder_of, read_records, read_run
from tests.analyze.synthetic import arm
from tests.exchange.made import GOOD_RECORDS, GOOD_RUN

TOLD = "OSError: '/home/carol/imagenet/train' on carols-h200 of carol"


def measured(results: Path, run: Run = GOOD_RUN, records: tuple[Record, ...] = GOOD_RECORDS) -> Path:
    folder = create(results, run)
    journal = Journal(folder)
    for record in records:
        journal.append(record)
    journal.close()
    return folder


def test_what_is_packed_is_what_is_taken_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack(measured(tmp_path / "ours"), tmp_path / "run.zip")
    assert take_in(tmp_path / "run.zip", tmp_path / "theirs") == 0
    folder = folder_of(tmp_path / "theirs", GOOD_RUN)
    assert read_run(folder) == GOOD_RUN
    assert tuple(read_records(folder)) == GOOD_RECORDS
    said = capsys.readouterr().out
    assert f"holds {len(GOOD_RECORDS)} records" in said
    assert "./speedmatrix import run.zip" in said


def test_the_same_data_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = measured(tmp_path / "a"), measured(tmp_path / "b")
    os.utime(second / RUN, (0, 0))
    pack(first, tmp_path / "first.zip")
    pack(second, tmp_path / "second.zip")
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_the_manifest_says_what_is_inside(tmp_path: Path) -> None:
    pack(measured(tmp_path / "ours"), tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.namelist() == ["bundle.json", RUN, MEASUREMENTS]
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        manifest = json.loads(archive.read("bundle.json"))
        assert manifest["files"][RUN]["bytes"] == len(archive.read(RUN))
    assert manifest["environment"] == GOOD_RUN.environment.digest
    assert (manifest["version"], manifest["command"]) == (GOOD_RUN.version, GOOD_RUN.command)
    assert (manifest["records"], manifest["removed"]) == (len(GOOD_RECORDS), 0)


def test_without_an_output_the_name_is_the_run_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = measured(tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    pack(folder, None)
    assert (tmp_path / f"{folder.parent.name}-{folder.name}.speedmatrix.zip").exists()


def test_nothing_about_who_or_where_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "carol")
    monkeypatch.setattr(platform, "node", lambda: "carols-h200.example.org")
    lost = Lost(arm=arm(), outcome="failed", reason=TOLD, trace=f'  File "{Path.home()}/x/mine.py", line 1\n{TOLD}')
    plan = replace(GOOD_RUN.plan, no_results=(NoResult(workload="leak", label="compile", reason=TOLD),))
    folder = measured(tmp_path / "ours", replace(GOOD_RUN, plan=plan), (*GOOD_RECORDS[:1], lost))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    pack(folder, tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        inside = b"".join(archive.read(name) for name in archive.namelist()).decode()
    for word in ("carol", "/home", str(Path.home()), str(tmp_path), "imagenet"):
        assert word not in inside
    assert "OSError: 'FOLDER' on NAME of NAME" in inside
    assert "10 places, users and hosts were taken out" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before, "a run is never edited"


def test_a_user_without_a_name_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert pack(measured(tmp_path / "ours"), tmp_path / "run.zip") == 0


def test_a_bundle_of_a_run_that_was_taken_in_is_the_same_bundle(tmp_path: Path) -> None:
    pack(measured(tmp_path / "ours"), tmp_path / "first.zip")
    take_in(tmp_path / "first.zip", tmp_path / "theirs")
    pack(folder_of(tmp_path / "theirs", GOOD_RUN), tmp_path / "second.zip")
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_what_proves_nothing_is_not_packed(tmp_path: Path) -> None:
    output = tmp_path / "run.zip"
    rehearsed = measured(tmp_path / "rehearsed", replace(GOOD_RUN, rehearsed=True))
    with pytest.raises(Mistake, match=r"is not bundled: it was rehearsed: .*; choose a run that was measured\."):
        pack(rehearsed, output)
    with pytest.raises(
        Mistake, match=r"is not bundled: nothing was measured in it yet; measure more: ./speedmatrix run"
    ):
        pack(measured(tmp_path / "empty", records=()), output)
    with pytest.raises(Mistake, match=r"it is not the folder of a run; name one that ./speedmatrix run has made"):
        pack(tmp_path / "absent", output)
    with pytest.raises(Mistake, match=r"it has no run\.json"):
        pack(tmp_path, output)
    assert not output.exists()


def test_a_damaged_run_is_not_packed(tmp_path: Path) -> None:
    folder = measured(tmp_path / "ours")
    path = folder / MEASUREMENTS
    path.write_bytes(path.read_bytes().replace(b'"wall_s": ', b'"wall_s": -', 1))
    with pytest.raises(Mistake, match=r"its records do not fit its plan .*; ./speedmatrix bundle .* names the first"):
        read_kept(folder)
    with pytest.raises(Mistake, match=r"line 3: wall_s is -.*; restore it or measure again\."):
        pack(folder, tmp_path / "run.zip")
    assert not (tmp_path / "run.zip").exists()


def test_an_output_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    folder = measured(tmp_path / "ours")
    with pytest.raises(Mistake, match=r"Cannot write .*; choose another path for --output"):
        pack(folder, tmp_path / "absent" / "run.zip")
    (tmp_path / "taken").mkdir()
    with pytest.raises(Mistake, match=r"Cannot write .*; choose another path for --output"):
        pack(folder, tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_an_older_bundle_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, output = measured(tmp_path / "ours"), tmp_path / "run.zip"
    output.write_text("older")

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundling, "packed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(folder, output)
    assert output.read_text() == "older"
