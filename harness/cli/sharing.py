"""`export`, `import`, `publish`, `document`, `bundle`: writes runs and pages for others, and takes in their runs."""

import getpass
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, build_matrix
from harness.analyze.sweep import known_times
from harness.catalogue import read_catalogue
from harness.cli.reading import accounts, witnesses_of
from harness.core.catalogue import Catalogue
from harness.core.mistake import Mistake
from harness.exchange.bundle import MANIFEST, Contribution, Parcel, packed, read, unpacked
from harness.exchange.parquet import Exported
from harness.exchange.placing import Cleaner, Origin, clean_record, clean_run, place, private_words
from harness.exchange.validation import Unfit, sentence
from harness.report.document import to_markdown, to_terminal
from harness.report.figures import MARK
from harness.report.front_page import index_page
from harness.report.gallery import GALLERY, gallery
from harness.report.matrix import matrix_parts, matrix_to_json
from harness.report.optimization_pages import (
    PAGE_MARK,
    PLACE,
    index,
    judged,
    label,
    page,
    read_reports,
    reports_page,
)
from harness.report.published import Place, Publication, file_name, published_place
from harness.report.published_pages import machine_page, workload_page
from harness.report.published_parts import Page
from harness.report.words import one_line
from harness.results import answers, finished, finished_and_measured, races_below, read_kept, stored_runs
from harness.store import folder_of, read_records, read_run, replace_file

# `export`: runs as Parquet tables in a folder.

OTHER_FOLDER = "choose another folder with --output"


def export(runs: tuple[Path, ...], output: Path, results: Path) -> int:
    """Writes all tables of some runs, or of every finished and measured one; raises Mistake where that cannot be."""
    found = [_exported(folder) for folder in runs or finished_and_measured(results)]
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
        from harness.exchange.parquet import tables
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise Mistake(f"Parquet needs pyarrow ({error}); pip install '.[export]' in a clone brings it.") from error
    return tables(found)


def _exported(folder: Path) -> Exported:
    return Exported(kept=read_kept(folder), plan=read_run(folder).plan, records=tuple(read_records(folder)))


# `import`: takes in somebody else's run, or says in one sentence why not.

ANOTHER = "ask for a bundle that ./speedmatrix bundle has made"


def take_in(source: Path, results: Path) -> int:
    """Checks a bundle or a run's folder and keeps it among the results; raises Mistake for what cannot be kept."""
    now = datetime.now(UTC)
    try:
        parcel = unpacked(source)
        contribution, removed = cleaned(read(parcel, now), Cleaner())
    except Unfit as unfit:
        raise Mistake(sentence(f"{source} is not taken in", unfit, ANOTHER)) from unfit
    matrix = _reported(contribution)
    origin = Origin(
        imported=now.isoformat(timespec="seconds"),
        bundled=parcel.bundled,
        sha256=parcel.digest,
        run_schema=contribution.schema,
    )
    folder, is_new = place(results, contribution, origin)
    told = (
        _told(folder, contribution, matrix, removed)
        if is_new
        else f"{folder} holds this very run already; nothing was written.\n"
    )
    sys.stdout.write(told)
    return 0


def cleaned(contribution: Contribution, cleaner: Cleaner) -> tuple[Contribution, int]:
    """The run without private places and names, and how many there were."""
    run = clean_run(contribution.run, cleaner)
    records = tuple(clean_record(record, cleaner) for record in contribution.records)
    return replace(contribution, run=run, records=records), cleaner.removed


def _reported(contribution: Contribution) -> Matrix:
    """The matrix, reported in every form once before it is kept: a run that no report bears would break all others."""
    run = contribution.run
    matrix = build_matrix(run.plan, contribution.records, run.environment)
    parts = tuple(matrix_parts(matrix, run.command))
    for text in (to_terminal(parts, width=100), to_markdown(parts), matrix_to_json(matrix)):
        text.encode()
    return matrix


def _told(folder: Path, contribution: Contribution, matrix: Matrix, removed: int) -> str:
    environment = contribution.run.environment
    chip = one_line(environment.accelerator or environment.cpu)
    places = f" {removed} private places were taken out of its texts." if removed else ""
    return (
        f"Taken in as {folder}: {len(contribution.records):,} records from {chip}, {matrix.looked_at} of "
        f"{len(matrix.every_row) + len(matrix.no_results)} configurations with a ratio.{places} Somebody else "
        f"measured it: what it says is checked for sense, not for truth. Next: ./speedmatrix report {folder}\n"
    )


