"""The tables: documented, of stable types, and with the same numbers as the report."""

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analyze.collection import StoredRun
from harness.analyze.composition import Arrival, Composed
from harness.analyze.matrix import build_matrix
from harness.analyze.verdict import Verdict
from harness.core.plan import NoResult, Plan
from harness.core.records import Lost, Ready, Record, Window
from harness.exchange import parquet as rows
from harness.exchange.parquet import MAKERS, NEVER_PLANNED, SCHEMA, TABLES, Column, Exported
from harness.report.document import grid
from tests.analyze.synthetic import ENVIRONMENT, Noise, arm, comparison, plan, ready, records

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402  after it is known to be there

from harness.exchange.parquet import tables  # noqa: E402

NOISE = Noise(window=0.01, replicate=0.005, generator=np.random.default_rng(5))
PLAN = plan(
    comparison("workers"),
    comparison("amp"),
    no_results=(NoResult(workload="leak", label="compile", reason="needs g++"),),
)
RECORDS: tuple[Record, ...] = (
    *records(0, 1.5, noise=NOISE),
    ready(arm(1), losses=(2.0, math.nan, math.inf), effective={"layout": None, "threads": 2, "steady": True, "x": 0.5}),
    Lost(arm=arm(1, 0, 1), outcome="failed", reason="out of memory", trace="…"),
)


def exported(name: str = "20260102T030405-0a", the_plan: Plan = PLAN, found: tuple[Record, ...] = RECORDS) -> Exported:
    kept = StoredRun(
        name=name,
        began="2026-01-02T03:04:05+00:00",
        command="speedmatrix run leak",
        version="0.2.0",
        matrix=replace(build_matrix(the_plan, found, ENVIRONMENT), contributed=True),
    )
    return Exported(kept=kept, plan=the_plan, records=found)


def read(*runs: Exported) -> dict[str, pyarrow.Table]:
    return {name: parquet.read_table(io.BytesIO(content)) for name, _, content in tables(runs)}


FOUND = read(exported())


def test_every_table_has_its_rows() -> None:
    windows = [one for one in RECORDS if isinstance(one, Window)]
    readies = [one for one in RECORDS if isinstance(one, Ready)]
    assert {name: table.num_rows for name, table in FOUND.items()} == {
        "runs": 1,
        "arms": len(readies),
        "settings": sum(len(one.effective) for one in readies),
        "losses": sum(len(one.losses) for one in readies),
        "windows": len(windows),
        "lost": 1,
        "ratios": 3,
    }
    assert [count for _, count, _ in tables([exported()])] == [table.num_rows for table in FOUND.values()]


def test_the_tables_are_those_that_are_documented() -> None:
    assert list(FOUND) == list(TABLES) == list(MAKERS)
    for name, columns in TABLES.items():
        assert FOUND[name].column_names == [column.name for column in columns]
        for column in columns:
            field = FOUND[name].schema.field(column.name)
            assert field.metadata[b"description"].decode() == column.words != ""
            assert field.nullable == column.may_miss


def test_the_schema_is_in_the_file_s_metadata() -> None:
    for name, table in FOUND.items():
        assert table.schema.metadata[b"speedmatrix.schema"] == str(SCHEMA).encode()
        assert table.schema.metadata[b"speedmatrix.table"] == name.encode()


def test_types_do_not_hang_on_what_is_in_them() -> None:
    empty = read(exported(the_plan=plan(), found=()))
    assert {name: table.schema for name, table in empty.items()} == {name: one.schema for name, one in FOUND.items()}
    assert empty["ratios"].num_rows == empty["windows"].num_rows == 0


def test_a_ratio_is_that_of_the_matrix() -> None:
    run = exported()
    row = next(row for row in run.kept.matrix.rows if row.estimate)
    found = next(one for one in FOUND["ratios"].to_pylist() if one["label"] == "workers")
    assert row.estimate is not None
    assert row.treatment is not None
    assert (found["ratio"], found["low"], found["high"]) == (row.estimate.ratio, row.estimate.low, row.estimate.high)
    assert (found["verdict"], found["pairs"], found["replicates"]) == ("faster", 8, 2)
    assert found["treatment_input_wait"] == row.treatment.phases.input_wait == pytest.approx(0.8)
    assert (found["treatment"], found["reference"], found["reference_name"]) == ("workers", "", "baseline")
    assert (found["outcome"], found["words"]) == (None, None)


def test_what_a_ratio_of_a_part_comes_to_on_steps_stands_beside_it() -> None:
    run = exported()
    came_to = Composed(ratio=1.2, low=1.1, high=1.3, verdict=Verdict.FASTER, share=0.5, arrives=Arrival())
    tables = tuple(
        replace(table, rows=tuple(replace(one, on_steps=came_to) if one.estimate else one for one in table.rows))
        for table in run.kept.matrix.tables
    )
    composed = replace(run, kept=replace(run.kept, matrix=replace(run.kept.matrix, tables=tables)))
    names = "steps_ratio", "steps_low", "steps_high", "steps_verdict", "shared"
    seen = [
        [one[name] for name in names]
        for found in (read(composed), FOUND)
        for one in found["ratios"].to_pylist()
        if one["label"] == "workers"
    ]
    assert seen == [[1.2, 1.1, 1.3, "faster", False], [None, None, None, None, False]]


