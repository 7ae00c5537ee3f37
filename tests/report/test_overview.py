"""The overview: one screen, results first, nothing that is missing left unsaid."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analyze.matrix import Matrix, Row
from harness.catalogue import read_catalogue
from harness.cli.reading import advised_by, matrix_of
from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.report.document import to_terminal
from harness.report.overview import MOST_ROWS, advice_overview, after_advice, closing, overview, reasons
from tests.analyze.synthetic import matrix, plan, story

ROOT = Path(__file__).parents[2]
FIVE = ROOT / "results" / "cpu-2-intel-xeon" / "20261123T032032-4db78fb4"  # a first look at all workloads
FACTORIAL = ROOT / "results" / "cpu-2-amd-epyc" / "20261122T070345-d1065d6a"
SCREEN = 40  # lines


def shown(found: Matrix, width: int = 100) -> str:
    last = closing("results/machine/run", "./speedmatrix run leak", "; about 4 min 10 s are left")
    return to_terminal((*overview(found, "1.2.3"), *last), width=width)


def advised(folder: Path, width: int) -> str:
    advice, commands = advised_by(folder, read_catalogue())
    last = after_advice(advice, commands, "results/machine/run")
    return to_terminal((*advice_overview(advice, "1.2.3"), *last), width=width)


@pytest.mark.parametrize("folder", [FIVE, FACTORIAL], ids=["five", "factorial"])
@pytest.mark.parametrize("width", [80, 100, 140])
def test_it_fits_on_a_screen_and_cuts_no_ratio(folder: Path, width: int) -> None:
    found = matrix_of(folder)
    for text in (shown(found, width), advised(folder, width)):
        lines = text.splitlines()
        assert len(lines) <= SCREEN
        assert max(len(line) for line in lines if not re.search(r"\./speedmatrix|Saved in", line)) <= width
        ratios = re.findall(r"\dx \[.*", text)
        assert all(re.match(r"\dx \[[\d.,]+, [\d.,]+\]", one) for one in ratios)
    told = [line for line in shown(found, width).splitlines() if re.search(r"\dx \[", line)]
    assert len(told) == min(MOST_ROWS, sum(1 for row in found.rows if row.estimate))


def test_every_workload_has_a_line_and_every_missing_result_is_counted() -> None:
    for found in (matrix_of(FIVE), story()):
        missing = len([row for row in found.rows if row.absence]) + len(found.no_results)
        assert reasons(found).total() == missing
        text = shown(found, 100)
        assert f"No result: {missing} comparisons:" in text
        for name in {row.comparison.reference.workload for row in found.rows} | {
            one.workload for one in found.no_results
        }:
            assert f"\n {name} " in text


def fresh(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The same rows as objects of their own, as two tables have them."""
    return tuple(replace(row) for row in rows)


def test_missing_results_are_counted_by_reason_and_never_named() -> None:
    names = ("compile", "tf32", "graphs", "streams")
    many = tuple(NoResult(workload="leak", label=name, reason="needs a CUDA device") for name in names)
    found = matrix(plan(no_results=(*many, NoResult(workload="leak", label="lone", reason="why: so"))), [])
    text = " ".join(shown(found).split())
    assert "No result: 5 comparisons: needs a CUDA device (4), why (1)." in text
    assert not any(name in text for name in (*names, "lone"))


@pytest.mark.parametrize("width", [80, 100])
def test_the_screen_holds_five_workloads_with_many_ratios_in_forty_lines(width: int) -> None:
    found = story()
    tables = tuple(
        replace(
            table, config=replace(table.config, workload=f"{table.config.workload}{number}"), rows=fresh(table.rows * 3)
        )
        for table in found.tables
        for number in range(5)
    )
    lines = shown(replace(found, tables=tables, no_results=()), width).splitlines()
    assert len(lines) <= SCREEN
    assert any("more have a ratio" in line for line in lines)
    ratios = [line for line in lines if re.search(r"\dx \[", line)]
    assert len(ratios) <= MOST_ROWS
    assert all(any(f"leak{number}" in line for line in ratios) for number in range(5))


def test_a_workload_without_any_ratio_has_a_row_that_says_so() -> None:
    found = matrix(plan(no_results=(NoResult(workload="spoof", label="x", reason="why"),)), [])
    assert re.search(r"spoof +- +- +no result", shown(found))


def test_what_was_timed_otherwise_or_against_another_reference_says_so() -> None:
    found = story()
    (table, *_) = found.tables
    other = replace(table, name="original", timing=Timing.LOADER, rows=fresh(table.rows))
    assert "original, loader" in shown(replace(found, tables=(table, other)))
    assert " against " not in shown(replace(found, tables=(table,))).partition("workload")[2]
