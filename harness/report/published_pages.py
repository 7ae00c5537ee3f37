"""The pages of each machine and of each of its workloads in a folder of results."""

import html
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from harness.analyze.attribution import Attribution, Basis
from harness.analyze.claims import UNTRIED, ClaimVerdict, Finding
from harness.analyze.collection import Repeated, StoredRow, StoredRun, repeated
from harness.analyze.grouping import together
from harness.analyze.matrix import Row
from harness.analyze.soundness import Outcome
from harness.core.emulation import step_named
from harness.core.environment import differing
from harness.core.optimization import Timing
from harness.report import claims
from harness.report import matrix as sentences
from harness.report.batches import batch_parts
from harness.report.document import escaped, grid, to_markdown
from harness.report.matrix import COMPOSED, TIMED, View, quality
from harness.report.published import (
    LONGEST_NAME,
    ORIGINAL,
    STACKS,
    Place,
    Setting,
    Sheet,
    Topic,
    file_name,
    is_stack,
)
from harness.report.published_parts import (
    Page,
    Part,
    best_table,
    calibrated,
    changed,
    chip,
    code,
    days,
    estimated,
    faster_otherwise,
    gain_over_original,
    heat_map_picture,
    interval_picture,
    named,
    on_training,
    page,
    parts_of,
    run_link,
    run_links,
    software,
    stacked,
    stages_picture,
    step_times,
    sweep_picture,
    timed,
    unbroken,
    waterfall_picture,
)
from harness.report.race import race_parts
from harness.report.scaling import scaling_parts
from harness.report.sweep import EMULATED, FORMER_LAUNCHES, HOW, sweep_table
from harness.report.sweep import sentences as sentences_of
from harness.report.words import NOTHING, called, counted, one_line, shortened, size

# What was measured twice, on the page of a machine: do two runs give the same answer?

SHOWN = 10
_COLUMNS = "workload", "configuration", "timed on", "against", "first", "then", "apart", "agree"


def repeats(pairs: Sequence[Repeated]) -> Iterator[Part]:
    """How many answers agree, and those that lie furthest apart; nothing where no two can disagree."""
    telling = [one for one in pairs if one.can_disagree]
    if not telling:
        return
    by_day = together((one.on_one_day, one) for one in telling)
    said = [f"{counted(len(telling), 'comparison')} measured by two runs, copies of the reference among them."]
    said += [_agreeing(by_day[one_day], "the same" if one_day else "another") for one_day in sorted(by_day)]
    if left_out := len(pairs) - len(telling):
        pairs_were = "pair was" if left_out == 1 else "pairs were"
        said.append(
            f"{left_out} more {pairs_were} left out: one run was disturbed or wider than ±50 %, so they could not "
            "disagree."
        )
    yield from ("", "### Measured again", "", " ".join(said))
    yield from ("", "The largest differences:", "", *grid(_COLUMNS, map(_row, telling[:SHOWN])))


def _agreeing(pairs: Sequence[Repeated], day: str) -> str:
    agreeing, count = sum(one.agrees for one in pairs), len(pairs)
    expected = sum(one.expected for one in pairs) / count
    return (
        f"On {day} day: {agreeing} of {count} compatible ({100 * agreeing / count:.0f} %, expected at least "
        f"{100 * expected:.0f} %)."
    )


def _row(pair: Repeated) -> tuple[str, ...]:
    comparison = pair.later.row.comparison
    return (
        escaped(comparison.reference.workload),
        escaped(pair.later.row.label),
        escaped(TIMED[comparison.timing]),
        escaped(pair.later.table.name),
        f"{estimated(pair.earlier)}, {run_link(pair.earlier.run)}",
        f"{estimated(pair.later)}, {run_link(pair.later.run)}",
        escaped(f"{100 * math.expm1(abs(pair.apart)):.1f} %"),
        "yes" if pair.agrees else "no",
    )


