"""Parts that several published pages share: links to runs, settings in words, the best stack of a workload, figures."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import fmean
from urllib.parse import quote

from harness.analyze.attribution import Attribution, attributed
from harness.analyze.calibration import DESIGN
from harness.analyze.collection import StoredRow, StoredRun
from harness.analyze.grouping import together
from harness.analyze.matrix import Row
from harness.analyze.quality import Agreement
from harness.analyze.soundness import UNFINISHED
from harness.analyze.sweep import Sweep
from harness.analyze.verdict import Verdict
from harness.core.configuration import Option
from harness.core.emulation import band_of
from harness.core.optimization import Timing
from harness.core.plan import is_or_was_baseline
from harness.report import matrix as sentences
from harness.report.document import escaped, grid
from harness.report.figures import (
    MARK,
    Arms,
    Grid,
    Tile,
    heat_map,
    interval_plot,
    stage_bars,
    waterfall,
)
from harness.report.matrix import COMPOSED, TIMED, quality, settings
from harness.report.published import (
    ORIGINAL,
    STACKS,
    Place,
    Setting,
    Sheet,
    Topic,
    at,
    file_name,
    is_single,
    precedence,
)
from harness.report.scaling import RANKS, levels
from harness.report.sweep import sweep_figure
from harness.report.sweep import time as short
from harness.report.words import NOTHING, called, one_line, ratio, stage

BEST_COLUMNS = (
    "workload",
    "size, batch",
    "fastest whose first losses agree",
    "speedup",
    "over the real system's settings",
    "quality",
    "bottleneck, before → after",
    "run",
    "environment",
)


_QUALITY = {Agreement.DIFFERS: "differs", Agreement.NAN: "is lost: its loss is not a number"}
_UNJUDGED = {Agreement.ANOTHER: "but it is another training", Agreement.NOT_JUDGED: "not judged for quality"}


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


def run_link(kept: StoredRun) -> str:
    """A link to a run's folder, from a page in the machine's own."""
    contributed = " (contributed)" if kept.contributed else ""
    return f"[{escaped(day(kept))}]({quote(kept.name)}){contributed}"


def run_links(entry: StoredRow) -> str:
    """Links to every run that a ratio comes from, the surest first: `2026-11-20, 2, 3`."""
    first, *others = (one.run for one in entry.repeats or (entry,))
    more = (f"[{number}]({quote(kept.name)})" for number, kept in enumerate(others, 2))
    return ", ".join((run_link(first), *more))


def chip(setting: Setting) -> str:
    """What was measured on, as Markdown."""
    return escaped(setting.environment.chip)


def calibrated(setting: Setting) -> str:
    """What the machine has shown of itself, as the headers of its runs say it; of several times, each with its days."""
    others = [one for one in setting.runs if one.matrix.design != DESIGN] or setting.runs
    told = together((one.matrix.noise, one) for one in others)
    if len(told) == 1:
        return f"{escaped(*told)}."
    return " ".join(f"Of {days(runs)}: {escaped(words)}." for words, runs in told.items())


def software(setting: Setting) -> str:
    """The versions that matter most, as Markdown."""
    one = setting.environment
    versions = [f"{name} {version}" for name, version in one.packages if name == "torch"]
    # Of an emulated device it is the name of a table: `step times 14154968`.
    driver = [one.driver if one.emulated else f"driver {one.driver}"] if one.driver else []
    variables = [settings(one)] if one.variables else []
    return escaped(", ".join([*versions, f"Python {one.python}", *driver, one.system, *variables]))


def named(setting: Setting) -> str:
    """An environment by its digest, and whether somebody else measured in it."""
    return f"`{setting.environment.digest}`" + (", contributed" if setting.is_contributed else "")


def code(name: str) -> str:
    """A name as code where it is one, or else as text: inside code nothing could be escaped."""
    return f"`{name}`" if re.fullmatch(r"[\w=+./ -]+", name, re.ASCII) else escaped(name)


def changed(options: Iterable[Option], than: Iterable[Option]) -> str:
    """In what a stack differs from another one, in words; nothing where it does not."""
    ours, theirs = set(options), set(than)
    parts = (("without", theirs - ours), ("with", ours - theirs))
    return " and ".join(f"{word} {', '.join(sorted(code(str(one)) for one in some))}" for word, some in parts if some)


def estimated(entry: StoredRow) -> str:
    """A ratio with its interval as Markdown, and its verdict where that is not plain from it."""
    estimate = entry.row.estimate
    if estimate is None:
        return "no ratio"
    return unbroken(escaped(ratio(estimate))) + ("" if estimate.verdict.value == "faster" else f" {estimate.verdict}")


def bare(entry: StoredRow) -> str:
    """A ratio with its interval, without the verdict that the sentence states."""
    return estimated(entry).removesuffix(f" {entry.row.estimate.verdict}") if entry.row.estimate else ""


def page_of(place: Place, topic: Topic) -> str:
    """The address of a workload's page, from the first page."""
    return quote(f"{place.name}/{file_name(topic.name)}.md")


