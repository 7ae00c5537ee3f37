"""The figures of published pages: from topics and settings to pictures with a name and words."""

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from statistics import fmean

from harness.analyze.attribution import Attribution, Interaction, attributed, data_of, interactions
from harness.analyze.collection import StoredRow
from harness.analyze.estimate import Estimate
from harness.analyze.quality import Agreement
from harness.analyze.soundness import Outcome
from harness.core.configuration import Option
from harness.core.optimization import Timing
from harness.core.plan import is_or_was_baseline
from harness.report import matrix as sentences
from harness.report.figures.heat_map import Grid, Tile, heat_map
from harness.report.figures.interaction_map import interaction_map
from harness.report.figures.interval_plot import interval_plot
from harness.report.figures.stage_bars import Arm, Group, stage_bars
from harness.report.figures.style import MARK
from harness.report.figures.waterfall import waterfall
from harness.report.published import STACKS, Setting, Sheet, Topic, file_name, is_copy
from harness.report.published_cells import Picture
from harness.report.words import called, one_line

_UNFINISHED = {Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE, Outcome.INTERRUPTED}
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


def waterfall_picture(setting: Setting, topic: Topic) -> Picture | None:
    """The waterfall of the best stack."""
    parts = parts_of(topic)
    if parts is None or topic.best is None or topic.main is None:
        return None
    name = in_short(topic.best.row.label)
    config = topic.main.config
    against = called(topic.main.name)
    title = f"{topic.name}, size {config.size}, batch {config.batch}: the parts of {name}, against {against}"
    svg = waterfall(one_line(title), one_line(name), parts)
    return Picture(path=_path(topic.name, setting.key, "waterfall"), words=one_line(title), svg=svg)


def stages_picture(setting: Setting, topics: Sequence[Topic], name: str) -> Picture | None:
    """Rates beside upper bounds for some workloads: the baseline, and the best stack of each."""
    groups = [group for group in map(_group, topics) if group is not None]
    if not groups:
        return None
    who = one_line(topics[0].name) if len(topics) == 1 else "each workload"
    title = f"What {who} trains, and what its loader and its step would give alone"
    words = f"{title}: {'; '.join(group.name for group in groups)}"
    return Picture(path=_path(name, setting.key, "stages"), words=words, svg=stage_bars(title, groups))


def _group(topic: Topic) -> Group | None:
    best = topic.best
    if topic.main is None or best is None:
        return None
    arms = ((topic.main.name, best.row.reference), (in_short(best.row.label), best.row.treatment))
    known = tuple(
        Arm(name=one_line(name), found=profile.bottleneck) for name, profile in arms if profile and profile.bottleneck
    )
    config = topic.main.config
    return (
        Group(name=one_line(f"{topic.name}, size {config.size}, batch {config.batch}"), arms=known) if known else None
    )


def interval_picture(setting: Setting, sheet: Sheet) -> Picture | None:
    """The interval plot of a table with two ratios or more."""
    if len(sheet.measured) < 2:
        return None
    digest = sha256(f"{sheet.config} {sheet.data}".encode()).hexdigest()[:8]
    path = _path(sheet.config.workload, setting.key, f"{sheet.timing}-{digest}")
    words = f"Intervals of every ratio: {sentences.title(sheet.table)}"
    return Picture(path=path, words=words, svg=f"{MARK}\n{interval_plot(sheet.table)}")


def pairs_of(sheet: Sheet) -> tuple[Interaction, ...]:
    """The pairs of one table whose parts stand in it too."""
    return interactions(sheet.measured)


def interaction_picture(setting: Setting, sheet: Sheet) -> Picture | None:
    """The interaction map of a table that holds pairs and their parts."""
    pairs = pairs_of(sheet)
    if not pairs:
        return None
    title = f"Pairs over the product of their parts: {sentences.title(sheet.table)}"
    digest = sha256(f"{sheet.config} {sheet.data}".encode()).hexdigest()[:8]
    path = _path(sheet.config.workload, setting.key, f"pairs-{sheet.timing}-{digest}")
    return Picture(path=path, words=title, svg=interaction_map(title, pairs))


