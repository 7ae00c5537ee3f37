"""Words of earlier versions stay retired: in help texts, in README and guides, in reports, and in public names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from harness.cli import app

ROOT = Path(__file__).parents[1]
# As whole words of a sentence -> the word of today.
RETIRED = {
    r"bursts?": "window",
    r"brackets?(?! \()": "pair",
    r"restarts?": "replicate",
    r"(?:un)?engage[sd]?": "active, inactive",
    r"ceilings?": "upper bound",
    r"crowd(?:ing|ed)": "contention",
    r"anatom(?:y|ies)": "decomposition",
    r"interplays?": "interaction",
    r"unrest": "drift",
    r"(?:un)?gauged?": "measured",
    r"rulings?": "verdict",
    r"as_found": "original",
    r"(?:against|than|over) plain": "baseline",
    r"(?<!table )cells?": "configuration",
    r"(?:a|an|each|every|another|one|no|per) switch": "option",
    r"switches(?! (?:on|off|over|every|to)\b)": "options",
    r"(?:a|every|each|no|one) hole|holes": "missing result",
    r"foretold|foretells?|foretelling": "predicted",
}
IN_PROSE = {name: re.compile(rf"(?<!-)\b(?:{name})\b", re.IGNORECASE) for name in RETIRED}
# As a part of a public name, between underscores or capitals.
IN_NAMES = {
    *("burst", "bursts", "bracket", "brackets", "restart", "restarts", "life", "lives", "engaged", "unengaged"),
    *("ceiling", "ceilings", "crowding", "interference", "unrest", "anatomy", "interplay", "interplays", "gauged"),
    *("counsel", "outlook", "outlooks", "wish", "quest", "shelf", "leg", "legs", "ground"),
    *("ruling", "rulings", "hole", "holes", "cell", "cells", "switch", "switches", "subject", "subjects"),
}
ELSEWHERE = {"asv_cells"}  # a file that asv's users know
# Code, links and comments may name files, fields and commands as they are stored.
QUOTED = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|^ {4}.*$", re.DOTALL | re.MULTILINE)


def complaints(text: str) -> list[str]:
    """What a text says in words of former versions, each with some words around it."""
    found = []
    for name, pattern in IN_PROSE.items():
        for match in pattern.finditer(text):
            around = " ".join(text[max(0, match.start() - 30) : match.end() + 30].split())
            found.append(f"'{match[0]}' is '{RETIRED[name]}' today: …{around}…")
    return found


def helps() -> Iterator[tuple[str, str]]:
    """Each command with all that `--help` prints of it."""
    group = get_command(app)
    for name, command in sorted(getattr(group, "commands", {}).items()):
        texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
        yield name, "\n".join(texts)


def public_names() -> Iterator[tuple[str, str]]:
    """The modules, classes, functions, methods and fields that do not begin with an underscore, and where they are."""
    for path in sorted((ROOT / "harness").rglob("*.py")):
        where = str(path.relative_to(ROOT))
        yield where, path.stem
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield f"{where}:{node.lineno}", node.name
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        yield f"{where}:{one.lineno}", one.target.id


@pytest.mark.parametrize(("command", "text"), list(helps()), ids=lambda one: one if " " not in one else "")
def test_help_speaks_todays_words(command: str, text: str) -> None:
    assert not complaints(text), command


GUIDES = ("README.md", "CONTRIBUTING.md", "docs/using.md", "docs/methods.md", "docs/architecture.md")


@pytest.mark.parametrize("name", GUIDES)
def test_guides_speak_todays_words(name: str) -> None:
    assert not complaints(QUOTED.sub("", (ROOT / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results").glob("*/*.md")), ids=lambda one: f"{one.parent.name}-{one.stem}"
)
def test_reports_speak_todays_words(path: Path) -> None:
    """Published pages hold what every view of a matrix says; what others promised is quoted as they wrote it."""
    assert not complaints(QUOTED.sub("", path.read_text(encoding="utf-8")))


def test_public_names_are_of_todays_words() -> None:
    found = []
    for where, name in public_names():
        parts = {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}
        if not name.startswith("_") and name not in ELSEWHERE and parts & IN_NAMES:
            found.append(f"{where}: {name}")
    assert not found


def test_a_retired_word_is_found() -> None:
    assert complaints("Every burst of a cell counts.") == [
        "'burst' is 'window' today: …Every burst of a cell counts.…",
        "'cell' is 'configuration' today: …Every burst of a cell counts.…",
    ]
    assert not complaints("A table cell says what to switch on; a row names its options.")