# Generated pages on disk: written, or held against what would be written now.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What a command writes below a folder, and how its own files are told from those of others."""

    texts: Mapping[str, str]  # by path below the folder
    output: Path
    patterns: tuple[str, ...] = ("*.md",)  # where its files lie
    mark: str  # how they begin
    command: str  # that writes them
    called: str = "pages"
    remedy: str = "choose another folder with --output"


def stale(pages: Pages) -> Iterator[str]:
    """What is wrong with the files that lie there, a sentence for each."""
    for name, text in pages.texts.items():
        path = pages.output / name
        if not path.exists():
            yield f"{path} is missing"
        elif path.read_bytes() != text.encode():
            yield f"{path} is not what would be written now"
    yield from (f"{path} is about nothing that exists" for path in _orphans(pages))


def _orphans(pages: Pages) -> list[Path]:
    """Files that were written for what is no longer there; files that are not ours are left alone."""
    ours = {pages.output / name for name in pages.texts}
    found = (path for pattern in pages.patterns for path in sorted(pages.output.glob(pattern)) if path not in ours)
    return [path for path in found if path.read_bytes().startswith(pages.mark.encode())]


def check_pages(pages: Pages) -> int:
    """Tells the first file that is not as it would be written now; 1 if there is one, else 0."""
    found = list(stale(pages))
    if not found:
        sys.stdout.write(f"All {len(pages.texts)} {pages.called} in {pages.output} are as they would be written now.\n")
        return 0
    others = f" ({len(found) - 1} others too)" if len(found) > 1 else ""
    sys.stderr.write(f"{found[0]}{others}; {pages.command} writes it anew.\n")
    return 1


def write_pages(*several: Pages) -> None:
    """Writes all files and removes those about nothing that exists; raises Mistake where that cannot be.

    Nothing is written where a file of somebody else's would be lost.
    """
    for act in (_spare_others, _write):
        for pages in several:
            try:
                act(pages)
            except OSError as error:
                raise Mistake(f"Cannot write to {pages.output} ({error.strerror}); {pages.remedy}.") from error


def _spare_others(pages: Pages) -> None:
    """Raises Mistake where a file lies in the way that does not begin as those that are written."""
    mark = pages.mark.encode()
    for name, text in pages.texts.items():
        path = pages.output / name
        if text.startswith(pages.mark) and path.is_file() and not path.read_bytes().startswith(mark):
            raise Mistake(
                f"{path} was not written by {pages.command}, which would overwrite it; rename or move it, then repeat "
                "the command."
            )


def _write(pages: Pages) -> None:
    for name, text in pages.texts.items():
        path = pages.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    for orphan in _orphans(pages):
        orphan.unlink()
    sys.stdout.write(f"{len(pages.texts)} {pages.called} are in {pages.output}.\n")


# `publish`: the tables and figures of everything in a folder of results, or the first that is no longer true.

INDEX, CLAIMS, FORMAT, MANUAL = "README.md", "claims.md", "docs/results-format.md", "docs/optimizations"
PATTERNS = ("*.md", "*.html", "*/*.md", "*/figures/*.svg")


def publish(results: Path, *, check: bool) -> int:
    """Writes or checks all pages and figures; gives 1 when a check finds one that is not as it would be written now."""
    if not results.is_dir():
        raise Mistake(f"There is no folder {results}; ./speedmatrix run makes one, or name another with --results.")
    pages = publication_on_disk(results, finished(results), read_catalogue())
    if check:
        return check_pages(pages)
    write_pages(pages)
    return 0


def publication_on_disk(results: Path, folders: Iterable[Path], catalogue: Catalogue) -> Pages:
    """Every page and figure below a folder of results, made of some of its runs."""
    publication = read_publication(folders, catalogue, has_claims=(results / CLAIMS).exists())
    format_link = f"../{FORMAT}" if (results.parent / FORMAT).exists() else None
    return Pages(
        texts={
            **dict(_files(publication, results, format_link)),
            GALLERY: gallery(publication, catalogue.optimizations, __version__),
        },
        output=results,
        patterns=PATTERNS,
        mark=MARK,
        command="./speedmatrix publish",
        called="pages and figures",
        remedy="make it writable or name another folder with --results",
    )


def read_publication(folders: Iterable[Path], catalogue: Catalogue, *, has_claims: bool) -> Publication:
    """Runs of real times, by the machine's folder in which they lie."""
    measured = (folder for folder in folders if answers(read_run(folder)))
    by_place = together((folder.resolve().parent.name, folder) for folder in measured)
    places = tuple(_place(name, inside, catalogue) for name, inside in sorted(by_place.items()))
    return Publication(places=places, has_claims=has_claims)


