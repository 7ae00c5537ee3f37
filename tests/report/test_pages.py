"""Pages of optimizations, from rows of runs that never ran."""

import re
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.claims import Account, ClaimVerdict, Finding, MeasuredValue
from harness.analyze.collection import unnamed
from harness.analyze.grouping import together
from harness.analyze.matrix import Row, Table
from harness.core.claims import Bound, Claim, Metric
from harness.core.configuration import Option
from harness.core.optimization import CUDA, LEVEL, Numerics, Timing
from harness.report.optimization_pages import Label, index, judged, label, page, prose
from harness.report.published import Place, published_place
from tests.analyze.synthetic import comparison, matrix, plan, records
from tests.core.invented import optimization

WORKERS = optimization("workers", {"workers": LEVEL}, levels=(1, 2))
PINNED = optimization("pin_memory", {"pin_memory": True}, needs=(CUDA,))
NOISY: dict[str, Any] = {"losses": (2.3, 2.2, 1.9)}


def claim(treatment: str, reference: str = "baseline", name: str = "a-promise", **facts: Any) -> Claim:
    given: dict[str, Any] = {"bound": Bound.RANGE, "low": 1.5, "high": 2.0, **facts}
    return Claim(
        name=name,
        text="Workers make it | faster.",
        source="somebody/something, README.md",
        workload="leak",
        metric=Metric.THROUGHPUT,
        treatment=treatment,
        reference=reference,
        **given,
    )


def row(
    ratio: float, *, level: int | None = 2, timing: Timing = Timing.STEP, workload: str = "leak", **arm: Any
) -> Row:
    """A row about workers, or one without any record where the ratio is 0."""
    plain = comparison("workers", timing=timing, workload=workload)
    option = Option(name="workers", level=level)
    one = replace(plain, label=str(option), treatment=replace(plain.treatment, options=(option,)))
    return matrix(plan(one), records(0, ratio, timing=timing, **arm) if ratio else []).rows[0]


def about(*claims: Claim) -> Label:
    return label(WORKERS, judged(claims, ()))


def test_a_docstring_keeps_its_words_and_its_code_gets_a_fence() -> None:
    found = list(prose("One.\n\nTwo `x`.\n\n    if a:\n        b()\n\n    c()\n\nThree.\n\n    run this --now\n"))
    assert found == [
        *("One.", "", "Two `x`.", ""),
        *("```python", "if a:", "    b()", "", "c()", "```", ""),
        *("Three.", ""),
        *("```", "run this --now", "```", ""),
    ]


def test_a_page_has_its_facts_its_words_and_how_to_measure_it() -> None:
    one = replace(
        WORKERS, page="Workers.\n\n    num_workers=2", requires=("fast_reader",), excludes={"fused": "they | quarrel"},
        supersedes=("slow",), pointless_where={"layout contiguous": "no chunks"}, sought=False, needs=(CUDA,),
        numerics=Numerics.DIFFERENT, timed_on=Timing.EPOCH, workload="toy",
    )  # fmt: skip
    text = page(label(one, ()))
    for fact in (
        "# workers: workers\n\nWorkers.\n\n```python\nnum_workers=2\n```\n",
        "| numerics | different: another training, so that its score must be measured |",
        "| timed on | whole epochs |",
        "| sets | `workers = LEVEL` |",
        "| levels | 1, 2 |",
        "| conditions | needs a CUDA device |",
        "| requires | [fast_reader](fast_reader.md) |",
        r"| excludes | [fused](fused.md), because they \| quarrel |",
        "| supersedes | [slow](slow.md) |",
        "| gains nothing where | `layout contiguous`: no chunks |",
        "| in `all` | no: it is a price, a harm or a condition",
        "No ratio of training steps in the [tables of options alone](README.md) yet.",
        "To measure it: `./speedmatrix run toy --only workers`.",
        "Nothing that the ledger knows of.",
    ):
        assert fact in text


def test_claims_alone_stand_in_full_and_those_of_several_by_name() -> None:
    claims = (
        claim("workers=2"),
        claim("workers=2+pin_memory", name="a-pair"),
        claim("baseline", "workers=2", name="a-harm", bound=Bound.LOSS, low=None, high=None),
        claim("workers=2+pin_memory", "pin_memory", name="on-top"),
        claim("pin_memory", name="another"),
    )
    found = about(*claims)
    assert [claim.name for claim, _ in found.claims] == ["a-promise", "a-pair", "a-harm", "on-top"]
    text = page(found)
    assert r"| Workers make it \| faster. | leak | 1.5 to 2x faster | - | somebody/something, README.md | - |" in text
    assert "by name in the ledger: `a-pair`." in text
    assert "another" not in text


def test_a_claim_stands_with_what_each_machine_says_of_it() -> None:
    promise = claim("workers=2")
    low = Finding(
        claim=promise, workload="leak", claim_verdict=ClaimVerdict.OVERSTATED, words="but its quality differs",
        measured_value=MeasuredValue(value=1.2, low=1.1, high=1.3, replicates=4),
    )  # fmt: skip
    absent = Finding(
        claim=promise, workload="leak", claim_verdict=ClaimVerdict.NOT_MEASURED, words="speedmatrix run leak"
    )
    accounts = [Account(machine=name, runs=(), findings=(one,)) for name, one in (("cpu", absent), ("h200", low))]
    text = page(label(WORKERS, judged([promise], accounts)))
    assert r"| h200: overstated, 1.20x \[1.10, 1.30\] as fast |" in text
    nowhere = [Account(machine=name, runs=(), findings=(absent,)) for name in ("cpu", "h200")]
    assert "| not measured yet (2 machines) |" in page(label(WORKERS, judged([promise], nowhere)))