FORMER = (
    "This table of step times is a former one, whose host takes a quarter to a half of what that of a real H200 takes "
    "for an operator, and in which leak's full-size step is up to 25 times too short. What shortens the input "
    "gains less than it reads here; what overlaps it, as loader workers do, may gain more. Loaders alone are right."
)

# The page of one machine: its environments, the best stacks, the heat map, the stages and its runs.

_ENVIRONMENTS = "environment", "measured on", "memory", "software", "runs", "days"
_RUNS = "run", "command", "design", "ratios", "environment", "version"


def machine_page(place: Place, verified: tuple[str, ...] = ()) -> Page:
    """All that a machine's folder says; `verified` names the files of what `verify` found there."""
    return page(_parts(place, verified))


def _parts(place: Place, verified: tuple[str, ...]) -> Iterator[Part]:
    yield f"# {escaped(place.name)}" + (" (contributed)" if place.is_contributed else "")
    yield from ("", "[All results](../README.md)", "")
    settings = sorted(place.settings, key=lambda one: (one.is_contributed, one.is_former, -one.ratios))
    yield from grid(_ENVIRONMENTS, map(_environment, settings))
    workloads = (f"[{escaped(name)}]({quote(file_name(name))}.md)" for name in place.workloads)
    yield from ("", "Workloads: " + ", ".join(workloads) + ".")
    if len(settings) > 1:
        order = "those of today's table of step times first" if settings[-1].is_former else "the fullest first"
        yield from (
            "",
            (
                f"Environments are never mixed: each has tables and figures of its own, {order}. Intervals cover "
                "variation within a run, and between the runs that were averaged; not between environments."
            ),
        )
        first, *others = settings
        yield from (part for setting in others for part in ("", _unlike(setting, first)) if not place.sweeps)
    yield from _sweeps(place)
    if place.races:
        yield from ("", "## Until a score is reached", "", to_markdown(race_parts(place.races)).strip())
    for setting in settings:
        yield from _setting(setting)
    if verified:
        files = ", ".join(f"[{escaped(name)}](verified/{quote(name)})" for name in verified)
        yield from ("", "## Verified", "", f"Whether each optimization keeps its promise about losses: {files}.")
    rows = [_run(setting, kept) for setting in place.settings for kept in setting.runs]
    yield from ("", "## Runs", "", "<details>", f"<summary>{counted(len(rows), 'run')}</summary>", "")
    yield from (*grid(_RUNS, rows), "", "</details>")


def _sweeps(place: Place) -> Iterator[Part]:
    """What options of the input are worth beside devices of other speeds, a figure and a table for each workload."""
    for number, one in enumerate(place.sweeps):
        if not number:
            yield from ("", "## Beside faster and slower devices", "", f"{EMULATED} {HOW}")
            yield from ("", FORMER_LAUNCHES) if any(each.is_former for each in place.sweeps) else ()
        config = one.reference
        yield from ("", f"### {escaped(f'{config.workload}, size {config.size}, batch {config.batch}')}", "")
        yield from (sweep_picture(place, one), "", to_markdown(sweep_table(one)).strip(), "")
        yield from (f"- {escaped(sentence)}" for sentence in sentences_of(one, place.marks.get(config.workload, {})))


def _environment(setting: Setting) -> tuple[str, ...]:
    one = setting.environment
    memory = size(one.memory_bytes if one.accelerator_memory_bytes is None else one.accelerator_memory_bytes)
    return named(setting), chip(setting), memory, software(setting), str(len(setting.runs)), days(setting.runs)


def _unlike(setting: Setting, first: Setting) -> str:
    """In what an environment differs from the first one, fact by fact."""
    unlike = differing(setting.environment, first.environment)
    words = "; ".join(f"{name} {_known(ours)}, there {_known(theirs)}" for name, ours, theirs in unlike)
    return f"{named(setting)} differs from the first environment: {escaped(words) or 'somebody else measured it'}."


