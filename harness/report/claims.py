"""The ledger's report: every claim with its conditions, what was measured and the verdict, as words."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

from harness.analyze.claims import (
    REFUTED,
    Account,
    Basis,
    ClaimVerdict,
    Finding,
    MeasuredValue,
    allowed,
    promises_a_loss,
)
from harness.analyze.grouping import together
from harness.core.claims import ANY, Bound, Claim, Metric
from harness.core.codec import encode
from harness.core.optimization import Timing
from harness.report.document import Column, Details, Heading, Part, Span, Table, Text, listed, to_json
from harness.report.words import NOTHING, called, interval, one_line

COLUMNS = (Column(name="claim", whole=True), "promised", "said of", "measured, 95 %", "verdict")

_BETTER = {
    Metric.THROUGHPUT: ("faster", "slower"),
    Metric.START_UP: ("sooner at the first step", "later at the first step"),
    Metric.HOST_MEMORY: ("less host memory", "more host memory"),
    Metric.DEVICE_MEMORY: ("less device memory", "more device memory"),
    Metric.DEVICE_SHARE: ("a busier device", "an idler device"),
    Metric.RATE: ("more samples a second", "fewer samples a second"),
    Metric.QUALITY: ("learns better", "learns worse"),
}
# What a ratio counts. A promise says which side of one it means; what was measured may lie on either.
_AS = {Metric.THROUGHPUT: "as fast", Metric.START_UP: "as soon at the first step"}
_PARTS = {
    Timing.LOADER: " (loader alone)",
    Timing.COMPUTE: " (step alone)",
    Timing.EVALUATION: " (evaluation)",
}
_AS_MUCH = {Metric.HOST_MEMORY: "as much host memory", Metric.DEVICE_MEMORY: "as much device memory"}
_Letters = Mapping[str, str]  # what many rows of a table fall short by -> what stands for it in them
_SPELT_OUT: _Letters = MappingProxyType({})


def promised(claim: Claim) -> str:
    """What a claim promises in a few words: `1.5 to 2x faster`, `learns the same`."""
    better, worse = _BETTER[claim.metric]
    if claim.bound in {Bound.GAIN, Bound.LOSS}:
        return better if claim.bound is Bound.GAIN else worse
    if claim.bound is Bound.FREE:
        return "learns the same" if claim.metric is Metric.QUALITY else f"the same {claim.metric}"
    if claim.metric is Metric.DEVICE_SHARE:
        return f"device works {_figures(claim, 100)} % of the time"
    if claim.metric is Metric.RATE:
        return f"{_figures(claim)} samples/s"
    costs = (claim.high or claim.low or 1.0) < 1
    return f"{_figures(claim, inverse=costs)}x {worse if costs else better}"


def _figures(claim: Claim, scale: float = 1.0, *, inverse: bool = False) -> str:
    """The figures as they are meant; the inverse of a cost reads as a multiple too."""
    known = (one for one in (claim.low, claim.high) if one is not None)
    texts = [_figure(1 / one if inverse else one * scale) for one in known]
    words = {Bound.POINT: "about ", Bound.AT_LEAST: "at most " if inverse else "at least ", Bound.UP_TO: "up to "}
    return words.get(claim.bound, "") + " to ".join(reversed(texts) if inverse else texts)


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def measured(finding: Finding) -> str:
    """The estimate with its interval, or nothing where there is none."""
    measured_value, metric = finding.measured_value, finding.claim.metric
    if measured_value is None:
        return NOTHING
    if metric is Metric.DEVICE_SHARE:
        return f"at most {100 * measured_value.high:.0f} %"
    found = measured_value.value, measured_value.low, measured_value.high
    if metric in _AS_MUCH:  # the ratio is above 1 where less is held
        value, high, low = (1 / one if one else math.inf for one in found)
        return f"{interval(value, low, high)} {_AS_MUCH[metric]}"
    part = _PARTS.get(finding.basis.tried.timing, "") if finding.basis and metric is Metric.THROUGHPUT else ""
    return f"{interval(*found)} {_AS[metric]}{part}"


def verdict(finding: Finding, letters: _Letters = _SPELT_OUT) -> str:
    """The verdict, the words that belong to it, and how the test falls short of what was claimed."""
    claim, value = finding.claim, finding.measured_value
    is_loss = claim.metric is Metric.THROUGHPUT and promises_a_loss(claim)
    contrary = finding.claim_verdict is ClaimVerdict.OVERSTATED and is_loss and value is not None and value.low > 1
    words = "; ".join(filter(None, ("the opposite was measured" if contrary else "", finding.words)))
    first = f"{finding.claim_verdict}: {words}" if words else str(finding.claim_verdict)
    short = _shortfalls(finding)
    shared = ", ".join(letters[one] for one in letters if one in short)
    return one_line("; ".join(filter(None, (first, shared, *(one for one in short if one not in letters)))))


def _shortfalls(finding: Finding) -> tuple[str, ...]:
    return finding.basis.tried.shortfalls if finding.basis else ()


def body(findings: Iterable[Finding], letters: _Letters = _SPELT_OUT) -> Iterator[tuple[str, ...]]:
    """The rows of a table, a claim's workloads below what they say together."""
    for finding in findings:
        claim = finding.claim
        yield claim.name, promised(claim), claim.conditions or NOTHING, measured(finding), verdict(finding, letters)
        for part in finding.parts:
            yield f"· {part.workload}", "", "", measured(part), verdict(part, letters)


