"""Plain data: frozen dataclasses to JSON-ready mappings and back, every field checked on the way in.

A field that came later has a default and says since which version it is there (`metadata={"since": ...}`): what was
written before it can then still be read.
"""

import math
import sys
import tomllib
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from harness.core.mistake import Mistake

Kind = TypeVar("Kind")
# Fields whose name has changed, and the name that stays in files and JSON reports; it holds for every dataclass.
STORED = {
    "replicate": "restart",
    "replicates": "restarts",
    "attempt": "life",
    "attempts": "lives",
    "inactive": "unengaged",
    "window_s": "burst_s",
    "window_steps": "burst_steps",
    "window_limit_s": "burst_limit_s",
    "upper_bound_s": "ceiling_s",
    "options": "switches",
    "no_results": "holes",
    "label": "subject",
    "config": "cell",
    "configs": "cells",
    "drift": "interference",
    "joint_effects": "interplays",
    "contention": "crowding",
    "thresholds": "terms",
    "replicate_rates": "restart_rates",
}


class Malformed(ValueError):
    """Data that does not have the promised form; the message names the place."""


def stored(name: str) -> str:
    """The name of a field in files."""
    return STORED.get(name, name)


def encode(value: object, *, endless: Callable[[float], object] = str) -> Any:
    """JSON-ready data; numbers that JSON does not know (nan, inf) become strings, or what `endless` makes of them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {stored(one.name): encode(getattr(value, one.name), endless=endless) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): encode(one, endless=endless) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(one, endless=endless) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return endless(value)
    return value.value if isinstance(value, Enum) else value


def decode(kind: type[Kind], data: object, where: str = "record") -> Kind:
    """A value of that kind from JSON data; raises Malformed when a field is missing or of another kind."""
    decoded: Kind = _decode(kind, data, where)
    return decoded


def _decode(kind: Any, data: object, where: str) -> Any:  # noqa: PLR0911  one line for each kind of type
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), data, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind), _list(data, where), where)
    if origin in (dict, Mapping):
        return {name: _decode(get_args(kind)[1], one, f"{where}.{name}") for name, one in _mapping(data, where).items()}
    if origin is Literal:
        return _member(data, get_args(kind), where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, _mapping(data, where), where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(_member(data, tuple(one.value for one in kind), where))
    return _decode_scalar(kind, data, where)


def _decode_tuple(kinds: tuple[Any, ...], data: list[object], where: str) -> tuple[Any, ...]:
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise Malformed(f"{where} must have {len(kinds)} entries")
    return tuple(_decode(kind, one, f"{where}[{n}]") for n, (kind, one) in enumerate(zip(kinds, data, strict=True)))


@cache  # reading the annotations anew takes most of the time of reading a record
def _form(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of a dataclass's fields by name, and the stored names of those that may not be missing."""
    return get_type_hints(kind), frozenset(stored(one.name) for one in fields(kind) if "since" not in one.metadata)


def _decode_dataclass(kind: Any, data: dict[str, object], where: str) -> Any:
    hints, needed = _form(kind)
    names = {stored(name): name for name in hints}
    if wrong := (set(data) - set(names)) | (needed - set(data)):
        first = min(wrong)
        raise Malformed(f"{where}.{first} is {'missing' if first in names else 'unknown'}")
    found = names.keys() & set(data)
    return kind(**{names[one]: _decode(hints[names[one]], data[one], f"{where}.{one}") for one in found})


def _decode_union(kinds: tuple[Any, ...], data: object, where: str) -> Any:
    for kind in kinds:
        try:
            return _decode(kind, data, where)
        except Malformed:
            continue
    raise Malformed(f"{where} is of none of the kinds it may have")


def _decode_scalar(kind: Any, data: object, where: str) -> Any:
    if kind is float and data in ("nan", "inf", "-inf"):
        return float(str(data))
    if kind is float and isinstance(data, int) and not isinstance(data, bool) and abs(data) <= sys.float_info.max:
        return float(data)
    if kind is types.NoneType and data is None:
        return None
    if type(data) is kind:
        return data
    raise Malformed(f"{where} must be {getattr(kind, '__name__', kind)}")


def _member(data: object, allowed: tuple[Any, ...], where: str) -> Any:
    if data not in allowed:
        raise Malformed(f"{where} must be one of {', '.join(map(str, allowed))}")
    return data


def _list(data: object, where: str) -> list[object]:
    if not isinstance(data, list):
        raise Malformed(f"{where} must be a list")
    return data


def _mapping(data: object, where: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise Malformed(f"{where} must be an object")
    return data


# TOML that people edit, read strictly into frozen data.


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
