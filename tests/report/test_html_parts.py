"""The parts of the HTML report that are data before they are text: lines, gaps, axis, series, summary."""

import math
import re
from dataclasses import replace

import pytest

from harness.analyze.estimate import Estimate
from harness.analyze.verdict import Verdict, verdict
from harness.core.configuration import Configuration
from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.report import html
from harness.report.html import Axis, axis, gaps, lines, rounded, series, stage
from tests.analyze.machines import by_somebody_else
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan, records
from tests.report.exhibits import KNOWN, NO_RESULTS, composing, exhibit, five, five_told, shown, two_machines


def estimate(ratio: float, low: float, high: float) -> Estimate:
    return replace(lines(shown())[0].estimate, ratio=ratio, low=low, high=high)


def test_a_line_for_each_ratio_in_the_matrixs_order() -> None:
    found = lines(shown())
    assert [line.entry.row.label for line in found] == ["augment", "workers", "pin_memory", "chunk_cache", "amp"]
    assert [line.key for line in found] == ["r1", "r2", "r3", "r4", "r5"]
    assert all(line.evidence.comparison == line.entry.row.comparison for line in found)
    assert not any(line.older for line in found)


def test_no_part_stands_beside_the_whole_steps_of_the_same_option() -> None:
    for collected in (False, True):
        part = shown(composing(), collected=collected)
        assert {one.entry.row.comparison.timing for one in lines(part)} == {Timing.LOADER, Timing.STEP}
        whole = shown(composing(whole=True), collected=collected)
        assert {one.entry.row.comparison.timing for one in lines(whole)} == {Timing.STEP}
        assert html.counts(whole, lines(whole)).startswith("2 comparisons" if collected else "2 of 2 comparisons")


def test_verdicts_choices_and_the_axis_are_of_what_a_part_comes_to() -> None:
    found = lines(shown(composing()))
    assert dict(html.verdicts(found)) == {Verdict.UNDECIDED: 1, Verdict.SLOWER: 1}
    chosen = {name: values for name, _, values in html.choices(found)}
    assert chosen["timed"] == ("training steps", "training steps, composed")
    assert axis(one.shown for one in found).last == 1


def test_a_comparison_that_was_made_twice_keeps_its_own_records() -> None:
    twice = plan(comparison("workers"), comparison("workers"))
    found = lines(shown(exhibit(twice, [*records(0, 2.0), *records(1, 3.0)])))
    assert [round(line.treatment.rate) for line in found] == [300, 200]
    assert [line.evidence.treatment.windows[0].arm.block for line in found] == ["1", "0"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("workers",), "input"),
        (("workers", "pin_memory"), "input"),
        (("workers", "amp"), "several"),
        (("made_elsewhere",), "unknown"),
        ((), "none"),
    ],
)
def test_the_stage_is_that_of_what_differs(names: tuple[str, ...], expected: str) -> None:
    assert stage(comparison(*names), KNOWN) == expected


def test_places_on_the_axis_keep_the_order_of_ratios() -> None:
    whole = axis([estimate(1.8, 1.5, 2.1), estimate(0.7, 0.6, 0.8)])
    assert (whole.first, whole.last) == (-1, 2)
    places = [whole.place(ratio) for ratio in (0.5, 0.9, 1.0, 1.1, 2.0, 4.0)]
    assert places == sorted(places)
    assert whole.place(2.0) - whole.place(1.0) == pytest.approx(whole.place(1.0) - whole.place(0.5), abs=0.11)
    assert [label for _, label in whole.ticks] == ["½", "1", "2", "4"]


def test_what_runs_off_the_axis_is_an_arrow_at_its_edge() -> None:
    whole = axis([estimate(700.0, 600.0, math.inf), estimate(0.01, 0.0, 0.02)])
    assert (whole.first, whole.last) == (-3, 3)
    far, near = whole.mark(estimate(700.0, 600.0, math.inf)), whole.mark(estimate(0.01, 0.0, 1.0))
    assert (far.runs_off_left, far.runs_off_right) == (False, True)
    assert (near.runs_off_left, near.runs_off_right) == (True, False)
    assert 0 < near.low < far.high < 100


def test_an_axis_without_ratios_spans_a_half_to_two() -> None:
    assert axis([]) == Axis(first=-1, last=1)


def test_bursts_can_be_told_from_the_numbers_to_four_digits() -> None:
    found = lines(shown())
    numbers = series(found)
    for line in found:
        block, attempts = numbers["lines"][line.key]
        rates = [samples / took for _, _, _, took_s, samples in attempts for took in took_s]
        assert rates == pytest.approx([one.rate for one in line.evidence.treatment.windows], rel=6e-4)
        assert [attempt[0] for attempt in numbers["references"][block]] == [0, 1]
    assert len(numbers["references"]) == 5


def test_comparisons_of_a_block_share_their_reference() -> None:
    one, other = lines(shown())[:2]
    shared = replace(other, evidence=replace(other.evidence, reference=one.evidence.reference))
    numbers = series([one, shared])
    assert len(numbers["references"]) == 1
    assert [block for block, _ in numbers["lines"].values()] == [0, 0]


@pytest.mark.parametrize(
    ("value", "expected"), [(1234.56, 1235), (0.123456, 0.1235), (5.0, 5), (math.inf, None), (math.nan, None)]
)
def test_numbers_are_as_short_as_they_may_be(value: float, expected: float | None) -> None:
    assert rounded(value) == expected


