"""Every form in which measurements were ever written can still be read, reported, packed and taken in."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness import store
from harness.analyze.matrix import build_matrix
from harness.core.records import Lost
from harness.exchange import bundle as manifest
from harness.exchange.bundle import packed, read, unpacked
from tests.report.whole import matrix_to_markdown

HERE = Path(__file__).parent
RUNS = sorted(HERE.glob("schema-*"))
BUNDLES = sorted(HERE.glob("bundle-*.speedmatrix.zip"))
NOW = datetime(2026, 11, 24, tzinfo=UTC)
# Records, and ratios that are believed: of `schema-2` none, since its one comparison is of loader workers (0.2.0).
HELD = {
    "schema-1": (16, 1),
    "schema-1-with-rounds": (12, 1),
    "schema-2": (14, 0),
    "schema-2-with-losses": (4, 0),
    "schema-3": (22, 1),
    "schema-4": (18, 1),
}

each_run = pytest.mark.parametrize("folder", RUNS, ids=lambda path: path.name)


def without_example(newest: int, kept: Iterator[int]) -> set[int]:
    """Schema numbers up to the newest of which nothing is kept."""
    return set(range(1, newest + 1)) - set(kept)


def schemas() -> Iterator[int]:
    return (json.loads((folder / store.RUN).read_text())["schema"] for folder in RUNS)


def test_every_schema_has_a_kept_example() -> None:
    assert without_example(store.SCHEMA, schemas()) == set(), "cut a folder schema-N from a run of this version"
    formats = (int(path.name.removeprefix("bundle-").partition(".")[0]) for path in BUNDLES)
    assert without_example(manifest.FORMAT, formats) == set(), "keep a bundle of this version"


def test_a_schema_that_rises_without_an_example_is_noticed() -> None:
    assert without_example(store.SCHEMA + 1, schemas()) == {store.SCHEMA + 1}


def test_what_was_read_from_each_is_written_down() -> None:
    assert sorted(HELD) == [folder.name for folder in RUNS]


@each_run
def test_it_is_read_and_reported(folder: Path) -> None:
    run, records = store.read_run(folder), store.read_records(folder)
    matrix = build_matrix(run.plan, records, run.environment)
    assert (len(records), matrix.looked_at) == HELD[folder.name]
    assert f"{matrix.looked_at} of {len(matrix.rows) + len(matrix.no_results)} have a ratio" in matrix_to_markdown(
        matrix, run.command
    )


@each_run
def test_every_line_states_the_schema_of_its_run(folder: Path) -> None:
    stated = {json.loads(line)["schema"] for line in (folder / store.MEASUREMENTS).read_text().splitlines()}
    assert stated == {json.loads((folder / store.RUN).read_text())["schema"]}


@each_run
def test_it_can_be_passed_on(folder: Path, tmp_path: Path) -> None:
    given = read(unpacked(folder), NOW)
    assert (given.run, list(given.records)) == (store.read_run(folder), store.read_records(folder))
    (tmp_path / "run.zip").write_bytes(packed(given, 0))
    taken = read(unpacked(tmp_path / "run.zip"), NOW)
    assert (taken.run, taken.records) == (given.run, given.records)
    assert taken.schema == store.SCHEMA


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_every_bundle_is_taken_in(bundle: Path) -> None:
    taken = read(unpacked(bundle), NOW)
    assert [type(record).__name__ for record in taken.records] == ["Ready", "Lost", "Lost", "Ready"]
    lost = taken.records[1]
    assert isinstance(lost, Lost)
    assert lost.reason == "RuntimeError: cannot read FOLDER/first.pt"
    assert 'File "harness/run/worker.py", line 24, in serve' in lost.trace