_SHARED = 3  # rows that fall short by the same, from which on it stands above the table


def _table(findings: Sequence[Finding]) -> Iterator[Part]:
    """The table of some findings, below what several of its rows fall short by."""
    rows = (row for finding in findings for row in (finding, *finding.parts))
    counts = Counter(one for row in rows for one in _shortfalls(row))
    shared = (one for one, count in counts.items() if count >= _SHARED)
    letters = {one: f"({letter})" for one, letter in zip(shared, ascii_lowercase, strict=False)}
    yield from listed(f"{letter} {one}" for one, letter in letters.items())
    yield Table(COLUMNS, tuple(body(findings, letters)))


def grouped(account: Account) -> dict[str, list[Finding]]:
    """Findings under the title of their workload, what was tested first; those about training in general come last."""
    found = sorted(account.findings, key=lambda one: (one.workload == ANY, one.claim_verdict in _UNTESTED))
    return together((_about(one), one) for one in found)


def count_line(findings: Sequence[Finding]) -> str:
    """How many claims came to what: `84 claims: 5 confirmed, 2 refuted (1 overstated, 1 harmful), 77 untestable`."""
    counts = Counter(finding.claim_verdict for finding in findings)
    refuted = [f"{counts[one]} {one}" for one in ClaimVerdict if one in REFUTED and counts[one]]
    parts = [f"{counts[one]} {one}" for one in ClaimVerdict if one not in REFUTED and counts[one]]
    if refuted:
        total = sum(counts[one] for one in REFUTED)
        parts.insert(int(bool(counts[ClaimVerdict.CONFIRMED])), f"{total} refuted ({', '.join(refuted)})")
    return f"{len(findings)} claims: {', '.join(parts) or 'none'}"


