"""`document`: writes the pages of all optimizations, or tells the first that is no longer true."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.analyze.collection import TOO_SMALL
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.claiming import accounts, witnesses_of
from harness.cli.reporting import matrix_of
from harness.cli.shelf import finished
from harness.core.mistake import Mistake
from harness.report.page_index import index
from harness.report.pages import MARK, page
from harness.report.subjects import Measured, judged, subject
from harness.store import read_run

INDEX = "README.md"


def document(results: Path, output: Path, *, check: bool) -> int:
    """Writes or checks the pages; gives 1 when a check finds one that is not as it would be written now."""
    pages = pages_of(read_catalogue(), finished(results), output)
    if check:
        return _check(pages, output)
    _write(pages, output)
    sys.stdout.write(f"{len(pages)} pages are in {output}.\n")
    return 0


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


def stale(pages: Mapping[str, str], output: Path) -> Iterator[str]:
    """What is wrong with the pages that lie in a folder, a sentence for each."""
    for name, text in pages.items():
        path = output / name
        if not path.exists():
            yield f"{path} is missing"
        elif path.read_text(encoding="utf-8") != text:
            yield f"{path} is not what would be written now"
    yield from (f"{path} is about nothing that exists" for path in _orphans(pages, output))


def _orphans(pages: Mapping[str, str], output: Path) -> list[Path]:
    """Pages that were written for what is no longer there; files that are not ours are left alone."""
    others = (path for path in sorted(output.glob("*.md")) if path.name not in pages)
    return [path for path in others if path.read_text(encoding="utf-8").startswith(MARK)]


def _check(pages: Mapping[str, str], output: Path) -> int:
    found = list(stale(pages, output))
    if not found:
        sys.stdout.write(f"All {len(pages)} pages in {output} are as they would be written now.\n")
        return 0
    others = f" ({len(found) - 1} others too)" if len(found) > 1 else ""
    sys.stderr.write(f"{found[0]}{others}; ./speedmatrix document writes it anew.\n")
    return 1


def _write(pages: Mapping[str, str], output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (output / name).write_text(text, encoding="utf-8")
        for orphan in _orphans(pages, output):
            orphan.unlink()
    except OSError as error:
        raise Mistake(f"Cannot write to {output} ({error.strerror}); choose another folder with --output.") from error
