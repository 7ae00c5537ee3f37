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
from harness.report.optimization_pages import MOST, Label, Measured, index, judged, label, page, prose
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


def measured(one: Row, run: str = "20260102T030405-aaaaaaaa", machine: str = "h200", data: str = "") -> Measured:
    return Measured(machine=machine, run=run, link=f"../../results/{machine}/{run}", data=data, row=one)


def about(*rows: Measured, claims: tuple[Claim, ...] = ()) -> Label:
    return label(WORKERS, judged(claims, ()), rows)


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
    text = page(label(one, (), ()))
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
        "Not measured yet: `./speedmatrix run toy --only workers` does it.",
        "Nothing that the ledger knows of.",
    ):
        assert fact in text


def test_rows_stand_with_their_interval_level_reference_and_run() -> None:
    text = page(about(measured(row(2.0), data="voices of a city")))
    assert (
        "| h200 | leak, quick, batch 64; voices of a city | 2 | training steps | baseline "
        r"| 2.00x \[1.97, 2.03\] | faster | same bits | - | [2026-01-02](../../results/h200/20260102T030405-aaaaaaaa) |"
    ) in text
    assert "To measure it again: `./speedmatrix run --only workers`." in text


def test_what_was_lost_is_told_in_words_and_what_nobody_came_to_is_not() -> None:
    lost = row(2.0, inactive=("workers is 0, not 2",))
    text = page(about(measured(lost)))
    assert "| no ratio | - | same bits | not active: workers is 0, not 2 |" in text
    assert "Not measured yet" in page(about(measured(row(0))))


def test_notes_of_a_row_stand_beside_it() -> None:
    text = page(about(measured(row(2.0, **NOISY))))
    assert "| faster | differs | quality differs: losses differ from step 2 by 0.1 |" in text


def test_the_newest_rows_of_each_question_come_first_and_the_others_are_counted() -> None:
    runs = [f"2026010{day}T000000-aaaaaaaa" for day in range(1, MOST + 3)]
    rows = [measured(row(2.0), run) for run in runs]
    others = [measured(row(1.5, level=1), runs[0]), measured(row(3.0, timing=Timing.LOADER), runs[0])]
    found = about(*rows, *others)
    assert [one.run for one in found.newest if one.level == "2"] == [*sorted(runs, reverse=True)[:MOST], runs[0]]
    assert len(found.newest) == MOST + 2
    assert f"Every row of the newest runs, {MOST + 2} and 2 older ones<" in page(found)


def test_only_what_is_about_the_optimization_itself_is_on_its_page() -> None:
    both = matrix(plan(comparison("workers", "pin_memory")), records(0, 2.0)).rows[0]
    assert about(measured(both)).measured == ()
    assert label(PINNED, (), [measured(row(2.0))]).measured == ()


def test_claims_alone_stand_in_full_and_those_of_several_by_name() -> None:
    claims = (
        claim("workers=2"),
        claim("workers=2+pin_memory", name="a-pair"),
        claim("baseline", "workers=2", name="a-harm", bound=Bound.LOSS, low=None, high=None),
        claim("workers=2+pin_memory", "pin_memory", name="on-top"),
        claim("pin_memory", name="another"),
    )
    found = about(claims=claims)
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
    text = page(label(WORKERS, judged([promise], accounts), ()))
    assert r"| cpu: not measured yet; h200: overstated, 1.20x \[1.10, 1.30\] as fast |" in text


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
    labels = [label(one, (), ()) for one in (WORKERS, PINNED, replace(WORKERS, name="alpha"))]
    text = index(labels, [(place(*rows), "h200")])
    assert text.index("## Input") < text.index("## Alone")
    alone = text[text.index("## Alone") :]
    assert re.findall(r"^\| \[(\w+)\]", alone, flags=re.MULTILINE) == ["pin_memory", "workers"]
    assert "Alone" not in index(labels, [(place(row(0)), "h200")])


def test_a_page_has_its_answer_on_each_machine_first_and_every_row_folded() -> None:
    found = about(measured(row(2.0)))
    text = page(found, [(place(row(2.0)), "h200")]).replace("\N{NO-BREAK SPACE}", " ")
    assert "Alone; on training steps unless the cell says otherwise" in text
    assert "| machine | leak |\n|---|---|\n| h200 | **2.00x \\[1.97, 2.03\\]** (at 2) |\n\n<details>" in text
    assert (
        text.index("| h200 | **2.00x")
        < text.index("<details>")
        < text.index("| h200 | leak, quick")
        < text.index("</det")
    )


def test_the_index_has_the_stages_in_order_and_what_each_needs() -> None:
    text = index([label(PINNED, (), ()), about(), label(replace(WORKERS, name="alpha"), (), ())])
    assert re.findall(r"^## (\w+)", text, flags=re.MULTILINE) == ["Input"]
    assert re.findall(r"^\| \[(\w+)\]", text, flags=re.MULTILINE) == ["alpha", "pin_memory", "workers"]
    assert "any workload; needs a CUDA device" in text


def test_foreign_words_cannot_break_a_table() -> None:
    evil = "x|<b>\n# y"
    one = row(2.0)
    text = page(about(measured(replace(one, notes=(evil,), reference_name=evil), machine=evil, data=evil)))
    assert not re.search(r"(?<!\\)<b>", text)
    assert "\n# y" not in text
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| x")}) == 1


def test_a_strangers_workload_cannot_break_the_table_of_answers() -> None:
    text = page(about(measured(row(2.0))), [(place(row(2.0, workload="x|<b>\n# y")), "h200")])
    assert r"| machine | x\|\<b\> \# y |" in text


def test_no_page_has_two_empty_lines_in_a_row() -> None:
    claims = (claim("workers=2"), claim("workers=2+pin_memory", name="a-pair"))
    for found in (
        about(),
        about(claims=claims),
        about(claims=claims[1:]),
        about(measured(row(2.0)), claims=claims[:1]),
    ):
        assert "\n\n\n" not in page(found)
        assert not page(found).endswith("\n\n")
