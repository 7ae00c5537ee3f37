"""The comparison's three forms: readable with many places, and no hostile name gets through."""

import json
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from harness.analyze.collection import StoredRun
from harness.analyze.comparison import Known, Limit, MachineComparison, compare, of_runs
from harness.analyze.estimate import OF_TABLE, Estimate
from harness.analyze.matrix import NO_PRICES, Prices, Row, parse_prices
from harness.core.plan import NoResult
from harness.core.records import Window
from harness.report.comparison import comparison_parts, comparison_to_json
from harness.report.document import to_markdown, to_terminal
from tests.analyze.machines import H200, LARGE, SMALL, by_somebody_else, planned, run, told
from tests.analyze.synthetic import comparison, records

LABELS = ("workers", "amp", "pin_memory", "amp+workers", "pin_memory+workers")
MACHINES = [SMALL, LARGE, H200, *(replace(H200, accelerator=f"NVIDIA Example {n}000 80GB HBM3") for n in (1, 2))]
WIDTH = 110
EUROS = parse_prices(
    'currency = "EUR"\n[[price]]\nmachine = "h200"\nper_hour = 3.6\nsource = "a test"\n', "prices.toml"
)
KNOWN = Known(
    limits=(Limit(devices=("NVIDIA H200",), operations_per_s=1e9, source="a test"),), work={("leak", "quick"): 500}
)


def of(*runs: StoredRun, known: Known = KNOWN, prices: Prices = NO_PRICES) -> MachineComparison:
    return compare(of_runs(runs), known, prices)


def five() -> MachineComparison:
    """Five machines with five configurations each; what they are worth grows from machine to machine."""
    return of(
        *(
            told(machine, dict.fromkeys(LABELS, 1.1 + 0.3 * index), day=index + 1)
            for index, machine in enumerate(MACHINES)
        )
    )


def shown(made: MachineComparison, width: int = WIDTH) -> str:
    return to_terminal(comparison_parts(made), width=width, colour=False)


def test_five_machines_fit_and_every_ratio_has_its_interval_and_its_place() -> None:
    text = shown(five())
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    start = next(number for number, line in enumerate(lines) if "ratio of the two" in line)
    end = next(number for number, line in enumerate(lines) if "unpaired, of single" in line)
    table = [line for line in lines[start:end] if re.match(r" (\S+ +)? *[A-E] +\d", line)]
    assert len(table) == 5 * len(LABELS)  # one line each: nothing was folded
    for number, line in enumerate(table):
        letter = "ABCDE"[number % 5]
        assert re.search(rf"\b{letter} +\d\.\d+x \[\d\.\d+, \d\.\d+\] +faster", line)
        held = re.search(r"\d\.\d+x \[\d\.\d+, \d\.\d+\] of A +pays more", line)
        assert bool(held) == (letter != "A")
    assert all(f" {name} " in text for name in LABELS)


@pytest.mark.parametrize("width", [79, 100, 110, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(five(), width).splitlines())) <= width


def test_places_are_named_once_with_machine_environment_and_run() -> None:
    made = five()
    text = shown(made)
    for place in made.columns:
        line = next(line for line in text.splitlines() if place.environment.digest in line)
        assert line.split()[:2] == [place.letter, place.environment.machine]
        assert place.runs[0].name in line
        assert line.endswith("own")


def test_a_contributed_run_is_marked() -> None:
    ours, theirs = told(SMALL, {"workers": 1.5}), by_somebody_else(told(LARGE, {"workers": 1.5}))
    ended = [line.split()[-1] for line in shown(of(ours, theirs)).splitlines() if "2026030" in line]
    assert ended == ["own", "contributed"]
    assert [one["contributed"] for one in json.loads(comparison_to_json(of(ours, theirs)))["places"]] == [False, True]


def test_two_runs_of_one_environment_say_so() -> None:
    text = shown(of(told(SMALL, {"workers": 1.5}), told(SMALL, {"workers": 1.6}, day=2)))
    assert "Machine and software are alike in every fact that is recorded." in text


