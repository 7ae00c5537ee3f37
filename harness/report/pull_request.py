"""A summary for a pull request: what was switched on, what it gains and how to measure it again, as Markdown."""

from collections.abc import Iterator

from harness.analyze.advice import Advice, Foremost, Recommendation, WorkloadAdvice
from harness.analyze.matrix import Row
from harness.analyze.profile import host_memory
from harness.report.advice import without_advice
from harness.report.document import Code, Column, Facts, Heading, Part, Text, tabled
from harness.report.matrix import heading, quality
from harness.report.words import NOTHING, change, one_line, ratio

_FACTS = frozenset({"machine", "software", "environment", "protocol", "noise", "copies"})
_COLUMNS = (
    Column(name="training", whole=True),
    Column(name="with"),
    Column(name="in place of"),
    Column(name="speedup, 95 %", whole=True),
    Column(name="memory", right=True, whole=True),
    Column(name="first losses", whole=True),
)


def pull_request_parts(advice: Advice, command: str, folder: str) -> Iterator[Part]:
    """The advised changes with their intervals, the options one by one, and how anybody measures the same again."""
    advised = [(about, about.foremost) for about in advice.workloads if about.foremost]
    yield Heading("Training speed")
    yield from tabled(_COLUMNS, (_cells(advice, about, first) for about, first in advised))
    for about in advice.workloads:
        if not about.foremost:
            why = without_advice(about) or "Nothing that was measured is surely faster and learns alike."
            yield Text(f"{one_line(about.workload)}: {why}")
    singles = [
        (one_line(about.workload), str(item.option), ratio(item.effect.gain), item.effect.verdict.value)
        for about, _ in advised
        for item in about.items
        if item.recommendation is not Recommendation.NO_ADVICE
    ]
    if singles:
        yield Heading("Options one by one", 3)
        yield from tabled(("training", "option", "speedup, 95 %", "verdict"), singles)
    yield Heading("Measured", 3)
    yield Facts(tuple((name, words) for name, words in heading(advice.run.matrix) if name in _FACTS))
    yield Text("To measure the same again, and to pack the measurements so that somebody else can check them:")
    yield Code(f"./{one_line(command)}\n./speedmatrix bundle {one_line(folder)}")


def _cells(advice: Advice, about: WorkloadAdvice, first: Foremost) -> tuple[str, ...]:
    rows = (row for row in advice.run.matrix.rows if row.estimate)
    asked = first.reference, first.treatment
    row = next((one for one in rows if (one.comparison.reference, one.comparison.treatment) == asked), None)
    before = first.reference.stack or "baseline"
    names = one_line(about.workload), one_line(first.label), one_line(before)
    return *names, ratio(first.gain), _memory(row), quality(row) if row else NOTHING


def _memory(row: Row | None) -> str:
    """By how much it grows, where both arms tell."""
    if row is None or row.treatment is None or row.reference is None:
        return NOTHING
    _, (ours, theirs) = host_memory(row.treatment, row.reference)
    return change(ours, theirs)