def _known(fact: str | int | None) -> str:
    return "not recorded" if fact is None else str(fact)


def _setting(setting: Setting) -> Iterator[Part]:
    yield from ("", f"## Environment {named(setting)}", "")
    if setting.is_contributed:
        yield from ("Measured by somebody else and taken in; it stands in for no row of ours.", "")
    if not any(topic.main for topic in setting.topics):
        yield "No ratio of training steps against the baseline is left: withdrawn, or never measured."
        return
    yield from (calibrated(setting), "")
    if setting.environment.emulated and step_named(setting.environment.device) is None:
        table = "[table](../../docs/decisions/emulated-devices.md)"
        yield f"Its step times come from a {table}. {step_times([(setting, one) for one in setting.topics])}".rstrip()
        yield from (("", FORMER, "") if setting.is_former else ("",))
    yield from best_table([(setting, topic) for topic in setting.topics if topic.main])
    heat = heat_map_picture(setting)
    if heat is not None:
        yield from ("", "### Optimizations by workload", "", heat, "")
        yield (
            "Each row is timed on what the optimization acts on: training steps unless it says otherwise. Probes of "
            "the loader or the step alone, real data and other sizes are on the pages of the workloads. "
            "Optimizations that have no ratio on any workload are left out."
        )
    stages = stages_picture(setting, setting.topics, "all")
    if stages is not None:
        yield from ("", "### Stages", "", stages, "")
        yield (
            "The loader alone and the step alone are meant as upper bounds: where they take turns a rate stays below "
            "both, where they overlap it reaches the lower one. They are probed for a moment: a star marks one that "
            "was slower than the training. A bar with a gap goes on beyond the picture."
        )
    yield from repeats(repeated(setting.runs))


LONGEST_COMMAND = 160  # characters


def _run(setting: Setting, kept: StoredRun) -> tuple[str, ...]:
    total = len(kept.matrix.every_row)
    return (
        f"[{escaped(kept.name)}]({quote(kept.name)})" + (" (contributed)" if kept.contributed else ""),
        escaped(shortened(kept.command, LONGEST_COMMAND)),  # the run's folder has it whole
        escaped(kept.matrix.design),
        f"{kept.matrix.looked_at} of {total}",
        named(setting),
        escaped(kept.version),
    )


# Tables of published pages: every ratio with its plot, pairs, noise, and what has no ratio.

FEW_COMBINATIONS = 6  # of a table, before they are folded


def measured_table(setting: Setting, sheet: Sheet) -> Iterator[Part]:
    """One table with its plot, and the settings that were seen in its reference."""
    if not sheet.measured:
        return
    data = f"; {sheet.data}" if sheet.data else ""
    yield from ("", f"### {escaped(sentences.title(sheet.table) + data)}", "")
    if sheet.config.options and sheet.name != sheet.config.stack:
        yield from (f"{stacked(sheet.name)} is {escaped(', '.join(map(str, sheet.config.options)))}.", "")
    picture = interval_picture(setting, sheet)
    if picture is not None:
        yield from (picture, "")
    header = [one.head((sheet.table,)).name for one in sentences.columns((sheet.table,), View.PUBLISHED)]
    yield from _folded((*header, "notes", "run"), tuple(_rows(sheet)))
    facts = sheet.table.profile.facts if sheet.table.profile else {}
    if facts and sheet.profiled is not None:
        yield from ("", "<details>", f"<summary>Settings seen in {html.escape(one_line(sheet.name))}</summary>", "")
        yield f"{escaped(sentences.facts(facts))}. Of every row unless noted; from {run_link(sheet.profiled.run)}."
        yield from ("", "</details>")