_TESTED_FIRST = (
    (ClaimVerdict.CONFIRMED, ClaimVerdict.UNDERSTATED, *sorted(REFUTED)),
    (ClaimVerdict.HOLDS_EMULATED, ClaimVerdict.FAILS_EMULATED),
    (ClaimVerdict.TESTED_OTHERWISE,),
    (ClaimVerdict.UNDECIDED,),
    (ClaimVerdict.NO_RESULT,),
    (ClaimVerdict.NOT_MEASURED,),
    (ClaimVerdict.NOT_TESTABLE_HERE,),
    (ClaimVerdict.UNTESTABLE,),
)
_SAID = {
    ClaimVerdict.CONFIRMED: "held",
    ClaimVerdict.UNDERSTATED: "gained more",
    ClaimVerdict.OVERSTATED: "overstated",
    ClaimVerdict.NO_EFFECT: "without effect",
    ClaimVerdict.HARMFUL: "harmful",
    ClaimVerdict.HOLDS_EMULATED: "held on an emulated device",
    ClaimVerdict.FAILS_EMULATED: "failed on an emulated device",
    ClaimVerdict.TESTED_OTHERWISE: "tested under other conditions than promised",
    ClaimVerdict.UNDECIDED: "tested without a decision",
    ClaimVerdict.NO_RESULT: "tried without a result",
}


_DECIDED = tuple(_SAID)[:7]  # that the promise holds, or does not
_HELD = (ClaimVerdict.CONFIRMED, ClaimVerdict.UNDERSTATED, ClaimVerdict.HOLDS_EMULATED)
_FAILED = (*sorted(REFUTED), ClaimVerdict.FAILS_EMULATED)
_NEVER_RUN = (ClaimVerdict.NOT_MEASURED, ClaimVerdict.NOT_TESTABLE_HERE, ClaimVerdict.UNTESTABLE)
_UNTESTED = (ClaimVerdict.NO_RESULT, *_NEVER_RUN)


def foremost(accounts: Iterable[Account]) -> list[Finding]:
    """Of each claim the finding that decides most; of machines that decide as much, of the one that measured most."""
    rank = {verdict: place for place, verdicts in enumerate(_TESTED_FIRST) for verdict in verdicts}
    found: dict[str, Finding] = {}
    ordered = sorted(
        accounts, key=lambda one: (-sum(it.measured_value is not None for it in one.findings), one.machine)
    )
    for one in (finding for account in ordered for finding in account.findings):
        known = found.get(one.claim.name)
        if known is None or rank[one.claim_verdict] < rank[known.claim_verdict]:
            found[one.claim.name] = one
    return list(found.values())


def summary(accounts: Iterable[Account]) -> str:
    """What became of the promises about the reference workloads on all machines, in a sentence for a quotation."""
    findings = _about_workloads(accounts)
    counts = Counter(one.claim_verdict for one in findings)
    words = {verdict: f"{counts[verdict]} {text}" for verdict, text in _SAID.items() if counts[verdict]}
    if factors := list(filter(None, map(_overstated, findings))):
        words[ClaimVerdict.OVERSTATED] += f" (by a median factor of {median(factors):.2g})"
    if words and not any(counts[verdict] for verdict in _DECIDED):
        words = {ClaimVerdict.CONFIRMED: "none decided under the conditions promised"} | words
    left = counts[ClaimVerdict.NOT_MEASURED]
    never = counts[ClaimVerdict.NOT_TESTABLE_HERE] + counts[ClaimVerdict.UNTESTABLE]
    return (
        f"Of {len(findings)} promises about the reference workloads: {', '.join(words.values()) or 'none tested yet'}; "
        f"{left} not measured yet, {never} not testable on these machines.{_otherwise(findings)}"
    )


def _about_workloads(accounts: Iterable[Account]) -> list[Finding]:
    return [one for one in foremost(accounts) if one.workload != ANY]


def decided(accounts: Iterable[Account]) -> str:
    """Which of the same promises held and which were refuted, by name."""
    findings = _about_workloads(accounts)
    told = [
        f"{title}: {'; '.join(_named(one) for one in findings if one.claim_verdict in verdicts) or 'none'}."
        for title, verdicts in (("Held", _HELD), ("Refuted", _FAILED))
    ]
    return " ".join(told)


def _named(finding: Finding) -> str:
    how = "" if finding.claim_verdict is ClaimVerdict.CONFIRMED else f" ({_SAID[finding.claim_verdict]})"
    seen = f", measured: {measured(finding)}" if finding.measured_value else ""
    return f"{finding.claim.name}{how}, promised: {promised(finding.claim)}{seen}"


