"""Commands that read what was measured; none needs torch."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Format, Output, Results, Verbose, examples

app = typer.Typer()

ReportFormat = Annotated[str, typer.Option("--format", help="terminal, markdown, json or html.")]


@app.command(
    epilog=examples(
        "report",
        "report results/…/… --format markdown",
        "report --format json --output matrix.json",
        "report --format html --output matrix.html",
        "report --all --format html --output all.html",
    )
)
def report(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; the newest under --results if none.")] = None,
    format: ReportFormat = "terminal",  # noqa: A002
    output: Output = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every finished run of all machines under --results, as one HTML file.")
    ] = False,
    results: Results = Path("results"),
    verbose: Verbose = False,
) -> None:
    """Shows the matrix of a run, or of all runs as one page for the browser; needs no torch."""
    from harness.cli.reading import show_all, show_report

    if all_:
        show_all(run, format, output, results)
    else:
        show_report(run, format, output, results, verbose=verbose)


@app.command(epilog=examples("advise", "advise results/…/… --format markdown --output advice.md"))
def advise(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; the newest under --results if none.")] = None,
    format: Format = "terminal",  # noqa: A002
    output: Output = None,
    results: Results = Path("results"),
    verbose: Verbose = False,
) -> None:
    """Says what to switch on, leave, fix and stack after a run, with the evidence and the code; needs no torch."""
    from harness.cli.reading import show_advice

    show_advice(run, format, output, results, verbose=verbose)


@app.command(epilog=examples("claims", "claims --only leak", "claims --format markdown --output results/claims.md"))
def claims(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of runs; all under --results if none.")] = None,
    format: Format = "terminal",  # noqa: A002
    output: Output = None,
    only: Annotated[str | None, typer.Option(help="Only claims that this workload can test.")] = None,
    results: Results = Path("results"),
) -> None:
    """Holds what others promised against what was measured, machine by machine; needs no torch."""
    from harness.cli.reading import show_claims

    show_claims(tuple(runs or ()), format, (output, results), only)


@app.command(epilog=examples("document", "document --check"))
def document(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; status 1 names the first stale page.")] = False,
    output: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("docs/optimizations"),
    results: Results = Path("results"),
) -> None:
    """Writes a page for each optimization: what it does, what is claimed of it, what was measured; needs no torch."""
    from harness.cli.sharing import document as written

    raise typer.Exit(written(results, output, check=check))
