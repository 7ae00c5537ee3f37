"""Commands that publish, compare and pass on what was measured; none needs torch."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Format, Output, Results, examples

app = typer.Typer()


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
        bool, typer.Option("--machines", help="Compare the newest answers of every machine under --results.")
    ] = False,
    prices: Annotated[
        Path | None, typer.Option(help="A file of prices (TOML); else prices.toml under --results, if there is one.")
    ] = None,
    format: Format = "terminal",  # noqa: A002
    output: Output = None,
    results: Results = Path("results"),
) -> None:
    """Holds the same configurations of several machines or environments side by side: which ratios differ, and why."""
    from harness.cli.reading import Wanted, show_comparison

    wanted = Wanted(runs=tuple(runs or ()), machines=machines, prices=prices, results=results)
    show_comparison(wanted, format, output)


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
