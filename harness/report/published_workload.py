"""The page of one workload on one machine: stacks, causes, every table with its plot, claims and holes."""

from collections.abc import Iterable, Iterator

from harness.analyze.attribution import Attribution
from harness.analyze.claims import Finding
from harness.analyze.collection import Entry
from harness.analyze.profile import Profile, host_memory
from harness.analyze.ruling import Ruling
from harness.report import claims, sentences
from harness.report.markdown import escaped, grid
from harness.report.published import STACKS, Place, Setting, Sheet, Topic
from harness.report.published_cells import (
    Page,
    Part,
    calibrated,
    chip,
    code,
    counted,
    days,
    estimated,
    faster_otherwise,
    named,
    page,
    quality,
    run_link,
    software,
    stacked,
    timed,
)
from harness.report.published_figures import (
    parts_of,
    stages_picture,
    waterfall_picture,
)
from harness.report.published_tables import holes, measured_table, noise, pairs
from harness.report.words import NOTHING, one_line, size

_SILENT = {Ruling.NOT_MEASURED, Ruling.NOT_TESTABLE_HERE, Ruling.UNTESTABLE}
_STACK_COLUMNS = "stack", "switches", "timed on", "speedup, 95 %", "quality", "memory", "run"


def workload_page(place: Place, name: str, *, has_claims: bool) -> Page:
    """Everything that a machine's runs say of a workload, environment by environment."""
    return page(_parts(place, name, has_claims=has_claims))


def _parts(place: Place, name: str, *, has_claims: bool) -> Iterator[Part]:
    found = [(setting, topic) for setting in place.settings for topic in setting.topics if topic.name == name]
    yield f"# {escaped(name)} on {escaped(place.name)}"
    yield from ("", f"[All results](../README.md) / [{escaped(place.name)}](README.md)", "")
    yield (
        "Each ratio is of samples a second, with its 95 % interval; above 1 is faster. A row is the surest answer to "
        "its question and links to the run that gave it: rows of a table may come from several runs, each measured "
        "against a reference of its own. No numbers are pooled."
    )
    if len(found) > 1:
        yield ""
        environments = ", ".join(named(setting) for setting, _ in found)
        yield f"Measured in {len(found)} environments, which are never mixed: {environments}."
    for setting, topic in found:
        yield from _setting(setting, topic)
    yield from _claims(place, name, has_claims=has_claims)


def _setting(setting: Setting, topic: Topic) -> Iterator[Part]:
    yield from ("", f"## Environment {named(setting)}", "")
    yield f"{chip(setting)}; {software(setting)}. {counted(len(setting.runs), 'run')}, {days(setting.runs)}."
    yield from ("", calibrated(setting))
    if setting.is_contributed:
        yield from ("", "Measured by somebody else and taken in; it stands in for no row of ours.")
    yield from _stacks(topic)
    yield from _anatomy(setting, topic)
    yield from _ceilings(setting, topic)
    for sheet in topic.sheets:
        yield from measured_table(setting, sheet)
    yield from pairs(setting, topic)
    yield from noise(topic)
    yield from holes(topic)


def _stacks(topic: Topic) -> Iterator[Part]:
    """Whatever switches on several at once, and what it consists of."""
    found = [(sheet, one) for sheet in topic.sheets for one in sheet.estimated if _is_stack(one)]
    stacks = [one for _, one in found]
    yield from ("", "### Stacks", "")
    if topic.main is not None:
        yield from (*_best(topic, topic.main), "")
    if not stacks:
        yield "No stack has a ratio yet."
        return
    yield from grid(_STACK_COLUMNS, (tuple(_stack(*one)) for one in found))
    for name in STACKS:
        named = [entry for entry in stacks if entry.row.comparison.subject == name]
        if named:
            newest = max(named, key=lambda entry: entry.kept.began)
            yield from ("", f"`{name}` is {escaped(_switches(newest))}.")
        if len({entry.row.comparison.treatment.switches for entry in named}) > 1:
            yield f"It was another stack once; {run_link(newest.kept)} is the newest, and the only one in what follows."


