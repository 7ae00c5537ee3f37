import math
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from harness.analyze.advice import Foremost, Item, Reason, Recommendation, Style, is_own_code, remedy, snippet
from harness.analyze.attribution import Gain, break_even, effects, start_up_s
from harness.analyze.composition import composed
from harness.analyze.estimate import (
    BY_WIDTH,
    FIXED,
    MOST_REPLICATES,
    Estimate,
    estimates,
    narrowest,
    replicates_for,
    replicates_to_decide,
)
from harness.analyze.evidence import Side
from harness.analyze.matrix import Row
from harness.analyze.quality import Agreement, Quality
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import Thresholds, Verdict, verdict
from harness.core.optimization import Stage, Timing
from harness.report.advice import _warnings, open_question, starts
from tests.analyze.advised import KNOWN, Made, advice_on, advised, item
from tests.analyze.synthetic import arm, comparison, config, pairs_of, ready, window
from tests.core.invented import optimization

DIFFERS = {"losses": (2.3, 2.9, 1.9)}


def test_gains_come_first_and_in_their_order() -> None:
    found = advice_on(
        Made(on=("pin_memory",), ratio=1.2), Made(on=("workers",), ratio=3.0), Made(on=("amp",), ratio=0.8)
    )
    assert [str(one.option) for one in found.items] == ["workers", "pin_memory", "amp"]
    assert [one.recommendation for one in found.items] == [
        Recommendation.SWITCH_ON,
        Recommendation.SWITCH_ON,
        Recommendation.LEAVE_OFF,
    ]


def test_the_combination_that_surely_gains_most_is_foremost_and_else_the_first_option() -> None:
    both = Made(on=("amp", "workers"), ratio=3.5)
    found = advice_on(Made(on=("workers",), ratio=3.0), Made(on=("amp",), ratio=1.2), both).foremost
    assert found is not None
    assert (found.label, found.treatment, found.reference) == ("amp+workers", config("amp", "workers"), config())
    assert found.gain.ratio == pytest.approx(3.5)
    evaluated = advice_on(Made(on=("workers",), ratio=2.0, timing=Timing.EVALUATION)).foremost
    assert evaluated is not None
    assert (evaluated.label, evaluated.treatment) == ("workers", config("workers"))
    assert advice_on(Made(on=("amp",), ratio=0.8)).foremost is None


def test_a_faster_combination_whose_losses_differ_is_not_foremost() -> None:
    alike = Made(on=("pin_memory", "workers"), ratio=2.0)
    differing = Made(on=("amp", "workers"), ratio=3.5, start=DIFFERS)
    both = advice_on(Made(on=("workers",), ratio=1.5), alike, differing)
    assert "amp+workers" in {one.best.rows[-1].label for one in both.ready_made if one.best}
    assert both.foremost
    assert both.foremost.label == "pin_memory+workers"


def test_an_option_that_this_version_does_not_know_promises_what_the_run_has_kept() -> None:
    made = (
        Made(on=("augment",), ratio=3.0),
        Made(on=("augment", "workers"), ratio=4.0),
        Made(on=("workers",), ratio=1.2),
    )
    for unknown in ("augment", "workers"):
        known = {name: one for name, one in KNOWN.items() if name != unknown}
        found = advised(*made, known=known).workloads[0]
        assert item(found, "augment").rule.reason is Reason.CHANGES_TASK
        best = {one.style: one.best.label for one in found.ready_made if one.best}
        assert best[Style.FASTEST] == best[Style.REPRODUCIBLE] == "workers"
        assert found.foremost
        assert found.foremost.label == "workers"


@pytest.mark.parametrize(
    ("made", "recommendation"),
    [
        (Made(on=("workers",), ratio=1.5), Recommendation.SWITCH_ON),
        (Made(on=("workers",), ratio=0.7), Recommendation.LEAVE_OFF),
        (Made(on=("workers",), ratio=1.0), Recommendation.NO_EFFECT),
        (Made(on=("workers",), ratio=1.018), Recommendation.UNDECIDED),
        (Made(on=("workers",), ratio=1.5, start=DIFFERS), Recommendation.WITH_WARNING),  # EXACT, and other losses
        (Made(on=("augment",), ratio=1.5), Recommendation.WITH_WARNING),  # changes what is learned
    ],
)
def test_every_verdict_has_its_advice(made: Made, recommendation: Recommendation) -> None:
    assert item(advice_on(made), made.on[0]).recommendation is recommendation


