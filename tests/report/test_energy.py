"""Energy stands beside speed wherever a device counts it, and on a CPU no word is lost about it."""

import io
import json
import re
from dataclasses import replace

import pytest

from harness.analyze.matrix import Matrix, Table
from harness.core.records import Record, Window
from harness.report import matrix as sentences
from harness.report.advice import full
from harness.report.html import to_html
from harness.report.matrix import View, matrix_to_json
from harness.report.published_pages import workload_page
from harness.report.words import energy, frequency
from tests.analyze.advised import Made as AdvisedMade
from tests.analyze.advised import advice_on, item
from tests.analyze.synthetic import ENVIRONMENT, comparison, matrix, plan, records, story
from tests.analyze.test_pool import half, spending
from tests.report.collected import Made, kept, placed
from tests.report.exhibits import exhibit, shown
from tests.report.whole import matrix_to_markdown, matrix_to_terminal

PLAN = plan(comparison("workers"))
SAID = r"2 J a sample instead of 4 J: 2\.00x \[1\.\d\d, 2\.\d\d\] as many samples a joule"
ENERGY = "energy a sample, times thriftier"
ON_GPU = replace(ENVIRONMENT, device="cuda", accelerator="NVIDIA H200")


def names(table: Table) -> list[str]:
    return [one.head((table,)).name for one in sentences.columns((table,), View.FULL)]


def told() -> list[Record]:
    """Three times as fast on half the energy, with all that a driver tells."""
    facts = {"clock_mhz": 1980.0, "process_bytes": 5 << 30, "throttled": (), "strangers": 0}
    found = spending(records(0, 3.0), half)
    return [replace(one, **facts) if isinstance(one, Window) else one for one in found]


def thrifty() -> Matrix:
    return matrix(PLAN, told())


@pytest.mark.parametrize(
    ("joules", "words"),
    [(0.00071, "0.71 mJ"), (0.35, "350 mJ"), (0.9996, "1 J"), (1.239, "1.24 J"), (2345.6, "2,346 J")],
)
def test_joules_have_three_digits(joules: float, words: str) -> None:
    assert energy(joules) == words


def test_clocks_are_whole_megahertz() -> None:
    assert frequency(1979.6) == "1,980 MHz"


def test_on_a_cpu_nobody_speaks_of_energy() -> None:
    found = story()
    for table in found.tables:
        assert ENERGY not in names(table)
        assert {len(cells) for cells in sentences.body(table, View.FULL)} == {len(names(table))}
        assert not any(sentences.thrift(row) for row in table.rows)
    for text in (matrix_to_markdown(found, "run"), matrix_to_terminal(found, width=200), to_html(shown())):
        assert not re.search(r"\bjoule|\benergy|\bMHz", text, re.IGNORECASE)
    assert all(row["energy"] is None for row in json.loads(matrix_to_json(found))["tables"][0]["rows"])


def test_the_sentence_tells_both_arms_and_the_interval() -> None:
    (row,) = thrifty().rows
    assert re.fullmatch(SAID, sentences.thrift(row) or "")
    assert sentences.thrift(replace(row, energy=None)) is None


def test_the_column_holds_the_reference_s_joules_and_every_row_s_with_its_ratio() -> None:
    (table,) = thrifty().tables
    reference, row = (cells[names(table).index(ENERGY)] for cells in sentences.body(table, View.FULL))
    assert reference == "4 J"
    assert re.fullmatch(r"2 J, 2\.00x \[1\.\d\d, 2\.\d\d\]", row)


def test_markdown_has_a_column_and_a_sentence() -> None:
    text = matrix_to_markdown(thrifty(), "run")
    assert f"| {ENERGY} |" in text
    assert re.search(SAID, text.replace("\\", ""))


def test_a_narrow_terminal_keeps_its_room_for_the_speedup() -> None:
    wide, narrow = (matrix_to_terminal(thrifty(), width=width) for width in (180, 100))
    assert "thriftier" in wide
    assert "thriftier" not in narrow
    assert "3.00x" in narrow


def test_html_shows_energy_clock_and_the_memory_of_the_process() -> None:
    text = to_html(shown(exhibit(PLAN, told(), environment=ON_GPU)))
    assert re.search(f"Energy: {SAID}", text)
    for words in ("<th>energy a sample<td>2 J<td>4 J", "device clock<td>1,980 MHz", "of its process<td>5.0 GiB"):
        assert words in text


def test_json_has_the_whole_estimate() -> None:
    (row,) = json.loads(matrix_to_json(thrifty()))["tables"][0]["rows"]
    assert row["energy"]["ratio"] == pytest.approx(2.0)
    assert row["energy"]["processes"] == 2
    assert row["treatment_profile"]["joules"] == pytest.approx(2.0)
    assert row["estimate"]["device"]["clock_mhz"] == {"treatment": 1980.0, "reference": 1980.0}


def test_published_tables_have_as_many_cells_as_columns() -> None:
    one = kept(Made(treatment=("workers",), ratio=3.0), environment=ON_GPU)
    text = workload_page(
        placed(replace(one, matrix=replace(thrifty(), environment=ON_GPU))), "leak", has_claims=True
    ).text
    (header,) = re.findall(r"^\|.*thriftier.*$", text, re.MULTILINE)
    (row,) = (line for line in text.splitlines() if line.startswith("| workers |") and "\N{NO-BREAK SPACE}J" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == header.count("|")


def test_parquet_has_what_was_counted() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from harness.exchange.parquet import Exported, tables

    run = replace(kept(), matrix=thrifty())
    made = {name: content for name, _, content in tables([Exported(kept=run, plan=PLAN, records=tuple(told()))])}
    (ratio,) = parquet.read_table(io.BytesIO(made["ratios"])).to_pylist()
    assert ratio["energy_ratio"] == pytest.approx(2.0)
    assert ratio["energy_low"] < 2 < ratio["energy_high"]
    assert (ratio["treatment_joules"], ratio["reference_joules"]) == (pytest.approx(2.0), pytest.approx(4.0))
    window = parquet.read_table(io.BytesIO(made["windows"])).to_pylist()[0]
    assert (window["energy_j"], window["clock_mhz"], window["throttled"], window["strangers"]) == (
        2560.0,
        1980.0,
        "",
        0,
    )


def test_advice_tells_energy_among_the_costs_where_it_was_counted() -> None:
    found = advice_on(AdvisedMade(on=("workers",), ratio=3.0))
    one = item(found, "workers")
    assert "energy" not in full(one, found).main[0]
    row = one.effect.row
    assert row.treatment is not None
    assert row.reference is not None
    row = replace(row, treatment=replace(row.treatment, joules=2.0), reference=replace(row.reference, joules=4.0))
    counted = replace(one, effect=replace(one.effect, row=row))
    assert "energy a sample -50 %" in full(counted, found).main[0]