def place(*rows: Row) -> Place:
    """A machine whose only run holds these rows, as published; they share a reference."""
    plans = [one.comparison for one in rows]
    run = replace(
        unnamed(matrix(plan(*plans), ())), name="20260102T030405-aaaaaaaa", began="2026-01-02T03:04:05+00:00"
    )  # fmt: skip
    tables = together((one.comparison.timing, one) for one in rows)
    made = (
        Table(config=found[0].comparison.reference, name="baseline", timing=timing, rows=tuple(found), profile=None)
        for timing, found in tables.items()
    )
    return published_place("h200", [replace(run, matrix=replace(run.matrix, tables=tuple(made)))])


@pytest.mark.parametrize(
    ("rows", "cell"),
    [
        ((row(2.0),), r"**2.00x \[1.97, 2.03\]** (at 2)"),
        ((row(2.0, **NOISY),), r"2.00x \[1.97, 2.03\] (at 2)"),
        ((row(0.5),), r"0.500x \[0.494, 0.507\] slower (at 2)"),
        ((row(2.0), row(3.0, level=1)), r"**3.00x \[2.96, 3.04\]** (at 1)"),
        ((row(2.0), row(0.5, level=1), row(9.0, timing=Timing.LOADER)), r"**2.00x \[1.97, 2.03\]** (at 2)"),
        (
            (row(2.0), row(3.0, level=1, timing=Timing.EVALUATION)),
            r"**3.00x \[2.96, 3.04\]** (at 1; evaluation passes)",
        ),
    ],
)
def test_the_index_has_the_level_that_gains_most_for_sure_and_its_verdict(rows: tuple[Row, ...], cell: str) -> None:
    text = index([about()], [(place(*rows), "../../results/h200")]).replace("\N{NO-BREAK SPACE}", " ")
    assert "## Alone on h200" in text
    assert "| option | [leak](../../results/h200/leak.md) |" in text
    assert f"| [workers](workers.md) | {cell} |" in text


def test_options_stand_in_the_order_of_what_they_gain_and_not_without_an_answer() -> None:
    pinned = row(3.0)
    other = comparison("pin_memory")
    rows = row(2.0), replace(pinned, comparison=other), row(9.0, timing=Timing.LOADER)
    labels = [label(one, ()) for one in (WORKERS, PINNED, replace(WORKERS, name="alpha"))]
    text = index(labels, [(place(*rows), "h200")])
    assert text.index("## Input") < text.index("## Alone")
    alone = text[text.index("## Alone") :]
    assert re.findall(r"^\| \[(\w+)\]", alone, flags=re.MULTILINE) == ["pin_memory", "workers"]
    assert "Alone" not in index(labels, [(place(row(0)), "h200")])


def test_a_page_has_its_answer_on_each_machine_and_leads_to_all_ratios() -> None:
    text = page(about(), [(place(row(2.0)), "../../results/h200")]).replace("\N{NO-BREAK SPACE}", " ")
    assert "Alone; on training steps unless the cell says otherwise" in text
    assert (
        "| machine | leak |\n|---|---|\n| h200 | **2.00x \\[1.97, 2.03\\]** (at 2) |\n\n"
        "To measure it: `./speedmatrix run --only workers`.\n\n"
    ) in text
    assert "[the gallery](../../results/gallery.html)" in text


def test_a_page_without_an_answer_says_so_and_leads_to_all_ratios() -> None:
    for one in (row(0), row(2.0, inactive=("workers is 0, not 2",)), row(9.0, timing=Timing.LOADER)):
        text = page(about(), [(place(one), "../../results/h200")])
        assert "No ratio of training steps in the [tables of options alone](README.md) yet.\n\nTo measure it: " in text
        assert "[the gallery](../../results/gallery.html)" in text
    assert "gallery" not in page(about())


def test_the_index_has_the_stages_in_order_and_what_each_needs() -> None:
    text = index([label(PINNED, ()), about(), label(replace(WORKERS, name="alpha"), ())])
    assert re.findall(r"^## (\w+)", text, flags=re.MULTILINE) == ["Input"]
    assert re.findall(r"^\| \[(\w+)\]", text, flags=re.MULTILINE) == ["alpha", "pin_memory", "workers"]
    assert "any workload; needs a CUDA device" in text


def test_a_strangers_workload_cannot_break_the_table_of_answers() -> None:
    text = page(about(), [(place(row(2.0, workload="x|<b>\n# y")), "h200")])
    assert r"| machine | x\|\<b\> \# y |" in text


def test_no_page_has_two_empty_lines_in_a_row() -> None:
    claims = (claim("workers=2"), claim("workers=2+pin_memory", name="a-pair"))
    for found in (about(), about(*claims), about(*claims[1:]), about(*claims[:1])):
        for text in (page(found), page(found, [(place(row(2.0)), "h200")])):
            assert "\n\n\n" not in text
            assert not text.endswith("\n\n")