@pytest.mark.parametrize(
    ("made", "margin", "reason"),
    [
        (Made(on=("workers",), ratio=1.5), 0.01, Reason.FASTER),
        (Made(on=("workers",), ratio=1.02), math.inf, Reason.TOO_WIDE),
        (Made(on=("workers",), ratio=1.5), math.inf, Reason.WITHHELD),
        (Made(on=("workers",), ratio=1.5, start=DIFFERS), 0.01, Reason.QUALITY_NOT_SHOWN),
        (Made(on=("augment",), ratio=1.5), 0.01, Reason.CHANGES_TASK),
        (Made(on=("workers",), ratio=0.7), 0.01, Reason.SLOWER),
    ],
)
def test_every_recommendation_has_the_reason_of_its_rule(made: Made, margin: float, reason: Reason) -> None:
    assert item(advice_on(made, margin=margin), made.on[0]).rule.reason is reason


def test_a_disturbed_machine_gives_no_advice() -> None:
    shaken = [window(arm(0, replicate), 2 * order + 20, rate) for replicate in range(2) for order, rate in _shaken()]
    found = advised(Made(on=("workers",), ratio=2.0), extra=shaken).workloads[0]
    assert item(found, "workers").effect.estimate.disturbed
    assert item(found, "workers").recommendation is Recommendation.NO_ADVICE
    assert item(found, "workers").rule.reason is Reason.DISTURBED
    assert all(one.best is None and one.untried is None for one in found.ready_made)


def test_what_a_disturbed_machine_showed_of_all_others_switches_nothing_on() -> None:
    shaken = [window(arm(0, replicate), 2 * order + 20, rate) for replicate in range(2) for order, rate in _shaken()]
    without = Made(on=("amp",), over=("workers", "amp"), ratio=0.8)
    others = Made(on=("workers",), ratio=1.0), Made(on=("workers", "amp"), ratio=2.0)
    assert item(advice_on(without, *others), "workers").recommendation is Recommendation.SWITCH_ON
    found = item(advised(without, *others, extra=shaken).workloads[0], "workers")
    assert found.last is None
    assert found.recommendation is not Recommendation.SWITCH_ON


def _shaken() -> list[tuple[int, float]]:
    return [(order, 20.0 if order % 2 else 300.0) for order in range(12)]


def test_what_was_taken_away_is_turned_round() -> None:
    found = advice_on(Made(on=("workers", "amp"), ratio=3.0), Made(on=("amp",), over=("workers", "amp"), ratio=0.5))
    (workers,) = found.items
    assert str(workers.option) == "workers"
    assert workers.effect.turned
    assert workers.effect.gain.ratio == pytest.approx(2.0)
    assert workers.effect.verdict is Verdict.FASTER
    assert workers.recommendation is Recommendation.SWITCH_ON


def test_what_pays_only_beside_others_is_switched_on_and_ordered_by_its_share() -> None:
    found = advice_on(
        Made(on=("amp", "workers"), ratio=4.0),
        Made(on=("amp",), ratio=1.0),
        Made(on=("workers",), ratio=2.0),
    )
    amp = item(found, "amp")
    assert amp.last is not None
    assert amp.last.ratio == pytest.approx(2.0)
    assert amp.rule.reason is Reason.FASTER_LAST
    assert amp.recommendation is Recommendation.SWITCH_ON
    assert amp.worth == pytest.approx(math.log(2) / 2)


def test_a_gain_beside_others_must_leave_the_machines_margin_behind() -> None:
    made = (
        Made(on=("amp", "workers"), ratio=2.1),
        Made(on=("amp",), ratio=1.013),
        Made(on=("workers",), ratio=2.0),
    )
    for margin, recommendation in ((0.01, Recommendation.SWITCH_ON), (0.03, Recommendation.UNDECIDED)):
        amp = item(advice_on(*made, margin=margin), "amp")
        assert amp.effect.verdict is Verdict.UNDECIDED
        assert amp.recommendation is recommendation


