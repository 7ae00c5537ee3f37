"""Advice written into somebody's script: keywords of calls that are there, and the lines for what has no such call.

Nothing is run and nothing is guessed: a call is known by its name, and what cannot be placed is left to its reader.
"""

import ast
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.configuration import Option
from harness.core.mistake import Mistake

_LOADERS = frozenset({"DataLoader", "StatefulDataLoader"})
_OPTIMIZERS = frozenset({"Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam"})
_FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of the calls by some names; the option's level is its value where no other is given."""

    calls: frozenset[str]
    name: str
    value: str | None = None
    position: int | None = None  # among arguments without names; None where it has none
    usual: str = "None"  # what PyTorch and the baseline take where nothing is given
    needs: str = ""  # an option without which a call cannot take it
    excludes: str = ""  # and one that must not


_OFF = frozenset({"0", "False", "None"})  # what a call gives that has none of an option
_DEFAULTS = frozenset({"set_to_none"})  # of PyTorch since 2.0: only who switched it off has something to change
# What an option comes to in a script.
KEYWORDS: Mapping[str, Keyword] = {
    "workers": Keyword(_LOADERS, "num_workers", position=5),
    "prefetch_factor": Keyword(_LOADERS, "prefetch_factor", usual="2", needs="workers"),
    "persistent_workers": Keyword(_LOADERS, "persistent_workers", "True", needs="workers"),
    "pin_memory": Keyword(_LOADERS, "pin_memory", "True", position=7),
    "start_method": Keyword(_LOADERS, "multiprocessing_context", position=11, usual="'fork'", needs="workers"),
    "fused_optimizer": Keyword(_FUSED, "fused", "True", excludes="foreach"),
    "foreach_optimizer": Keyword(_OPTIMIZERS, "foreach", "True", excludes="fused"),
    "in_place_activations": Keyword(frozenset({"ReLU"}), "inplace", "True", position=0),
    "set_to_none": Keyword(frozenset({"zero_grad"}), "set_to_none", "True", position=0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A script with advice written in, and what it has in place of that or no place for."""

    name: str
    before: str
    after: str
    left: tuple[Option, ...]  # for which it has no place
    kept: tuple[str, ...]  # values that calls give and that were not compared, in words
    loaders: tuple[int, ...]  # the lines of the loaders that are changed

    @property
    def diff(self) -> str:
        """As `git apply` and `patch -p1` take it; empty where nothing is to be changed."""
        before, after = (
            [one.decode() for one in text.encode().splitlines(keepends=True)] for text in (self.before, self.after)
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(before, after, f"a/{self.name}", f"b/{self.name}")
        )


def rewritten(name: str, source: str, options: Sequence[Option], others: Iterable[Option] = ()) -> Rewritten:
    """The script with the options switched on wherever a call takes one; raises Mistake for what is no Python.

    They were compared with the `others`: a call keeps a value that is neither off, nor advised, nor one of these.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise Mistake(f"{name} is no Python that can be read ({error}); name the script of your training.") from error
    data, places = source.encode(), _line_starts(source)
    compared: dict[str, list[Option]] = {}
    for one in others:
        compared.setdefault(one.name, []).append(one)
    edits: dict[int, tuple[int, str]] = {}
    left = []
    kept: list[str] = []
    loaders: set[int] = set()
    for option in options:
        keyword = KEYWORDS.get(option.name)
        calls = [
            one for one in ast.walk(tree) if isinstance(one, ast.Call) and keyword and _named(one) in keyword.calls
        ]
        able = [one for one in calls if keyword and _is_possible(one, keyword.needs, options, compared, (data, places))]
        found = [
            _edit(one, keyword, [option, *compared.get(option.name, ())], (data, places)) for one in able if keyword
        ]
        loaders |= {
            one.lineno
            for one, edit in zip(able, found, strict=True)
            if isinstance(edit, tuple) and _named(one) in _LOADERS and data[edit[0] : edit[1]].decode() != edit[2]
        }
        if None in found or not found:
            left.append(option)
        kept += [one for one in found if isinstance(one, str)]
        for begin, end, text in (one for one in found if isinstance(one, tuple)):
            stop, before = edits.get(begin, (end, ""))
            edits[begin] = max(stop, end), before + text
    for begin in sorted(edits, reverse=True):
        end, text = edits[begin]
        data = data[:begin] + text.encode() + data[end:]
    return Rewritten(
        name=name,
        before=source,
        after=data.decode(),
        left=tuple(left),
        kept=tuple(kept),
        loaders=tuple(sorted(loaders)),
    )


def _is_possible(
    call: ast.Call, needed: str, options: Iterable[Option], compared: Mapping[str, Sequence[Option]], text: "_Text"
) -> bool:
    """Whether a call surely has what a keyword needs, or will have it: a name may stand for no workers at all."""
    if not needed:
        return True
    for advised in (one for one in options if one.name == needed):
        edit = _edit(call, KEYWORDS[needed], [advised, *compared.get(needed, ())], text)
        if not isinstance(edit, str):
            return edit is not None
    given = _given(call, KEYWORDS[needed])
    return isinstance(given, ast.Constant) and bool(given.value)


def _given(call: ast.Call, keyword: Keyword) -> ast.expr | None:
    """What a call gives for a keyword, be it by its name or by its place."""
    named = next((one.value for one in call.keywords if one.arg == keyword.name), None)
    if named is None and keyword.position is not None and len(call.args) > keyword.position:
        return call.args[keyword.position]
    return named


def _named(call: ast.Call) -> str:
    """The last part of what is called: `DataLoader` of `torch.utils.data.DataLoader`."""
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


_Text = tuple[bytes, Sequence[int]]  # a script, and where its lines begin


def _edit(
    call: ast.Call, keyword: Keyword, options: Sequence[Option], text: _Text
) -> tuple[int, int, str] | str | None:
    """From which byte to which one other text shall stand, which may be none; None where a call takes no keyword.

    The first of the options is advised, and the others were compared with it: words where a call gives another value.
    """
    value, *others = (keyword.value or repr(one.level) for one in options)
    excluded = next((one.value for one in call.keywords if one.arg == keyword.excludes), None)
    if any(isinstance(one, ast.Starred) for one in call.args) or (excluded and ast.unparse(excluded) == "True"):
        return None  # it may be among the starred already
    given = _given(call, keyword)
    if given is not None:
        return _exchanged(given, keyword, (value, *others), text)
    end = _end(call, text[1]) - 1
    if options[0].name in _DEFAULTS:
        return end, end, ""  # who does not name it has it
    if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.GeneratorExp) for one in call.args):
        return None  # what follows ** may hold it already, and a generator without brackets may have no neighbour
    arguments = [*call.args, *(one.value for one in call.keywords)]
    if not arguments:
        return end, end, f"{keyword.name}={value}"
    last = _after_brackets(text[0], max(_end(one, text[1]) for one in arguments), end)
    return last, last, f", {keyword.name}={value}"