def _place(name: str, folders: list[Path], catalogue: Catalogue) -> Place:
    found = published_place(name, stored_runs(folders), accounts(list(witnesses_of(folders)), catalogue))
    marks = {
        name: known_times(catalogue.workload(name), one.reference, one.host_s)
        for one in found.sweeps
        if (name := one.reference.workload) in catalogue.workloads
    }
    return replace(found, marks=marks, races=races_below(folders[0].resolve().parent))


def _files(publication: Publication, results: Path, format_link: str | None) -> Iterator[tuple[str, str]]:
    manual = f"../../{MANUAL}" if (results.parent / MANUAL).is_dir() else None
    yield INDEX, index_page(publication, format_link).text
    for one in publication.places:
        verified = tuple(path.name for path in sorted((results / one.name / "verified").glob("*.json")))
        yield from _below(one.name, INDEX, machine_page(one, verified))
        for name in one.workloads:
            page = workload_page(one, name, has_claims=publication.has_claims, manual=manual)
            yield from _below(one.name, f"{file_name(name)}.md", page)


def _below(folder: str, name: str, page: Page) -> Iterator[tuple[str, str]]:
    yield f"{folder}/{name}", page.text
    yield from ((f"{folder}/{picture.path}", picture.svg) for picture in page.pictures)


# `document`: writes the pages of all optimizations, or tells the first that is no longer true.

PAGES_INDEX = "README.md"


def document(results: Path, output: Path, *, check: bool) -> int:
    """Writes or checks the pages; gives 1 when a check finds one that is not as it would be written now."""
    found = [documented(pages_of(read_catalogue(), finished(results), output), output)]
    if (output.parent / PLACE).exists():
        found.append(documented({PLACE: reports_page(read_reports())}, output.parent))
    if check:
        return max(map(check_pages, found))
    write_pages(*found)
    return 0


def documented(pages: Mapping[str, str], output: Path) -> Pages:
    """The pages with all that tells them from the files of others."""
    return Pages(texts=pages, output=output, mark=PAGE_MARK, command="./speedmatrix document")


def pages_of(catalogue: Catalogue, runs: Iterable[Path], output: Path) -> dict[str, str]:
    """The text of every page by its file's name, the index among them; `runs` are folders."""
    folders = list(runs)
    links = {one.resolve().parent.name: Path(os.path.relpath(one.parent, output)).as_posix() for one in folders}
    places = read_publication(folders, catalogue, has_claims=False).places
    # Real machines before emulated ones, of each those with most ratios first.
    telling = sorted(places, key=lambda one: (one.richest.environment.emulated, -one.richest.ratios))
    machines = [(one, links[one.name]) for one in telling if not one.sweeps]
    claims = judged(catalogue.claims, (account for place in places for account in place.accounts))
    labels = [label(one, claims) for _, one in sorted(catalogue.optimizations.items())]
    return {PAGES_INDEX: index(labels, machines), **{f"{one.name}.md": page(one, machines) for one in labels}}


SUFFIX = ".speedmatrix.zip"
MEASURE_AGAIN = "restore it or measure again"


def pack(run: Path, output: Path | None) -> int:
    """Writes the bundle of a run, checked as an import checks it; raises Mistake for what cannot be passed on."""
    try:
        parcel = _own(run)
        contribution, removed = cleaned(read(parcel, datetime.now(UTC)), Cleaner(private_words(_names())))
    except Unfit as unfit:
        raise Mistake(sentence(f"{run} is not bundled", unfit, MEASURE_AGAIN)) from unfit
    kept = folder_of(Path(), contribution.run)
    path = output or Path(f"{kept.parent.name}-{kept.name}{SUFFIX}")
    content = packed(contribution, removed)
    replace_file(path, content, "choose another path for --output")
    sys.stdout.write(
        f"{path} holds {len(contribution.records):,} records in {len(content):,} bytes; {removed} places, users and "
        f"hosts were taken out of its texts. Whoever gets it: ./speedmatrix import {path.name}\n"
    )
    return 0


def _own(run: Path) -> Parcel:
    if not run.is_dir():
        raise Unfit("it is not the folder of a run", "name one that ./speedmatrix run has made")
    parcel = unpacked(run)
    # Digests of an earlier bundle say nothing of the one that is made now.
    files = {name: content for name, content in parcel.files.items() if name != MANIFEST}
    return Parcel(files=files, digest=parcel.digest, bundled=False)


def _names() -> list[str]:
    """The user and the host, as error messages may name them."""
    host = platform.node()
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user is known to this system
        user = ""
    return [user, Path.home().name, host, host.partition(".")[0]]