def _otherwise(findings: Sequence[Finding]) -> str:
    """How the intervals of promises that were tested under other conditions lie to what was promised."""
    told = Counter(
        _place(one.claim, one.measured_value)
        for one in findings
        if one.claim_verdict is ClaimVerdict.TESTED_OTHERWISE and one.measured_value
    )
    words = ", ".join(f"{told[place]} {place}" for place in _PLACES if told[place])
    quality = sum(one.claim_verdict is ClaimVerdict.TESTED_OTHERWISE and one.measured_value is None for one in findings)
    words += f"; {quality} about losses, without an interval" if words and quality else ""
    return f" Under those other conditions, which judge no promise, intervals lie: {words}." if words else ""


_PLACES = (
    "within what was promised",
    "wholly below it",
    "wholly above it",
    "across an end of it, or too wide to tell",
)


def _place(claim: Claim, seen: MeasuredValue) -> str:
    low, high = allowed(claim, seen.margin)
    outside = 1 if seen.high < low else 2 if seen.low > high else None
    return _PLACES[outside or (0 if low <= seen.low and seen.high <= high else 3)]


def _overstated(finding: Finding) -> float | None:
    """How many times as much was promised as measured; None where it was not, or where no figure was promised."""
    claim, value = finding.claim, finding.measured_value
    figure = claim.low or claim.high
    if finding.claim_verdict is not ClaimVerdict.OVERSTATED or value is None or not figure or value.value <= 0:
        return None
    return max(figure / value.value, value.value / figure)


def by_report(accounts: Iterable[Account]) -> Table:
    """What became of the promises, by the system that they are about."""
    columns = ("about", "promises", "held or more", "refuted", "undecided", "tested otherwise", "no result, not tested")
    rows = []
    for title, findings in together((_about(one), one) for one in foremost(accounts)).items():
        counts = Counter(one.claim_verdict for one in findings)
        groups = (
            _HELD,
            _FAILED,
            (ClaimVerdict.UNDECIDED,),
            (ClaimVerdict.TESTED_OTHERWISE,),
            _UNTESTED,
        )
        rows.append((title, str(len(findings)), *(str(sum(counts[one] for one in group)) for group in groups)))
    return Table(columns, tuple(rows))


def _about(finding: Finding) -> str:
    return "training in general" if finding.workload == ANY else finding.workload