def _rows(sheet: Sheet) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The reference, then every row with what must be known beside it and its run, each under its name."""
    profiled, shown = sheet.profiled, sentences.columns((sheet.table,), View.PUBLISHED)
    for number, row in enumerate(sentences.body(sheet.table, View.PUBLISHED)):
        entry = sheet.measured[number - 1] if number else profiled
        notes = "; ".join(entry.row.notes) if entry is not None and number else ""
        run = (run_links(entry) if number else run_link(entry.run)) if entry is not None else NOTHING
        cells = (unbroken(escaped(text)) if one.whole else stacked(text) for one, text in zip(shown, row, strict=True))
        yield row[0], (*tuple(cells)[1:], escaped(notes or NOTHING), run)


def _folded(header: Sequence[str], rows: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """A table of named rows; names longer than a line, and combinations where there are many, stand folded below it.

    There each has a short name, and its full one in a column of its own.
    """
    many = sum("+" in name for name, _ in rows) > FEW_COMBINATIONS
    folded = [row for row in rows if len(row[0]) > LONGEST_NAME or (many and "+" in row[0])]
    if shown := [row for row in rows if row not in folded]:
        yield from grid(header, ((stacked(name), *cells) for name, cells in shown))
    if folded:
        full = any(len(name) > LONGEST_NAME for name, _ in folded)
        lines = ((stacked(_short(name)), *cells, *(stacked(name),) * full) for name, cells in folded)
        yield from ("", "<details>", f"<summary>{counted(len(folded), 'combination')} more</summary>", "")
        yield from grid((*header, *("in full",) * full), lines)
        yield from ("", "</details>")


def _short(name: str) -> str:
    """A name that fits a line: the first option and how many others, or as much of the words as fits."""
    if len(name) <= LONGEST_NAME:
        return name
    first, *others = name.split("+")
    return f"{first} and {len(others)} others" if others else shortened(name, LONGEST_NAME)


def noise(topic: Topic) -> Iterator[Part]:
    """The reference against copies of itself: what ratios look like where the truth is 1."""
    for sheet in topic.sheets:
        several = [one for copy in sheet.copies for one in copy.repeats or (copy,)]
        found = [one.row.estimate for one in several if one.row.estimate]
        if found:
            wrong = sum(not one.low <= 1 <= one.high for one in found)
            low, high = min(one.ratio for one in found), max(one.ratio for one in found)
            ratios = f"{low:.3f}" if low == high else f"ratios from {low:.3f} to {high:.3f}"
            yield from ("", f"### The noise: {escaped(sheet.table.name)} against itself, {sheet.timing}", "")
            yield (
                f"{counted(len(found), 'copy').replace('copys', 'copies')} gave {ratios}; "
                f"{len(found) - wrong} of {len(found)} intervals contain 1."
            )


MOST_NAMED = 10  # comparisons that nobody came to, beyond which they are counted


def no_results(topic: Topic) -> Iterator[Part]:
    """Every comparison without a ratio, under the words that it shares with others; folded, since there are many."""
    told = {_where(sheet, one) for sheet in topic.sheets for one in sheet.measured}
    absent = [
        (one_line(one.row.absence.words), _where(sheet, one))
        for sheet in topic.sheets
        for one in sheet.entries
        if one.row.absence is not None
        if one.row.absence.outcome is not Outcome.NOT_MEASURED or _where(sheet, one) not in told
    ]
    planned = [(one_line(reason), escaped(label)) for label, reason in sorted(topic.no_results.items())]
    if alike := together((*absent, *planned)):
        count = len(absent) + len(planned)
        yield from (
            "",
            "<details>",
            f"<summary>Without a ratio: {counted(count, 'comparison')}, each with its reason</summary>",
        )
        rows = sorted((escaped(words), _listed(topic, words, labels)) for words, labels in alike.items())
        yield from ("", *grid(("why", "what"), rows), "", "</details>")


def _listed(topic: Topic, words: str, labels: Sequence[str]) -> str:
    """What shares some words: by name, but of much that nobody came to the number."""
    if len(labels) <= MOST_NAMED or not words.startswith(Outcome.NOT_MEASURED):
        return ", ".join(sorted(set(labels)))
    command = code(one_line(f"./speedmatrix plan {topic.name}"))
    return f"{len(labels)} comparisons ({command} lists what a run measures)"


def _where(sheet: Sheet, entry: StoredRow) -> str:
    """A subject, and against what where that is not the baseline's training step."""
    usual = sheet.timing is Timing.STEP and sheet.is_plain
    return stacked(entry.row.label) + ("" if usual else f" ({timed(sheet)})")


