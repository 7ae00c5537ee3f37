"""The document: what a view says as a tree of parts, and its renderers for the terminal, Markdown and JSON.

Foreign text stands in the tree as it is; each renderer makes it harmless in its own way.
"""

import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Shown

from harness.core.codec import encode
from harness.report.words import one_line, verbatim

# Colour only repeats what the word beside it says.
COLOURS = {
    **dict.fromkeys(("faster", "confirmed", "pays more", "switch on"), "green"),
    **dict.fromkeys(("slower", "overstated", "harmful", "pays less", "leave off"), "red"),
    **dict.fromkeys(("undecided", "disturbed", "faster, with a warning"), "yellow"),
    **dict.fromkeys(("no effect", "alike", "makes no difference"), "dim"),
    "tested otherwise": "blue",
}
WIDE = 100  # columns of a terminal from which there are two characters between columns of a table
SHORTEST = 13  # to which a column that may be broken or cut can shrink
NAME = 24  # of a column that may be cut, which costs others their place before it becomes shorter


@dataclass(frozen=True, slots=True)
class Span:
    """Some words of a line; Markdown knows bold, italic and code of our own, the terminal colours too."""

    text: str
    style: str = ""
    heading: str = ""  # of the same document, to which Markdown leads


Words = str | tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; the first level is the page's own."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: Words
    style: str = ""  # on the terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The head of a column and how it is set."""

    name: str
    right: bool = False
    whole: bool = False  # never broken over lines
    short: bool = False  # cut where the terminal has no room, rather than broken over lines
    optional: int = 0  # left out where the terminal is too narrow, the largest number first; 0 never is
    style: str = ""  # bold or italic, of its cells


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; one with an empty first cell belongs to the row above it."""

    columns: tuple[Column | str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list, with what stands below it."""

    words: Words
    parts: tuple["Part", ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that are copied as they are, which no terminal may break."""

    text: str
    language: str = "sh"


@dataclass(frozen=True, slots=True)
class Details:
    """What a short view leaves out and a page folds."""

    title: str
    parts: tuple["Part", ...]


Part = Heading | Text | Table | Facts | Items | Code | Details


def warning(text: str) -> Text:
    """What must be read before anything else."""
    return Text((Span("Warning:", "bold"), Span(f" {text}")), style="yellow")


def listed(sentences: Iterable[str]) -> tuple[Items, ...]:
    """Sentences as a list, or nothing where there are none."""
    items = tuple(map(Item, sentences))
    return (Items(items),) if items else ()


def tabled(columns: Iterable[Column | str], rows: Iterable[tuple[str, ...]]) -> tuple[Table, ...]:
    """A table, or nothing where it has no row."""
    found = tuple(rows)
    return (Table(tuple(columns), found),) if found else ()


# On the terminal.


def to_terminal(parts: Iterable[Part], *, width: int, colour: bool = False, short: bool = False) -> str:
    """The document as text of so many columns, with terminal colours if wanted; details only where it is not short."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for one in rendered(parts, width, short=short):
        console.print(one, soft_wrap=isinstance(one, Shown) and one.no_wrap is True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n") + "\n"


def show(parts: Iterable[Part], console: Console, *, short: bool = False) -> None:
    """Prints a document on a console of the caller's own."""
    colour = console.is_terminal and not console.no_color
    console.out(to_terminal(parts, width=console.width, colour=colour, short=short), end="", highlight=False)


def rendered(parts: Iterable[Part], width: int, indent: int = 0, *, short: bool = False) -> Iterator[RenderableType]:
    """What rich prints for each part."""
    for part in parts:
        match part:
            case Heading():
                style = "bold underline" if part.level < 3 else "bold"
                yield Padding(Shown(one_line(part.text), style=style), (1, 0, 0, indent), expand=False)
            case Text():
                yield Padding(_shown(part.words, part.style), (0, 0, 0, indent), expand=False)
            case Table():
                yield _grid(part, width)
            case Facts():
                yield _facts(part)
            case Items():
                for one in part.items:
                    yield Padding(_shown(one.words), (0, 0, 0, indent + 2), expand=False)
                    yield from rendered(one.parts, width, indent + 4, short=short)
            case Code():
                yield Shown(
                    "\n".join(f"{' ' * (indent + 4)}{one}" for one in verbatim(part.text)), "cyan", no_wrap=True
                )
            case Details():
                yield from () if short else rendered(part.parts, width, indent, short=short)


def _shown(words: Words, style: str = "") -> Shown:
    if isinstance(words, str):
        return Shown(one_line(words), style=style)
    found = Shown(style=style)
    for one in words:
        found.append(_spaced(one.text), style="" if one.style == "code" else one.style)
    return found


def _spaced(text: str) -> str:
    return " " * text.startswith(" ") + one_line(text) + " " * (text.endswith(" ") and bool(text.strip()))


def _grid(table: Table, width: int) -> Grid:
    columns = [Column(name=one) if isinstance(one, str) else one for one in table.columns]
    widths = _widths(table, columns, width)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, int(width >= WIDE), 0, 0), pad_edge=False)
    for index, most in widths.items():
        one = columns[index]
        grid.add_column(
            _head(one), justify="right" if one.right else "left", no_wrap=one.whole, overflow="fold", max_width=most
        )
    grouped = any(not row[0] for row in table.rows)
    for number, row in enumerate(table.rows):
        ends = grouped and number + 1 < len(table.rows) and bool(table.rows[number + 1][0])
        grid.add_row(*(_cell(row[index], columns[index]) for index in widths), end_section=ends)
    return grid