def test_a_moved_stage_and_settings_stand_beside_a_difference_and_are_not_called_its_cause() -> None:
    started = {"effective": {"layout": "contiguous", "workers": 8}, "loader_rate": 2000.0}
    found = [
        replace(one, wait_s=0.25 * one.wall_s) if isinstance(one, Window) else one
        for one in records(0, 3.0, replicates=4, **started)
    ]
    made = of(told(SMALL, {"workers": 1.5}), run(LARGE, found, planned([comparison("workers")])))
    text = " ".join(shown(made).split())
    assert (
        "The input holds the baseline back on A, the training step here: workers (B) "
        "Seen workers 0 on A, 8 here: workers (B)" in text
    )
    assert "A: the input holds the baseline back; loader alone 125 samples/s, step alone 500 samples/s" in text
    assert "B: the training step holds the baseline back; loader alone 400 samples/s, step alone 133 samples/s" in text
    same = " ".join(shown(of(told(SMALL, {"workers": 1.5}), told(LARGE, {"workers": 3.0}))).split())
    assert (
        "The same stage and settings as on A, so that there remains cores, torch, when it was measured: workers (B)"
        in same
    )
    again = " ".join(shown(of(told(SMALL, {"workers": 1.5}), told(SMALL, {"workers": 3.0}, 2))).split())
    assert "so that there remains when it was measured: workers (B)" in again


def test_a_stage_that_is_not_known_is_not_called_the_same() -> None:
    ours, theirs = told(SMALL, {"workers": 1.5}), told(LARGE, {"workers": 3.0})
    tables = tuple(
        replace(one, profile=replace(one.profile, bottleneck=None) if one.profile else None)
        for one in theirs.matrix.tables
    )
    text = " ".join(shown(of(ours, replace(theirs, matrix=replace(theirs.matrix, tables=tables)))).split())
    assert "The same stage" not in text
    assert (
        "Its stage is not known, and its settings are those on A; there also differ cores, torch, when it was "
        "measured: workers (B)" in text
    )


def test_costs_and_shares_stand_where_they_are_known_and_words_where_not() -> None:
    runs = told(SMALL, {"workers": 1.5}), told(H200, {"workers": 1.5})
    text = " ".join(shown(of(*runs, prices=EUROS)).split())
    assert "EUR a million" in text
    assert "0.005 %" in text  # 100 a second of 500 operations, of a thousand million
    assert "Share of the device's limit on A: no limit is published of a CPU." in text
    assert "Cost on A: no price is known; add one to prices.toml" in text
    assert "Energy for a sample is not compared" in text
    without = shown(of(*runs, known=Known(work={})))
    assert "a million" not in without
    assert "of the limit" not in without
    assert "Cost on A, B: no price is known" in without


def test_a_cell_without_a_ratio_has_its_words() -> None:
    lacking = run(
        LARGE,
        records(0, 1.5, inactive=("workers is 0, not 2",)) + records(1, 1.2),
        planned([comparison("workers"), comparison("amp")]),
    )
    text = shown(of(told(SMALL, {"workers": 1.5, "amp": 1.2}), lacking))
    assert "workers on B: not active: workers is 0, not 2" in text
    both = shown(of(replace(lacking, name="other", matrix=replace(lacking.matrix, seed=8)), lacking))
    assert "leak, without a ratio anywhere: workers (A, B not active: workers is 0, not 2)" in " ".join(both.split())


def test_what_was_not_measured_alike_is_told_by_place() -> None:
    one = comparison("workers")
    larger = [replace(config, batch=128) for config in (one.treatment, one.reference)]
    other = replace(one, treatment=larger[0], reference=larger[1])
    elsewhere = comparison("workers", workload="speaker")
    found = [*records(0, 2.0), *records(1, 2.0), *records(2, 1.5)]
    theirs = run(LARGE, found, planned([one, other, elsewhere], data={"leak": ""}))
    text = " ".join(shown(of(told(SMALL, {"workers": 1.5}), theirs)).split())
    assert (
        "leak was not measured alike everywhere (A size quick with batch 64; B size quick with batch 64 and 128)"
        in text
    )
    assert "leak, on B alone: workers" in text
    assert "speaker was measured on B alone" in text
    real = run(H200, [*records(0, 2.0), *records(1, 1.5)], planned([one, elsewhere], data={"leak": "44 recordings"}))
    text = " ".join(shown(of(theirs, real)).split())
    assert "B size quick on 44 recordings with batch 64" in text


