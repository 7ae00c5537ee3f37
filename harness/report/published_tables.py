"""Tables of published pages: every ratio with its plot, pairs, noise, and what has no ratio."""

import html
from collections import defaultdict
from collections.abc import Iterator

from harness.analyze.collection import Entry
from harness.core.optimization import Timing
from harness.report import sentences
from harness.report.markdown import escaped, grid
from harness.report.published import Setting, Sheet, Topic
from harness.report.published_cells import Part, code, counted, run_link, stacked, timed, unbroken
from harness.report.published_figures import interaction_picture, interval_picture, pairs_of
from harness.report.words import NOTHING, one_line, ratio


def measured_table(setting: Setting, sheet: Sheet) -> Iterator[Part]:
    """One table with its plot, and the settings that were seen in its reference."""
    if not sheet.measured:
        return
    data = f"; {sheet.data}" if sheet.data else ""
    yield from ("", f"### {escaped(sentences.title(sheet.table) + data)}", "")
    if sheet.cell.switches and sheet.name != "+".join(map(str, sheet.cell.switches)):
        yield from (f"{stacked(sheet.name)} is {escaped(', '.join(map(str, sheet.cell.switches)))}.", "")
    picture = interval_picture(setting, sheet)
    if picture is not None:
        yield from (picture, "")
    header = sentences.columns(sheet.table)
    yield from grid((*header[:5], *header[6:], "notes", "run"), _rows(sheet))
    facts = sheet.table.profile.facts if sheet.table.profile else {}
    if facts and sheet.profiled is not None:
        yield from ("", "<details>", f"<summary>Settings seen in {html.escape(one_line(sheet.name))}</summary>", "")
        yield f"{escaped(sentences.facts(facts))}. So unless said otherwise; of {run_link(sheet.profiled.kept)}."
        yield from ("", "</details>")


def _rows(sheet: Sheet) -> Iterator[tuple[str, ...]]:
    """The reference, then every row with what must be known beside it and its run."""
    profiled = sheet.profiled
    for number, cells in enumerate(sentences.body(sheet.table)):
        entry = sheet.measured[number - 1] if number else profiled
        notes = "; ".join(entry.row.notes) if entry is not None and number else ""
        run = run_link(entry.kept) if entry is not None else NOTHING
        figures = (unbroken(escaped(cell)) for cell in cells[1:5])
        further = (escaped(cell) for cell in cells[6:])
        yield (stacked(cells[0]), *figures, *further, escaped(notes or NOTHING), run)


def pairs(setting: Setting, topic: Topic) -> Iterator[Part]:
    """Whatever was measured together and apart."""
    yield from ("", "### Together and apart", "")
    pictures = [(sheet, interaction_picture(setting, sheet)) for sheet in topic.sheets]
    found = [(sheet, picture) for sheet, picture in pictures if picture is not None]
    if not found:
        yield (
            "No pair of optimizations has been measured here beside both of its parts. "
            f"{code(one_line(f'./speedmatrix run {topic.name} --stack A+B'))} measures one."
        )
    for sheet, picture in found:
        yield from (picture, "")
        rows = ((escaped(one.first), escaped(one.second), escaped(ratio(one.gain))) for one in pairs_of(sheet))
        yield from grid(("one", "other", "together, over the product of both alone"), rows)


def noise(topic: Topic) -> Iterator[Part]:
    """The reference against copies of itself: what ratios look like where the truth is 1."""
    for sheet in topic.sheets:
        found = [one.row.estimate for one in sheet.copies if one.row.estimate]
        if found:
            wrong = sum(not one.low <= 1 <= one.high for one in found)
            low, high = min(one.ratio for one in found), max(one.ratio for one in found)
            yield from ("", f"### The noise: {escaped(sheet.table.name)} against itself, {sheet.timing}", "")
            yield (
                f"{counted(len(found), 'copy').replace('copys', 'copies')} gave ratios from {low:.3f} to {high:.3f}; "
                f"{wrong} of {len(found)} intervals leave out 1."
            )


def holes(topic: Topic) -> Iterator[Part]:
    """Every comparison without a ratio, under the words that it shares with others; folded, since there are many."""
    alike: dict[str, list[str]] = defaultdict(list)
    absent = [(sheet, one) for sheet in topic.sheets for one in sheet.entries if one.row.absence is not None]
    for sheet, entry in absent:
        alike[one_line(entry.row.absence.words if entry.row.absence else "")].append(_where(sheet, entry))
    for subject, reason in sorted(topic.holes.items()):
        alike[one_line(reason)].append(escaped(subject))
    if alike:
        count = len(absent) + len(topic.holes)
        yield from (
            "",
            "<details>",
            f"<summary>Without a ratio: {counted(count, 'comparison')}, each with its reason</summary>",
        )
        rows = sorted((escaped(words), ", ".join(sorted(set(subjects)))) for words, subjects in alike.items())
        yield from ("", *grid(("why", "what"), rows), "", "</details>")


def _where(sheet: Sheet, entry: Entry) -> str:
    """A subject, and against what where that is not the plain system's training step."""
    usual = sheet.timing is Timing.STEP and sheet.is_plain
    return stacked(entry.row.subject) + ("" if usual else f" ({timed(sheet)})")
