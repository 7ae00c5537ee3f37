import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from harness.analyze.evidence import numerics, proved
from harness.analyze.matrix import UNCALIBRATED, Row, build_matrix
from harness.analyze.search.winner import spoilt_losses
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import Verdict
from harness.core.configuration import Comparison
from harness.core.mistake import Mistake
from harness.core.optimization import LEVEL, Numerics, Optimization, Promise, Stage, Timing, promises
from harness.core.plan import Block, NoResult
from harness.core.records import Arm, Lost, Ready, Record, Window
from harness.report.matrix import heading
from tests.analyze.simulate_moderation import METHODS, moderated
from tests.analyze.synthetic import (
    ENVIRONMENT,
    KNOWN,
    STARTS,
    arm,
    comparison,
    config,
    matrix,
    plan,
    ready,
    records,
    story,
    told,
    windows,
)

WORKERS = comparison("workers")


def only(found: list[Record], one: Comparison = WORKERS, replicates: int = 2) -> Row:
    (row,) = matrix(plan(one, replicates=replicates), found).rows
    return row


def absent(found: list[Record], one: Comparison = WORKERS) -> Absence:
    row = only(found, one)
    assert row.estimate is None
    assert row.absence is not None
    return row.absence


def lost(owner: Arm, outcome: str, reason: str = "out of memory") -> Lost:
    return Lost(arm=owner, outcome=outcome, reason=reason)


def in_attempt(one: Record, attempt: int) -> Record:
    return replace(one, arm=replace(one.arm, attempt=attempt))


def test_a_known_ratio_comes_back_with_everything_beside_it() -> None:
    row = only(records(0, 3.0, **STARTS["workers"]))
    assert row.estimate is not None
    assert row.estimate.ratio == pytest.approx(3.0)
    assert (row.estimate.pairs, row.estimate.processes, row.estimate.verdict) == (8, 2, Verdict.FASTER)
    assert (row.label, row.reference_name, row.notes) == ("workers", "baseline", ())
    assert row.loader_ratio == pytest.approx(400 / 125)  # the reference waits for 80 % of its time
    assert row.treatment is not None
    assert row.treatment.facts == {"layout": "contiguous", "workers": 2}
    assert row.treatment.host_bytes > 0


def test_a_cell_against_itself_is_exactly_one() -> None:
    itself = Comparison(label="baseline", treatment=config(), reference=config(), timing=Timing.STEP, copy=2)
    row = only(records(0, 1.0), itself)
    assert row.estimate is not None
    assert row.estimate.ratio == 1.0
    assert row.estimate.low * row.estimate.high == pytest.approx(1.0)
    assert (row.label, row.reference_name) == ("baseline (3)", "baseline")


def test_facts_tell_why_a_chunk_cache_does_nothing() -> None:
    row = only(records(0, 1.0, **STARTS["chunk_cache"]), comparison("chunk_cache"))
    assert row.treatment is not None
    assert row.treatment.facts == {"layout": "contiguous", "chunk_cache_bytes": 33_554_432}
    assert row.notes == ("chunk_cache has nothing to act on: layout contiguous, it has no chunks",)


def test_what_has_something_to_act_on_is_not_called_pointless() -> None:
    chunked = {"layout": "chunked", "chunk_cache_bytes": 33_554_432}
    assert only(records(0, 1.2, effective=chunked), comparison("chunk_cache")).notes == ()
    assert only(records(0, 1.2, **STARTS["chunk_cache"]), WORKERS).notes == ()


def test_the_same_interval_comes_out_of_a_second_computation() -> None:
    rows = [row for row in story().tables[0].rows if row.estimate]
    pool = {row.label: row.estimate for row in rows if row.estimate}
    means = np.array([replicate_means(index) for index in range(5)])
    variances, freedom = moderated(means.var(axis=1, ddof=1)[None], 1.0, METHODS[3])
    half_widths = stats.t.ppf(0.975, freedom[0]) * np.sqrt(variances[0] / 2)
    for index, name in enumerate(STARTS):
        assert math.log(pool[name].ratio) == pytest.approx(means[index].mean())
        assert math.log(pool[name].high / pool[name].ratio) == pytest.approx(half_widths[index], rel=1e-5)


