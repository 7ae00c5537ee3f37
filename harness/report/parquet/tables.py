"""Tables: rows as Parquet files, in memory; the only module that needs pyarrow."""

import io
from collections.abc import Iterator, Mapping, Sequence

from pyarrow import DataType, Field, Schema, Table, bool_, field, float64, int64, parquet, schema, string, timestamp

from harness.report.parquet.columns import SCHEMA, TABLES, Column, Kind
from harness.report.parquet.rows import MAKERS, Exported

_TYPES: Mapping[Kind, DataType] = {
    "text": string(),
    "integer": int64(),
    "number": float64(),
    "truth": bool_(),
    "moment": timestamp("us", tz="UTC"),
}


def tables(runs: Sequence[Exported]) -> Iterator[tuple[str, int, bytes]]:
    """Every table by name, with the number of its rows and its file; the schema's number is in the file's metadata."""
    for name, columns in TABLES.items():
        rows = [one for run in runs for one in _rows(name, run)]
        table = Table.from_pylist(rows, schema=_schema(name, columns))
        file = io.BytesIO()
        parquet.write_table(table, file, compression="zstd")
        yield name, table.num_rows, file.getvalue()


def _rows(name: str, run: Exported) -> Iterator[dict[str, object]]:
    """Rows with every column and no other: a name that is misspelt is an error, not a column of nothing."""
    known = {column.name for column in TABLES[name]}
    for row in MAKERS[name](run):
        whole = {**run.key, **row}
        if strange := whole.keys() - known:
            raise ValueError(f"{name} has no columns {sorted(strange)}")
        yield whole


def _schema(name: str, columns: tuple[Column, ...]) -> Schema:
    told = {"speedmatrix.schema": str(SCHEMA), "speedmatrix.table": name}
    return schema([_field(column) for column in columns], metadata=told)


def _field(column: Column) -> Field:
    words = {"description": column.words}
    return field(column.name, _TYPES[column.kind], nullable=column.may_miss, metadata=words)