def test_a_loss_beside_others_must_leave_the_machines_margin_behind() -> None:
    made = (
        Made(on=("pin_memory", "workers"), ratio=1.9),
        Made(on=("pin_memory",), ratio=1.5),
        Made(on=("workers",), ratio=2.0),
    )
    found = advice_on(*made, margin=0.01)
    hurts = item(found, "pin_memory")
    assert hurts.last_verdict is Verdict.SLOWER
    assert (hurts.recommendation, hurts.rule.reason) == (Recommendation.WITH_WARNING, Reason.SLOWER_LAST)
    assert "slower beside all others of pin_memory+workers, 0.95x" in " ".join(_warnings(hurts, found))
    assert item(advice_on(*made, margin=0.03), "pin_memory").last_verdict is Verdict.UNDECIDED
    assert item(advice_on(*made, margin=0.03), "pin_memory").rule.reason is Reason.FASTER


def composed_item(share: float, *, disturbed: bool = False) -> Item:
    """An option that loads 1.6 times as fast, by the share of a step that loading takes."""
    loader = estimate(1.6, 0.02)
    row = Row(
        comparison=comparison("pin_memory", timing=Timing.LOADER), reference_name="baseline", result=loader,
        quality=None, treatment=None, reference=None, notes=(),
        on_steps=composed(loader, [0.9 * share, 1.1 * share], disturbed=disturbed),
    )  # fmt: skip
    (effect,) = effects([row])
    return Item(effect=effect, elsewhere=(), last=None, optimization=None, numerics=frozenset(), break_even=None)


def test_no_replicates_of_a_part_are_said_to_decide_about_whole_steps() -> None:
    found = composed_item(0.05)
    assert (found.recommendation, found.replicates) == (Recommendation.UNDECIDED, None)
    asked = open_question(found, advice_on(Made(on=("workers",), ratio=1.5)))
    assert "time whole steps" in asked.main[0]
    assert asked.command.startswith("./speedmatrix run leak ")
    assert "--stack pin_memory " in asked.command
    assert "--probe" not in asked.command


def test_what_is_composed_of_disturbed_steps_gives_no_advice() -> None:
    found = composed_item(0.4, disturbed=True)
    assert not found.effect.estimate.disturbed
    assert (found.recommendation, found.rule.reason) == (Recommendation.NO_ADVICE, Reason.DISTURBED)


def test_an_evaluation_is_no_rival_of_training() -> None:
    found = advice_on(Made(on=("amp",), ratio=9.0, timing=Timing.EVALUATION), Made(on=("workers",), ratio=1.2))
    assert [str(one.option) for one in found.items] == ["workers", "amp"]
    assert all(one.best is None or one.best.label == "workers" for one in found.ready_made)
    assert item(found, "amp").break_even is None


def test_parts_of_a_step_are_told_apart_from_training() -> None:
    found = advice_on(Made(on=("workers",), ratio=9.0, timing=Timing.LOADER))
    assert found.items == ()
    assert found.ready_made == ()
    assert [row.label for row in found.parts] == ["workers"]


def estimate(ratio: float, half_width: float, replicates: int = 2, margin: float = 0.01) -> Estimate:
    low, high = ratio * math.exp(-half_width), ratio * math.exp(half_width)
    return Estimate(
        ratio=ratio, low=low, high=high, pairs=8, processes=replicates, df=4.0, method="t", outlying=False,
        verdict=verdict(low, high), drift=0.0, trimmed_ratio=ratio, thresholds=Thresholds(margin=margin),
    )  # fmt: skip


SAME = Quality(Agreement.SAME_BITS, "the first 3 losses are bitwise the same")
OTHER = Quality(Agreement.DIFFERS, "losses differ from step 2 by 0.8")
COARSE = {"thresholds": Thresholds(margin=math.inf), "verdict": Verdict.UNDECIDED}