def replicate_means(index: int) -> list[float]:
    """Log ratios of the story's first comparisons, from the seconds of its windows alone."""
    own = [one for one in told() if isinstance(one, Window) and one.arm.block == str(index)]
    return [of_totals([one for one in own if one.arm.replicate == replicate]) for replicate in (0, 1)]


def of_totals(windows: list[Window]) -> float:
    """Each treatment window stands halfway between two of the reference; all hold as many samples."""
    took = [one.wall_s for one in sorted(windows, key=lambda one: one.order)]
    theirs = sum((before + after) / 2 for before, after in pairwise(took[::2]))
    return math.log(theirs / sum(took[1::2]))


def test_nothing_measured_yet_has_words() -> None:
    assert absent([]).words == "not measured yet: run the same command again to continue"


def test_one_restart_is_a_hole_with_words() -> None:
    found = absent(records(0, 2.0, replicates=1))
    assert (found.outcome, found.words) == (Outcome.ONE_REPLICATE, "one replicate only: run again to add the second")


def test_what_did_not_engage_is_never_a_ratio() -> None:
    found = absent(records(0, 2.0, inactive=("workers is 0, not 2",)))
    assert (found.outcome, found.words) == (Outcome.NOT_ACTIVE, "not active: workers is 0, not 2")


def test_one_unengaged_restart_is_enough() -> None:
    found = records(0, 2.0)
    bad = ready(arm(0, 1, 1), inactive=("workers is 0, not 2",))
    kept = [one for one in found if not (isinstance(one, Ready) and one.arm == bad.arm)]
    assert absent([*kept, bad]).outcome is Outcome.NOT_ACTIVE


def test_a_reference_that_did_not_engage_gives_no_ratio_either() -> None:
    found = [one for one in records(0, 2.0) if not (isinstance(one, Ready) and one.arm.position == 0)]
    found += [ready(arm(0, replicate, 0), inactive=("tf32 is True, not False",)) for replicate in (0, 1)]
    assert absent(found).words == "not active: in the reference tf32 is True, not False"


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_lost_arm_is_words_even_after_a_whole_restart(outcome: str) -> None:
    found = absent([*records(0, 2.0), lost(arm(0, 1, 1), outcome)])
    assert found.words == f"{outcome}: out of memory (replicate 2)"


def test_a_lost_reference_is_named() -> None:
    assert absent([lost(arm(0, 0, 0), "failed")]).words == "failed: the reference: out of memory (replicate 1)"


def test_a_failure_is_not_forgotten_when_a_later_life_continues_without_the_arm() -> None:
    later: list[Record] = [
        ready(arm(0, 0, 0, attempt=1)),
        *(one for one in windows(0, 0, 1.0, attempt=1) if one.arm.position == 0),
    ]
    assert absent([*records(0, 2.0), lost(arm(0, 0, 1), "failed"), *later]).outcome is Outcome.FAILED


def test_an_interrupted_run_can_be_continued() -> None:
    stopped: list[Record] = [ready(arm(0, 0, 0)), lost(arm(0, 0, 1), "interrupted", "stopped by the user")]
    assert absent(stopped).words == "interrupted: stopped by the user; run the same command again to continue"
    again: list[Record] = [*stopped, lost(arm(0, 0, 1, attempt=1), "interrupted", "ended by SIGKILL")]
    assert absent(again).words == "interrupted: ended by SIGKILL, 2 times; run the same command again to continue"
    continued: list[Record] = [*stopped, *(in_attempt(one, 1) for one in records(0, 2.0))]
    assert only(continued).estimate is not None


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_broken_loss_is_a_failure(loss: float) -> None:
    found = absent(records(0, 2.0, losses=(2.3, loss, 1.0)), comparison("augment"))
    assert found.words == "failed: the treatment's loss is not a finite number from step 2 on"


