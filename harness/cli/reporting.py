"""`report`: the matrix of a run, from its folder alone."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness import __version__
from harness.analyze.collection import Kept
from harness.analyze.evidence import gather
from harness.analyze.matrix import Matrix, build_matrix
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.asking_again import commands
from harness.cli.counsel import advised_by
from harness.cli.foretelling import outlooks
from harness.cli.shelf import calibration_beside, finished
from harness.core.mistake import Mistake
from harness.report.advice import chapters
from harness.report.html.document import to_html
from harness.report.html.exhibit import Exhibit, Shown
from harness.report.machine_readable import to_json
from harness.report.markdown import to_markdown
from harness.report.terminal import beyond, render, to_terminal
from harness.store import read_records, read_run

NAMED = 3  # comparisons that lack a ratio for the same reason; more are counted after a run
WIDE = 110  # columns of a report that goes into a file or a pipe


def newest(results: Path) -> Path:
    """The newest run below a folder; raises Mistake when there is none."""
    found = sorted(results.glob("*/*/run.json"), key=lambda path: path.parent.name)
    if not found:
        raise Mistake(f"There is no run in {results}; ./speedmatrix run measures one.")
    return found[-1].parent


def matrix_of(folder: Path) -> Matrix:
    """The matrix of a run, finished or not; raises Mistake when the folder is none or damaged."""
    run = read_run(folder)
    return build_matrix(run.plan, read_records(folder), run.environment, calibration_beside(folder, run))


def print_matrix(matrix: Matrix, folder: Path, catalogue: Catalogue) -> None:
    """The matrix on the terminal, what a model says beyond it, and where to look next."""
    where = console()
    for part in (*render(matrix, where.width, NAMED), *beyond(outlooks(matrix, catalogue))):
        where.print(part)
    where.print(
        f"\nKept in {folder}. Next: ./speedmatrix advise {folder} for what to do, ./speedmatrix report {folder} "
        "for all that has no ratio by name, or ./speedmatrix explain WORKLOAD:OPTIMIZATION for what a row changes.",
        highlight=False,
    )


def console() -> Console:
    """As wide as the terminal, or as the whole table where there is none."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=WIDE)


def rendered(folder: Path, form: str) -> str:
    """A run's matrix as text; raises Mistake for an unknown form."""
    if form == "html":
        catalogue = read_catalogue()
        found = exhibit(folder, catalogue)
        found = replace(found, outlooks=outlooks(found.kept.matrix, catalogue))
        return to_html(Shown(exhibits=(found,), known=catalogue.optimizations, version=__version__))
    matrix = matrix_of(folder)
    told = outlooks(matrix, read_catalogue())
    if form == "terminal":
        where = console()
        return to_terminal(matrix, width=where.width, colour=where.is_terminal, outlooks=told)
    if form == "markdown":
        return to_markdown(matrix, read_run(folder).command, told)
    if form == "json":
        return to_json(matrix, told) + "\n"
    raise Mistake(f"There is no format '{form}'; choose terminal, markdown, json or html.")


def show_report(run: Path | None, form: str, output: Path | None, results: Path) -> None:
    """Shows or writes the matrix of a run in the form asked for."""
    folder = run or newest(results)
    _refuse_a_terminal(form, output)
    deliver(rendered(folder, form), output)


def show_all(run: Path | None, form: str, output: Path | None, results: Path) -> None:
    """Writes every finished run below a folder as one HTML file; raises Mistake for other forms and for no run."""
    if run is not None:
        raise Mistake(f"--all shows every run under --results; leave out {run}, or --all.")
    if form != "html":
        raise Mistake(f"--all is for --format html, not for {form}: publish writes the tables of everything.")
    found = [folder for folder in finished(results) if not read_run(folder).rehearsed]
    if not found:
        raise Mistake(f"There is no finished run in {results}; ./speedmatrix run measures one.")
    _refuse_a_terminal(form, output)
    catalogue = read_catalogue()
    exhibits = tuple(exhibit(folder, catalogue) for folder in found)
    deliver(
        to_html(Shown(exhibits=exhibits, known=catalogue.optimizations, version=__version__, collected=True)), output
    )


def exhibit(folder: Path, catalogue: Catalogue) -> Exhibit:
    """A run, finished or not, with the records behind its matrix; raises Mistake when the folder is none or damaged."""
    run, records = read_run(folder), read_records(folder)
    matrix = build_matrix(run.plan, records, run.environment, calibration_beside(folder, run))
    compared = [row.comparison for row in matrix.rows if row.estimate]
    kept = Kept(name=folder.resolve().name, began=run.began, command=run.command, version=run.version, matrix=matrix)
    evidence = tuple(gather(run.plan, records))
    advised = advised_by(kept, evidence, run, catalogue)
    return Exhibit(
        kept=kept,
        evidence=evidence,
        advice=chapters(advised.advice, catalogue.optimizations),
        questions=advised.commands,
        commands=commands(run, compared, catalogue),
        rehearsed=run.rehearsed,
    )


def _refuse_a_terminal(form: str, output: Path | None) -> None:
    if form == "html" and output is None and sys.stdout.isatty():
        raise Mistake("A page of HTML is for a browser; name a file for it with --output.")


def deliver(text: str, output: Path | None) -> None:
    """Prints a report or writes it to a file; raises Mistake where that cannot be."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Mistake(f"Cannot write {output} ({error.strerror}); choose another path for --output.") from error