def measured_again(ratio: float, quality: Quality | None = SAME, **facts: Any) -> Row:
    """A fresh row with an interval of ±5 %, or with what stands in its place."""
    found = facts.get("absence") or replace(estimate(ratio, 0.05), **facts)
    return Row(
        comparison=comparison("workers"), reference_name="baseline", result=found, quality=quality, treatment=None,
        reference=None, notes=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("afresh", "objection"),
    [
        (measured_again(2.0), None),
        (measured_again(2.2), None),
        (measured_again(2.4), "its ratio lies further from the one before than both intervals allow"),
        (measured_again(1.059), "its verdict is undecided"),  # an interval above 1 and not above 1.01
        (measured_again(0.5), "its verdict is slower"),
        (
            measured_again(2.0, contention=0.5, verdict=Verdict.DISTURBED),
            "the machine was too disturbed: other processes took 50 % of its cores",
        ),
        (measured_again(2.0, **COARSE), "no verdict: calibrated, this machine found none of the delays"),
        (measured_again(2.0, looked_up=True, verdict=Verdict.UNDECIDED), "no verdict: its device's table tells"),
        (measured_again(2.0, OTHER), "quality differs: losses differ from step 2 by 0.8"),
        (measured_again(2.0, None), "its losses were not compared"),
        (measured_again(2.0, absence=Absence(outcome=Outcome.FAILED, words="failed: no memory")), "failed: no memory"),
    ],
)
def test_advice_holds_where_a_fresh_measurement_has_the_verdict_the_losses_and_the_gain(
    afresh: Row, objection: str | None
) -> None:
    before = Gain(log=math.log(2), half_width=0.1)
    one = Foremost(label="a", reference=config(), treatment=config("workers"), gain=before, alike=True)
    found = next(one.objections(afresh), None)
    assert (found is None) is (objection is None)
    assert (found or "").startswith(objection or "")
    if afresh.quality is not SAME:
        assert next(replace(one, alike=False).objections(afresh), None) is None, "it did not rest on its losses"


@pytest.mark.parametrize(("ratio", "half_width"), [(1.09, 0.15), (0.9, 0.2), (1.0, 0.05), (1.015, 0.02)])
def test_so_many_restarts_decide_and_one_fewer_would_not(ratio: float, half_width: float) -> None:
    needed = replicates_to_decide(estimate(ratio, half_width))
    assert needed is not None
    deviation = half_width / stats.t.ppf(FIXED, 4) * math.sqrt(2)
    for count, decides in ((needed, True), (needed - 1, False)):
        width = stats.t.ppf(FIXED, 4 + count - 2) * deviation / math.sqrt(count)
        word = verdict(ratio * math.exp(-width), ratio * math.exp(width))
        assert (word is not Verdict.UNDECIDED) is decides


def test_a_replicate_more_narrows_an_interval_by_its_degree_of_freedom_too() -> None:
    """Two replicates 2.8 % apart, known with one degree of freedom: by the root alone even a hundred would not do."""
    (found,) = estimates([pairs_of((0.026,), (0.054,))], BY_WIDTH)
    assert found.verdict is Verdict.UNDECIDED
    assert found.processes * (found.half_width / (math.log(found.ratio) - math.log(1.01))) ** 2 > MOST_REPLICATES
    assert replicates_to_decide(found) == 5


def test_no_replicate_narrows_an_interval_below_what_is_believed() -> None:
    (found,) = estimates([pairs_of((0.02,), (0.02,))])
    least = narrowest(Thresholds())
    assert replicates_to_decide(found) == math.ceil((least / (0.02 - math.log(1.01))) ** 2)
    assert replicates_for(0.01, 0.02, df=1.0, point=FIXED, replicates=2, least=0.05) == 25


def test_the_most_replicates_are_as_many_as_somebody_waits_for() -> None:
    assert replicates_for(0.001, 0.02, df=30.0, point=FIXED, replicates=2) is None
    assert replicates_for(0.001, 0.02, df=30.0, point=FIXED, replicates=2, most=1000) is not None
    assert replicates_for(0.1, 0.02, df=30.0, point=FIXED, replicates=MOST_REPLICATES) is None


def test_where_no_number_of_restarts_decides_none_is_named() -> None:
    assert replicates_to_decide(estimate(1.02, 0.3)) is None
    assert replicates_to_decide(replace(estimate(1.5, 0.3), high=math.inf)) is None
    assert replicates_to_decide(estimate(1.5, 0.6, margin=math.inf)) is None
    assert MOST_REPLICATES >= 10


