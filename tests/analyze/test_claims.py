"""Findings: from the records of synthetic runs to what is said of a claim."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.claims import (
    REFUTED,
    ClaimVerdict,
    Finding,
    Look,
    MeasuredValue,
    Trial,
    as_timed,
    find,
    matching,
    measure,
    on_emulated,
    trials,
)
from harness.analyze.estimate import Estimate, narrowest
from harness.analyze.verdict import Thresholds
from harness.catalogue import read_catalogue
from harness.core.claims import Bound, Claim, Metric, Resolution, Tried, Untried
from harness.core.configuration import Option
from harness.core.optimization import Timing
from harness.core.records import Lost, Ready, Record, Window
from tests.analyze.synthetic import arm, comparison, plan, records

TRIED = Tried(treatment=(Option(name="workers"),), reference=(), timing=Timing.STEP)
OTHERWISE = replace(TRIED, shortfalls=("tested without luck",))
BAD_SCORE = {"losses": (2.3, 2.2, 1.9)}


def claim(bound: Bound = Bound.RANGE, metric: Metric = Metric.THROUGHPUT, **facts: Any) -> Claim:
    figures = {"low": 1.5, "high": 2.0} if bound is Bound.RANGE and "low" not in facts else {}
    given = {"treatment": "workers", **figures, **facts}
    return Claim(name="toy", text="x", source="x", workload="leak", metric=metric, bound=bound, **given)


def trial(found: list[Record], name: str = "workers", timing: Timing = Timing.STEP) -> Trial:
    return trials(plan(comparison(name, timing=timing)), found)[0]


def look(found: list[Record] | None, run: str = "r1", resolution: Resolution = TRIED) -> Look:
    return Look(run=run, resolution=resolution, trial=None if found is None else trial(found))


def judged(one: Claim, found: list[Record] | None, resolution: Resolution = TRIED) -> Finding:
    return find(one, "leak", [look(found, resolution=resolution)])


def changed(found: list[Record], position: int, **facts: Any) -> list[Record]:
    """The records with the windows of one arm changed."""
    return [replace(one, **facts) if isinstance(one, Window) and one.arm.position == position else one for one in found]


def test_an_estimate_is_ruled_and_the_finding_says_how_it_was_tested() -> None:
    found = judged(claim(), records(0, 1.75))
    assert found.claim_verdict is ClaimVerdict.CONFIRMED
    assert found.measured_value is not None
    assert found.measured_value.low < 1.75 < found.measured_value.high
    assert found.basis is not None
    assert (found.basis.run, str(found.basis.config)) == ("r1", "leak@quick#64:workers")
    assert judged(claim(), records(0, 1.2)).claim_verdict is ClaimVerdict.OVERSTATED
    assert judged(claim(), records(0, 0.8)).claim_verdict is ClaimVerdict.HARMFUL
    assert judged(claim(), records(0, 1.0)).claim_verdict is ClaimVerdict.NO_EFFECT


@pytest.mark.parametrize("ratio", [1.75, 1.505, 1.2, 1.0, 0.8, 3.0])
def test_what_was_measured_otherwise_is_neither_confirmed_nor_refuted(ratio: float) -> None:
    found = judged(claim(), records(0, ratio), OTHERWISE)
    assert found.claim_verdict is ClaimVerdict.TESTED_OTHERWISE
    assert found.claim_verdict not in {*REFUTED, ClaimVerdict.CONFIRMED}
    assert found.measured_value is not None
    assert found.basis is not None
    assert found.basis.tried.shortfalls == ("tested without luck",)


def test_quality_that_was_tested_otherwise_is_not_judged_either() -> None:
    for start in ({}, BAD_SCORE):
        found = judged(claim(Bound.FREE, Metric.QUALITY), records(0, 1.2, **start), OTHERWISE)
        assert found.claim_verdict is ClaimVerdict.TESTED_OTHERWISE


def test_an_older_run_of_what_is_claimed_decides_before_a_newer_one_of_something_else() -> None:
    looks = [look(records(0, 1.2), "r2", OTHERWISE), look(records(0, 1.7), "r1")]
    found = find(claim(), "leak", looks)
    assert found.basis is not None
    assert (found.claim_verdict, found.basis.run) == (ClaimVerdict.CONFIRMED, "r1")
    assert find(claim(), "leak", looks[:1]).claim_verdict is ClaimVerdict.TESTED_OTHERWISE


def test_a_machines_calibration_reaches_the_ruling() -> None:
    made = plan(comparison("workers"))
    (coarse,) = trials(made, records(0, 1.2), Thresholds(margin=0.03))
    found = measure(Metric.THROUGHPUT, coarse)
    assert isinstance(found, MeasuredValue)
    assert found.margin == 0.03


def test_real_data_are_told() -> None:
    real = replace(plan(comparison("workers")), data={"leak": "real data; 3 files"})
    one = Look(run="r", resolution=TRIED, trial=trials(real, records(0, 1.75))[0])
    basis = find(claim(), "leak", [one]).basis
    assert basis is not None
    assert basis.data == "real data; 3 files"


def test_what_is_undecided_says_how_many_restarts_would_decide() -> None:
    found = judged(claim(), records(0, 1.505))
    assert found.claim_verdict is ClaimVerdict.UNDECIDED
    assert found.words.startswith("about ")
    assert found.words.endswith(" replicates would decide, 2 were made")


def test_replicates_that_would_decide_are_as_many_as_the_least_spread_asks_for() -> None:
    """As `replicates_to_decide` counts them: however well processes agree, none is believed below it."""
    found = records(0, 1.505)
    made = plan(comparison("workers"))
    fine, coarse = (
        find(
            claim(),
            "leak",
            [Look(run="r", resolution=TRIED, trial=trials(made, found, Thresholds(least_spread=one))[0])],
        )
        for one in (0.009, 0.09)
    )
    gap = math.log(1.505 / 1.5)
    assert fine.words.startswith(f"about {math.ceil((narrowest(Thresholds()) / gap) ** 2)} replicates would decide")
    assert coarse.words.startswith("too close to call")
    assert (seen := coarse.measured_value) is not None
    assert seen.least == pytest.approx(10 * narrowest(Thresholds()))


def test_a_claim_that_nobody_can_test_and_one_that_cannot_be_tested_here() -> None:
    assert judged(claim(untestable="an absolute rate", treatment=""), None).words == "an absolute rate"
    assert judged(claim(untestable="an absolute rate", treatment=""), None).claim_verdict is ClaimVerdict.UNTESTABLE
    found = judged(claim(), None, Untried(reason="needs a CUDA device"))
    assert (found.claim_verdict, found.words) == (ClaimVerdict.NOT_TESTABLE_HERE, "needs a CUDA device")


def test_what_is_not_measured_says_by_what_it_would_be() -> None:
    for found in (None, records(0, 1.7, replicates=1), []):
        finding = judged(claim(), found)
        assert (finding.claim_verdict, finding.words) == (
            ClaimVerdict.NOT_MEASURED,
            "speedmatrix run leak --design claims",
        )


def test_a_failure_and_what_did_not_engage_decide_nothing() -> None:
    lost = Lost(arm=arm(0, 0, 1), outcome="failed", reason="out of memory")
    found = judged(claim(), [*records(0, 1.7), lost])
    assert found.claim_verdict is ClaimVerdict.NO_RESULT
    assert "out of memory" in found.words
    found = judged(claim(), records(0, 1.7, inactive=("workers is 0, not 2",)))
    assert found.claim_verdict is ClaimVerdict.NO_RESULT
    assert "workers is 0, not 2" in found.words


def test_a_disturbed_machine_withholds_its_verdict() -> None:
    found = records(0, 1.75)
    slow = [
        replace(one, wall_s=2 * one.wall_s)
        if isinstance(one, Window) and one.arm.position == 0 and one.order % 4 == 0
        else one
        for one in found
    ]
    finding = judged(claim(), slow)
    assert finding.claim_verdict is ClaimVerdict.NO_RESULT
    assert finding.words.startswith("the machine was too disturbed")
    assert finding.measured_value is None


def test_a_ratio_that_an_emulated_devices_table_decides_is_no_result() -> None:
    (made,) = trials(plan(comparison("set_to_none")), records(0, 1.75), emulated=True)
    tried = replace(TRIED, treatment=(Option(name="set_to_none"),))
    finding = find(claim(), "leak", [Look(run="r", resolution=tried, trial=made)])
    assert finding.claim_verdict is ClaimVerdict.NO_RESULT
    assert finding.words.startswith("no verdict: its device's table")
    assert on_emulated(finding).claim_verdict is ClaimVerdict.NO_RESULT


def test_a_gain_that_learns_otherwise_says_so() -> None:
    found = judged(claim(), records(0, 1.75, **BAD_SCORE))
    assert found.claim_verdict is ClaimVerdict.CONFIRMED
    assert "but its quality differs: losses differ from step 2" in found.words


def test_a_switch_with_nothing_to_act_on_says_so() -> None:
    tried = replace(TRIED, treatment=(Option(name="chunk_cache"),))
    one = Look(run="r", resolution=tried, trial=trial(records(0, 1.0), "chunk_cache"))
    finding = find(claim(Bound.GAIN), "leak", [one])
    assert finding.claim_verdict is ClaimVerdict.NO_EFFECT
    assert "chunk_cache has nothing to act on: layout contiguous" in finding.words


def test_the_newest_run_with_an_estimate_decides() -> None:
    failed = [*records(0, 1.7), Lost(arm=arm(0, 0, 1), outcome="failed", reason="out of memory")]
    looks = [look(None, "r4"), look(failed, "r3"), look(records(0, 1.2), "r2"), look(records(0, 1.7), "r1")]
    found = find(claim(), "leak", looks)
    assert found.basis is not None
    assert (found.claim_verdict, found.basis.run) == (ClaimVerdict.OVERSTATED, "r2")
    found = find(claim(), "leak", looks[:2])
    assert found.basis is not None
    assert (found.claim_verdict, found.basis.run) == (ClaimVerdict.NO_RESULT, "r3")


def test_several_runs_decide_by_their_average() -> None:
    looks = [look(records(0, ratio, replicates=6), f"r{ratio}") for ratio in (1.2, 1.7)]
    (alone, _), found = [find(claim(), "leak", [one]) for one in looks], find(claim(), "leak", looks)
    assert found.basis is not None
    assert found.measured_value is not None
    assert alone.measured_value is not None
    assert found.basis.runs == 2
    assert found.measured_value.replicates == 12
    assert alone.measured_value.value < found.measured_value.value < 1.7


def test_of_two_answers_the_one_with_more_replicates_decides() -> None:
    found = find(claim(), "leak", [look(records(0, 1.2), "r2"), look(records(0, 1.7, replicates=4), "r1")])
    assert found.basis is not None
    assert (found.claim_verdict, found.basis.run) == (ClaimVerdict.CONFIRMED, "r1")


def test_arms_that_shared_a_process_do_not_decide_before_isolated_ones() -> None:
    shared, isolated = look(records(0, 1.2, replicates=4), "r2"), look(records(0, 1.7), "r1")
    assert shared.trial is not None
    assert isinstance(shared.trial.result, Estimate)
    shared = replace(shared, trial=replace(shared.trial, result=replace(shared.trial.result, shared=True)))
    runs = [
        one.basis.run
        for one in (find(claim(), "leak", [shared, isolated]), find(claim(), "leak", [shared]))
        if one.basis
    ]
    assert runs == ["r1", "r2"]


def test_another_environment_or_a_disturbed_machine_does_not_decide_by_more_replicates() -> None:
    more = look(records(0, 1.2, replicates=6), "r1")
    newest = replace(look(records(0, 1.7), "r2"), made_in="another")
    found = find(claim(), "leak", [newest, more])
    assert found.basis is not None
    assert found.basis.run == "r2"


def test_a_run_with_another_batch_tests_it_otherwise() -> None:
    workload = read_catalogue(ledger=False).workload("leak")
    one = look(records(0, 1.7), "r1")
    assert one.trial is not None
    resolved = as_timed(claim(), TRIED, one.trial, workload)
    assert isinstance(resolved, Tried)
    smaller = "with a step of size quick, smaller than the real system's"
    assert resolved.shortfalls == ("in batches of 64 in place of 256", smaller)


def test_a_newer_loss_that_became_nan_decides_about_quality_and_not_about_speed() -> None:
    broken = records(0, 1.7, losses=(2.3, float("nan"), 1.9))
    looks = [look(broken, "r2"), look(records(0, 1.7), "r1")]
    quality, speed = (find(one, "leak", looks) for one in (claim(Bound.FREE, Metric.QUALITY), claim()))
    assert quality.basis is not None
    assert (quality.claim_verdict, quality.basis.run) == (ClaimVerdict.HARMFUL, "r2")
    assert speed.basis is not None
    assert (speed.claim_verdict, speed.basis.run) == (ClaimVerdict.CONFIRMED, "r1")


@pytest.mark.parametrize(
    ("start", "status", "loss"),
    [
        ({}, ClaimVerdict.CONFIRMED, ClaimVerdict.NO_EFFECT),
        (BAD_SCORE, ClaimVerdict.HARMFUL, ClaimVerdict.CONFIRMED),
        ({"losses": (2.3, float("nan"), 1.9)}, ClaimVerdict.HARMFUL, ClaimVerdict.CONFIRMED),
        ({"losses": (2.3,)}, ClaimVerdict.UNDECIDED, ClaimVerdict.UNDECIDED),
    ],
)
def test_quality(start: dict[str, Any], status: ClaimVerdict, loss: ClaimVerdict) -> None:
    found = records(0, 1.2, **start)
    assert judged(claim(Bound.FREE, Metric.QUALITY), found).claim_verdict is status
    assert judged(claim(Bound.LOSS, Metric.QUALITY), found).claim_verdict is loss
    assert judged(claim(Bound.FREE, Metric.QUALITY), found).words
    gain = ClaimVerdict.NO_EFFECT if status is ClaimVerdict.CONFIRMED else status
    assert judged(claim(Bound.GAIN, Metric.QUALITY), found).claim_verdict is gain, "the same losses are no gain"


def test_a_reference_whose_loss_became_nan_refutes_nothing() -> None:
    nan = (2.3, float("nan"), 1.9)
    found = [
        replace(one, losses=nan) if isinstance(one, Ready) and not one.arm.position else one for one in records(0, 1.7)
    ]
    finding = judged(claim(Bound.FREE, Metric.QUALITY), found)
    assert finding.claim_verdict is ClaimVerdict.UNDECIDED
    assert finding.words.startswith("the reference's loss is not a finite number")


def test_what_changes_the_task_is_not_judged_by_its_losses() -> None:
    tried = replace(TRIED, treatment=(Option(name="augment"),))
    one = Look(run="r", resolution=tried, trial=trial(records(0, 1.0), "augment"))
    finding = find(claim(Bound.FREE, Metric.QUALITY), "leak", [one])
    assert (finding.claim_verdict, finding.words) == (ClaimVerdict.UNDECIDED, "changes what is learned")


def test_memory_is_compared_by_restart_and_less_is_better() -> None:
    found = changed(changed(records(0, 1.0), 0, host_peak_bytes=400), 1, host_peak_bytes=500)
    value = measure(Metric.HOST_MEMORY, trial(found))
    assert isinstance(value, MeasuredValue)
    assert value.value == pytest.approx(0.8)
    assert (value.df, value.least) == (1, pytest.approx(narrowest(Thresholds())))
    assert 0.78 < value.low < 0.8 < value.high < 0.82  # two replicates that agree by luck are not believed to the bit
    assert judged(claim(Bound.LOSS, Metric.HOST_MEMORY), found).claim_verdict is ClaimVerdict.CONFIRMED
    old = changed(changed(found, 0, host_peak_bytes=None), 1, host_peak_bytes=None)
    assert (
        judged(claim(Bound.LOSS, Metric.HOST_MEMORY), old).claim_verdict is ClaimVerdict.NOT_MEASURED
    )  # it knows no peak
    found = changed(changed(records(0, 1.0), 0, device_bytes=900), 1, device_bytes=600)
    assert (
        judged(claim(Bound.RANGE, Metric.DEVICE_MEMORY, low=1.4, high=1.6), found).claim_verdict
        is ClaimVerdict.CONFIRMED
    )


def test_memory_that_was_not_seen_decides_nothing() -> None:
    found = judged(claim(Bound.GAIN, Metric.DEVICE_MEMORY), records(0, 1.0))
    assert (found.claim_verdict, found.words) == (
        ClaimVerdict.NOT_MEASURED,
        "device memory was not recorded in two replicates",
    )


def test_a_start_that_took_no_time_has_no_ratio() -> None:
    found = [replace(one, build_s=0.0, first_step_s=0.0) if isinstance(one, Ready) else one for one in records(0, 2.0)]
    assert measure(Metric.START_UP, trial(found)) == "start-up was not recorded in two replicates"


def test_arms_that_began_in_a_warm_process_have_no_start_up() -> None:
    found = [replace(one, arm=replace(one.arm, shared=True)) for one in records(0, 2.0)]
    assert measure(Metric.START_UP, trial(found)) == "start-up was not recorded in two replicates"


def test_start_up_is_that_of_each_restarts_first_life() -> None:
    found = [
        replace(one, build_s=0.0, first_step_s=(4.0 if one.arm.position else 2.0) if one.arm.attempt == 0 else 0.1)
        if isinstance(one, Ready)
        else one
        for one in records(0, 1.0)
    ]
    warm = [replace(one, arm=replace(one.arm, attempt=1)) for one in found if isinstance(one, Ready)]
    value = measure(Metric.START_UP, trial([*found, *(replace(one, first_step_s=0.1) for one in warm)]))
    assert isinstance(value, MeasuredValue)
    assert value.value == pytest.approx(0.5)


def test_a_devices_share_is_of_the_treatment_alone_and_at_most_the_span_of_its_steps() -> None:
    found = changed(changed(records(0, 1.0), 0, device_s=0.0), 1, device_s=3.2, wall_s=6.4)
    value = measure(Metric.DEVICE_SHARE, trial(found))
    assert isinstance(value, MeasuredValue)
    assert (value.value, value.low) == (pytest.approx(0.5), 0.0)
    upper = claim(metric=Metric.DEVICE_SHARE, bound=Bound.UP_TO, low=None, high=0.6)
    assert judged(upper, found).claim_verdict is ClaimVerdict.CONFIRMED
    least = claim(metric=Metric.DEVICE_SHARE, bound=Bound.AT_LEAST, low=0.4)
    for one in (claim(metric=Metric.DEVICE_SHARE, low=0.4, high=0.6), least):
        finding = judged(one, found)
        assert finding.claim_verdict is ClaimVerdict.UNDECIDED
        assert finding.words == "a share that is known by an upper bound alone cannot confirm it"
    near = judged(claim(metric=Metric.DEVICE_SHARE, bound=Bound.UP_TO, low=None, high=0.501), found)
    assert near.words.endswith(" replicates would decide, 2 were made"), "more would bring the bound down"
    assert judged(claim(metric=Metric.DEVICE_SHARE, low=0.8, high=0.9), found).claim_verdict is ClaimVerdict.OVERSTATED
    unseen = judged(claim(metric=Metric.DEVICE_SHARE, low=0.8, high=0.9), records(0, 1.0))
    assert (unseen.claim_verdict, unseen.words) == (ClaimVerdict.NOT_MEASURED, "no device times were recorded")
    nothing = judged(claim(metric=Metric.DEVICE_SHARE, low=0.6, high=0.8), changed(records(0, 1.0), 1, device_s=0.0))
    assert nothing.claim_verdict is ClaimVerdict.NOT_MEASURED


def test_a_comparison_is_found_by_its_stacks_and_what_it_was_timed_on() -> None:
    one, other = comparison("workers"), comparison("workers", timing=Timing.EVALUATION)
    made = trials(plan(one, other, comparison("amp")), [*records(0, 1.2), *records(2, 1.3)])
    assert matching(TRIED, "leak", made) is made[0]
    assert matching(replace(TRIED, timing=Timing.EVALUATION), "leak", made) is made[1]
    assert matching(replace(TRIED, timing=Timing.LOADER), "leak", made) is None
    assert matching(TRIED, "speaker", made) is None
    assert matching(Untried(reason="x"), "leak", made) is None


def test_of_two_equal_comparisons_the_one_with_an_estimate_is_taken() -> None:
    made = trials(plan(comparison("workers"), replace(comparison("workers"), copy=1)), records(1, 1.2))
    assert matching(TRIED, "leak", made) is made[1]


def emulated(ratio: float, size: str = "standard", **facts: Any) -> Finding:
    found = judged(claim(**facts), records(0, ratio))
    assert found.basis is not None
    return on_emulated(replace(found, basis=replace(found.basis, config=replace(found.basis.config, size=size))))


@pytest.mark.parametrize(
    ("ratio", "word"),
    [
        (1.75, ClaimVerdict.HOLDS_EMULATED),
        (1.0, ClaimVerdict.TESTED_OTHERWISE),  # a longer step, which the table may have, hides a loader
        (0.8, ClaimVerdict.TESTED_OTHERWISE),  # and gives workers something to hide behind
    ],
)
def test_an_emulated_device_has_verdicts_of_its_own(ratio: float, word: ClaimVerdict) -> None:
    found = emulated(ratio, bound=Bound.GAIN)
    assert found.claim_verdict is word
    assert found.claim_verdict not in {*REFUTED, ClaimVerdict.CONFIRMED}
    assert found.measured_value is not None


def test_a_claim_that_fails_on_an_emulated_device_says_how() -> None:
    assert emulated(1.0, bound=Bound.GAIN).words.startswith("the device's step time comes from a table, and beside")
    assert "beside another one it may gain" in emulated(0.8, bound=Bound.GAIN).words
    harmful = judged(claim(bound=Bound.GAIN), records(0, 0.8))
    assert harmful.basis is not None
    basis = replace(harmful.basis, config=replace(harmful.basis.config, size="standard"))
    found = on_emulated(replace(harmful, claim=claim(bound=Bound.GAIN, treatment="direct_collate"), basis=basis))
    assert (found.claim_verdict, found.words) == (ClaimVerdict.FAILS_EMULATED, "harmful")


@pytest.mark.parametrize("ratio", [1.75, 4.0, 1.2])
def test_a_table_is_too_rough_for_a_figure(ratio: float) -> None:
    found = emulated(ratio)
    assert found.claim_verdict is ClaimVerdict.TESTED_OTHERWISE
    assert "too rough for a figure" in found.words
    assert emulated(1.505).claim_verdict is ClaimVerdict.UNDECIDED


def test_at_another_size_an_emulated_step_is_not_that_of_the_claim() -> None:
    found = emulated(1.75, size="quick", bound=Bound.GAIN)
    assert found.claim_verdict is ClaimVerdict.TESTED_OTHERWISE
    assert found.words == "the device's step is not that of size standard"


@pytest.mark.parametrize(
    "facts", [{"metric": Metric.START_UP}, {"metric": Metric.DEVICE_SHARE}, {"timing": Timing.EVALUATION}]
)
def test_an_emulated_device_tells_nothing_else(facts: dict[str, Any]) -> None:
    found = emulated(1.75, **facts) if "timing" in facts else on_emulated(judged(claim(**facts), records(0, 1.75)))
    assert found.claim_verdict is ClaimVerdict.NOT_TESTABLE_HERE
    assert found.measured_value is None
