"""The page of the tables: every column with its type and meaning, as Markdown for the description of the format."""

from collections.abc import Iterator

from harness.report.markdown import grid
from harness.report.parquet.columns import ABOUT, TABLES, Column


def described() -> str:
    """All tables; a column that means the same as in a table before is named and not told again."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    told: set[Column] = set()
    for name, columns in TABLES.items():
        yield from (f"### {name}.parquet: {ABOUT[name]}", "")
        again = [f"`{column.name}`" for column in columns if column in told]
        if again:
            yield from (f"{', '.join(again)}: as above.", "")
        new = [column for column in columns if column not in told]
        yield from grid(("column", "type", "meaning"), ((_name(one), one.kind, one.words) for one in new))
        yield ""
        told.update(new)


def _name(column: Column) -> str:
    return f"*`{column.name}`*" if column.may_miss else f"`{column.name}`"
