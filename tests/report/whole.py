"""The whole report of a matrix as text, and what `report` writes of a run."""

from pathlib import Path
from tempfile import TemporaryDirectory

from harness.analyze.matrix import Matrix
from harness.cli.reading import show_report
from harness.report.document import to_markdown, to_terminal
from harness.report.matrix import matrix_parts


def matrix_to_terminal(matrix: Matrix, *, width: int = 100, colour: bool = False) -> str:
    return to_terminal(matrix_parts(matrix, ""), width=width, colour=colour)


def matrix_to_markdown(matrix: Matrix, command: str) -> str:
    return to_markdown(matrix_parts(matrix, command))


def reported(folder: Path, form: str) -> str:
    """What `report` writes of a run into a file."""
    with TemporaryDirectory() as place:
        file = Path(place) / "report"
        show_report(folder, form, file, folder)
        return file.read_text(encoding="utf-8")
