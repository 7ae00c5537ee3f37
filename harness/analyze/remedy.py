"""Remedies: the code that an optimization's page says to write, and whether it is more than a setting."""

import ast
import textwrap
from itertools import groupby

from harness.core.optimization import Optimization, Stage

WRITTEN_BY_HAND = frozenset({Stage.SYNC, Stage.EVALUATION})  # no setting waits for the device or scores a model


def snippet(page: str) -> str:
    """The first block of code of a page, which is what it indents by four spaces; empty where it has none."""
    blocks = groupby(page.splitlines(), key=lambda line: line.startswith("    "))
    return next((textwrap.dedent("\n".join(lines)) for is_code, lines in blocks if is_code), "")


def remedy(optimization: Optimization, device: str) -> str:
    """The code to write on a kind of device; pages show it for CUDA."""
    return snippet(optimization.page).replace('"cuda"', f'"{device}"')


def is_own_code(optimization: Optimization) -> bool:
    """Whether it mends a system's own code: its data set, its loop, or a function or class to be written."""
    if optimization.workload is not None or optimization.stage in WRITTEN_BY_HAND:
        return True
    try:
        found = ast.parse(snippet(optimization.page))
    except SyntaxError:
        return False  # a command or a fragment
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(found))
