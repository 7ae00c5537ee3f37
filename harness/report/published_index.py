"""The first page of a folder of results: what was measured where, the best stacks, and what surprises."""

from collections.abc import Iterator
from urllib.parse import quote

from harness.report.markdown import escaped, grid
from harness.report.published import Place, Publication
from harness.report.published_cells import Page, Part, best_table, calibrated, chip, days, named, page
from harness.report.published_facts import surprises
from harness.report.published_figures import heat_map_picture

_COLUMNS = "machine", "measured on", "environments", "runs", "days", "workloads", "ratios"


def index_page(publication: Publication, format_link: str | None) -> Page:
    """The table of everything; `format_link` leads to the description of the files, where there is one."""
    return page(_parts(publication, format_link))


def _parts(publication: Publication, format_link: str | None) -> Iterator[Part]:
    yield from ("# Results", "")
    described = f" [The format of the files]({quote(format_link)})." if format_link else ""
    yield (
        "What was measured, machine by machine. Each run is a folder of plain data that nobody edits; every table and "
        f"figure here is made of them by `./speedmatrix publish`, which also checks them (`--check`).{described}"
    )
    if not publication.places:
        yield from ("", "Nothing was measured yet: `./speedmatrix run` measures this machine.")
        return
    yield from ("", *grid(_COLUMNS, map(_machine, publication.places)))
    facts = surprises(publication)
    if facts:
        yield from ("", "## What surprises", "", "Found by rules, the strongest of each rule:", "")
        yield from (f"- {fact}" for fact in facts)
    for place in publication.places:
        yield from _place(place)
    yield from ("", "## Elsewhere", "")
    if publication.has_claims:
        yield "- [Claims](claims.md): what others promised, held against these runs."
    yield "- `./speedmatrix compare --machines` holds machines side by side."
    yield "- `./speedmatrix report RUN` shows one run whole."


def _machine(place: Place) -> tuple[str, ...]:
    runs = [kept for setting in place.settings for kept in setting.runs]
    return (
        f"[{escaped(place.name)}]({quote(place.name)}/README.md)" + (" (contributed)" if place.is_contributed else ""),
        "; ".join(dict.fromkeys(chip(setting) for setting in place.settings)),
        str(len(place.settings)),
        str(len(runs)),
        days(runs),
        escaped(", ".join(place.workloads)),
        f"{sum(setting.ratios for setting in place.settings):,}",
    )


def _place(place: Place) -> Iterator[Part]:
    yield from ("", f"## {escaped(place.name)}" + (" (contributed)" if place.is_contributed else ""), "")
    if not place.answers:
        yield f"No training step has a ratio against plain yet. [More]({quote(place.name)}/README.md)"
        return
    yield from best_table(place.answers, f"{place.name}/")
    heat = heat_map_picture(place.richest)
    if heat is not None:
        yield from ("", f"![{escaped(heat.words)}]({quote(f'{place.name}/{heat.path}')})")
        yield from (
            "",
            f"Of environment {named(place.richest)}, which has the most ratios. {calibrated(place.richest)}",
        )
    yield from ("", f"[More]({quote(place.name)}/README.md): every environment with its stages, every page, every run.")
