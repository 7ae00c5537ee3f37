"""The table: what was found by each tool, counted, and which of them is the narrowest that still holds the truth."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from benchmarks.precision.records import Record, answered
from benchmarks.precision.tools import TOOLS

ALONE = "nothing else"  # the condition in which no neighbour is
COMMAND = "python -m benchmarks.precision_per_second"
PLAUSIBLE = 0.05  # a count of intervals is taken to be one of 95 % ones unless so few or fewer come as rarely as that
HEAD = """# Precision per second

The same two variants of a training step, of which one does 21/20 of the other's work, and the same machine time for
each tool, starts of processes included. All tools run side by side: in every repetition each of them takes both pairs,
in random order. Written by `{command}` from `{records}`; the script's help says how it is measured.

*Held* counts the 95 % intervals that hold the truth, of both pairs: 1.05 and 1.00, the reference against itself.
*Half-width* is the median interval's; *error* the root mean square of the ratios' errors, and *bias* their mean, in
per cent with its standard error. *Found* counts how often a tool called the faster variant of 1.05x faster (slower is
*the wrong way*), *false alarms* how often it saw a difference where there is none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often a tool called something a change."""

    changed: int
    withheld: int  # where it said that it could not tell
    asked: int
    reversed: int = 0  # where it called the faster one slower, which is no find

    def __str__(self) -> str:
        if not self.asked:
            return "not asked"
        counts = {"withheld": self.withheld, "the wrong way": self.reversed}
        beside = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
        return f"{self.changed} of {self.asked}" + (f" ({beside})" if beside else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one tool's answers come to."""

    tool: str
    version: str  # and the method of its intervals, where it has several
    answers: int
    failures: int
    held: int
    half_width: float  # log points
    error: float  # log points
    bias: float  # log points
    bias_error: float | None  # its standard error
    found: Count
    false_alarms: Count
    used_s: float

    @property
    def plausible(self) -> bool:
        """Whether so few of its intervals hold as 95 % intervals may do by chance."""
        return bool(stats.binom.cdf(self.held, self.answers, 0.95) >= PLAUSIBLE)


def score(records: Sequence[Record]) -> Score | None:
    """The score of one tool's records in one condition; None where it has no answer."""
    told = [(one, one.ratio, one.low, one.high) for one in answered(records)]
    whole = [(one, ratio, low, high) for one, ratio, low, high in told if ratio and low and high]
    if not whole:
        return None
    errors = np.array([math.log(ratio / one.truth) for one, ratio, _, _ in whole])
    return Score(
        tool=records[0].tool,
        version=", ".join(sorted({f"{one.version} {one.method}".strip() for one, *_ in whole})),
        answers=len(whole),
        failures=len(records) - len(whole),
        held=sum(low <= one.truth <= high for one, _, low, high in whole),
        half_width=float(np.median([math.log(high / low) / 2 for _, _, low, high in whole])),
        error=float(np.sqrt(np.mean(errors**2))),
        bias=float(errors.mean()),
        bias_error=float(stats.sem(errors)) if len(errors) > 1 else None,
        found=_found([one for one, *_ in whole if one.truth != 1.0]),
        false_alarms=_count([one for one, *_ in whole if one.truth == 1.0]),
        used_s=float(np.mean([one.used_s for one, *_ in whole])),
    )


def _count(records: Sequence[Record]) -> Count:
    answers = [one.changed for one in records]
    return Count(changed=answers.count(True), withheld=answers.count(None), asked=len(answers))


def _found(records: Sequence[Record]) -> Count:
    right = [one.ratio is not None and (one.ratio > 1) == (one.truth > 1) for one in records]
    told = _count(records)
    reversed_ = sum(one.changed is True and not way for one, way in zip(records, right, strict=True))
    return replace(told, changed=told.changed - reversed_, reversed=reversed_)


def page(records: Iterable[Record], name: str) -> str:
    """All tables, as Markdown; `name` is the file that the records lie in."""
    groups: dict[tuple[str, str, str, float], list[Record]] = defaultdict(list)
    for one in records:
        groups[one.machine, one.environment, one.condition, one.given_s].append(one)
    parts = [HEAD.format(command=COMMAND, records=name)]
    ordered = sorted(groups.items(), key=lambda one: (*one[0][:2], -one[0][3], one[0][2] != ALONE, one[0][2]))
    parts += [_section(*key, group) for key, group in ordered]
    notes = [f"- **{tool.name}**: interval: {tool.interval}. Change: {tool.rule}." for tool in TOOLS]
    return "\n".join([*parts, "## What each tool says\n", *notes, ""])


def _section(machine: str, environment: str, condition: str, given_s: float, records: list[Record]) -> str:
    scores = [found for tool in TOOLS if (found := score([one for one in records if one.tool == tool.name]))]
    beside = "" if condition == ALONE else " (5 s at work, 10 s at rest)"
    repetitions = len({one.repetition for one in records})
    began = min(one.began for one in records)[:10]
    lines = [
        f"## {machine}, {given_s:g} s, {condition}{beside}\n",
        f"Repetitions: {repetitions}; begun {began}; environment `{environment}`.\n",
        "| tool | held | half-width | error | bias | 1.05x found | false alarms | s used |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, scores),
        "",
        *_failures(records),
        *_sentences(scores),
    ]
    return "\n".join(lines)


def _row(one: Score) -> str:
    bias = f"{_percent(one.bias):+.2f}" + (f" ± {_percent(one.bias_error):.2f}" if one.bias_error is not None else "")
    failed = f" ({one.failures} failed)" if one.failures else ""
    return (
        f"| {one.tool} {one.version} | {one.held} of {one.answers}{failed}{'' if one.plausible else ' (!)'} "
        f"| ±{_percent(one.half_width):.2f} % | {_percent(one.error):.2f} % | {bias} % "
        f"| {one.found} | {one.false_alarms} | {one.used_s:.1f} |"
    )


def _sentences(scores: Sequence[Score]) -> list[str]:
    holding = [one for one in scores if one.plausible]
    if not holding:
        return ["No tool's intervals hold often enough to be 95 % ones.\n"]
    narrowest = min(holding, key=lambda one: one.half_width)
    shares = {one.tool: one.found.changed / one.found.asked for one in scores if one.found.asked}
    finders = ", ".join(name for name, share in shares.items() if share == max(shares.values()) > 0)
    fewer = ", ".join(one.tool for one in scores if not one.plausible)
    return [
        f"Narrowest of those that hold: {narrowest.tool}, ±{_percent(narrowest.half_width):.2f} %."
        + (f" Fewer intervals hold than 95 % ones would, which (!) marks: {fewer}." if fewer else "")
        + (f" 1.05x was found most often by: {finders}." if finders else "")
        + "\n"
    ]


def _failures(records: Iterable[Record]) -> list[str]:
    told = sorted({f"- {one.tool} failed: `{one.failure.replace('`', ' ')}`" for one in records if one.failure})
    return [*told, ""] if told else []


def _percent(points: float) -> float:
    return 100 * points