def test_gaps_say_why_and_stand_together_where_the_words_are_the_same() -> None:
    more = replace(five(), no_results=(*NO_RESULTS, replace(NO_RESULTS[0], label="codegen")))
    whole = shown(exhibit(more, five_told()))
    found = {gap.words: gap.labels for gap in gaps(whole, lines(whole))}
    assert found["needs a C++ compiler (g++)"] == ("compile", "codegen")
    assert found["failed: out of memory: wanted 2 GiB | had 1 GiB (replicate 1)"] == ("amp+workers",)


def test_among_many_runs_a_hole_that_another_run_filled_is_none() -> None:
    filled = replace(five(), no_results=(NoResult(workload="leak", label="workers", reason="no time"), *NO_RESULTS))
    whole = shown(exhibit(filled, five_told()), exhibit(name="20261120T100000-ffffffff"), collected=True)
    found = gaps(whole, lines(whole))
    assert "no time" not in {gap.words for gap in found}
    assert len(found) == len({(gap.machine, gap.workload, gap.words) for gap in found})
    assert sum("compile" in gap.labels for gap in found) == 1


def test_what_somebody_else_measured_takes_no_place_of_ours_and_is_marked() -> None:
    theirs = exhibit(name="20261122T100000-0a1b2c3d")  # newer, and of the same environment by its own word
    theirs = replace(theirs, kept=by_somebody_else(theirs.kept))
    whole = shown(exhibit(), theirs, collected=True)
    found = lines(whole)
    places = ["cpu-2-example-9000", "cpu-2-example-9000 (contributed)"]
    assert not any(line.older for line in found)
    assert sorted({html.machine_of(line.entry.run) for line in found}) == places
    assert sorted(gap.machine for gap in gaps(whole, found) if "compile" in gap.labels) == places
    assert any(remark.startswith("Contributed runs: 1.") for remark in html.remarks(whole, found))
    page = html.to_html(whole)
    assert f'data-machine="{places[1]}"' in page
    assert f"{places[1]}, began" in page
    assert f"Speedup matrix of {places[1]}" in html.to_html(shown(theirs))


def test_the_smallest_size_is_no_evidence_among_many_runs() -> None:
    def smoke(config: Configuration) -> Configuration:
        return replace(config, size="smoke")

    one = comparison("workers")
    small = replace(one, treatment=smoke(one.treatment), reference=smoke(one.reference))
    run = exhibit(plan(small), records(0, 2.0))
    assert len(lines(shown(run))) == 1
    collected = shown(run, exhibit(), collected=True)
    assert len(lines(collected)) == 5
    assert any("1 runs at size smoke" in remark for remark in html.remarks(collected, lines(collected)))


def test_facts_that_differ_between_runs_are_told_one_by_one() -> None:
    heading = dict(html.heading(two_machines()))
    assert len(heading["machine"]) == 2
    assert len(heading["protocol"]) == 1


def test_variables_by_which_libraries_compute_otherwise_stand_with_the_software() -> None:
    one = exhibit()
    slowed = replace(ENVIRONMENT, variables=(("CUDA_LAUNCH_BLOCKING", "1"), ("KMP_BLOCKTIME", "0")))
    matrix = replace(one.kept.matrix, environment=slowed)
    (software,) = dict(html.heading(shown(replace(one, kept=replace(one.kept, matrix=matrix)))))["software"]
    assert software == "Python 3.11.9, numpy 2.1.0, torch 2.11.0; CUDA_LAUNCH_BLOCKING=1 KMP_BLOCKTIME=0"


def test_invented_times_are_called_so() -> None:
    whole = shown(replace(exhibit(), rehearsed=True))
    assert any("invented" in remark for remark in html.remarks(whole, lines(whole)))


def test_the_rules_that_are_told_are_those_that_are_used() -> None:
    told, a_bit = dict(html.rules(lines(shown()))), 1e-4
    assert set(told) == {Verdict.FASTER, Verdict.SLOWER, Verdict.NO_EFFECT, Verdict.UNDECIDED}
    (faster,), (slower,), (low, high) = (
        [float(one) for one in re.findall(r"\d+(?:\.\d+)?", told[rule])]
        for rule in (Verdict.FASTER, Verdict.SLOWER, Verdict.NO_EFFECT)
    )
    assert verdict(faster + a_bit, 9.0) is Verdict.FASTER
    assert verdict(0.1, slower - a_bit) is Verdict.SLOWER
    assert verdict(low, high) is Verdict.NO_EFFECT
    beyond = ((faster - a_bit, 9.0), (0.1, slower + a_bit), (low - a_bit, high), (low, high + a_bit))
    assert {verdict(*interval) for interval in beyond} == {Verdict.UNDECIDED}


def test_both_arms_side_by_side() -> None:
    line = lines(shown())[1]
    speeds = {name: (ours, theirs) for name, ours, theirs in html.speeds(line)}
    assert speeds["input wait"] == ("80 %", "80 %")
    assert speeds["its loader alone"] == ("400 samples/s", "125 samples/s"), "by its probe, by its windows"
    assert not {"first to last kernel of its steps", "host queueing them"} & {*speeds}
    costs = {name: (ours, theirs) for name, ours, theirs in html.costs(line)}
    assert costs["first step"] == ("1.35 s", "1.35 s")
    assert [proof.setting for proof in html.proofs(line) if proof.promised] == ["workers"]
    assert html.alike(line) == "layout contiguous"
    assert sum(length for _, _, length in html.shares(line.treatment)) == pytest.approx(100, abs=0.2)
