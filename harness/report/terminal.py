"""The terminal's report: one table for each workload, reference and timing, with its cause, notes and holes."""

import io
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from harness.analyze.matrix import Matrix, Table
from harness.analyze.outlook import Outlook
from harness.analyze.verdict import Verdict
from harness.report import predicted, sentences
from harness.report.words import one_line

_WIDE, _NARROW = 100, 79  # below the first columns stand close and energy has none, below the second more lack
FEW = 5  # predicted stacks; the other forms show more
_LEFT_OUT_IF_NARROW = {*sentences.MEMORY, "engaged"}
# Colour only repeats what the word beside it says.
_COLOUR = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.NO_EFFECT: "dim", Verdict.UNDECIDED: "yellow"}


def to_terminal(matrix: Matrix, *, width: int = 100, colour: bool = False, outlooks: Iterable[Outlook] = ()) -> str:
    """The whole report as text of so many columns, with terminal colours if wanted."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for part in (*render(matrix, width), *beyond(outlooks)):
        console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def render(matrix: Matrix, width: int, named: int | None = None) -> Iterator[RenderableType]:
    """The parts of the report, for a console of the caller's own.

    Where more comparisons than `named` lack a ratio for the same reason, they are counted instead.
    """
    yield _pairs(sentences.heading(matrix), style="dim")
    for workload in sentences.workloads(matrix):
        for table in matrix.tables:
            if table.cell.workload == workload and any(row.estimate for row in table.rows):
                yield _title(sentences.title(table))
                yield _grid(table, width)
                yield from (Text(sentence) for sentence in sentences.causes(table))
                yield Padding(_pairs(_remarks(table)), (1, 0, 0, 0))
        if holes := sentences.without_ratio(matrix, workload):
            yield _title(f"{one_line(workload)}, without a ratio")
            yield _pairs(((_counted(subjects, named), words) for subjects, words in holes), widest=width // 2)


def _counted(subjects: Sequence[str], named: int | None) -> str:
    return f"{len(subjects)} comparisons" if named is not None and len(subjects) > named else ", ".join(subjects)


def beyond(outlooks: Iterable[Outlook]) -> Iterator[RenderableType]:
    """What was predicted and not measured, in italics, for a console of the caller's own."""
    for outlook in outlooks:
        yield _title(predicted.title(outlook))
        yield from (Text(sentence) for sentence in predicted.sentences(outlook))
        yield from columns(predicted.COLUMNS, list(predicted.rows(outlook))[:FEW], style="italic dim")
        if outlook.anatomy is not None:
            yield _title(f"What {one_line(outlook.anatomy.subject)} is made of")
            yield Text(predicted.part_sentence(outlook.anatomy))
            yield from columns(predicted.PARTS, list(predicted.part_rows(outlook.anatomy)))
        if outlook.check is not None:
            yield _title("Foretold and measured")
            yield from (Text(sentence) for sentence in predicted.check_sentences(outlook.check))


def columns(names: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> Iterator[RenderableType]:
    """A table, or nothing where it has no row."""
    if not rows:
        return
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell, style=style) for cell in row))
    yield grid


def _title(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _grid(table: Table, width: int) -> Grid:
    names = sentences.columns(table)
    left_out = {sentences.ENERGY} if width <= _WIDE else set[str]()
    left_out |= _LEFT_OUT_IF_NARROW if width < _NARROW else set()
    shown = [index for index, name in enumerate(names) if name not in left_out]
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1) if width >= _WIDE else 0, pad_edge=False)
    for index in shown:
        counted = names[index] in {"input wait", *sentences.MEMORY}
        header = names[index].replace(" ", "\n", 1) if counted else names[index]
        grid.add_column(
            header, justify="right" if counted else "left", no_wrap=names[index] != "subject", overflow="fold"
        )
    for cells in sentences.body(table):
        grid.add_row(*(_coloured(cells[index], verdict=cells[2]) for index in shown))
    return grid


def _coloured(cell: str, verdict: str) -> Text:
    return Text(cell, style=_COLOUR[Verdict(verdict)] if cell == verdict in list(Verdict) else "")


def _remarks(table: Table) -> Iterator[tuple[str, str]]:
    for row in table.rows:
        if remarks := sentences.remarks(row):
            yield one_line(row.subject), "; ".join(remarks)


def _pairs(pairs: Iterable[tuple[str, str]], style: str = "", widest: int | None = None) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=widest)
    grid.add_column(ratio=1, overflow="fold")
    for name, text in pairs:
        grid.add_row(Text(name, style=style), Text(text, style=style))
    return grid
