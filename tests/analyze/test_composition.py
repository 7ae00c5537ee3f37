import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.analyze.attribution import effects
from harness.analyze.composition import (
    MISFIT,
    SHARES_DISTURBED,
    Arrival,
    Composed,
    arrival,
    average_of_composed,
    before_any,
    composed,
    precisions,
)
from harness.analyze.estimate import FIXED, Estimate, estimates
from harness.analyze.matrix import Row
from harness.analyze.verdict import Verdict
from harness.core.optimization import Timing
from harness.core.plan import STAGES, Plan
from harness.core.records import Ready, Record, Window
from harness.report import matrix as matrix_report
from harness.report import overview, words
from tests.analyze.synthetic import ENVIRONMENT, comparison, matrix, pairs_of, plan, records

USUAL = Arrival()


def part(*log_ratios: float) -> Estimate:
    """A part's ratio, as surely known as its neighbours allow."""
    found: Estimate = estimates([pairs_of(*((one,) for one in log_ratios))] * 6)[0]
    return found


@pytest.mark.parametrize(
    ("share", "ratio", "expected"),
    [(0.5, 2.0, 1 / 0.75), (0.06, 120.0, 1 / (0.94 + 0.06 / 120)), (0.9, 0.5, 1 / 1.9), (0.3, 1.0, 1.0)],
)
def test_a_part_counts_by_its_share(share: float, ratio: float, expected: float) -> None:
    found = composed(part(math.log(ratio) - 0.01, math.log(ratio) + 0.01), [share, share])
    assert found.ratio == pytest.approx(expected)
    assert found.low < expected < found.high
    assert found.share == pytest.approx(share)


def test_a_small_share_makes_a_wide_ratio_narrow() -> None:
    wide = part(-0.3, 0.3)
    found = composed(wide, [0.05, 0.05])
    assert wide.half_width > 0.3
    assert found.half_width < 0.06
    assert found.verdict is Verdict.UNDECIDED


def test_no_interval_is_narrower_than_the_formula_was_seen_to_miss() -> None:
    found = composed(part(0.0, 0.0), [0.001, 0.001])
    assert found.half_width > 1.9 * MISFIT


@pytest.mark.repeats
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3, 20.0])
@pytest.mark.parametrize("replicates", [2, 4])
def test_intervals_hold_as_often_as_they_say(share: float, ratio: float, replicates: int) -> None:
    """Loader, step, process and what arrives have a scatter of their own; the pool has eight options."""
    random, trials, held = np.random.default_rng(hash((share, ratio, replicates)) % 2**32), 250, 0
    for _ in range(trials):
        logs = math.log(ratio) + random.normal(0, 0.06, (8, replicates))
        chosen = estimates([pairs_of(*((float(one),) for one in row)) for row in logs])[0]
        loads, computes = (np.exp(random.normal(0, 0.04, replicates)) for _ in range(2))
        seen = share * loads / (share * loads + (1 - share) * computes)
        arrives = random.normal(1, USUAL.deviation)
        gain = min((1 - share + share / ratio) ** -arrives, 1 / (1 - share))  # the rest of a step remains
        truth = gain * math.exp(random.normal(0, MISFIT))
        found = composed(chosen, [float(one) for one in seen])
        held += found.low <= truth <= found.high
    assert held / trials >= 0.92, held


@pytest.mark.repeats
@pytest.mark.parametrize("degrees", [1, 2])
@pytest.mark.parametrize("error", [0.03, 0.08, 0.2])
def test_what_is_surely_known_narrows_no_interval(degrees: int, error: float) -> None:
    """A part known from two or three processes, beside a misfit and an arrival of known deviations."""
    random, trials, held, share, arrives = np.random.default_rng(5), 2000, 0, 0.5, Arrival(in_common=0.02, each=0.0)
    for _ in range(trials):
        scatter = error * math.sqrt(random.chisquare(degrees) / degrees)
        half = float(stats.t.ppf(FIXED, degrees)) * scatter
        log = math.log(1.3) + random.normal(0, error)
        seen = replace(
            part(0.0, 0.0), ratio=math.exp(log), low=math.exp(log - half), high=math.exp(log + half), df=float(degrees)
        )
        truth = (1 - share + share / 1.3) ** -random.normal(1, 0.02) * math.exp(random.normal(0, MISFIT))
        found = composed(seen, [share, share], arrives)
        held += found.low <= truth <= found.high
    assert held / trials >= 0.94, held


