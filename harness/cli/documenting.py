"""`document`: writes the pages of all optimizations, or tells the first that is no longer true."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.analyze.collection import TOO_SMALL
from harness.catalogue import Catalogue, read_catalogue
from harness.cli import pages_on_disk
from harness.cli.claiming import accounts, witnesses_of
from harness.cli.reporting import matrix_of
from harness.cli.shelf import finished
from harness.report.page_index import index
from harness.report.pages import MARK, page
from harness.report.subjects import Measured, judged, subject
from harness.store import read_run

INDEX = "README.md"


def document(results: Path, output: Path, *, check: bool) -> int:
    """Writes or checks the pages; gives 1 when a check finds one that is not as it would be written now."""
    pages = on_disk(pages_of(read_catalogue(), finished(results), output), output)
    if check:
        return pages_on_disk.check(pages)
    pages_on_disk.write(pages)
    return 0


def on_disk(pages: Mapping[str, str], output: Path) -> pages_on_disk.Pages:
    """The pages with all that tells them from the files of others."""
    return pages_on_disk.Pages(texts=pages, output=output, mark=MARK, command="./speedmatrix document")


def pages_of(catalogue: Catalogue, runs: Iterable[Path], output: Path) -> dict[str, str]:
    """The text of every page by its file's name, the index among them; `runs` are folders."""
    folders = [run for run in runs if not read_run(run).rehearsed]
    measured = [row for folder in folders for row in _rows(folder, output)]
    claims = judged(catalogue.claims, accounts(list(witnesses_of(folders)), catalogue))
    subjects = [subject(one, claims, measured) for _, one in sorted(catalogue.optimizations.items())]
    return {INDEX: index(subjects), **{f"{one.name}.md": page(one) for one in subjects}}


def _rows(folder: Path, output: Path) -> Iterator[Measured]:
    link = Path(os.path.relpath(folder, output)).as_posix()
    matrix = matrix_of(folder)
    for row in matrix.rows:
        cell = row.comparison.reference
        if cell.size != TOO_SMALL:
            data = matrix.data.get(cell.workload, "")
            yield Measured(machine=matrix.environment.machine, run=folder.name, link=link, data=data, row=row)