def machine_link(name: str) -> str:
    """A machine's page, from the first page."""
    return f"[{escaped(name)}]({quote(name)}/README.md)"


def stack_unlike(found: StoredRow, best: StoredRow) -> str:
    """In what a stack differs from the best one whose name it has, in words; nothing where it does not."""
    return changed(found.row.comparison.treatment.options, best.row.comparison.treatment.options)


def over_original(found: StoredRow, best: StoredRow, said: str = "") -> str:
    """The best stack's ratio over the real system's settings, and in what it differed there unless that is said."""
    unlike = stack_unlike(found, best)
    return unbroken(estimated(found)) + (f", {unlike}" if unlike not in {"", said} else "")


ITS_OWN = "1 (these are its settings)"  # what the real system's settings gain over themselves


def gain_over_original(topic: Topic, best: StoredRow) -> str:
    """What the best stack gains over the real system's settings in one environment, or why no ratio tells it."""
    if best.row.label == ORIGINAL:
        return ITS_OWN
    found = topic.against(ORIGINAL, best)
    return over_original(found, best) + faster_over_original(topic, found) if found else refused(topic, best)


def faster_over_original(topic: Topic, found: StoredRow) -> str:
    """What is faster than a stack over the real system's settings, to stand behind it; nothing where nothing is."""
    faster = topic.faster_than(found)
    if faster is None:
        return ""
    theirs, ours = (levels(one) for one in (faster.row.comparison.reference, faster.row.comparison.treatment))
    its = "its settings with " if theirs.keys() <= ours.keys() else ""
    surely = faster.row.estimate and found.row.estimate and faster.row.estimate.low > found.row.estimate.high
    return f"; {'' if surely else 'perhaps '}faster: {its}{code(faster.row.label)}, {unbroken(estimated(faster))}"


def step_times(answers: Iterable[tuple[Setting, Topic]]) -> str:
    """What decides how long steps of emulated devices take by today's tables, and how far that may be off, in words.

    Where the host launches for longer than the device computes, as with small batches, devices do not differ.
    """
    launched, bands = dict[str, float](), dict[str, float]()
    for setting, topic in answers:
        arm = topic.main.table.profile if topic.main else None
        if arm is None or setting.is_former or not (arm.tabled_s and arm.launching_s):
            continue
        band = band_of(setting.environment.device, topic.name, arm.config.size, arm.config.batch)
        if band and arm.launching_s > band * arm.tabled_s:
            launched[topic.name] = arm.launching_s
        elif band:
            bands[topic.name] = max(band, bands.get(topic.name, 0.0))
    told = []
    if launched:
        times = ", ".join(f"{name} {short(one)}" for name, one in sorted(launched.items()))
        told.append(
            f"The host launches these batches for longer than the device computes them ({times}): any fast device "
            "reads the same there; with another host the ratios differ."
        )
    if bands:
        factors = ", ".join(f"{name} {one:g}" for name, one in sorted(bands.items()))
        told.append(f"Step times may be off by these factors, which intervals do not include: {factors}.")
    return " ".join(told)


def on_training(entry: StoredRow) -> str:
    """What an option comes to on training steps, with its interval as Markdown; composed of a part's ratio, a ~."""
    return ("" if entry.row.on_steps is None else COMPOSED) + unbroken(escaped(ratio(entry.row.shown)))


def low(entry: StoredRow) -> float:
    """The least that an answer leaves possible; of a disturbed one nothing is sure."""
    shown = entry.row.shown
    return shown.low if shown and shown.verdict is not Verdict.DISTURBED else 0.0


