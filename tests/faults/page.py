"""The page of faults: what the suite injects and what was seen, as Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.records import TIMED_OUT, Fault
from harness.exchange.placing import Cleaner
from harness.report.document import escaped
from harness.run.fault import AGAIN, COURSES
from tests.faults.injected import Injected

NUMBERS = re.compile(
    r"(?<=pid )\d+|(?<=Process )\d+|(?<=kill )\d+|\d\d:\d\d:\d\d UTC on [\w ]+|\d{8}T\d{6}-[0-9a-f]{8}"
)
HEAD = """# Faults

Each of these is injected for real by `tests/faults`: processes are killed, disks filled, files cut. Whatever
happens, no finished measurement is lost unless somebody removes its file, no process and no segment of shared memory is
left, and nothing is shrunk, replaced or repeated without a word. This page is written by
`pytest tests/faults --write-faults docs/faults.md` from what was seen; `…` stands for what differs from time to time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A fault and the sentence that was seen, or why it could not be injected here."""

    injected: Injected
    words: str
    missing: str | None = None


def to_markdown(told: Sequence[Told], where: str) -> str:
    """The whole page."""
    return "\n".join([HEAD, f"Seen {where}.", "", *_faults(told), "", *courses()]) + "\n"


def names_on(page: str) -> list[str]:
    """The faults that a page names, in order."""
    table = page.partition("## What is injected")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    return [row for row in rows if row != "fault" and not set(row) <= set("- |")]


def _faults(told: Iterable[Told]) -> Iterator[str]:
    yield "## What is injected"
    yield ""
    yield "| fault | how | recorded | said | exit status |"
    yield "|---|---|---|---|---|"
    for one in told:
        injected = one.injected
        kind = f"`{injected.kind}`" if injected.kind else "—"
        said = f"not seen: {one.missing}" if one.missing else _still(one.words)
        then = f"; {injected.then}" if injected.then else ""
        yield f"| {name_of(injected)} | {injected.how}{then} | {kind} | {escaped(said)} | {injected.status} |"


def name_of(injected: Injected) -> str:
    """A fault's name as the page has it."""
    return injected.name


def courses() -> Iterator[str]:
    """What becomes of an arm, by the kind that is recorded in `measurements.jsonl`."""
    yield "## What becomes of an arm"
    yield ""
    yield "| `kind` | the arm | because | what to do |"
    yield "|---|---|---|---|"
    for fault in Fault:
        course = COURSES[fault]
        again = "is tried again, three times at most" if course.outcome == AGAIN else "is given up"
        if fault in TIMED_OUT:
            again += "; where it gave windows in another replicate, it is tried again, three times at most"
        yield f"| `{fault}` | {again} | {course.why} | {escaped(course.remedy)} |"


def _still(words: str) -> str:
    """A sentence without what differs from one time to the next."""
    return NUMBERS.sub("…", Cleaner().sentence(words.strip()))
