"""The overview: one screen, results first, nothing that is missing left unsaid."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.analyze.evidence import gather
from harness.analyze.matrix import Matrix
from harness.catalogue import read_catalogue
from harness.cli.reading import advised_by, matrix_of, read_kept
from harness.report.advice import chapters
from harness.report.advice_forms import advice_to_markdown, advice_to_terminal
from harness.report.matrix import heading, matrix_to_markdown, matrix_to_terminal
from harness.report.overview import MOST_ROWS, advice_overview, asking, closing, overview, reasons
from harness.store import read_records, read_run
from tests.analyze.synthetic import story

ROOT = Path(__file__).parents[2]
FIVE = ROOT / "results" / "cpu-2-intel-xeon" / "20261123T032032-4db78fb4"  # a first look at all workloads
FACTORIAL = ROOT / "results" / "cpu-2-amd-epyc" / "20261122T070345-d1065d6a"
SCREEN = 40  # lines


def shown(matrix: Matrix, width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for part in overview(matrix, "1.2.3", width):
        console.print(part, highlight=False)
    console.print(closing("results/machine/run", "./speedmatrix run leak"), highlight=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def advised(folder: Path, width: int) -> str:
    run, catalogue = read_run(folder), read_catalogue()
    found = advised_by(read_kept(folder), tuple(gather(run.plan, read_records(folder))), run, catalogue)
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for part in advice_overview(found.advice, "1.2.3", width):
        console.print(part, highlight=False)
    console.print(asking("results/machine/run", list(found.commands.values())), highlight=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("folder", [FIVE, FACTORIAL], ids=["five", "factorial"])
@pytest.mark.parametrize("width", [80, 100, 140])
def test_it_fits_on_a_screen_and_cuts_no_ratio(folder: Path, width: int) -> None:
    matrix = matrix_of(folder)
    for text in (shown(matrix, width), advised(folder, width)):
        lines = text.splitlines()
        assert len(lines) <= SCREEN
        assert max(len(line) for line in lines if not re.search(r"\./speedmatrix|Saved in", line)) <= width
        ratios = re.findall(r"\dx \[.*", text)
        assert all(re.match(r"\dx \[[\d.,]+, [\d.,]+\]", one) for one in ratios)
    told = [line for line in shown(matrix, width).splitlines() if re.search(r"\dx \[", line)]
    assert len(told) == min(MOST_ROWS, sum(1 for row in matrix.rows if row.estimate))


def test_every_workload_has_a_line_and_every_missing_result_is_counted() -> None:
    for matrix in (matrix_of(FIVE), story()):
        missing = len([row for row in matrix.rows if row.absence]) + len(matrix.no_results)
        assert reasons(matrix).total() == missing
        text = shown(matrix, 100)
        assert f"No result: {missing}." in text
        for name in {row.comparison.reference.workload for row in matrix.rows} | {
            one.workload for one in matrix.no_results
        }:
            assert f"\n {name} " in text


def test_views_say_what_they_said(golden: Callable[[str, str], None]) -> None:
    matrix, run, catalogue = matrix_of(FIVE), read_run(FIVE), read_catalogue()
    found = advised_by(read_kept(FIVE), tuple(gather(run.plan, read_records(FIVE))), run, catalogue)
    told = chapters(found.advice, catalogue.optimizations)
    golden("report.txt", shown(matrix, 100))
    golden("report-verbose.txt", matrix_to_terminal(matrix, width=100))
    golden("report.md", matrix_to_markdown(matrix, run.command))
    golden("advise.txt", advised(FIVE, 100))
    golden("advise-verbose.txt", advice_to_terminal(told, found.commands, width=100, colour=False))
    golden("advise.md", advice_to_markdown(told, found.commands, heading(matrix)))
