"""The command line: its verbs are the stages of the data flow."""

import os
import sys

import typer

from harness.cli.commands import GROUPS
from harness.core.mistake import Mistake
from harness.report.words import one_line

app = typer.Typer(
    name="speedmatrix",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Measures which training optimizations pay on this machine, by how much, and why.",
    epilog="Begin with [bold]speedmatrix run[/bold]; then [bold]speedmatrix explain leak:batched_fetch[/bold].",
)
for _group in GROUPS:
    app.add_typer(_group)


def main() -> None:
    """Runs a command; a user's mistake ends in one sentence and status 2."""
    # Before numpy is imported: on small matrices threads of BLAS wait for each other, and spin beside what is measured.
    # Arms are told their own number.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app()
    except Mistake as mistake:
        sys.stderr.write(f"{one_line(str(mistake))}\n")  # it may quote a stranger's file
        sys.exit(2)
