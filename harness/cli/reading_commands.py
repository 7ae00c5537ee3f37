"""Commands that read what was measured; none needs torch but `advise --check`, which measures."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.commands import Data, Format, Output, Own, Real, Results, Verbose, app, examples
from harness.core.mistake import Mistake

ReportFormat = Annotated[str, typer.Option("--format", help="terminal, markdown, json or html.")]


@app.command(
    epilog=examples(
        "report",
        "report results/…/… --format markdown",
        "report --format json --output matrix.json",
        "report --format html --output matrix.html",
        "report --all",
        "report --all --format html --output all.html",
    )
)
def report(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; the newest under --results if none.")] = None,
    format: ReportFormat = "terminal",  # noqa: A002
    output: Output = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All finished runs under --results: one HTML file, or in other formats what is left to measure.",
        ),
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


@app.command(
    epilog=examples(
        "advise",
        "advise results/…/… --format markdown --output advice.md",
        "advise --check --budget 10m",
        "advise --diff train.py | git apply",
        "advise --format pull-request",
    )
)
def advise(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; the newest under --results if none.")] = None,
    format: Annotated[  # noqa: A002
        str, typer.Option(help="terminal, markdown, json, or pull-request: a summary to paste beside a change.")
    ] = "terminal",
    output: Output = None,
    results: Results = Path("results"),
    verbose: Verbose = False,
    check: Annotated[
        bool, typer.Option("--check", help="Measure what is advised first afresh; status 1 where it does not hold.")
    ] = False,
    diff: Annotated[
        Path | None, typer.Option(help="A script: what is advised first is written into it, as a unified diff.")
    ] = None,
    workload: Own = None,
    data: Data = None,
    data_root: Real = None,
    budget: Annotated[
        str | None, typer.Option(help="With --check: time to measure (90s, 20m, 5m if not given).")
    ] = None,
) -> None:
    """Says what to switch on, leave, fix and stack after a run, with the evidence and the code."""
    if diff and check:
        raise Mistake("--diff writes what is advised and --check measures it; ask for one at a time.")
    unmeant = {"--workload": workload, "--data": data, "--data-root": data_root, "--budget": budget}
    if not check and (given := [name for name, value in unmeant.items() if value is not None]):
        raise Mistake(f"{given[0]} is for advise --check; add --check, or leave it out.")
    if (diff or check) and (output or format != "terminal"):
        raise Mistake("--diff and --check print one thing of their own; leave --format and --output out.")
    if diff:
        from harness.cli.reading import show_diff

        show_diff(run, diff, results)
        return
    if check:
        from harness.cli.measuring import check_advice
        from harness.run.preparation import Place

        place = Place(results=results, data=data, budget=budget or "5m")
        raise typer.Exit(check_advice(run, workload, place, tuple(data_root or ())))

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


# Commands that publish, compare and pass on what was measured; none needs torch.


@app.command(epilog=examples("publish", "publish --check"))
def publish(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; status 1 names the first stale page.")] = False,
    results: Results = Path("results"),
) -> None:
    """Writes the tables and figures of everything in the folder of results: a page for each machine and workload."""
    from harness.cli.sharing import publish as published

    raise typer.Exit(published(results, check=check))


@app.command(
    epilog=examples("compare RUN RUN", "compare --machines", "compare RUN RUN --format markdown --output comparison.md")
)
def compare(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of two runs or more.")] = None,
    machines: Annotated[
        bool, typer.Option("--machines", help="Compare all machines under --results, each by the average of its runs.")
    ] = False,
    prices: Annotated[
        Path | None, typer.Option(help="A file of prices (TOML); else prices.toml under --results, if there is one.")
    ] = None,
    format: Format = "terminal",  # noqa: A002
    output: Output = None,
    results: Results = Path("results"),
) -> None:
    """Holds the same configurations of several machines or environments side by side: which ratios differ, and why."""
    from harness.cli.reading import show_comparison

    show_comparison(tuple(runs or ()), format, output, machines=machines, prices=prices, results=results)


@app.command("import", epilog=examples("import run.speedmatrix.zip", "import ../their-results/h100/20261120T101010-1"))
def import_(
    source: Annotated[Path, typer.Argument(help="A bundle, or the folder of one run.")],
    results: Results = Path("results"),
) -> None:
    """Takes in somebody else's run: checked against the format, limited in size, never executed."""
    from harness.cli.sharing import take_in

    raise typer.Exit(take_in(source, results))


@app.command(epilog=examples("bundle results/h200/20261120T101010-01234567", "bundle RUN --output run.speedmatrix.zip"))
def bundle(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    output: Output = None,
) -> None:
    """Packs a run to be passed on: its data, environment, command and digests, and nothing about who or where."""
    from harness.cli.sharing import pack

    raise typer.Exit(pack(run, output))


@app.command(epilog=examples("export", "export RUN RUN --output tables"))
def export(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of runs; all under --results if none.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the Parquet files.")] = Path("parquet"),
    results: Results = Path("results"),
) -> None:
    """Writes runs as Parquet tables (runs, arms, windows, ratios) for pandas, DuckDB and their like."""
    from harness.cli.sharing import export as exported

    raise typer.Exit(exported(tuple(runs or ()), output, results))