@pytest.mark.repeats
@pytest.mark.parametrize("errors", [(0.01, 0.04, 0.04, 0.04), (0.02, 0.03, 0.04)])
def test_runs_that_differ_are_not_decided_by_the_narrowest(errors: Sequence[float]) -> None:
    random, trials, held = np.random.default_rng(7), 2000, 0
    one = composed(part(0.0, 0.0), [0.3, 0.3])
    for _ in range(trials):
        logs = random.normal(0, 0.04, len(errors)) + random.normal(0, errors)
        several = [
            replace(one, ratio=math.exp(log), low=math.exp(log - 1.96 * error), high=math.exp(log + 1.96 * error))
            for log, error in zip(map(float, logs), errors, strict=True)
        ]
        found = average_of_composed(several, 0.01)
        held += found.low <= 1 <= found.high
    assert held / trials >= 0.9, held


def test_a_part_that_may_change_nothing_may_change_nothing_on_steps() -> None:
    seen = replace(part(0.0, 0.0), ratio=1.6, low=0.92, high=2.77, df=1.0)
    found = composed(seen, [0.7, 0.7])
    assert found.low < 1 < found.high
    assert found.verdict is Verdict.UNDECIDED
    assert found.half_width == pytest.approx(math.log(found.ratio / found.low))


def test_what_arrives_is_learned_from_what_was_timed_on_steps_too() -> None:
    """Half of the loader's gain is lost, as surely as four replicates can tell; half of that may be of its own."""
    loader, share = part(*[math.log(4.0)] * 4), 0.6
    plain = composed(loader, [share, share]).ratio
    pair = part(*[math.log(plain) / 2] * 4), loader
    seen = arrival([pair], [share, share])
    assert seen.seen == 1
    assert 0.7 < seen.share < 0.8
    assert USUAL.each < seen.deviation < USUAL.deviation
    assert composed(loader, [share, share], seen).ratio == pytest.approx(plain**seen.share)
    many = arrival([pair] * 30, [share, share])
    assert 0.5 < many.share < 0.55
    assert USUAL.each < many.deviation < 1.1 * USUAL.each, (
        "another option has an arrival of its own, however many were seen"
    )


@pytest.mark.repeats
def test_intervals_hold_for_options_whose_arrival_differs_from_the_one_that_was_seen() -> None:
    random, trials, held, share = np.random.default_rng(8), 1000, 0, 0.57
    for _ in range(trials):
        common = random.normal(1, USUAL.in_common)
        own = [random.normal(common, USUAL.each) for _ in range(2)]
        logs = [math.log(one) for one in (30.0, 2.0)]
        plain = [-math.log(1 - share + share / math.exp(one)) for one in logs]
        cause = part(*(logs[0] + random.normal(0, 0.01, 4)))
        whole = part(*(own[0] * plain[0] + random.normal(0, 0.01, 4)))
        found = composed(
            part(*(logs[1] + random.normal(0, 0.01, 4))), [share, share], arrival([(whole, cause)], [share, share])
        )
        held += found.low <= math.exp(own[1] * plain[1] + random.normal(0, MISFIT)) <= found.high
    assert held / trials >= 0.93, held


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_no_part_gains_more_than_one_that_costs_nothing(share: float) -> None:
    """Whatever steps kept of others' gains, what is no part of it remains; without a loader that may be cheaper."""
    swift, arrives = part(math.log(50.0), math.log(50.0)), Arrival(share=1.3)
    found = composed(swift, [share, share], arrives)
    assert found.low < found.ratio <= 1 / (1 - share) < found.high < 1.03 / (1 - share)
    spared = composed(swift, [share, share], arrives, rest=0.9 * (1 - share))
    assert found.high < spared.high < 1.03 / (0.9 * (1 - share))