def contradictions(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Claims that cannot all be true, side by side: each group is one chain of contradictions."""
    by_name = {finding.claim.name: finding for finding in findings}
    left, groups = [name for name, one in by_name.items() if one.claim.contradicts], []
    while left:
        reached, open_ends = [left[0]], [left[0]]
        while open_ends:
            for name in by_name[open_ends.pop()].claim.contradicts:
                if name in by_name and name not in reached:
                    reached.append(name)
                    open_ends.append(name)
        groups.append([by_name[name] for name in by_name if name in reached])
        left = [name for name in left if name not in reached]
    return [group for group in groups if len(group) > 1]


def details(finding: Finding) -> Iterator[str]:
    """What stands behind one line: the whole claim, its source, the configurations that test it, what was known."""
    claim, basis = finding.claim, finding.basis
    yield f"{claim.text} Said in {claim.source}."
    if basis:
        count = f", {finding.measured_value.replicates} replicates" if finding.measured_value else ""
        more = f" and {basis.runs - 1} more" if basis.runs > 1 else ""
        yield f"Judged by {_comparison(basis)}, run {basis.run}{more}{count}."
    elif claim.treatment:
        yield f"Tested by {claim.treatment} against {called(claim.reference)}, timed on {claim.timing}."
    if claim.remark:
        yield claim.remark


def _comparison(basis: Basis) -> str:
    config = basis.config
    data = f", {basis.data}" if basis.data else ""
    place = f"{config.workload} at size {config.size}, batch {config.batch}, timed on {basis.tried.timing}{data}"
    return f"{config.stack or 'baseline'} against {called(basis.reference.stack or 'baseline')} ({place})"


# The ledger's report as a document, and as JSON.

SCHEMA = 1
_CONTRADICTING = "Claims that contradict each other"
_MEANINGS = (
    ("confirmed, overstated, no effect, harmful", "measured under the conditions of the promise, which is so judged"),
    (
        "tested otherwise",
        "measured under other conditions, named in the row or, by a letter, above its table; the promise is not judged",
    ),
    (
        "undecided",
        "the interval allows the promise and its contrary, or tells no lesser gain from none, or few workloads tell",
    ),
    ("no result", "it was run and gave no ratio that could be believed, for the reason in the row"),
    ("not measured yet", "this suite can test it on that machine, and nobody has"),
    ("not testable here", "the machine lacks what it needs, such as a GPU"),
    ("untestable", "no configuration of this suite can test it"),
)


def claims_parts(accounts: Sequence[Account]) -> Iterator[Part]:
    """All findings of the first machine and what the others tested, with what stands behind each of them as details."""
    yield Heading("Claims", 1)
    made_by = Span("speedmatrix claims --format markdown", "code")
    yield Text((Span("What others promised, and what was measured. Made by "), made_by, Span(".")))
    yield from listed(f"{name}: {meaning}." for name, meaning in _MEANINGS)
    if len(accounts) > 1:
        told = f"{summary(accounts)} {decided(accounts)}"
        yield from (Heading("On any machine"), Text(told), by_report(accounts))
        links = [span for one in accounts for span in (Span(" · "), Span(one.machine, heading=one.machine))]
        yield Text((Span("By machine: "), *links[1:], Span(".")))
    for place, made in enumerate(accounts):
        account = tested(made) if place else made
        only = " What was tested here follows; the rest is as above." if place and account.findings else ""
        yield from (Heading(account.machine), Text(f"{count_line(made.findings)}.{only}"))
        for title, findings in grouped(account).items():
            yield from (Heading(title, 3), *_table(findings))
            yield Details("Each in full", listed(f"{one.claim.name}: {' '.join(details(one))}" for one in findings))
        groups = contradictions(account.findings)
        if groups:
            yield Heading(_CONTRADICTING, 3)
        yield from (part for group in groups for part in _table(group))


def tested(account: Account) -> Account:
    """The same account without what was not run."""
    kept = [one for one in account.findings if one.claim_verdict not in _NEVER_RUN]
    parts = (tuple(part for part in one.parts if part.claim_verdict not in _NEVER_RUN) for one in kept)
    found = tuple(replace(one, parts=those) for one, those in zip(kept, parts, strict=True))
    return replace(account, findings=found)


def claims_to_json(accounts: Sequence[Account]) -> str:
    """All machines' findings as JSON; an endless bound is the string `inf`."""
    document = {
        "schema": SCHEMA,
        "machines": [
            {"machine": one.machine, "runs": list(one.runs), "findings": [_plain(finding) for finding in one.findings]}
            for one in accounts
        ],
    }
    return to_json(document)


def _plain(finding: Finding) -> dict[str, Any]:
    basis = finding.basis
    return {
        "claim": encode(finding.claim),
        "workload": finding.workload,
        "verdict": str(finding.claim_verdict),
        "refuted": finding.claim_verdict in REFUTED,
        "words": finding.words,
        "estimate": encode(finding.measured_value),
        "tested": basis
        and {
            "run": basis.run,
            "treatment": str(basis.config),
            "reference": str(basis.reference),
            "timing": str(basis.tried.timing),
            "real_data": basis.data,
            "shortfalls": list(basis.tried.shortfalls),
        },
        "workloads": [_plain(part) for part in finding.parts],
    }
