"""The first page of a folder of results: what to switch on, what was promised, and where more is."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote

from harness.report import claims
from harness.report.document import escaped, grid
from harness.report.first_choice import first_choices
from harness.report.gallery import GALLERY
from harness.report.published import (
    Place,
    Publication,
    Setting,
)
from harness.report.published_parts import (
    Page,
    Part,
    calibrated,
    chip,
    days,
    heat_map_picture,
    machine_link,
    named,
    page,
    sweep_picture,
)
from harness.report.sweep import EMULATED, FORMER_LAUNCHES, HOW, time
from harness.report.sweep import sentences as sentences_of

_INDEX_COLUMNS = "machine", "measured on", "environments", "runs", "days", "workloads", "ratios"


def index_page(publication: Publication, format_link: str | None) -> Page:
    """The first page; `format_link` leads to the description of the files, where there is one."""
    return page(_index_parts(publication, format_link))


def _index_parts(publication: Publication, format_link: str | None) -> Iterator[Part]:
    yield "# Results"
    if not publication.places:
        yield from ("", "Nothing was measured yet: `./speedmatrix run` measures this machine.")
        return
    yield ""
    yield (
        f"[{GALLERY}]({GALLERY}) holds all ratios in one page that needs no network: filter it, hold two machines side "
        "by side, take the table along as CSV."
    )
    yield from first_choices(publication)
    accounts = [account for place in publication.places for account in place.accounts]
    if accounts:
        link = " [All of them](claims.md)." if publication.has_claims else ""
        told = f"{claims.summary(accounts)} {claims.decided(accounts)}"
        yield from ("", "## What was promised", "", f"{escaped(told)}{link}")
    yield from _swept(publication.places)
    yield from _heat_maps(publication)
    yield from ("", "## Machines", "")
    described = f" [The format of the files]({quote(format_link)})." if format_link else ""
    yield (
        "Each run is a folder of plain data that nobody edits; every table and figure here is made of them by "
        f"`./speedmatrix publish`, which also checks them (`--check`).{described} A machine's page has every "
        "environment, every ratio and every run but those of isolation. `./speedmatrix compare --machines` holds "
        "machines side by side, and `./speedmatrix report RUN` shows one run whole."
    )
    yield from ("", *grid(_INDEX_COLUMNS, map(_machine, publication.places)))


def _machine(place: Place) -> tuple[str, ...]:
    runs = [kept for setting in place.settings for kept in setting.runs]
    return (
        machine_link(place.name) + (" (contributed)" if place.is_contributed else ""),
        _chips(place),
        str(len(place.settings)),
        str(len(runs)),
        days(runs),
        escaped(", ".join(place.workloads)),
        f"{sum(setting.ratios for setting in place.settings):,}",
    )


def _chips(place: Place) -> str:
    """What was measured on; of many emulated step times the first and the last."""
    if place.sweeps:
        times = sorted({point.step_s for one in place.sweeps for curve in one.curves for point in curve.points})
        return escaped(f"emulated steps of {time(times[0])} to {time(times[-1])} on {place.sweeps[0].host}")
    return "; ".join(dict.fromkeys(chip(setting) for setting in place.settings))


def _swept(places: Iterable[Place]) -> Iterator[Part]:
    """The figure of each workload beside devices of other speeds, and what it says of the option that gains most."""
    swept = [place for place in places if place.sweeps]
    if swept:
        yield from ("", "## Beside faster and slower devices", "", f"{EMULATED} {HOW}")
    for place in swept:
        yield from ("", FORMER_LAUNCHES) if any(one.is_former for one in place.sweeps) else ()
        for one in place.sweeps:
            picture = sweep_picture(place, one)
            yield from ("", f"![{escaped(picture.words)}]({quote(f'{place.name}/{picture.path}')})", "")
            several = replace(one, curves=tuple(curve for curve in one.curves if len(curve.points) > 1))
            said = sentences_of(several, place.marks.get(one.reference.workload, {}))
            yield from (f"- {escaped(words)}" for words in said)
        yield from ("", f"[Every step time with its tables, and every run]({quote(place.name)}/README.md).")


def _heat_maps(publication: Publication) -> Iterator[Part]:
    """One matrix for each kind of device: of the environment that tells of most workloads, then has most ratios."""
    found: dict[str, tuple[tuple[bool, int, int], Place, Setting]] = {}
    for place in (one for one in publication.places if not one.sweeps):
        setting, one = place.richest, place.richest.environment
        kind = "emulated" if one.emulated else one.device
        told = not setting.is_former, sum(topic.is_of_today for topic in setting.topics), setting.ratios
        if kind not in found or told > found[kind][0]:
            found[kind] = told, place, setting
    for _, place, setting in found.values():
        heat = heat_map_picture(setting)
        if heat is not None:
            yield from ("", f"## Every optimization: {escaped(place.name)}", "")
            yield f"![{escaped(heat.words)}]({quote(f'{place.name}/{heat.path}')})"
            yield from (
                "",
                f"Drawn for environment {named(setting)}, which has ratios of most workloads. {calibrated(setting)}",
            )