def test_an_interval_reaches_to_what_a_part_comes_to_that_took_another_time_alone() -> None:
    swift, sure = part(math.log(3.0), math.log(3.0)), Arrival(in_common=0.01, each=0.01)
    plain, alike, shorter, longer = (composed(swift, [0.5, 0.5], sure, alone=one) for one in (None, 0.49, 0.4, 0.7))
    assert alike == plain
    assert {one.ratio for one in (shorter, longer)} == {plain.ratio}
    assert shorter.low == pytest.approx(0.9 / (0.5 + 0.4 / 3), rel=0.02)
    assert longer.high == pytest.approx(1.2 / (0.5 + 0.7 / 3), rel=0.02)
    assert (shorter.high, longer.low) == (plain.high, plain.low)


def test_a_part_that_was_another_one_alone_gives_no_verdict() -> None:
    """Files came from storage among steps and from memory alone: what is thrice as fast there may save little here."""
    made, found = of_stages()
    twentieth = [
        replace(one, wall_s=0.05 * one.wall_s, wait_s=0.05 * one.wait_s)
        if isinstance(one, Window) and one.timing is Timing.LOADER
        else one
        for one in found
    ]
    (usual,), (warm,) = ([one for one in matrix(made, its).rows if one.on_steps] for its in (found, twentieth))
    assert usual.on_steps
    assert warm.on_steps
    assert warm.on_steps.ratio == usual.on_steps.ratio
    assert (usual.on_steps.verdict, warm.on_steps.verdict) == (Verdict.FASTER, Verdict.DISTURBED)
    assert any("0.063 times as long" in one for one in warm.notes)


def test_an_effect_too_small_to_tell_teaches_nothing() -> None:
    assert arrival([(part(0.3, 0.3), part(0.001, 0.001))], [0.5, 0.5]) == Arrival()


@pytest.mark.parametrize("before", [Arrival(share=0.9), Arrival(in_common=0.03, each=0.03)])
def test_what_is_known_beforehand_gives_way_to_what_is_seen(before: Arrival) -> None:
    assert arrival([], [0.6, 0.6], before) == before
    loader, share = part(*[math.log(4.0)] * 4), 0.6
    plain = composed(loader, [share, share]).ratio
    pairs = [(part(*[math.log(plain) / 2] * 4), loader)]
    once, often = (arrival(pairs * many, [share, share], before) for many in (1, 300))
    assert before.share > once.share > often.share
    assert often.share == pytest.approx(0.5, abs=0.03)
    assert once.each == often.each == before.each


def test_a_loader_beside_an_emulated_device_leaves_little_to_steps_and_that_of_a_cpu_more() -> None:
    here = ENVIRONMENT
    emulated = replace(here, device="emulated:h100")
    assert before_any(Timing.LOADER, emulated).deviation < 0.4 * before_any(Timing.LOADER, here).deviation
    assert 1 > before_any(Timing.LOADER, emulated).share > before_any(Timing.LOADER, here).share
    assert before_any(Timing.COMPUTE, emulated) == before_any(Timing.COMPUTE, here) == USUAL
    assert before_any(Timing.LOADER, replace(here, device="cuda")) == USUAL


def of_stages(design: str = STAGES) -> tuple[Plan, list[Record]]:
    """A run in which the reference loads for four fifths of each step and an option halves that on the loader alone."""
    told = plan(comparison("amp"), comparison("workers", timing=Timing.LOADER))
    return replace(told, design=design), [*records(0, 1.3), *records(1, 2.0, timing=Timing.LOADER)]


def rows(design: str) -> dict[str, Row]:
    return {row.label: row for row in matrix(*of_stages(design)).rows}


def test_a_run_of_stages_says_what_a_part_comes_to_on_steps() -> None:
    found = rows(STAGES)
    assert found["amp"].on_steps is None
    assert isinstance(found["workers"].on_steps, Composed)
    assert found["workers"].estimate is not None
    assert found["workers"].estimate.ratio == pytest.approx(2.0, rel=1e-3)
    kept = before_any(Timing.LOADER, ENVIRONMENT).share
    assert found["workers"].on_steps.ratio == pytest.approx((1 / (0.2 + 0.8 / 2)) ** kept, rel=1e-3)
    assert found["workers"].shown == found["workers"].on_steps