def _exchanged(given: ast.expr, keyword: Keyword, values: Sequence[str], text: _Text) -> tuple[int, int, str] | str:
    """The first of the values in place of one that is off or another of them; words for any other, which stays."""
    there = ast.unparse(given)
    if there not in {*_OFF, keyword.usual, *values}:
        return f"{keyword.name}={there} in line {given.lineno}"
    begin, end = _begin(given, text[1]), _end(given, text[1])
    return begin, end, text[0][begin:end].decode() if there == values[0] else values[0]


def _after_brackets(data: bytes, begin: int, end: int) -> int:
    """The place behind the brackets that close around an argument, before the one that closes its call."""
    found = begin
    for token in re.finditer(rb"[ \t\r\n\\]+|#[^\n]*|.", data[begin:end]):
        if token[0] == b")":
            found = begin + token.end()
        elif not token[0].isspace() and not token[0].startswith((b"#", b"\\")):
            break
    return found


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _begin(node: ast.expr, places: Sequence[int]) -> int:
    return places[node.lineno - 1] + node.col_offset


def _end(node: ast.expr, places: Sequence[int]) -> int:
    if node.end_lineno is None or node.end_col_offset is None:
        raise ValueError("a parsed node has an end")
    return places[node.end_lineno - 1] + node.end_col_offset
