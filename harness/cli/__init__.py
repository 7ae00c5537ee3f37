"""The command line: its verbs are the stages of the data flow."""

import os
import sys

from harness.cli import reading_commands  # noqa: F401  they are the app's too
from harness.cli.commands import app
from harness.cli.reading import program
from harness.core.mistake import Mistake
from harness.report.words import one_line


def main() -> None:
    """Runs a command; a user's mistake ends in one sentence and status 2."""
    # Before numpy is imported: on small matrices threads of BLAS wait for each other, and spin beside what is measured.
    # Arms are told their own number.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app(prog_name=program())
    except Mistake as mistake:
        sys.stderr.write(f"{one_line(str(mistake))}\n")  # it may quote a stranger's file
        sys.exit(2)
    except PermissionError as error:
        if error.filename is None:
            raise
        sys.stderr.write(f"{one_line(str(error.filename))}: permission denied; name a place that you may use.\n")
        sys.exit(2)