# The page of one workload on one machine: stacks, causes, every table with its plot, claims and missing results.

_SILENT = {ClaimVerdict.NO_RESULT, *UNTRIED}
_STACK_COLUMNS = "stack", "options that are on", "timed on", "speedup, 95 %", "quality", "memory", "run"


def workload_page(place: Place, name: str, *, has_claims: bool, manual: str | None = None) -> Page:
    """Everything that a machine's runs say of a workload, environment by environment.

    `manual` leads from the page to the folder that has a page for each option, where there is one.
    """
    return page(_workload_parts(place, name, has_claims=has_claims, manual=manual))


def _workload_parts(place: Place, name: str, *, has_claims: bool, manual: str | None) -> Iterator[Part]:
    found = [(setting, topic) for setting in place.settings for topic in setting.topics if topic.name == name]
    yield f"# {escaped(name)} on {escaped(place.name)}"
    yield from ("", f"[All results](../README.md) / [{escaped(place.name)}](README.md)", "")
    yield (
        "Each ratio is of samples a second, with its 95 % interval; above 1 is faster. Where several runs measured the "
        "same, a row shows the average of those on a calm machine and of enough replicates, wider where they disagree, "
        "and links to each; its other columns are of the first one linked. Every run has a reference of its own."
    )
    if len(found) > 1:
        yield ""
        found.sort(key=lambda one: one[0] is not place.fullest[name][0])
        environments = ", ".join(named(setting) for setting, _ in found)
        yield (
            f"Measured in {len(found)} environments, which are never mixed; the one that front pages show comes first: "
            f"{environments}."
        )
    for setting, topic in found:
        yield from _setting_parts(setting, topic, manual)
    yield from _claims(place, name, has_claims=has_claims)


def _setting_parts(setting: Setting, topic: Topic, manual: str | None) -> Iterator[Part]:
    yield from ("", f"## Environment {named(setting)}", "")
    yield f"{chip(setting)}; {software(setting)}. {counted(len(setting.runs), 'run')}, {days(setting.runs)}."
    yield from ("", calibrated(setting))
    if setting.is_contributed:
        yield from ("", "Measured by somebody else and taken in; it stands in for no row of ours.")
    if setting.is_former:
        yield from ("", FORMER if step_named(setting.environment.device) is None else FORMER_LAUNCHES)
    yield from _in_order(topic, manual)
    yield from _stacks(topic)
    yield from _decomposition(setting, topic)
    yield from _upper_bounds(setting, topic)
    for sheet in topic.sheets:
        yield from measured_table(setting, sheet)
    for kept, table in topic.batches:  # each reference's newest run whole
        yield from ("", to_markdown(batch_parts([table], level=3)).strip(), "", f"Of {run_link(kept)}.")
    yield from _scaling(setting, topic)
    yield from noise(topic)
    yield from no_results(topic)