def unbroken(text: str) -> str:
    """Markdown that stays on one line in a narrow column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def best_table(answers: Sequence[tuple[Setting, Topic]]) -> Iterator[str]:
    """The best stack of each workload and where that was seen, for the page of their machine."""
    yield from grid(BEST_COLUMNS, (tuple(_best(setting, topic)) for setting, topic in answers))
    for _, topic in answers:
        if topic.faster_otherwise is not None:
            yield from ("", faster_otherwise(topic, topic.faster_otherwise))


def faster_otherwise(topic: Topic, entry: StoredRow) -> str:
    """What is faster than the best and does not learn the same, or was not judged."""
    what = f"{code(entry.row.label)}, {estimated(entry)}"
    return f"Faster still on {escaped(topic.name)}, {_otherwise(entry.row)}: {what}."


def _best(setting: Setting, topic: Topic) -> Iterator[str]:
    yield f"[{escaped(topic.name)}]({quote(file_name(topic.name))}.md)"
    config = topic.main.config if topic.main else None
    yield escaped(f"{config.size}, {config.batch}") if config else NOTHING
    yield from _best_configs(topic)
    yield named(setting)


def _best_configs(topic: Topic) -> Iterator[str]:
    best = topic.best
    if best is None:
        yield from ("nothing for sure", *(NOTHING,) * 5)
        return
    yield escaped(best.row.label)
    yield estimated(best) + (f" against {escaped(topic.main.name)}" if topic.main and topic.main.config.options else "")
    yield gain_over_original(topic, best)
    yield quality(best.row)
    yield bounds(best.row)
    yield run_links(best)


def refused(topic: Topic, best: StoredRow) -> str:
    """Why a stack has no ratio over the real system's settings: it was measured and refused, or never measured."""
    wanted = best.row.comparison
    entries = (one for sheet in topic.sheets if sheet.name == ORIGINAL for one in sheet.entries)
    found = (one for one in entries if one.row.absence and one.row.comparison.label == wanted.label)
    why = next((one.row.absence for one in found if at(one.row.comparison) == at(wanted) and one.row.absence), None)
    return f"no ratio ({why.outcome})" if why and why.outcome not in UNFINISHED else "not measured"


def bounds(row: Row) -> str:
    """What holds the reference back, and then the stack: `input → training step`, or `input` where that stays so."""
    found = [arm.bottleneck.stages if arm and arm.bottleneck else ("",) for arm in (row.reference, row.treatment)]
    ours, theirs = (" and ".join(map(stage, one)) for one in found)
    return ours if ours == theirs else f"{ours} → {theirs}"


def _otherwise(row: Row) -> str:
    status = row.quality.status if row.quality else Agreement.NOT_JUDGED
    return f"but its quality {_QUALITY[status]}" if status in _QUALITY else _UNJUDGED[status]


def timed(sheet: Sheet) -> str:
    """What was timed and against what, as Markdown: `training steps against the baseline`."""
    return escaped(f"{TIMED[sheet.timing]} against {called(sheet.name)}")


def stacked(label: str) -> str:
    """A subject as Markdown, with room to break the line between the parts of a stack."""
    return escaped(label.replace("+", " + "))


# Figures of published pages.


LONGEST = 26  # letters of a name that fits beside a bar
_TRAINING = (Timing.STEP, Timing.EPOCH, Timing.EVALUATION)


def parts_of(topic: Topic) -> Attribution | None:
    """The best stack's parts, where it has several and any of them was measured."""
    if topic.best is None:
        return None
    parts = attributed(topic.best, [one for sheet in topic.sheets for one in sheet.measured])
    return parts if parts.shares and len(parts.shares) + len(parts.unmeasured) > 1 else None


def in_short(label: str) -> str:
    """A subject for a figure, whose page names all of its options: `all 12 together` where it is long."""
    count = label.count("+") + 1
    return label if len(label) <= LONGEST else f"all {count} together" if count > 1 else label


def _of(setting: Setting, title: str) -> str:
    """A figure's title, with the device where that was emulated."""
    return one_line(f"{setting.environment.emulation}: {title}" if setting.environment.emulated else title)


def waterfall_picture(setting: Setting, topic: Topic) -> Picture | None:
    """The waterfall of the best stack; none where more than two thirds of its options would have no bar."""
    parts = parts_of(topic)
    if parts is None or topic.best is None or topic.main is None or len(parts.unmeasured) > 2 * len(parts.shares):
        return None
    name = in_short(topic.best.row.label)
    config = topic.main.config
    against = called(topic.main.name)
    what = f"{topic.name}, size {config.size}, batch {config.batch}: the parts of {name}, against {against}"
    title = _of(setting, what)
    svg = waterfall(title, one_line(name), parts)
    return Picture(path=_path(topic.name, setting.key, "waterfall"), words=title, svg=svg)


def stages_picture(setting: Setting, topics: Sequence[Topic], name: str) -> Picture | None:
    """Rates beside upper bounds for some workloads: the baseline, and the best stack of each."""
    groups = {name: arms for topic in topics for name, arms in _arms(topic)}
    if not groups:
        return None
    who = one_line(topics[0].name) if len(topics) == 1 else "each workload"
    title = _of(setting, f"What {who} trains, and what its loader and its step would give alone")
    words = f"{title}: {'; '.join(groups)}"
    return Picture(path=_path(name, setting.key, "stages"), words=words, svg=stage_bars(title, groups))


def _arms(topic: Topic) -> Iterator[tuple[str, Arms]]:
    best = topic.best
    if topic.main is None or best is None:
        return
    arms = ((topic.main.name, best.row.reference), (in_short(best.row.label), best.row.treatment))
    known = {one_line(name): one.bottleneck for name, one in arms if one and one.bottleneck}
    config = topic.main.config
    if known:
        yield one_line(f"{topic.name}, size {config.size}, batch {config.batch}"), known