def _head(column: Column) -> str:
    return one_line(column.name).replace(" ", "\n", 1) if column.right else one_line(column.name)


def _widths(table: Table, columns: Sequence[Column], width: int) -> dict[int, int | None]:
    """The columns that there is room for, and how wide those may be at most that are cut."""
    texts = [(_head(one), *(row[index] for row in table.rows)) for index, one in enumerate(columns)]
    natural = {at: max(map(cell_len, "\n".join(found).split("\n"))) for at, found in enumerate(texts)}
    limits = [math.inf if one.whole else NAME if one.short else SHORTEST for one in columns]
    least = {index: int(min(one, limits[index])) for index, one in natural.items()}
    room, gap = width - 1, 2 if width >= WIDE else 1
    while least and sum(least.values()) + gap * len(least) > room:
        optional = [index for index in least if columns[index].optional]
        if not optional:
            least = {index: one if columns[index].whole else min(one, SHORTEST) for index, one in least.items()}
            break
        del least[max(optional, key=lambda index: columns[index].optional)]
    found: dict[int, int | None] = dict.fromkeys(least)
    free = room - gap * len(least) - sum(least.values())
    for index in (one for one in least if columns[one].short):
        more = max(0, min(free, natural[index] - least[index]))
        found[index], free = least[index] + more, free - more
    return found


def _cell(text: str, column: Column) -> Shown:
    style = COLOURS.get(text.partition(":")[0], column.style)
    return Shown(
        one_line(text), style=style, no_wrap=column.short or None, overflow="ellipsis" if column.short else None
    )


def _facts(facts: Facts) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold")
    grid.add_column(ratio=1, overflow="fold")
    for pair in facts.pairs:
        grid.add_row(*(Shown(one_line(text), style="dim") for text in pair))
    return grid


# As Markdown, with all foreign text escaped.

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_MARKS = {"bold": "**", "italic": "*", "code": "`"}


def to_markdown(parts: Iterable[Part]) -> str:
    """The document as a page that is the same whenever it says the same."""
    return "\n\n".join("\n".join(block) for part in parts if (block := tuple(_lines(part)))) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no table border."""
    literal = _SPECIAL.sub(r"\\\1", one_line(text))
    # Slashes after a colon and the dot after www would make links without any pairs.
    return re.sub(r"(?i)\bwww\.", lambda www: www[0][:-1] + r"\.", literal.replace("://", r"\://"))


def grid(header: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table of cells that are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _lines(part: Part) -> Iterator[str]:
    match part:
        case Heading():
            yield f"{'#' * part.level} {escaped(part.text)}"
        case Text():
            yield _marked(part.words)
        case Table():
            columns = [Column(name=one) if isinstance(one, str) else one for one in part.columns]
            rows = (zip(row, columns, strict=True) for row in part.rows)
            cells = ([_marked((Span(text, one.style),)) for text, one in row] for row in rows)
            yield from grid([escaped(one.name) for one in columns], cells)
        case Facts():
            yield from grid(("fact", "value"), (map(escaped, pair) for pair in part.pairs))
        case Items():
            for one in part.items:
                yield f"- {_marked(one.words)}"
                yield from _below(one.parts)
        case Code():
            lines = verbatim(part.text)
            fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
            yield from (f"{fence}{part.language}", *lines, fence)
        case Details():
            yield f"<details>\n<summary>{escaped(part.title)}</summary>\n\n{to_markdown(part.parts)}\n</details>"


def _marked(words: Words) -> str:
    return escaped(words) if isinstance(words, str) else "".join(map(_marked_span, words))


def _marked_span(span: Span) -> str:
    mark = _MARKS.get(span.style, "") if span.text else ""
    text = one_line(span.text) if span.style == "code" else escaped(span.text)
    text = f"[{text}](#{_anchor(span.heading)})" if span.heading else text
    return f"{' ' * span.text.startswith(' ')}{mark}{text}{mark}{' ' * span.text.endswith(' ')}"


def _anchor(heading: str) -> str:
    """What GitHub calls a heading by: small letters, without signs, hyphens for spaces."""
    return re.sub(r"[^\w -]", "", one_line(heading).lower()).replace(" ", "-")


def _below(parts: Iterable[Part]) -> Iterator[str]:
    """What stands below an entry of a list: sentences as entries of their own, code between empty lines."""
    for part in parts:
        if isinstance(part, Text):
            yield f"  - {_marked(part.words)}"
        else:
            yield from ("", *(f"  {line}".rstrip() for line in _lines(part)), "")


# As JSON.


plain = partial(encode, endless=lambda _: None)  # JSON has no number without end: null stands for it


def to_json(document: object) -> str:
    """Anything made of dataclasses as JSON; stored names of fields, and null for a number without end."""
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
