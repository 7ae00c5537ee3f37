"""What `export` writes: a folder of tables that other programs read, each replaced at once."""

import builtins
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.sharing import export
from harness.core.mistake import Mistake
from harness.exchange.parquet import TABLES
from harness.store import finish
from tests.cli.test_bundling import measured
from tests.exchange.made import GOOD_RECORDS, GOOD_RUN

parquet = pytest.importorskip("pyarrow.parquet")
NAMES = sorted(f"{name}.parquet" for name in TABLES)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    finish(measured(folder))
    return folder


def test_all_finished_runs_are_written(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(results, replace(GOOD_RUN, version="0.3.0"))  # goes on
    finish(measured(results, replace(GOOD_RUN, version="0.4.0", rehearsed=True)))
    assert export((), tmp_path / "out", results) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == NAMES
    runs = parquet.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    assert [run["version"] for run in runs] == [GOOD_RUN.version]
    said = capsys.readouterr().out
    assert said.startswith(f"1 run in {tmp_path / 'out'}: runs (1 rows), arms (8 rows)")


def test_named_runs_are_written_finished_or_not(results: Path, tmp_path: Path) -> None:
    going_on = measured(results, replace(GOOD_RUN, version="0.3.0"), GOOD_RECORDS[:5])
    export((going_on,), tmp_path / "out", results)
    assert parquet.read_table(tmp_path / "out" / "windows.parquet").num_rows == 3


def test_an_older_export_is_replaced(results: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    export((), output, results)
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    (output / "runs.parquet").write_text("older")
    (output / "mine.txt").write_text("stays")
    export((), output, results)
    after = {path.name: path.read_bytes() for path in output.iterdir()}
    assert after == before | {"mine.txt": b"stays"}


def test_a_reader_sees_the_old_file_or_the_new(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    export((), output, results)
    before = (output / "runs.parquet").read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        Mistake, match=r"Cannot write .*runs\.parquet \(No space left on device\); choose another folder"
    ):
        export((), output, results)
    assert (output / "runs.parquet").read_bytes() == before
    assert sorted(path.name for path in output.iterdir()) == NAMES


def test_without_pyarrow_the_remedy_is_told(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return real(name, *given, **named)

    monkeypatch.delitem(sys.modules, "harness.exchange.parquet", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Mistake, match=r"Parquet needs pyarrow .*pip install '\.\[export\]' in a clone"):
        export((), tmp_path / "out", results)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_a_mistake(results: Path, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="There is no finished run in"):
        export((), tmp_path / "out", tmp_path / "absent")
    with pytest.raises(Mistake, match="was rehearsed: its times are invented"):
        export((measured(results, replace(GOOD_RUN, rehearsed=True)),), tmp_path / "out", results)
    with pytest.raises(Mistake, match="is not a run"):
        export((tmp_path,), tmp_path / "out", results)
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match="choose another folder with --output"):
        export((), tmp_path / "file", results)


def test_pandas_and_duckdb_read_it(results: Path, tmp_path: Path) -> None:
    """Where they are installed; pyarrow, which both build on, is asked in every other test."""
    export((), tmp_path / "out", results)
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(tmp_path / "out" / "windows.parquet")
    assert (frame.samples / frame.wall_s - frame.rate).abs().max() < 1e-9
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.read_parquet(str(tmp_path / "out" / "windows.parquet")).count("*").fetchall() == [(len(frame),)]