def test_steps_that_are_no_longer_trusted_tell_no_share() -> None:
    made, found = of_stages()
    before = [
        replace(one, effective={**one.effective, "page_cache": "cold"})
        if isinstance(one, Ready) and one.arm.position == 0
        else one
        for one in found
    ]
    assert any(one.on_steps for one in matrix(made, found).rows)
    assert not any(one.on_steps for one in matrix(made, before).rows)


@pytest.mark.parametrize(("cache", "refused"), [("in part", True), ("still filling", True), ("filled before", False)])
def test_steps_of_a_reference_that_comes_back_to_a_cache_tell_no_share(cache: str, *, refused: bool) -> None:
    """Their ratio is refused, and what they load is too cheap."""
    made, found = of_stages()
    cached = [
        replace(one, effective={**one.effective, "data_cache": cache}, epoch_steps=80, cycle_steps=80)
        if isinstance(one, Ready) and (one.arm.block, one.arm.position) == ("0", 0)
        else one
        for one in found
    ]
    assert any(one.on_steps for one in matrix(made, cached).rows) is not refused


def disturbed(made: Iterable[Record], position: int = 0, replicates: Sequence[int] = (0, 1)) -> list[Record]:
    """Those records with a neighbour beside the steps of an arm, who takes a core whenever it loads."""
    return [
        replace(one, wait_s=0.95 * one.wall_s, others=0.5)
        if isinstance(one, Window)
        and (one.timing, one.arm.position) == (Timing.STEP, position)
        and one.arm.replicate in replicates
        else one
        for one in made
    ]


def test_shares_of_disturbed_steps_give_no_verdict() -> None:
    made, found = of_stages()
    (calm,) = (row for row in matrix(made, found).rows if row.on_steps)
    (row,) = (row for row in matrix(made, disturbed(found)).rows if row.on_steps)
    assert calm.on_steps
    assert row.on_steps
    assert (calm.on_steps.verdict, row.on_steps.verdict) == (Verdict.FASTER, Verdict.DISTURBED)
    assert row.estimate
    assert row.estimate.verdict is Verdict.FASTER, "the loader alone was timed in peace"
    assert SHARES_DISTURBED in row.notes
    assert SHARES_DISTURBED not in calm.notes


def test_a_disturbed_replicate_tells_no_share() -> None:
    made, found = of_stages()
    third = [*records(0, 1.3, replicates=3), *found[len(found) // 2 :]]
    (row,) = (row for row in matrix(made, disturbed(third, replicates=(1,))).rows if row.on_steps)
    assert row.on_steps
    assert row.on_steps.share == pytest.approx(0.8)
    assert row.on_steps.verdict is Verdict.FASTER


def test_disturbed_steps_do_not_tell_what_arrives() -> None:
    told = replace(plan(comparison("workers"), comparison("workers", timing=Timing.LOADER)), design=STAGES)
    found = [*records(0, 1.4), *records(1, 2.0, timing=Timing.LOADER)]
    for made, count in ((found, 1), (disturbed(found, position=1), 0)):
        (row,) = (row for row in matrix(told, made).rows if row.on_steps)
        assert row.on_steps
        assert row.on_steps.arrives.seen == count


def test_no_other_design_composes() -> None:
    """Whoever probes a loader with workers has parts that do not add up to a step."""
    assert all(row.on_steps is None for row in rows("alone").values())


def test_replicates_are_added_by_what_a_part_weighs() -> None:
    weighed, whole = precisions(*of_stages()), precisions(*of_stages("alone"))
    assert weighed["1", 1].half_width == pytest.approx(0.8 * whole["1", 1].half_width)
    assert weighed["0", 1].half_width == whole["0", 1].half_width


def test_advice_marks_what_is_composed_and_tells_no_memory_of_it() -> None:
    (row,) = (one for one in matrix(*of_stages()).rows if one.on_steps)
    assert overview._prices(row)[0] == words.NOTHING
    assert matrix_report._of_steps(row).startswith(matrix_report.COMPOSED)
    (effect,) = effects([row])
    assert row.on_steps is not None
    assert (effect.timing, effect.verdict) == (Timing.STEP, row.on_steps.verdict)
    assert effect.gain.ratio == pytest.approx(row.on_steps.ratio)
