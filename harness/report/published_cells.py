"""Configurations that several published pages share: links to runs, settings in words, the best stack of a workload."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from harness.analyze.calibration import DESIGN
from harness.analyze.collection import StoredRow, StoredRun
from harness.analyze.matrix import Row
from harness.analyze.quality import Agreement
from harness.report.figures.style import MARK
from harness.report.matrix import TIMED, escaped, grid, settings
from harness.report.published import Setting, Sheet, Topic, file_name
from harness.report.words import NOTHING, called, ratio

BEST_COLUMNS = (
    "workload",
    "size, batch",
    "fastest that learns the same",
    "speedup",
    "against original",
    "quality",
    "held back by: its reference, then the stack",
    "run",
    "environment",
)


_STAGES = {"input": "input", "compute": "training step"}
_QUALITY = {Agreement.DIFFERS: "differs", Agreement.NAN: "is lost: its loss is not a number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure of a page: where it lies below the page's folder, what is read out in its place, and its SVG."""

    path: str
    words: str
    svg: str


Part = str | Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page and its figures."""

    text: str
    pictures: tuple[Picture, ...]


def page(parts: Iterable[Part]) -> Page:
    """Lines and figures as one page; a figure is an image on a line of its own."""
    parts = tuple(parts)
    lines = (one if isinstance(one, str) else f"![{escaped(one.words)}]({quote(one.path)})" for one in parts)
    return Page(
        text="\n".join((MARK, "", *lines)) + "\n", pictures=tuple(one for one in parts if isinstance(one, Picture))
    )


def day(kept: StoredRun) -> str:
    """The day a run was begun, in UTC: `2026-11-20`."""
    return kept.began[:10]


def days(runs: Iterable[StoredRun]) -> str:
    """The days of some runs as Markdown: `2026-11-20 to 2026-11-21`."""
    found = sorted({day(kept) for kept in runs})
    return escaped(found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}")


def run_link(kept: StoredRun, above: str = "") -> str:
    """A link to a run's folder; `above` is what leads from the page to the machine's folder."""
    contributed = " (contributed)" if kept.contributed else ""
    return f"[{escaped(day(kept))}]({quote(above + kept.name)}){contributed}"


def chip(setting: Setting) -> str:
    """What was measured on, as Markdown."""
    one = setting.environment
    return escaped(one.accelerator or f"{one.cpu}, {one.cores} cores")


def calibrated(setting: Setting) -> str:
    """What the machine has shown of itself, as the headers of its runs say it; of several times, each with its days."""
    told: dict[str, list[StoredRun]] = {}
    for kept in [one for one in setting.runs if one.matrix.design != DESIGN] or setting.runs:
        told.setdefault(kept.matrix.noise, []).append(kept)
    if len(told) == 1:
        return f"{escaped(*told)}."
    return " ".join(f"Of {days(runs)}: {escaped(words)}." for words, runs in told.items())


def software(setting: Setting) -> str:
    """The versions that matter most, as Markdown."""
    one = setting.environment
    versions = [f"{name} {version}" for name, version in one.packages if name == "torch"]
    driver = [f"driver {one.driver}"] if one.driver else []
    variables = [settings(one)] if one.variables else []
    return escaped(", ".join([*versions, f"Python {one.python}", *driver, one.system, *variables]))


def named(setting: Setting) -> str:
    """An environment by its digest, and whether somebody else measured in it."""
    return f"`{setting.environment.digest}`" + (", contributed" if setting.is_contributed else "")


def counted(count: int, what: str) -> str:
    """A number with its noun: `1 run`, `3 runs`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def quality(row: Row) -> str:
    """The quality status in a word."""
    return row.quality.status.value if row.quality else NOTHING


def code(name: str) -> str:
    """A name as code where it is one, or else as text: inside code nothing could be escaped."""
    return f"`{name}`" if re.fullmatch(r"[\w=+./ -]+", name, re.ASCII) else escaped(name)


def estimated(entry: StoredRow) -> str:
    """A ratio with its interval as Markdown, and its verdict where that is not plain from it."""
    estimate = entry.row.estimate
    if estimate is None:
        return "no ratio"
    return unbroken(escaped(ratio(estimate))) + ("" if estimate.verdict.value == "faster" else f" {estimate.verdict}")


def unbroken(text: str) -> str:
    """Markdown that stays on one line in a narrow column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def best_table(answers: Sequence[tuple[Setting, Topic]], above: str = "") -> Iterator[str]:
    """The best stack of each workload and where that was seen; `above` leads from the page to the machine's folder."""
    yield from grid(BEST_COLUMNS, (tuple(_best(setting, topic, above)) for setting, topic in answers))
    for _, topic in answers:
        if topic.faster_otherwise is not None:
            yield from ("", faster_otherwise(topic, topic.faster_otherwise))


def faster_otherwise(topic: Topic, entry: StoredRow) -> str:
    """What is faster than the best and does not learn the same, or was not judged."""
    what = f"{code(entry.row.label)}, {estimated(entry)}"
    return f"Faster still on {escaped(topic.name)}, {_otherwise(entry.row)}: {what}."


def _best(setting: Setting, topic: Topic, above: str) -> Iterator[str]:
    yield f"[{escaped(topic.name)}]({quote(f'{above}{file_name(topic.name)}.md')})"
    config = topic.main.config if topic.main else None
    yield escaped(f"{config.size}, {config.batch}") if config else NOTHING
    yield from _best_configs(topic, above)
    yield named(setting)


def _best_configs(topic: Topic, above: str) -> Iterator[str]:
    best = topic.best
    if best is None:
        yield from ("nothing for sure", *(NOTHING,) * 5)
        return
    found = topic.against("original", best)
    yield escaped(best.row.label)
    yield estimated(best) + (f" against {escaped(topic.main.name)}" if topic.main and topic.main.config.options else "")
    yield estimated(found) if found else "not measured"
    yield quality(best.row)
    yield _bounds(best.row)
    yield run_link(best.run, above)


def _bounds(row: Row) -> str:
    """What holds the reference back, and then the stack: `input, then training step`."""
    found = [arm.bottleneck.stage if arm and arm.bottleneck else "" for arm in (row.reference, row.treatment)]
    stages = [_STAGES.get(stage, "not known") for stage in found]
    return f"{stages[0]}, both" if stages[0] == stages[1] else ", then ".join(stages)


def _otherwise(row: Row) -> str:
    status = row.quality.status if row.quality else Agreement.NOT_JUDGED
    return "not judged for quality" if status is Agreement.NOT_JUDGED else f"but its quality {_QUALITY[status]}"


def timed(sheet: Sheet) -> str:
    """What was timed and against what, as Markdown: `training steps against the baseline`."""
    return escaped(f"{TIMED[sheet.timing]} against {called(sheet.name)}")


def stacked(label: str) -> str:
    """A subject as Markdown, with room to break the line between the parts of a stack."""
    return escaped(label.replace("+", " + "))