def _best(topic: Topic, main: Sheet) -> Iterator[str]:
    where = escaped(f"At size {main.cell.size}, batch {main.cell.batch}")
    best = topic.best
    if best is None:
        yield f"{where} nothing is faster for sure and learns the same."
    else:
        other = topic.against("as_found", best)
        against = f"{estimated(other)} against as\\_found" if other else "against as\\_found it was not measured"
        yield (
            f"{where} the fastest that learns the same is {code(best.row.subject)}: {estimated(best)} against "
            f"{escaped(main.name)}; {against}."
        )
    if topic.faster_otherwise is not None:
        yield from ("", faster_otherwise(topic, topic.faster_otherwise))


def _is_stack(entry: Entry) -> bool:
    comparison = entry.row.comparison
    return (
        comparison.subject in STACKS or len(set(comparison.treatment.switches) - set(comparison.reference.switches)) > 1
    )


def _stack(sheet: Sheet, entry: Entry) -> Iterator[str]:
    arm = entry.row.treatment
    yield stacked(entry.row.subject)
    yield str(len(entry.row.comparison.treatment.switches))
    yield timed(sheet)
    yield estimated(entry)
    yield quality(entry.row)
    yield _memory(arm) if arm else NOTHING
    yield run_link(entry.kept)


def _memory(arm: Profile) -> str:
    """How much, and what it is: rows come from several runs, of which old ones know no peak."""
    if arm.device_bytes is not None:
        return f"{size(arm.device_bytes)} ({sentences.DEVICE_PEAK})"
    kind, (count,) = host_memory(arm)
    return f"{size(count)} ({kind})"


def _switches(entry: Entry) -> str:
    return ", ".join(map(str, entry.row.comparison.treatment.switches)) or "nothing"


def _anatomy(setting: Setting, topic: Topic) -> Iterator[Part]:
    picture, parts = waterfall_picture(setting, topic), parts_of(topic)
    if picture is None or parts is None or topic.best is None:
        return
    yield from ("", f"### What {escaped(topic.best.row.subject)} is made of", "", picture, "", _method(parts))


def _method(parts: Attribution) -> str:
    """How the shares were computed, and what they leave out."""
    if parts.is_exact:
        found = (
            "Each part is its Shapley share, if switches interact in pairs only: the mean of its ratio alone and last."
        )
    else:
        found = (
            "A full share is the mean of a switch's ratio alone and its ratio put on last; what was not measured both "
            "ways is shown with the one there is, and nothing is scaled to fit."
        )
    if parts.unmeasured:
        found += (
            f" Without any ratio of their own, and so inside the last part: {escaped(', '.join(parts.unmeasured))}."
        )
    return found + " The parts multiply to the whole; intervals add up, which holds however their errors go together."


def _ceilings(setting: Setting, topic: Topic) -> Iterator[Part]:
    picture = stages_picture(setting, [topic], topic.name)
    best = topic.best
    if picture is None or best is None:
        return
    yield from ("", "### Where the time goes", "", picture)
    for name, arm in (
        (topic.main.name if topic.main else "", best.row.reference),
        (best.row.subject, best.row.treatment),
    ):
        if arm is not None and arm.bottleneck is not None:
            yield from ("", escaped(sentences.cause(one_line(name), arm.bottleneck)))
    yield from ("", f"Rates of {run_link(best.kept)}.")


def _claims(place: Place, name: str, *, has_claims: bool) -> Iterator[Part]:
    """The claims that this machine's runs judged on this workload; all others are counted."""
    findings = [one for account in place.accounts for one in account.findings]
    here = [one for one in findings if one.workload == name]
    general = [part for one in findings for part in one.parts if part.workload == name]
    judged = [one for one in (*here, *general) if one.ruling not in _SILENT]
    yield from ("", "## Claims", "")
    link = " [All claims](../claims.md)." if has_claims else " `./speedmatrix claims` shows them all."
    if not here and not general:
        yield f"The ledger has no claim about {escaped(name)}.{link}"
        return
    yield f"{escaped(claims.count_line((*here, *general)))}. The newest run that can decide a claim decides it.{link}"
    if judged:
        yield from ("", *grid(("claim", "promised", "measured, 95 %", "verdict"), map(_claim, judged)))


def _claim(finding: Finding) -> Iterable[str]:
    cells = finding.claim.name, claims.promised(finding.claim), claims.measured(finding), str(finding.ruling)
    return tuple(map(escaped, cells))
