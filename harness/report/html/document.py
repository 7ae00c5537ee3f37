"""The document: renders runs as one HTML file that loads nothing and in which foreign text is never anything but text.

Three walls stand between a stranger's run and the reader: every value is escaped where it is written, a content
security policy runs only the one script and the one style sheet whose checksums it names, and that script makes
elements and text but never HTML. docs/decisions/html-report.md tells why.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.analyze.collection import StoredRun, surest
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Side
from harness.analyze.quality import Agreement
from harness.analyze.verdict import Verdict
from harness.core.records import Window
from harness.report import matrix as sentences
from harness.report import prediction as predicted
from harness.report import words
from harness.report.advice_forms import RULE
from harness.report.html import exhibit as arms
from harness.report.html import summary
from harness.report.html.exhibit import Line, Shown, lines
from harness.report.words import one_line

# Gaps: everything that has no ratio, with the words in its place; those that share their words stand together.

_Told = tuple[StoredRun, str, str, str]  # run, workload, subject, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Comparisons of one workload on one machine without a ratio, and why."""

    machine: str
    workload: str
    labels: tuple[str, ...]
    words: str


def gaps(shown: Shown, lines: tuple[Line, ...]) -> tuple[Gap, ...]:
    """What has no ratio; among many runs only what has none in any of them in the same environment."""
    found: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for kept, workload, label, why in _collected(shown, lines) if shown.collected else _of_one_run(shown):
        alike = kept.environment.digest, kept.machine, workload, one_line(why)
        found.setdefault(alike, {})[one_line(label)] = None
    return tuple(
        Gap(machine=machine, workload=workload, labels=tuple(labels), words=why)
        for (_, machine, workload, why), labels in sorted(found.items(), key=lambda one: one[0][:3])
    )


def _of_one_run(shown: Shown) -> Iterator[_Told]:
    for kept in (exhibit.kept for exhibit in shown.exhibits):
        for row in kept.matrix.rows:
            if row.absence is not None:
                yield kept, row.comparison.treatment.workload, row.label, row.absence.words
        yield from (
            (kept, no_result.workload, no_result.label, no_result.reason) for no_result in kept.matrix.no_results
        )


def _collected(shown: Shown, lines: tuple[Line, ...]) -> Iterator[_Told]:
    """Questions that no run answers, in the words of the newest, then missing results that nobody has filled since."""
    runs = sorted((exhibit.kept for exhibit in shown.exhibits), key=lambda kept: (kept.began, kept.name), reverse=True)
    for entry in surest(runs):
        row = entry.row
        if row.absence is not None:
            yield entry.run, row.comparison.treatment.workload, row.label, row.absence.words
    told = {_asked(line.exhibit.kept, line.entry.table.config.workload, line.entry.row.label) for line in lines}
    for kept in runs:
        for no_result in kept.matrix.no_results:
            asked = _asked(kept, no_result.workload, no_result.label)
            if asked not in told:
                told.add(asked)
                yield kept, no_result.workload, no_result.label, no_result.reason


def _asked(kept: StoredRun, workload: str, label: str) -> tuple[str, str, str]:
    return kept.environment.digest, workload, label


# Series: the windows behind every line as compact numbers, and JSON that a page may hold.
#
# A block's reference is written once, however many comparisons share it. Each list is one attempt: replicate, number,
# then when each window began (seconds since the attempt began), how long it took (seconds) and its samples:
# one number where all held as many.

_DIGITS = 4  # more than any window is worth

Number = int | float


def series(lines: Iterable[Line]) -> dict[str, Any]:
    """The windows of all lines: `references` by block, and for each line the number of its block and its own."""
    blocks: dict[int, int] = {}
    references: list[Any] = []
    found: dict[str, Any] = {}
    for line in lines:
        side = line.evidence.reference
        if id(side) not in blocks:  # comparisons of a block share their reference's side
            blocks[id(side)] = len(references)
            references.append(list(_attempts(side)))
        found[line.key] = [blocks[id(side)], list(_attempts(line.evidence.treatment))]
    return {"references": references, "lines": found}


def _attempts(side: Side) -> Iterator[list[Any]]:
    by_attempt: dict[tuple[int, int], list[Window]] = {}
    for window in sorted(side.windows, key=lambda one: (one.arm.replicate, one.arm.attempt, one.order)):
        by_attempt.setdefault((window.arm.replicate, window.arm.attempt), []).append(window)
    for (replicate, attempt), windows in by_attempt.items():
        samples = [one.samples for one in windows]
        yield [
            replicate,
            attempt,
            [rounded(one.began_s) for one in windows],
            [rounded(one.wall_s) for one in windows],
            samples[0] if len(set(samples)) == 1 else samples,
        ]


