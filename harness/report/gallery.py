"""The gallery: every published answer of all machines in one HTML file, to be filtered, compared and taken along.

It loads nothing, and foreign text in it is never anything but text: see `harness.report.html`.
"""

import base64
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from harness.analyze.collection import StoredRow
from harness.core.optimization import Optimization
from harness.core.plan import is_or_was_baseline
from harness.report.figures import MARK
from harness.report.html import asset, embedded, policy, rounded, stage, templates
from harness.report.matrix import held, timed_on
from harness.report.published import Place, Publication, Setting
from harness.report.published_parts import day, sweep_picture
from harness.report.words import Interval, one_line

GALLERY = "gallery.html"
OF_FORMER = "steps by a former table of this device"
COLUMNS = (
    "key", "question", "optimization", "machine", "workload", "size", "batch", "against", "timed", "stage", "verdict",
    "quality", "memory", "memory_kind", "ratio", "part", "run", "day", "environment", "notes", "aside",
)  # fmt: skip
_SCRIPTS = ("theme.js", "gallery.js")


def gallery(publication: Publication, known: Mapping[str, Optimization], version: str) -> str:
    """The page; the same runs give the same bytes."""
    style, script = asset("style.css"), "\n".join(map(asset, _SCRIPTS))
    found = [list(one.values()) for one in rows(publication, known)]
    page = (
        templates()
        .get_template("gallery.html")
        .render(
            version=version,
            count=len(found),
            machines=len({row[COLUMNS.index("machine")] for row in found}),
            figures=tuple(_figures(publication)),
            style=Markup(style),  # noqa: S704  the package's own
            script=Markup(script),  # noqa: S704
            data=Markup(embedded({"columns": COLUMNS, "rows": found})),  # noqa: S704  cannot end its element
            policy=policy(style, script),
        )
    )
    return f"{MARK}\n{page}"


def rows(publication: Publication, known: Mapping[str, Optimization]) -> Iterator[dict[str, Any]]:
    """One for each published ratio that is no copy of a reference, by the names of COLUMNS.

    `ratio` and `part` are [ratio, low, high]: on whole steps where that is known, and of the part of a step that was
    timed. An endless interval has None as its end. The key stays the same for the same question; `question` is the
    same on another machine that timed the same options in the same way. `aside` is whether another environment of the
    machine tells more of the workload, or the reference or the table of step times is a former one.
    """
    for place in publication.places:
        fullest = place.fullest
        for setting in place.settings:
            for topic in setting.topics:
                aside = fullest[topic.name][0] is not setting or setting.is_former
                entries = (one for sheet in topic.sheets for one in sheet.measured)
                yield from (_row(place, setting, one, known, aside=aside) for one in entries)


def _row(
    place: Place, setting: Setting, entry: StoredRow, known: Mapping[str, Optimization], *, aside: bool
) -> dict[str, Any]:
    row, comparison = entry.row, entry.row.comparison
    former = is_or_was_baseline(comparison.reference) and bool(comparison.reference.options)
    if row.estimate is None or row.shown is None:
        raise ValueError("a row of the gallery needs a ratio")
    asked = f"{comparison.treatment} {comparison.reference} {comparison.timing} {entry.data}"
    kind, memory = held(row) or ("", None)
    values = (
        _digest(f"{place.name} {setting.key} {asked}"),
        _digest(f"{asked} {comparison.copy} {timed_on(row)} {row.estimate.shared}"),
        one_line(row.label),
        one_line(place.name) + (" (contributed)" if setting.is_contributed else ""),
        one_line(comparison.treatment.workload) + (f", {one_line(entry.data)}" if entry.data else ""),
        comparison.treatment.size,
        comparison.treatment.batch,
        one_line(entry.table.name),
        timed_on(row),
        stage(comparison, known),
        str(row.shown.verdict),
        str(row.quality.status) if row.quality else "",
        memory,
        kind,
        _ends(row.shown),
        None if row.shown is row.estimate else _ends(row.estimate),
        f"{place.name}/{entry.run.name}",
        day(entry.run) + (f" +{len(entry.repeats) - 1}" if entry.repeats else ""),
        setting.environment.digest,
        one_line("; ".join([*row.notes, *([OF_FORMER] if setting.is_former else [])])),
        int(aside or former),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:10]


def _ends(one: Interval) -> list[float | None]:
    return [rounded(value) for value in (one.ratio, one.low, one.high)]


def _figures(publication: Publication) -> Iterator[tuple[str, str]]:
    """The sweeps as what is read out and an address that holds the picture itself."""
    for place in publication.places:
        for one in place.sweeps:
            picture = sweep_picture(place, one)
            yield picture.words, "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()
