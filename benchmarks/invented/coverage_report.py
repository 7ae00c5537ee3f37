"""The report on coverage: a table for the terminal, a page in Markdown, and JSON."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table as Grid

from benchmarks.invented.coverage import CHEAPER, PROMISED, WRONG_AT_MOST, Check, Share, Tally
from harness.report.document import escaped, grid
from harness.report.words import NOTHING, duration

SCHEMA = 2
_COLUMNS = "environment", "intervals that hold", "half-width", "machine time a configuration"
_NARROW = "intervals\nhold", "as chance\nallows", "half-\nwidth", "machine\ntime", "for our\nwidth", "wrong\nat 1x"
_WRONG = "wrong at exactly 1.00x"
MARK = "<!-- Written by `./speedmatrix rehearse --coverage`; edits are lost. -->"

_INTRODUCTION = (
    "Everything of speedmatrix but processes and training ran here: the schedule, windows that alternate, looks that "
    "stop on width, analysis and verdicts, against a clock, machines and workloads that are invented. Each "
    "configuration hides a ratio of expected total times, so that its interval can be held against the truth. Beside "
    "it stands the conventional plan on machines of the same kind: processes of the reference, then processes of the "
    "treatment, and Welch's t over their log rates."
)
_OURS = (
    "A half-width is the median over configurations, of the log ratio. Machine time counts start-up, warm-up, the "
    "settling turn of each arm and the steps that lead in; a reference shared by a block counts once. In brackets "
    "stands what chance allows a share to be, at 95 %: those of one run share references and miss together, so they "
    "count as fewer."
)
_TRIMMED = (
    "What would the summary of version 0.2.0 make of the same windows? It took the mean of log ratios of pairs "
    "without the 30 % at either end, and Student's t between processes alone "
    "([why it went](decisions/total-time.md)). On a machine that a neighbour disturbs now and then it is the narrower "
    "one: the last column is how many times its machine time total time needs for the same width. Where a workload "
    "itself stalls, it misses the truth, since what it leaves out is what one waits for."
)
_CONVENTIONAL = (
    "An interval narrows with the root of the time, so the time for our width is the conventional time, multiplied by "
    "the square of its half-width over ours. It is told also where drift makes the intervals wrong, which no time "
    "repairs. Here each has a reference of its own; one reference for all would halve the time at best, and "
    "set every ratio against a more distant hour. Where a workload's own stalls decide the width, taking turns gains "
    "nothing: what counts is how many stalls were seen, and of its machine time the conventional plan spends more on "
    "steps and less on starting processes."
)
_CONTROL = (
    "Could this check fail? These are the same windows, judged by Student's t over all pairs, as if those of one "
    "process were independent of each other:"
)
_LUCK = (
    "Where processes differ by less than here, intervals are wider than they need be "
    "([why](decisions/least-spread.md)), and on a quiet machine the conventional plan can be the cheaper one: "
    "`--luck 0.2` shows that, and `--luck 2` the opposite."
)
_UNSEEN = (
    "What this cannot show: arms that a disturbance slows by different shares, for which there is no one true ratio; "
    "processes that differ much more in some configurations than in others; and whatever real machines do that none of "
    "these does."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """What was rehearsed: everything that the figures depend on, in words."""

    configs: int  # in each environment
    seed: int
    command: str
    worlds: Mapping[str, str]  # environment -> what disturbs it
    facts: Mapping[str, str]  # what all have in common


def to_json(checks: Sequence[Check], premises: Premises) -> str:
    """All figures as JSON: shares from 0 to 1, half-widths of log ratios, seconds of machine time for each ratio."""
    document = {
        "schema": SCHEMA,
        "cells": premises.configs,
        "seed": premises.seed,
        "command": premises.command,
        "facts": dict(premises.facts),
        "kept": all(one.kept for one in checks),
        "environments": [{**_environment(one), "disturbed_by": premises.worlds[one.name]} for one in checks],
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _environment(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "cells": check.ours.coverage.configs,
        **_figures(check.ours),
        "restarts": check.replicates,
        "kept": {"coverage": check.covers, "machine_time": check.sparing, "wrong_verdicts": check.truthful},
        "trimmed": {**_figures(check.trimmed), "machine_time_of_total_time": check.price},
        "conventional": {**_figures(check.conventional), "machine_s_same_width": check.conventional_s},
        "brackets_as_independent": _figures(check.window_pairs_alone),
    }


def _figures(tally: Tally) -> dict[str, float]:
    return {
        "coverage": tally.coverage.value,
        "coverage_low": tally.coverage.low,
        "coverage_high": tally.coverage.high,
        "half_width": tally.half_width,
        "machine_s": tally.machine_s,
        "wrong_verdicts": tally.wrong_verdicts.value,
        "wrong_verdicts_high": tally.wrong_verdicts.high,
        "unchanged_cells": tally.wrong_verdicts.configs,
    }


def to_table(checks: Sequence[Check]) -> Grid:
    """The outcome for a terminal of eighty columns."""
    shown = Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title="Do 95 % intervals hold the hidden ratios?")
    shown.add_column("method", min_width=14, overflow="fold")
    for name in _NARROW:
        shown.add_column(name, justify="right", no_wrap=True)
    for check in checks:
        shown.add_row(check.name, style="bold")
        for name, tally in _methods(check):
            same = _seconds(check.conventional_s) if tally is check.conventional else NOTHING
            cost = _width(tally), _seconds(tally.machine_s), same
            shown.add_row(name, *_apart(tally.coverage), *cost, _percent(tally.wrong_verdicts))
    return shown


def _methods(check: Check) -> Iterator[tuple[str, Tally]]:
    yield "speedmatrix", check.ours
    yield "trimmed", check.trimmed
    yield "conventional", check.conventional
    yield "pairs alone", check.window_pairs_alone


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s"


def conclusion(checks: Sequence[Check]) -> Iterator[str]:
    """A sentence for each promise: kept everywhere, or where it is not."""
    low, high = (f"{100 * one:.0f}" for one in PROMISED)
    yield _kept(
        f"Intervals hold the truth in {low} to {high} % of configurations, more often only as far as chance allows",
        [c.name for c in checks if not c.covers],
    )
    yield _kept(
        f"Where workloads do not stall, the conventional plan takes {CHEAPER:.0f} times as long or more for our width",
        [one.name for one in checks if not one.sparing],
    )
    yield _kept(
        f"At most {100 * WRONG_AT_MOST:.0f} % of configurations that change nothing are called faster or slower",
        [one.name for one in checks if not one.truthful],
    )


def _kept(promise: str, missed: Sequence[str]) -> str:
    return f"{promise}: {'not in ' + '; '.join(missed) if missed else 'yes, everywhere'}."


def to_markdown(checks: Sequence[Check], premises: Premises) -> str:
    """The page."""
    return "\n".join(_lines(checks, premises)) + "\n"


def _lines(checks: Sequence[Check], premises: Premises) -> Iterator[str]:
    yield from (MARK, "", "# Do the intervals hold?", "", *_wrapped(_INTRODUCTION), "")
    yield from (f"- {escaped(sentence)}" for sentence in conclusion(checks))
    yield from (
        "",
        f"{premises.configs:,} configurations in each environment, seed {premises.seed}. The same again:",
        "",
    )
    yield from (f"    {premises.command}", "", "## speedmatrix", "")
    ours = ([escaped(one.name), *_row(one.ours, f"{one.replicates:.1f}")] for one in checks)
    yield from grid((*_COLUMNS, "replicates", _WRONG), ours)
    yield from ("", *_wrapped(_OURS), "", "## Total time against trimmed means", "", *_wrapped(_TRIMMED), "")
    yield from grid((*_COLUMNS[:3], "half-width of total time", "price of total time"), map(_by_trimming, checks))
    yield from ("", "## The conventional plan", "")
    conventional = ([escaped(one.name), *_row(one.conventional, _same_width(one))] for one in checks)
    yield from grid((*_COLUMNS, "for our width", _WRONG), conventional)
    yield from ("", *_wrapped(_CONVENTIONAL), "", "## Pairs taken as independent", "", *_wrapped(_CONTROL), "")
    yield from grid((*_COLUMNS[:3], _WRONG), map(_control, checks))
    yield from ("", "## The machines and workloads", "")
    yield from listed(premises.worlds)
    yield from (
        "",
        "What all have in common:",
        "",
        *listed(premises.facts),
        "",
        *_wrapped(_LUCK),
        "",
        *_wrapped(_UNSEEN),
    )


def _row(tally: Tally, further: str) -> Iterator[str]:
    yield from map(escaped, (_share(tally.coverage), *_cost(tally), further, _share(tally.wrong_verdicts)))


def _by_trimming(check: Check) -> Iterator[str]:
    tally = check.trimmed
    price = f"{check.price:.1f} times"
    yield from map(escaped, (check.name, _share(tally.coverage), _width(tally), _width(check.ours), price))


def _control(check: Check) -> Iterator[str]:
    tally = check.window_pairs_alone
    configs = check.name, _share(tally.coverage), _width(tally), _share(tally.wrong_verdicts)
    yield from map(escaped, configs)


def _cost(tally: Tally) -> tuple[str, str]:
    return _width(tally), duration(tally.machine_s)


def _width(tally: Tally) -> str:
    return f"±{100 * tally.half_width:.1f} %"


def _same_width(check: Check) -> str:
    return f"{duration(check.conventional_s)}, {check.conventional_s / check.ours.machine_s:.1f} times ours"


def _share(share: Share) -> str:
    return " ".join(_apart(share)) if share.configs else NOTHING


def _apart(share: Share) -> tuple[str, str]:
    return _percent(share), f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _percent(share: Share) -> str:
    return f"{100 * share.value:.1f} %" if share.configs else NOTHING


def listed(facts: Mapping[str, str]) -> Iterator[str]:
    """Facts as the lines of a list in Markdown."""
    for name, words in facts.items():
        text = f"- **{escaped(name)}**: {escaped(words)}"
        yield from textwrap.wrap(text, 118, subsequent_indent="  ", break_long_words=False)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 118, break_long_words=False)