def test_what_has_no_ratio_has_words() -> None:
    found = {one["label"]: one for one in FOUND["ratios"].to_pylist()}
    assert found["amp"]["ratio"] is found["amp"]["verdict"] is None
    assert (found["amp"]["outcome"], found["amp"]["words"]) == ("failed", "failed: out of memory (replicate 1)")
    assert (found["compile"]["outcome"], found["compile"]["words"]) == (NEVER_PLANNED, "needs g++")
    assert found["compile"]["treatment"] is None


def test_a_burst_knows_its_cell() -> None:
    first = FOUND["windows"].to_pylist()[1]
    assert (first["stack"], first["label"], first["workload"], first["timing"]) == (
        "workers",
        "workers",
        "leak",
        "step",
    )
    assert first["rate"] == pytest.approx(first["samples"] / first["wall_s"])
    reference = FOUND["windows"].to_pylist()[0]
    assert (reference["stack"], reference["label"], reference["position"]) == ("", None, 0)


def test_a_window_tells_of_its_edges_and_of_its_slowest_step() -> None:
    seen = {
        "lead_steps": 3, "lead_s": 0.2, "first_half_s": 3.1, "batches": 10, "produced": 9, "slipped": 0,
    }  # fmt: skip
    led = [replace(one, **seen, slowest_s=(0.9, 0.7)) if isinstance(one, Window) else one for one in RECORDS]
    first = read(exported(found=tuple(led)))["windows"].to_pylist()[0]
    assert {name: first[name] for name in (*seen, "slowest_s")} == {**seen, "slowest_s": 0.9}
    unled = [replace(one, **dict.fromkeys(seen)) if isinstance(one, Window) else one for one in RECORDS]
    first = read(exported(found=tuple(unled)))["windows"].to_pylist()[0]
    assert {first[name] for name in (*seen, "slowest_s")} == {None}, "a record of before 0.3.0"


def test_windows_that_were_left_out_are_counted() -> None:
    contended = [replace(one, others=0.6) if isinstance(one, Window) and one.order == 1 else one for one in RECORDS]
    (row,) = (one for one in read(exported(found=tuple(contended)))["ratios"].to_pylist() if one["label"] == "workers")
    assert (row["windows"], row["left_out"], row["pairs"]) == (18, 2, 6)
    assert "other processes took the cores (2)" in row["notes"]


def test_settings_of_every_kind_are_text_and_number() -> None:
    found = {one["name"]: (one["value"], one["number"]) for one in FOUND["settings"].to_pylist() if one["block"] == "1"}
    assert found == {"layout": (None, None), "threads": ("2", 2.0), "steady": ("true", 1.0), "x": ("0.5", 0.5)}


def test_losses_that_are_no_numbers_stay_what_they_are() -> None:
    first, second, third = (one["loss"] for one in FOUND["losses"].to_pylist() if one["block"] == "1")
    assert first == 2.0
    assert math.isnan(second)
    assert third == math.inf


def test_runs_are_told_apart() -> None:
    both = read(exported(), exported("20260102T030405-0b"))
    assert both["runs"].column("run").to_pylist() == ["20260102T030405-0a", "20260102T030405-0b"]
    assert both["windows"].num_rows == 2 * FOUND["windows"].num_rows
    run = both["runs"].to_pylist()[0]
    assert (run["machine"], run["environment"]) == (ENVIRONMENT.machine, ENVIRONMENT.digest)
    assert (run["contributed"], run["torch"], run["packages"]) == (True, "2.11.0", "numpy 2.1.0, torch 2.11.0")
    assert run["variables"] == ""
    assert run["began"].isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_column_that_nobody_declared_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_told", lambda *_: {"blok": "0"})
    with pytest.raises(ValueError, match=r"has no columns \['blok'\]"):
        list(tables([exported()]))


def test_a_missing_value_that_must_be_there_is_an_error() -> None:
    run = exported()
    broken = replace(run, kept=replace(run.kept, version=None))  # type: ignore[arg-type]
    with pytest.raises((pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, ValueError)):
        list(tables([broken]))


ABOUT = {
    "runs": "a row for each run",
    "arms": "a row for each arm that was ready",
    "settings": "a row for each effective setting of each arm",
    "losses": "a row for each of the first losses of each arm",
    "windows": "a row for each window",
    "lost": "a row for each arm that gave no more windows",
    "ratios": "a row for each comparison, measured or not",
}


def described() -> Iterator[str]:
    """The lines of the format's page; a column that means the same as in a table before is named and not told again."""
    told: set[Column] = set()
    for name, columns in TABLES.items():
        yield from (f"### {name}.parquet: {ABOUT[name]}", "")
        again = [f"`{column.name}`" for column in columns if column in told]
        if again:
            yield from (f"{', '.join(again)}: as above.", "")
        new = [column for column in columns if column not in told]
        rows = ((f"*`{one.name}`*" if one.may_miss else f"`{one.name}`", one.kind, one.words) for one in new)
        yield from (*grid(("column", "type", "meaning"), rows), "")
        told.update(new)


def test_the_description_of_the_format_is_of_these_columns() -> None:
    text = (Path(__file__).parents[2] / "docs" / "results-format.md").read_text(encoding="utf-8")
    told = "\n".join(described()).rstrip()
    assert told in text, f"write into the section:\n{told}"
