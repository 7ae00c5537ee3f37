"""`publish`: the tables and figures of everything in a folder of results, or the first that is no longer true."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.catalogue import Catalogue, read_catalogue
from harness.cli import pages_on_disk
from harness.cli.claiming import accounts, witnesses_of
from harness.cli.shelf import ORIGIN, finished, shelf
from harness.core.mistake import Mistake
from harness.report.figures.style import MARK
from harness.report.published import Place, Publication, file_name
from harness.report.published_cells import Page
from harness.report.published_grouping import place
from harness.report.published_index import index_page
from harness.report.published_machine import machine_page
from harness.report.published_workload import workload_page
from harness.store import read_run

INDEX, CLAIMS, FORMAT = "README.md", "claims.md", "docs/results-format.md"
PATTERNS = ("*.md", "*/*.md", "*/figures/*.svg")


def publish(results: Path, *, check: bool) -> int:
    """Writes or checks all pages and figures; gives 1 when a check finds one that is not as it would be written now."""
    if not results.is_dir():
        raise Mistake(f"There is no folder {results}; ./speedmatrix run makes one, or name another with --results.")
    pages = on_disk(results, finished(results), read_catalogue())
    if check:
        return pages_on_disk.check(pages)
    pages_on_disk.write(pages)
    return 0


def on_disk(results: Path, folders: Iterable[Path], catalogue: Catalogue) -> pages_on_disk.Pages:
    """Every page and figure below a folder of results, made of some of its runs."""
    publication = read_publication(folders, catalogue, has_claims=(results / CLAIMS).exists())
    format_link = f"../{FORMAT}" if (results.parent / FORMAT).exists() else None
    return pages_on_disk.Pages(
        texts=dict(_files(publication, results, format_link)),
        output=results,
        patterns=PATTERNS,
        mark=MARK,
        command="./speedmatrix publish",
        called="pages and figures",
        remedy="make it writable or name another folder with --results",
    )


def read_publication(folders: Iterable[Path], catalogue: Catalogue, *, has_claims: bool) -> Publication:
    """Runs of real times, by the machine's folder in which they lie."""
    by_place: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        if not read_run(folder).rehearsed:
            by_place[folder.resolve().parent.name].append(folder)
    sought = frozenset(name for name, one in catalogue.optimizations.items() if one.sought)
    places = tuple(_place(name, inside, catalogue) for name, inside in sorted(by_place.items()))
    return Publication(places=places, sought=sought, has_claims=has_claims)


def _place(name: str, folders: list[Path], catalogue: Catalogue) -> Place:
    ours = [folder for folder in folders if not (folder / ORIGIN).exists()]
    # What somebody else measured decides claims where we measured nothing ourselves.
    return place(name, shelf(folders), accounts(list(witnesses_of(ours or folders)), catalogue))


def _files(publication: Publication, results: Path, format_link: str | None) -> Iterator[tuple[str, str]]:
    yield INDEX, index_page(publication, format_link).text
    for one in publication.places:
        verified = tuple(path.name for path in sorted((results / one.name / "verified").glob("*.json")))
        yield from _below(one.name, INDEX, machine_page(one, verified))
        for name in one.workloads:
            page = workload_page(one, name, has_claims=publication.has_claims)
            yield from _below(one.name, f"{file_name(name)}.md", page)


def _below(folder: str, name: str, page: Page) -> Iterator[tuple[str, str]]:
    yield f"{folder}/{name}", page.text
    yield from ((f"{folder}/{picture.path}", picture.svg) for picture in page.pictures)