def test_a_broken_loss_of_the_reference_fails_no_treatment_and_spoils_none() -> None:
    nan = (2.3, math.nan, 1.0)
    found = only(
        [
            replace(one, losses=nan) if isinstance(one, Ready) and not one.arm.position else one
            for one in records(0, 2.0)
        ]
    )
    assert found.estimate is not None
    assert "quality not judged: the reference's loss is not a finite number from step 2 on" in found.notes
    assert not spoilt_losses(found)


def test_different_batches_are_never_compared() -> None:
    bigger = replace(WORKERS, treatment=config("workers", batch=128))
    found = absent(records(0, 2.0), bigger)
    assert found.words == "not comparable: 128 samples a step against 64"


def test_an_unknown_outcome_is_a_bug_and_not_a_word() -> None:
    with pytest.raises(ValueError, match="vanished"):
        absent([lost(arm(0, 0, 1), "vanished")])


def test_notes_say_what_weakens_an_estimate() -> None:
    found = records(0, 2.0, steady=False, losses=(2.3, 2.1, 1.8))
    row = only(found, replicates=3)
    assert row.notes == (
        "2 of 3 replicates so far",
        "not settled when its warm-up ended",
        "quality differs: losses differ from step 3 by 0.1",
    )


def test_replicates_that_are_missing_are_those_of_the_block() -> None:
    """A first look times whole steps in more replicates than the protocol has."""
    planned = plan(WORKERS, comparison("amp"))
    planned = replace(planned, blocks=(replace(planned.blocks[0], replicates=4), planned.blocks[1]))
    found = matrix(planned, [*records(0, 2.0), *records(1, 2.0)]).rows
    assert {row.label: "2 of 4 replicates so far" in row.notes for row in found} == {"workers": True, "amp": False}
    assert not any("of 2 replicates" in note for row in found for note in row.notes)


def test_a_disturbed_machine_is_said_and_not_judged() -> None:
    def shaken(one: Record) -> Record:
        return replace(one, wall_s=one.wall_s * (1.5 if one.order % 4 < 2 else 1)) if isinstance(one, Window) else one

    row = only([shaken(one) for one in records(0, 3.0)])
    assert row.estimate is not None
    assert row.estimate.verdict is Verdict.DISTURBED
    assert "the machine was too disturbed: the reference's own rate changed by 41 %" in row.notes[0]


def test_wild_and_spiked_cells_are_noted() -> None:
    calm = [replace(comparison("pin_memory"), copy=copy) for copy in range(12)]
    found: list[Record] = []
    for index in range(13):
        for replicate in (0, 1):
            shift = (1.0 + 0.01 * replicate) if index else (1.0 + 2.0 * replicate)
            found += [ready(arm(index, replicate, 0)), ready(arm(index, replicate, 1))]
            found += windows(index, replicate, shift)
    noted = {row.label: row.notes for row in matrix(plan(WORKERS, *calm), found).rows}
    assert noted.pop("workers") == ("its replicates disagree more than those of its neighbours: add replicates",)
    assert not any(noted.values())


def test_windows_that_carry_much_of_the_time_are_noted() -> None:
    """Every fifth window of the treatment takes three times as long; a mean that trims pairs sees none of them."""
    found: list[Record] = []
    for replicate in (0, 1):
        found += [ready(arm(0, replicate, 0)), ready(arm(0, replicate, 1))]
        for one in windows(0, replicate, 1.0, rounds=20):
            slow = one.order % 10 == 5
            found.append(replace(one, wall_s=3 * one.wall_s) if slow else one)
    row = only(found)
    assert row.estimate is not None
    assert row.estimate.ratio == pytest.approx(20 / 28)
    assert any(note.endswith("a mean that leaves out the extreme ones would say 1.00x") for note in row.notes)


def test_what_was_left_out_is_counted_and_said_why() -> None:
    found = [
        replace(one, others=0.5 if one.order == 3 else 0.0) if isinstance(one, Window) else one
        for one in records(0, 1.0)
    ]
    assert only(found).notes == ("windows left out: 2 of 18, other processes took the cores (2)",)