def heat_map_picture(setting: Setting) -> Picture | None:
    """All optimizations that have a ratio on any workload, each timed on what it acts on."""
    columns = [topic for topic in setting.topics if topic.main is not None]
    tiles = {(row, topic.name): tile for topic in columns for row, tile in _tiles(topic).items()}
    rows = _ranked(tiles)
    if not rows:
        return None
    title = (
        "Speedup of each optimization alone and of the stacks, against the baseline; with *, on top of something else"
    )
    stacks = sum(row in STACKS for row in rows)
    grid = Grid(title=title, rows=rows, columns=tuple(map(_column, columns)), stacks=stacks, tiles=tiles)
    return Picture(path=f"figures/heat-map-{setting.key}.svg", words=title, svg=heat_map(grid))


def _column(topic: Topic) -> tuple[str, str]:
    config = topic.main.config if topic.main else None
    return one_line(topic.name), one_line(f"{config.size}, {config.batch}") if config else ""


def _tiles(topic: Topic) -> dict[str, Tile]:
    """One tile for each optimization: against the baseline where that was measured, else against what it requires."""
    found = {one_line(label): Tile() for label in topic.no_results}
    for entry in sorted((one for sheet in topic.sheets for one in sheet.entries), key=_precedence):
        if _is_shown(entry, topic):
            found[_row_name(entry)] = _tile(entry)  # what comes later counts more
    return found


def _precedence(entry: StoredRow) -> tuple[object, ...]:
    comparison = entry.row.comparison
    estimate = entry.row.estimate
    reference = comparison.reference
    plain = is_or_was_baseline(reference), not reference.options
    return estimate is not None, plain, entry.run.began, str(comparison.treatment)


def _is_shown(entry: StoredRow, topic: Topic) -> bool:
    """Whether an entry is about one optimization or everything, at the size and batch of the column."""
    comparison, main = entry.row.comparison, topic.main
    if main is None or comparison.timing not in _TRAINING or is_copy(entry) or data_of(entry):
        return False
    if (comparison.reference.size, comparison.reference.batch) != (main.config.size, main.config.batch):
        return False
    if comparison.label in STACKS:
        return is_or_was_baseline(comparison.reference)
    return _is_single(entry) and entry.table.name != "original"


def _is_single(entry: StoredRow) -> bool:
    comparison = entry.row.comparison
    added: set[Option] = set(comparison.treatment.options) ^ set(comparison.reference.options)
    return [str(one) for one in added] == [comparison.label]


def _row_name(entry: StoredRow) -> str:
    timing = entry.row.comparison.timing
    return one_line(entry.row.comparison.label) + ("" if timing is Timing.STEP else f" ({timing})")


def _tile(entry: StoredRow) -> Tile:
    quality = entry.row.quality
    return Tile(
        estimate=entry.row.estimate,
        is_open=entry.row.absence is not None and entry.row.absence.outcome in _UNFINISHED,
        is_otherwise=quality is not None and quality.status in {Agreement.DIFFERS, Agreement.NAN},
        is_conditional=bool(entry.row.comparison.reference.options),
    )


def _ranked(tiles: Mapping[tuple[str, str], Tile]) -> tuple[str, ...]:
    """Rows with any ratio: the stacks, then the rest by what they gain on average over the workloads measured."""
    logs: dict[str, list[float]] = {}
    for (row, _), tile in tiles.items():
        if isinstance(tile.estimate, Estimate):
            logs.setdefault(row, []).append(math.log(tile.estimate.ratio))
    singles = sorted((row for row in logs if row not in STACKS), key=lambda row: (-fmean(logs[row]), row))
    return (*(row for row in STACKS if row in logs), *singles)


def _path(name: str, key: str, kind: str) -> str:
    return f"figures/{file_name(name)}-{key}-{kind}.svg"