def test_a_restless_machine_is_named() -> None:
    restless = [
        replace(one, wall_s=one.wall_s * (1 if one.order % 4 else 2)) if isinstance(one, Window) else one
        for one in records(0, 1.5, replicates=4)
    ]
    text = shown(of(told(SMALL, {"workers": 1.5}), run(LARGE, restless, planned([comparison("workers")]))))
    assert "workers on B: the machine was too restless for a verdict" in text
    assert "pays" not in text.partition("speedup, 95 %")[2].partition("samples/s")[0]


def test_a_ratio_that_a_devices_table_decides_is_named_and_not_judged() -> None:
    theirs = told(LARGE, {"workers": 3.0})
    tables = tuple(
        replace(table, rows=tuple(replace(row, result=of_table(row)) for row in table.rows))
        for table in theirs.matrix.tables
    )
    text = shown(of(told(SMALL, {"workers": 1.5}), replace(theirs, matrix=replace(theirs.matrix, tables=tables))))
    assert f"workers on B: {OF_TABLE}" in " ".join(text.split())
    assert "pays" not in text.partition("speedup, 95 %")[2].partition("samples/s")[0]


def of_table(row: Row) -> Estimate:
    assert row.estimate
    return replace(row.estimate, looked_up=True)


EVIL = "[bold]\x1b[31m<script>alert(1)</script>|`*_[x](javascript:y) http://evil.example\n\n# made up $1$"


def hostile() -> MachineComparison:
    """Everything that a stranger may choose says something evil."""
    environment = replace(SMALL, accelerator=EVIL, device=EVIL, packages=((EVIL, EVIL),))
    no_result = NoResult(workload="leak", label="amp", reason=EVIL)
    effective = {EVIL: EVIL, "workers": 8}
    theirs = run(
        environment,
        records(0, 3.0, effective=effective),
        planned([comparison("workers")], no_results=(no_result,)),
        name=EVIL,
        version=EVIL,
    )
    ours = told(SMALL, {"workers": 1.5, "amp": 1.5})
    return of(ours, by_somebody_else(theirs))


def test_no_escape_sequence_reaches_the_terminal() -> None:
    text = shown(hostile(), 4000)
    assert "\x1b" not in text
    assert not any(line.startswith("# made up") for line in text.splitlines())
    assert "[bold]" in text  # shown as it is, and not obeyed
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_markdown_shows_foreign_text_as_it_is() -> None:
    text = to_markdown(comparison_parts(hostile()))
    page = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script" not in page
    assert "<a " not in page
    assert "<code" not in page
    assert page.count("<h1>") == 1
    assert "alert(1)" in page  # shown
    assert "http://" not in text  # which some renderers make a link of
    tables = page.split("<table>")[1:]
    assert all(one.count("<th>") * one.count("<tr>") == one.count("<th>") + one.count("<td>") for one in tables)


def test_json_is_strict_and_says_what_the_comparison_says() -> None:
    made = five()

    def refused(name: str) -> float:
        raise AssertionError(name)

    document = json.loads(comparison_to_json(made), parse_constant=refused)
    assert [one["letter"] for one in document["places"]] == list("ABCDE")
    (group,) = document["groups"]
    assert group["reference"] == "leak@quick#64"
    config = next(one for one in group["cells"] if one["subject"] == "workers")
    assert [one["letter"] for one in config["places"]] == list("ABCDE")
    theirs = config["places"][1]
    assert theirs["contrast"]["ratio"] == pytest.approx(1.4 / 1.1)
    assert theirs["contrast"]["difference"] == "pays more"
    assert theirs["against"] == "A"
    assert json.loads(comparison_to_json(hostile()))["places"][1]["environment"]["accelerator"] == EVIL