def rounded(value: float) -> Number | None:
    """A number to four significant digits, whole where it is; None where it is no number."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def embedded(data: object) -> str:
    """JSON that cannot end the element it stands in nor open a comment: ASCII without angle pairs or ampersands."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


# The axis of all intervals on a page: logarithmic and the same in every row, so that rows can be compared by eye.

_LEAST, _MOST_TICKS = -3, 3  # powers of two: beyond an eighth and eight times an arrow stands for the rest
_FRACTIONS = {-3: "⅛", -2: "¼", -1: "½"}
_MARGIN = 5.0  # percent at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where one interval is drawn, in percent of the axis; an end that runs off it is an arrow."""

    low: float
    middle: float
    high: float
    runs_off_left: bool
    runs_off_right: bool
    beyond: bool  # no part of it lies on the axis: the arrow stands for all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From one power of two to another."""

    first: int
    last: int

    def place(self, ratio: float) -> float:
        """The place of a ratio in percent of the axis, held inside it."""
        power = min(max(_power(ratio), self.first), self.last)
        return round(_MARGIN + (power - self.first) / (self.last - self.first) * (100 - 2 * _MARGIN), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the powers of two: `½`, `1`, `2`."""
        powers = range(self.first, self.last + 1)
        return tuple((self.place(2.0**power), _FRACTIONS.get(power, f"{2.0**power:g}")) for power in powers)

    def mark(self, one: Estimate) -> Mark:
        """Where an estimate is drawn."""
        left, right = 2.0**self.first, 2.0**self.last
        return Mark(
            low=self.place(one.low),
            middle=self.place(one.ratio),
            high=self.place(one.high),
            runs_off_left=one.low < left,
            runs_off_right=one.high > right,
            beyond=one.low > right or one.high < left,
        )


def axis(estimates: Iterable[Estimate]) -> Axis:
    """The axis that holds all ratios and the inner part of their intervals, from a half to two at least."""
    ends = [end for one in estimates for end in (max(one.low, one.ratio / 2), min(one.high, one.ratio * 2))]
    powers = [min(max(_power(end), _LEAST), _MOST_TICKS) for end in ends]
    return Axis(first=math.floor(min([-1.0, *powers])), last=math.ceil(max([1.0, *powers])))


def _power(ratio: float) -> float:
    """The logarithm to base two; the least there is for what is no positive number."""
    return math.log2(ratio) if ratio > 0 else -math.inf


_PART = re.compile(r"[^_+]*[_+]|[^_+]+")  # of a name, with the sign that ends it
_PACKAGE = "harness.report.html"
_SCRIPTS = ("theme.js", "rows.js", "table.js", "windows.js", "copy.js")


def to_html(shown: Shown) -> str:
    """The page of one run or of many; the same data give the same bytes."""
    found = lines(shown)
    style, script = _asset("style.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    return (
        _environment()
        .get_template("page.html")
        .render(
            shown=shown,
            lines=found,
            gaps=gaps(shown, found),
            machines=len({exhibit.kept.machine for exhibit in shown.exhibits}),
            axis=axis(line.estimate for line in found),
            style=Markup(style),  # noqa: S704  the package's own
            script=Markup(script),  # noqa: S704
            data=Markup(embedded(series(found))),  # noqa: S704  cannot end its element
            policy=policy(style, script),
            order={one: place for place, one in enumerate(Verdict)},
            agreement={one: place for place, one in enumerate(Agreement)},
            rule_of_advice=RULE,
        )
    )


def policy(style: str, script: str) -> str:
    """What the browser may do with the page: run this script, apply this style, show the icon, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_checksum(script)}'",
            f"style-src '{_checksum(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Templates:
    found = Templates(
        loader=PackageLoader(_PACKAGE, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(words=words, matrix=sentences, prediction=predicted, arms=arms, summary=summary)
    found.filters["breakable"] = breakable
    found.filters["verbatim"] = _verbatim
    return found


def breakable(text: object) -> Markup:
    """A long name that may be broken where its parts meet, and nowhere else: `precomputed_` / `preparation`."""
    return Markup("<wbr>").join(_PART.findall(words.one_line(str(text))))


def _verbatim(code: str) -> Markup:
    """Lines of code as they are, escaped."""
    return escape("\n".join(words.verbatim(code)))


def _finalized(value: object) -> str:
    """Foreign text in one line of characters that print, whatever it came from; the package's own markup as it is."""
    return value if isinstance(value, Markup) else words.one_line(str(value))