def interval_picture(setting: Setting, sheet: Sheet) -> Picture | None:
    """The interval plot of a table with two ratios or more."""
    if len(sheet.measured) < 2:
        return None
    path = _path(sheet.config.workload, setting.key, _of_table(sheet))
    words = f"Intervals of every ratio: {sentences.title(sheet.table)}"
    return Picture(path=path, words=words, svg=f"{MARK}\n{interval_plot(sheet.table)}")


def _of_table(sheet: Sheet) -> str:
    digest = sha256(f"{sheet.config} {sheet.data}".encode()).hexdigest()[:8]
    return f"{sheet.timing}-{digest}"


def sweep_picture(place: Place, sweep: Sweep) -> Picture:
    """Speedup over the step time of emulated devices, of one workload."""
    config = sweep.reference
    digest = sha256(str(config).encode()).hexdigest()[:8]
    title = one_line(f"{config.workload}, size {config.size}, emulated devices: speedup over the device's step time")
    svg = sweep_figure(sweep, place.marks.get(config.workload, {}))
    return Picture(path=f"figures/{file_name(config.workload)}-sweep-{digest}.svg", words=title, svg=svg)


def heat_map_picture(setting: Setting) -> Picture | None:
    """All optimizations that have a ratio on any workload, each timed on what it acts on."""
    columns = [topic for topic in setting.topics if topic.main is not None]
    tiles = {(row, topic.name): tile for topic in columns for row, tile in _tiles(topic).items()}
    rows = _ranked(tiles)
    if not rows:
        return None
    title = _of(setting, "Speedup of each optimization alone and of the stacks, against the baseline")
    stacks = sum(row in STACKS for row in rows)
    grid = Grid(title=title, rows=rows, columns=tuple(map(_column, columns)), stacks=stacks, tiles=tiles)
    return Picture(path=f"figures/heat-map-{setting.key}.svg", words=title, svg=heat_map(grid))


def _column(topic: Topic) -> tuple[str, str]:
    config = topic.main.config if topic.main else None
    return one_line(topic.name), one_line(f"{config.size}, {config.batch}") if config else ""


def _tiles(topic: Topic) -> dict[str, Tile]:
    """One tile for each optimization: against the baseline where that was measured, else against what it requires."""
    found = {one_line(label): Tile() for label in topic.no_results}
    without = (one for sheet in topic.sheets for one in sheet.entries if one.row.estimate is None)
    surest = sorted((one for sheet in topic.sheets for one in sheet.measured), key=precedence)
    for entry in (*without, *surest):
        if _is_shown(entry, topic):
            found[_row_name(entry)] = _tile(entry)  # what comes later counts more
    return found


def _is_shown(entry: StoredRow, topic: Topic) -> bool:
    """Whether an entry is about one optimization or everything, at the size and batch of the column.

    A part of a step is where it was composed to what it comes to on steps.
    """
    comparison, main = entry.row.comparison, topic.main
    of_training = comparison.timing in _TRAINING or entry.row.on_steps is not None
    if main is None or not of_training or entry.row.comparison.is_copy or entry.data:
        return False
    if RANKS in levels(comparison.treatment):  # several processes against one have a table of their own
        return False
    if (comparison.reference.size, comparison.reference.batch) != (main.config.size, main.config.batch):
        return False
    if comparison.label in STACKS:
        return is_or_was_baseline(comparison.reference)
    return is_single(entry) and entry.table.name != "original"


def _row_name(entry: StoredRow) -> str:
    timing = entry.row.comparison.timing
    is_of_steps = timing is Timing.STEP or entry.row.on_steps is not None
    return one_line(entry.row.comparison.label) + ("" if is_of_steps else f" ({timing})")


def _tile(entry: StoredRow) -> Tile:
    quality = entry.row.quality
    return Tile(
        estimate=entry.row.shown,
        is_open=entry.row.absence is not None and entry.row.absence.outcome in UNFINISHED,
        is_otherwise=quality is not None and quality.status in {Agreement.ANOTHER, Agreement.DIFFERS, Agreement.NAN},
        is_conditional=bool(entry.row.comparison.reference.options),
    )


def _ranked(tiles: Mapping[tuple[str, str], Tile]) -> tuple[str, ...]:
    """Rows with any ratio: the stacks, then the rest by what they gain on average over the workloads measured."""
    logs = together((row, math.log(one.estimate.ratio)) for (row, _), one in tiles.items() if one.estimate)
    singles = sorted((row for row in logs if row not in STACKS), key=lambda row: (-fmean(logs[row]), row))
    return (*(row for row in STACKS if row in logs), *singles)


def _path(name: str, key: str, kind: str) -> str:
    return f"figures/{file_name(name)}-{key}-{kind}.svg"
