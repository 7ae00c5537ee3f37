"""The whole report of a matrix as text, in the two forms that people read."""

from harness.analyze.matrix import Matrix
from harness.report.document import to_markdown, to_terminal
from harness.report.matrix import matrix_parts


def matrix_to_terminal(matrix: Matrix, *, width: int = 100, colour: bool = False) -> str:
    return to_terminal(matrix_parts(matrix, ""), width=width, colour=colour)


def matrix_to_markdown(matrix: Matrix, command: str) -> str:
    return to_markdown(matrix_parts(matrix, command))