def _in_order(topic: Topic, manual: str | None) -> Iterator[Part]:
    """What is worth switching on by itself, each with what it costs and with its code one click away."""
    if not topic.is_of_today or not topic.gains:
        return

    def told(label: str, entry: StoredRow) -> Iterator[str]:
        page = f"{manual}/{label.partition('=')[0]}.md"
        name = f"[{code(label)}]({quote(page)})" if manual else code(label)
        yield name + (" (on in the real system)" if label in has else "")
        yield on_training(entry)
        yield quality(entry.row)
        yield _memory(entry.row)
        yield run_links(entry)

    has = {str(one) for sheet in topic.sheets if sheet.name == ORIGINAL for one in sheet.config.options}
    yield from ("", "### What to switch on, in order", "")
    command = code(f"./speedmatrix run {one_line(topic.name)} --stack all")
    yield (
        "Each option by itself, of training steps: first what was timed on whole steps, then what is composed from "
        f"the ratio of the part that the option changes ({COMPOSED}), each sorted by the lower end of the interval. "
        "Options that shorten the same wait do not add up: take the "
        f"first that you do not have yet, or a stack as measured below ({command})."
        + (" An option's page has its code." if manual else "")
    )
    rows = [tuple(told(label, entry)) for label, entry in topic.gains.items()]
    yield from ("", *grid(("option", "speedup, 95 %", "quality", "memory", "run"), rows))


def _scaling(setting: Setting, topic: Topic) -> Iterator[Part]:
    """What several ranks gain over one process."""
    rows = [entry.row for sheet in topic.sheets for entry in sheet.entries]
    if found := tuple(scaling_parts(rows, on_a_cpu=setting.environment.device == "cpu", level=3)):
        yield from ("", to_markdown(found).strip())


def _stacks(topic: Topic) -> Iterator[Part]:
    """Whatever switches on several at once, and what it consists of."""
    found = [(sheet, one) for sheet in topic.sheets for one in sheet.estimated if is_stack(one)]
    yield from ("", "### Stacks", "")
    if topic.main is not None:
        yield from (*_best_stack(topic, topic.main), "")
    if not found:
        yield "No stack has a ratio yet."
        return
    yield from _folded(_STACK_COLUMNS, [(one.row.label, tuple(_stack(sheet, one))) for sheet, one in found])
    for name in STACKS:
        named = [(sheet, one) for sheet, one in found if one.row.comparison.label == name]
        if named:
            yield from ("", " ".join(_definitions(name, named, topic.best)))


def _definitions(name: str, found: Sequence[tuple[Sheet, StoredRow]], best: StoredRow | None) -> Iterator[str]:
    """What the best stack of a name switches on, or else the newest, and in what others of that name differ from it."""

    def order(one: tuple[Sheet, StoredRow]) -> tuple[bool, str]:
        return one[1] is best, max(entry.run.began for entry in one[1].repeats or (one[1],))

    best_first = sorted(found, key=order, reverse=True)
    by_options = together((one[1].row.comparison.treatment.options, one) for one in best_first)
    (options, same), *others = by_options.items()
    listed = ", ".join(map(str, options)) or "nothing"
    told = Counter(timed(sheet) for sheet, _ in found)
    yield f"`{name}`" + (f", in {_compared(same, told)}, is " if others else " is ") + f"{escaped(listed)}."
    for former, several in others:
        yield f"In {_compared(several, told)}: {changed(former, options)}."


def _compared(found: Iterable[tuple[Sheet, StoredRow]], told: Mapping[str, int]) -> str:
    """What was timed against what; with all of its runs where the table above has several rows of it."""
    words = ((timed(sheet), entry) for sheet, entry in found)
    return ", ".join(one + (f" ({run_links(entry)})" if told[one] > 1 else "") for one, entry in words)


def _best_stack(topic: Topic, main: Sheet) -> Iterator[str]:
    config, against = main.config, called(main.name)
    where = escaped(f"Of what was measured against {against} at size {config.size}, batch {config.batch},")
    best = topic.best
    if best is None:
        yield f"{where} nothing whose first losses agree is faster for sure."
    else:
        yield (
            f"{where} the fastest whose first losses agree is {code(best.row.label)}: {estimated(best)}; over the real "
            f"system's settings {gain_over_original(topic, best)}."
        )
    if topic.faster_otherwise is not None:
        yield from ("", faster_otherwise(topic, topic.faster_otherwise))


