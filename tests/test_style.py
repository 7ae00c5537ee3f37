"""The limits of the style card, for the harness and the workloads."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("harness", "workloads") for path in sorted((ROOT / folder).rglob("*.py"))]
FORBIDDEN = {"utils", "common", "helpers", "base", "manager", "misc", "util", "helper"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_in(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def public(path: Path) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Public classes and functions of a module, and public methods of its public classes."""
    for node in tree(path).body:
        if isinstance(node, (Function, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name, node
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, Function) and not part.name.startswith("_"):
                    yield f"{node.name}.{part.name}", part


def test_files_and_functions_are_short() -> None:
    assert {name_of(path): lines_in(path) for path in FILES if lines_in(path) > 800} == {}
    too_long = {
        f"{name_of(path)}: {one.name}": lines_of(one) for path in FILES for one in functions(path) if lines_of(one) > 60
    }
    assert too_long == {}


def test_every_module_and_public_name_says_what_it_is() -> None:
    assert [name_of(path) for path in FILES if not ast.get_docstring(tree(path))] == []
    silent = [
        f"{name_of(path)}: {name}" for path in FILES for name, node in public(path) if not ast.get_docstring(node)
    ]
    assert silent == []


def test_names_say_what_a_thing_is() -> None:
    assert [one for one in FILES if {*one.relative_to(ROOT).with_suffix("").parts} & FORBIDDEN] == []


def test_an_optimization_is_a_short_file() -> None:
    found = {name_of(path): lines_in(path) for path in FILES if path.parent.name == "optimizations"}
    assert found
    assert {name: lines for name, lines in found.items() if lines > 60} == {}


def test_half_of_all_functions_take_a_glance() -> None:
    lengths = sorted(lines_of(one) for path in FILES for one in functions(path))
    assert lengths[len(lengths) // 2] <= 10