def test_evaluation_is_judged_by_its_score_as_well() -> None:
    one = comparison("workers", timing=Timing.EVALUATION)
    row = only(records(0, 4.0, timing=Timing.EVALUATION, score=0.1), one)
    assert row.quality is not None
    assert row.quality.sentence == "after the first steps it scores 0.1, the reference 0.5"


def test_bursts_of_another_timing_do_not_mix_in() -> None:
    row = only(records(0, 4.0, timing=Timing.EVALUATION))
    assert row.absence is not None
    assert row.absence.outcome is Outcome.NOT_MEASURED


def test_tables_part_by_reference_and_timing_and_sort_by_ratio() -> None:
    found = story()
    assert [(table.timing, table.name) for table in found.tables] == [
        (Timing.STEP, "baseline"),
        (Timing.EVALUATION, "baseline"),
    ]
    ratios = [row.estimate.ratio for row in found.tables[0].rows if row.estimate]
    assert ratios == sorted(ratios, reverse=True)
    assert (found.looked_at, len(found.rows), len(found.no_results)) == (6, 11, 2)
    assert (found.seed, found.design, found.noise) == (7, "singles", UNCALIBRATED)


def test_every_row_has_a_ratio_or_words_and_never_both() -> None:
    for row in story().rows:
        assert (row.estimate is None) != (row.absence is None)
        assert row.absence is None or row.absence.words.strip()


def test_comparisons_of_one_block_share_a_reference_that_counts_once() -> None:
    first, second = comparison("workers"), comparison("amp")
    block = Block(identity="0", reference=config(), timing=Timing.STEP, comparisons=(first, second))
    shared = replace(plan(first, second), blocks=(block,))
    found = records(0, 2.0)
    (table,) = matrix(shared, found).tables
    assert table.profile is not None
    assert table.profile.rate == pytest.approx(100)
    assert [row.estimate is not None for row in table.rows] == [True, False]


def test_a_reference_is_called_as_the_plan_calls_it() -> None:
    found_stack, whole = config("workers", "amp"), config("workers", "amp", "pin_memory")
    named = Comparison(label="original", treatment=found_stack, reference=config(), timing=Timing.STEP)
    against = Comparison(label="pin_memory", treatment=whole, reference=found_stack, timing=Timing.STEP)
    assert [table.name for table in matrix(plan(named, against), []).tables] == ["baseline", "original"]
    unnamed = replace(plan(against), names={})
    assert [table.name for table in matrix(unnamed, []).tables] == ["workers+amp"]


def test_promises_are_read_from_optimizations_and_the_loosest_counts() -> None:
    amp = Optimization(
        name="amp", title="", stage=Stage.DEVICE, numerics=Numerics.CLOSE, sets={}, proof={"b": LEVEL, "a": True}
    )
    assert promises([amp]) == {"amp": Promise(numerics=Numerics.CLOSE, proof=("a", "b"), pointless_where={})}
    assert numerics(comparison("amp", "workers"), KNOWN) is Numerics.CLOSE
    assert numerics(comparison("augment", "amp"), KNOWN) is Numerics.DIFFERENT
    assert numerics(comparison(), KNOWN) is Numerics.EXACT
    assert proved(config("workers", "amp"), KNOWN) == {"workers", "bfloat16_layers"}


def test_an_unknown_switch_is_a_mistake_with_a_remedy() -> None:
    with pytest.raises(Mistake, match=r"switches on 'novelty'.*restore run\.json\."):
        build_matrix(plan(comparison("novelty")), [], ENVIRONMENT)


def test_holes_of_the_plan_keep_their_words() -> None:
    no_result = NoResult(workload="leak", label="compile", reason="needs a C++ compiler (g++)")
    assert matrix(plan(WORKERS, no_results=(no_result,)), []).no_results == (no_result,)


def test_copies_of_the_reference_are_known_apart_and_counted() -> None:
    itself = Comparison(label="itself", treatment=config(), reference=config(), timing=Timing.STEP, copy=1)
    found = matrix(plan(itself), records(0, 1.0))
    (copy,) = found.copies
    assert copy.low <= 1 <= copy.high
    assert dict(heading(found))["copies"].startswith(
        "1 of 1 intervals of a reference against itself contain 1.00x (median ±"
    )
    assert "copies" not in dict(heading(matrix(plan(WORKERS), records(0, 3.0, **STARTS["workers"]))))


