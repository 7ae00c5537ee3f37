"""`export`: runs as Parquet tables in a folder."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.cli.replacing import replace_file
from harness.cli.shelf import finished, read_kept
from harness.core.mistake import Mistake
from harness.report.parquet.rows import Exported
from harness.store import read_records, read_run

OTHER_FOLDER = "choose another folder with --output"


def export(runs: tuple[Path, ...], output: Path, results: Path) -> int:
    """Writes all tables of some runs, or of every finished and measured one; raises Mistake where that cannot be."""
    found = [_exported(folder) for folder in runs] if runs else list(_measured(finished(results)))
    if not found:
        raise Mistake(f"There is no finished run in {results}; ./speedmatrix run measures one.")
    made = _tables(found)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Cannot make the folder {output} ({error.strerror}); {OTHER_FOLDER}.") from error
    written = []
    for name, rows, content in made:
        replace_file(output / f"{name}.parquet", content, OTHER_FOLDER)
        written.append(f"{name} ({rows:,} rows)")
    runs_told = "1 run" if len(found) == 1 else f"{len(found)} runs"
    sys.stdout.write(f"{runs_told} in {output}: {', '.join(written)}.\n")
    return 0


def _tables(found: Sequence[Exported]) -> Iterator[tuple[str, int, bytes]]:
    try:
        from harness.report.parquet.tables import tables
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise Mistake(f"Parquet needs pyarrow ({error}); pip install 'speedmatrix[export]' brings it.") from error
    return tables(found)


def _measured(folders: Iterable[Path]) -> Iterator[Exported]:
    return (_exported(folder) for folder in folders if not read_run(folder).rehearsed)


def _exported(folder: Path) -> Exported:
    return Exported(kept=read_kept(folder), plan=read_run(folder).plan, records=tuple(read_records(folder)))
