"""Tables: TOML that people edit, read strictly into frozen data."""

import tomllib
from collections.abc import Collection
from typing import Any, TypeVar

from harness.core.codec import Malformed, decode
from harness.core.mistake import Mistake

Kind = TypeVar("Kind")


def document(text: str, file: str, names: Collection[str]) -> dict[str, Any]:
    """A TOML document that holds those names at most; raises Mistake that names the file."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Mistake(f"{file} is not TOML ({error}); put it right.") from error
    if foreign := sorted(set(found) - set(names)):
        raise Mistake(f"{file} has an entry '{foreign[0]}'; it may hold {' and '.join(sorted(names))} alone.")
    return found


def entries(found: dict[str, Any], name: str, kind: type[Kind], file: str) -> tuple[Kind, ...]:
    """The tables `[[name]]` of a document; raises Mistake that names the file and the table."""
    tables = found.get(name, [])
    if not isinstance(tables, list):
        raise Mistake(f"{file} must hold '{name}' as tables [[{name}]].")
    try:
        return tuple(decode(kind, entry, f"{file}, {name} {number}") for number, entry in enumerate(tables, 1))
    except Malformed as malformed:
        raise Mistake(f"{malformed}; put the file right.") from malformed