def test_what_a_table_decides_gets_no_verdict() -> None:
    """The step alone of an emulated device: its time is worked out, and only a loader beside it is measured."""
    environment = replace(ENVIRONMENT, device="emulated:a100", accelerator="emulated A100")
    alone, loads = (comparison("workers", timing=one) for one in (Timing.COMPUTE, Timing.LOADER))
    dropped = comparison("set_to_none", timing=Timing.STEP)
    found = [*records(0, 1.5, timing=Timing.COMPUTE), *records(1, 1.5, timing=Timing.LOADER), *records(2, 1.5)]
    rows = {row.comparison.timing: row for row in build_matrix(plan(alone, loads, dropped), found, environment).rows}
    verdicts = {timing: row.estimate.verdict for timing, row in rows.items() if row.estimate}
    undecided = dict.fromkeys((Timing.COMPUTE, Timing.STEP), Verdict.UNDECIDED)
    assert verdicts == undecided | {Timing.LOADER: Verdict.FASTER}, "launches last as the table says"
    assert any("nothing of it was measured" in note for note in rows[Timing.COMPUTE].notes)
    assert not any("calibrated" in note for note in rows[Timing.COMPUTE].notes), "the machine is not to blame"
    assert not any("nothing of it was measured" in note for note in rows[Timing.LOADER].notes)


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.0, Verdict.FASTER), (0.1, Verdict.FASTER), (0.32, Verdict.UNDECIDED)]
)
def test_a_stack_whose_verdict_rests_on_the_table_gets_none(share: float, verdict: Verdict) -> None:
    """Of 1.5x a third of the reference's step is gained: nothing is left where the table says that of both steps."""
    environment = replace(ENVIRONMENT, device="emulated:a100", accelerator="emulated A100")
    both, found = comparison("set_to_none", "workers"), records(0, 1.5, **STARTS["workers"])
    theirs = [one for one in found if isinstance(one, Window) and one.arm.position == 0]
    step_ms = 1000 * sum(one.wall_s for one in theirs) / sum(one.steps for one in theirs)
    told = [
        replace(one, effective={**one.effective, "emulated_step_ms": step_ms * (0.5 - share * (one.arm.position == 1))})
        if isinstance(one, Ready)
        else one
        for one in found
    ]
    (row,) = build_matrix(plan(both), told, environment).rows
    assert row.estimate is not None
    assert row.estimate.verdict is verdict
    assert row.estimate.looked_up == (verdict is Verdict.UNDECIDED)


@pytest.mark.parametrize("whole", [True, False])
def test_launches_within_a_step_that_is_named_by_its_time_gain_nothing(whole: bool) -> None:
    environment = replace(ENVIRONMENT, device="emulated:2ms", accelerator="emulated 2ms")
    both, found = comparison("set_to_none", "workers"), records(0, 1.5, **STARTS["workers"])
    theirs = [one for one in found if isinstance(one, Window) and one.arm.position == 0]
    step_ms = 1000 * sum(one.wall_s for one in theirs) / sum(one.steps for one in theirs)
    hosts = {0: step_ms, 1: 0.5 * step_ms}
    facts = {"emulated_step_ms": 0.1 * step_ms, "emulated_whole": whole}
    told = [
        replace(one, effective={**one.effective, **facts, "emulated_host_ms": hosts[one.arm.position]})
        if isinstance(one, Ready)
        else one
        for one in found
    ]
    (row,) = build_matrix(plan(both), told, environment).rows
    assert row.estimate
    assert row.estimate.looked_up != whole


def test_what_launching_takes_an_emulated_devices_host_is_told_of_its_arms() -> None:
    found = [
        replace(one, effective={**one.effective, "emulated_host_ms": 30.8}) if isinstance(one, Ready) else one
        for one in records(0, 2.0, **STARTS["workers"])
    ]
    (row,) = matrix(plan(WORKERS), found).rows
    assert row.reference
    assert row.reference.launching_s == pytest.approx(0.0308)