def side(*readies: object) -> Side:
    return Side(config=config(), proved=frozenset(), pointless=(), windows=(), readies=readies, lost=())  # type: ignore[arg-type]


def test_a_slow_start_is_paid_back_after_as_many_steps_as_it_cost_over_what_each_saves() -> None:
    slow = [replace(ready(arm(0, replicate, 1)), build_s=1.0 + extra) for replicate, extra in ((0, 6.0), (1, 9.0))]
    plain = [ready(arm(0, replicate)) for replicate in range(2)]
    found = break_even(side(*slow), side(*plain), Gain(log=math.log(2), half_width=0.0), 0.3)
    assert found is not None
    assert found.extra_s == pytest.approx((6.0, 9.0))
    assert found.steps == pytest.approx((40.0, 60.0))  # 0.15 s saved by each
    assert found.seconds == pytest.approx(60 * 0.15)


def test_a_gain_that_is_hardly_known_is_paid_back_nobody_knows_when() -> None:
    slow, plain = [replace(ready(arm(0, 0, 1)), build_s=61.0)], [ready(arm(0, 0))]
    gain = Gain(log=math.log(1.05), half_width=math.log(1.05) - math.log(1.012))
    found = break_even(side(*slow), side(*plain), gain, 0.1)
    assert found is not None
    assert found.steps == pytest.approx((60 / 0.1 / (1 - 1 / gain.high), 60 / 0.1 / (1 - 1 / 1.012)))
    perhaps = break_even(side(*slow), side(*plain), Gain(log=math.log(1.05), half_width=0.1), 0.1)
    assert perhaps is not None
    assert perhaps.steps is not None
    assert (perhaps.steps[1], perhaps.seconds) == (None, None)
    assert "at the earliest" in " ".join(starts(perhaps))


def test_what_is_no_faster_never_pays_back_and_what_starts_sooner_pays_at_once() -> None:
    slow, plain = [replace(ready(arm(0, 0, 1)), build_s=7.0)], [ready(arm(0, 0))]
    never = break_even(side(*slow), side(*plain), Gain(log=-0.1, half_width=0.0), 0.3)
    assert never is not None
    assert (never.steps, never.seconds) == (None, None)
    soon = break_even(side(*plain), side(*slow), Gain(log=0.1, half_width=0.0), 0.3)
    assert soon is not None
    assert soon.steps == (0.0, 0.0)
    assert break_even(side(), side(*plain), Gain(log=0.1, half_width=0.0), 0.3) is None


def test_an_arm_that_began_in_a_warm_process_tells_no_start() -> None:
    warm, plain = replace(ready(arm(0, 0, 1)), arm=replace(arm(0, 0, 1), shared=True)), ready(arm(0, 0))
    assert break_even(side(warm), side(plain), Gain(log=0.1, half_width=0.0), 0.3) is None


def test_warm_up_counts_only_beyond_its_own_steps() -> None:
    one = replace(ready(arm()), build_s=1.0, first_step_s=2.0, warm_up_steps=10, step_s=0.5)
    assert start_up_s(replace(one, warm_up_s=5.0)) == pytest.approx(3.0)
    assert start_up_s(replace(one, warm_up_s=9.0)) == pytest.approx(7.0)
    assert start_up_s(replace(one, warm_up_s=4.0)) == pytest.approx(3.0)  # it grew slower: that is no start


def test_the_remedy_is_the_code_of_the_page() -> None:
    assert snippet(KNOWN["amp"].page) == "amp.option(\n    on=True)"
    assert snippet("Words alone.") == ""
    page = 'Words.\n\n    with torch.autocast("cuda"):\n        pass'
    assert remedy(optimization("a", {}, page=page), "cpu").startswith('with torch.autocast("cpu")')


def test_own_code_is_told_from_settings() -> None:
    assert is_own_code(KNOWN["chunk_cache"])  # belongs to a workload
    assert is_own_code(optimization("a", {}, page="Words.\n\n    def __getitems__(self, indices):\n        pass"))
    assert is_own_code(optimization("a", {}, stage=Stage.SYNC))
    assert not is_own_code(optimization("a", {}, page="Words.\n\n    DataLoader(data, num_workers=4)"))
    assert not is_own_code(optimization("a", {}, page="Words.\n\n    export MALLOC=1 everywhere"))
