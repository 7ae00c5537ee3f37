"""Strict JSON: bytes from a stranger as plain data, without anything that two readers would understand differently."""

import json
import math
from collections import Counter
from typing import Any

from harness.intake.refusal import Unfit, shown

DEEPEST = 16  # our own files nest to seven
LONGEST_TEXT = 1 << 14  # characters; a trace has four thousand
LARGEST = 2**63 - 1  # what other programs can hold too


def parsed(content: bytes, where: str) -> Any:
    """The data; raises Unfit that names the place and what is wrong there."""
    try:
        data = json.loads(
            content.decode("utf-8"),
            parse_constant=_constant,
            parse_float=_finite,
            parse_int=_bounded,
            object_pairs_hook=_unique,
        )
        _check(data, 0)
    except Unfit as unfit:
        raise Unfit(f"{where} {unfit.words}") from unfit
    except UnicodeDecodeError as error:
        raise Unfit(f"{where} is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise Unfit(f"{where} is not JSON ({error.msg}, character {error.pos})") from error
    except RecursionError as error:
        raise Unfit(f"{where} is nested too deeply") from error
    return data


def _constant(text: str) -> None:
    raise Unfit(f"has {text}, which is not JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise Unfit(f"has {shown(text, 24)}, a number too large to be one")
    return number


def _bounded(text: str) -> int:
    # Counted before it is converted: turning a million digits into a number takes minutes.
    if len(text) > len(str(-LARGEST)) or abs(number := int(text)) > LARGEST:
        raise Unfit(f"has {shown(text, 24)}, an integer of more than 64 bits")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Unfit(f"has the name '{shown(twice)}' twice in one object")
    return found


def _check(data: Any, depth: int) -> None:
    """Raises Unfit for nesting and for texts that no file of ours would have."""
    if depth > DEEPEST:
        raise Unfit("is nested too deeply")
    if isinstance(data, str):
        _check_text(data)
    elif isinstance(data, dict):
        for name, one in data.items():
            _check_text(name)
            _check(one, depth + 1)
    elif isinstance(data, list):
        for one in data:
            _check(one, depth + 1)


def _check_text(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise Unfit(f"has a text of {len(text):,} characters ('{shown(text, 24)}'), and {LONGEST_TEXT:,} are the most")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Unfit("has half a character (a surrogate), which no text may hold")