def _stack(sheet: Sheet, entry: StoredRow) -> Iterator[str]:
    yield str(len(entry.row.comparison.treatment.options))
    yield timed(sheet)
    yield estimated(entry)
    yield quality(entry.row)
    yield _memory(entry.row)
    yield run_links(entry)


def _memory(row: Row) -> str:
    """How much, and what it is: rows come from several runs, of which old ones know no peak."""
    found = sentences.held(row)
    return f"{size(found[1])} ({found[0]})" if found else NOTHING


def _decomposition(setting: Setting, topic: Topic) -> Iterator[Part]:
    picture, parts = waterfall_picture(setting, topic), parts_of(topic)
    if picture is None or parts is None or topic.best is None:
        return
    yield from ("", f"### What {escaped(topic.best.row.label)} is made of", "", picture, "", _method(parts))


_BOTH = "Each bar is the mean of an option's ratio alone and its ratio when added last"
_BARS = {
    Basis.BOTH: f"{_BOTH}.",
    Basis.FIRST: "Each bar is an option's ratio alone: none was measured when added last.",
    Basis.LAST: "Each bar is an option's ratio when added last: none was measured alone.",
}


def _method(parts: Attribution) -> str:
    """How the shares were computed, and what they leave out."""
    basis, *others = {one.basis for one in parts.shares}
    if parts.is_exact:
        found = (
            "Each part is its Shapley share, if options interact in pairs only: the mean of its ratio alone and last."
        )
    else:
        found = f"{_BOTH}; where only one was measured, that one is shown." if others else _BARS[basis]
    if parts.unmeasured:
        names = escaped(", ".join(parts.unmeasured))
        found += f" Without a bar, since they were not measured on whole training steps: {names}."
    return (
        f"{found} Bars multiply to the total. The last one is what remains: below 1 where options shorten the same "
        "wait, so that their bars count it twice. Intervals are conservative: half-widths are added."
    )


def _upper_bounds(setting: Setting, topic: Topic) -> Iterator[Part]:
    picture = stages_picture(setting, [topic], topic.name)
    best = topic.best
    if picture is None or best is None:
        return
    yield from ("", "### Where the time goes", "", picture)
    for name, arm in (
        (topic.main.name if topic.main else "", best.row.reference),
        (best.row.label, best.row.treatment),
    ):
        if arm is not None and arm.bottleneck is not None:
            yield from ("", escaped(sentences.cause(one_line(name), arm.bottleneck)))
    yield from ("", f"Rates of {run_link(best.run)}.")


def _claims(place: Place, name: str, *, has_claims: bool) -> Iterator[Part]:
    """The claims that this machine's runs judged on this workload; all others are counted."""
    findings = [one for account in place.accounts for one in account.findings]
    here = [one for one in findings if one.workload == name]
    general = [part for one in findings for part in one.parts if part.workload == name]
    judged = [one for one in (*here, *general) if one.claim_verdict not in _SILENT]
    yield from ("", "## Claims", "")
    link = " [All claims](../claims.md)." if has_claims else " `./speedmatrix claims` shows them all."
    if not here and not general:
        yield f"The ledger has no claim about {escaped(name)}.{link}"
        return
    counts = [
        (f"About {escaped(name)}", here),
        (f"About training in general, as {escaped(name)} alone answers", general),
    ]
    told = [f"{title}: {escaped(claims.count_line(found))}." for title, found in counts if found]
    yield f"{' '.join(told)} Of several runs that can decide a claim their average does.{link}"
    if judged:
        yield from ("", *grid(("claim", "promised", "measured, 95 %", "verdict"), map(_claim, judged)))


def _claim(finding: Finding) -> Iterable[str]:
    configs = finding.claim.name, claims.promised(finding.claim), claims.measured(finding), str(finding.claim_verdict)
    return tuple(map(escaped, configs))
