"""Tests that need a GPU, read without one: their first run may be on a rented machine."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from symtable import SymbolTable, symtable

import pytest

TESTS = Path(__file__).parents[1]
SKIPS = re.compile(r"^ +gpu\(|skip(?:if)?\(.*needs a CUDA device", re.MULTILINE)


def scripts(path: Path) -> Iterator[tuple[str, str]]:
    """Texts of a module that it hands to `python -c`, by their names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        words = list(map(ast.unparse, node.elts)) if isinstance(node, ast.List) else []
        name = words[words.index("'-c'") + 1] if "'-c'" in words[:-1] else ""
        if name in texts:
            yield name, texts[name]


SCRIPTS = {f"{path.stem}.{name}": text for path in sorted(TESTS.rglob("test_gpu*.py")) for name, text in scripts(path)}


def unbound(script: str) -> set[str]:
    """Names that a script reads and never binds."""
    compile(script, "script", "exec")
    top = symtable(script, "script", "exec")
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    read = {
        one.get_name()
        for scope in scopes(top)
        for one in scope.get_symbols()
        if one.is_referenced() and (scope is top or one.is_global())
    }
    return read - bound - set(dir(builtins))


def scopes(table: SymbolTable) -> Iterator[SymbolTable]:
    """A scope and all within it."""
    yield table
    for child in table.get_children():
        yield from scopes(child)


def unmarked(source: str) -> list[str]:
    """Tests that skip where there is no GPU and have no mark `gpu`."""
    tree = ast.parse(source)
    if any("mark.gpu" in ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)):
        return []
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    found = {node.name: ast.unparse(node) for node in tests}
    return [name for name, text in found.items() if SKIPS.search(text) and "@pytest.mark.gpu\n" not in text]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_for_the_gpu_knows_all_its_names(name: str) -> None:
    assert unbound(SCRIPTS[name]) == set()


def test_a_name_that_nobody_binds_is_found() -> None:
    assert {"test_gpu.REFUSED_CAPTURE", "test_gpu_feed.SEGMENTS", "test_gpu_processes.STEPS"} <= set(SCRIPTS)
    assert unbound("import json\ndef step():\n    return [json, Cuda, len]\nprint(step(), kept)") == {"Cuda", "kept"}


def test_tests_that_need_a_gpu_are_marked_so() -> None:
    """By the mark alone they are chosen on a GPU."""
    found = {
        str(path.relative_to(TESTS)): names
        for path in sorted(TESTS.rglob("test_*.py"))
        if (names := unmarked(path.read_text(encoding="utf-8")))
    }
    assert found == {}
