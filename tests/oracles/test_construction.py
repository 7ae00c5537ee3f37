"""The truths, the page and the catalogue of the oracles: nothing here is measured."""

import itertools

import pytest

from harness.core.recipe import of_process
from harness.run.preparation import epoch_of
from tests.oracles.catalogue import POINTS, Trial, added_up, all_trials, parsed
from tests.oracles.judged import Judged, most_misses
from tests.oracles.page import PAGE, read, rendered
from tests.oracles.pipeline import Loader, seconds_per_sample
from tests.oracles.runner import prepared
from tests.oracles.stages import PLAIN, Stages, slower
from tests.oracles.threats import THREATS

SECONDS = Stages(batch=2, epoch_steps=8, load_s=4.0, step_s=3.0)


@pytest.mark.parametrize(
    ("loader", "batch_s"),
    [
        (Loader(), 4.0 + 3.0),
        (Loader(workers=1), 4.0),
        (Loader(workers=1, prefetch=8), 4.0),
        (Loader(workers=2), 3.0),
        (Loader(workers=4, prefetch=8), 3.0),
        (Loader(passes=2), 4.0 + 2 * 3.0),
        (Loader(workers=1, passes=2), 2 * 3.0),
    ],
)
def test_equal_batches_take_the_slower_stage_or_both(loader: Loader, batch_s: float) -> None:
    assert 2 * seconds_per_sample(SECONDS, loader) == pytest.approx(batch_s, rel=1e-9)


def test_batches_in_flight_hide_a_stall() -> None:
    """A stall of 20 s in every eighth batch: eight batches ahead hide what a step leaves over, one hides a step."""
    stages = Stages(batch=1, epoch_steps=8, load_s=1.0, step_s=4.0, stall_every=8, stall_s=20.0)
    assert seconds_per_sample(stages, Loader()) == pytest.approx(5.0 + 20.0 / 8)
    assert seconds_per_sample(stages, Loader(workers=1, prefetch=8)) == pytest.approx(4.0)
    one = seconds_per_sample(stages, Loader(workers=1, prefetch=1))
    assert 8 * one == pytest.approx(8 * 4.0 + 21.0 - 4.0)


def test_costs_by_place_have_the_mean_that_was_told() -> None:
    for pattern in ("halves", "ragged", "every_other"):
        stages = Stages(load_s=2.0, load_pattern=pattern, epoch_steps=24)
        assert sum(map(stages.batch_s, range(24))) / 24 == pytest.approx(2.0)


def test_batches_come_in_the_order_that_the_truth_is_added_up_in() -> None:
    from harness.measure.feed import Order
    from tests.oracles.known_times import Batches

    stages = Stages(batch=4, epoch_steps=8)
    rank = Batches(stages, "baseline").rank
    given = [index for batch in Order(32, 4, 0, endless=False) for index in batch]
    assert [rank[index] for index in given] == list(range(32))


@pytest.mark.parametrize("one", all_trials(), ids=lambda one: one.experiment.name)
def test_arms_have_the_epoch_that_the_truth_is_added_up_over(one: Trial) -> None:
    """But where it is the threat that they had it."""
    ready = prepared(one.experiment)
    told, shuffled = one.experiment.stages[PLAIN].epoch_steps, any(row.truth == "shuffled" for row in one.oracles)
    for block in ready.plan.blocks:
        for config in (block.reference, *(row.treatment for row in block.comparisons)):
            assert (epoch_of(ready, block, config).epoch_steps == told) is not shuffled


def test_arms_share_a_process_where_the_planner_would_let_them() -> None:
    shared = [one.experiment for one in all_trials() if one.experiment.shared]
    assert len(shared) == 2
    for ready in map(prepared, shared):
        (block,) = ready.plan.blocks
        assert block.shared
        recipes = [ready.recipe(one) for one in block.arms]
        assert [of_process(one, recipes[0], {}) for one in recipes] == [None] * len(recipes)


def test_a_slower_machine_takes_as_many_times_as_long_for_everything() -> None:
    stages = Stages(load_s=4.0, step_s=3.0, epoch_steps=8, evaluation_s=1.0)
    later = {PLAIN: slower(stages, 1.5)}
    for stack in ("", "workers=1", "evaluation_interval=2"):
        assert added_up(later, stack) == pytest.approx(1.5 * added_up({PLAIN: stages}, stack))
    assert later[PLAIN].epoch_steps == 8


def test_another_order_in_every_epoch_changes_what_workers_wait_for_alone() -> None:
    stages = Stages(batch=1, epoch_steps=64, load_s=20.0, step_s=6.0, load_pattern="every_other")
    assert seconds_per_sample(stages, Loader(shuffled=True)) == pytest.approx(26.0)
    kept = seconds_per_sample(stages, Loader(workers=2, prefetch=8))
    assert kept > 1.15 * seconds_per_sample(stages, Loader(workers=2, prefetch=8, shuffled=True))


def test_the_cross_covers_every_pair_of_levels() -> None:
    rows = [
        {
            "workers": point.workers,
            "prefetch": point.prefetch,
            "step": step,
            "deficit": point.deficit,
            "computes": point.computes,
            "pinned": point.pinned,
        }
        for step, points in POINTS.items()
        for point in points
    ]
    assert len(rows) >= 16
    levels = {name: {row[name] for row in rows} for name in rows[0]}
    assert [len(one) for one in levels.values()] == [3, 2, 3, 3, 2, 2]
    missing = [
        (one, ours, other, theirs)
        for one, other in itertools.combinations(levels, 2)
        for ours, theirs in itertools.product(levels[one], levels[other])
        if not any(row[one] == ours and row[other] == theirs for row in rows)
    ]
    assert missing == []


def test_every_threat_has_an_oracle_and_there_are_twenty_at_least() -> None:
    names = [one.experiment.name for one in all_trials()]
    assert len(names) == len(set(names))
    assert len(THREATS) >= 20
    for threat in THREATS:
        for named in threat.oracle.split("; "):
            name = named.partition(":")[0].split(" to ")[0]
            assert name.startswith("every ") or any(one.startswith(name) for one in names), named


def test_an_oracle_holds_within_its_allowance() -> None:
    judged = Judged(
        experiment="", option="", threat="", how="sum", true=1.0, ratio=1.02, low=1.004, high=1.04, words="faster"
    )
    assert judged.holds
    assert not Judged(
        experiment="", option="", threat="", how="sum", true=1.0, ratio=1.02, low=1.006, high=1.04, words="faster"
    ).holds
    assert most_misses(60) == 9


def test_options_are_added_up() -> None:
    stages = {"baseline": Stages(load_s=4.0, step_s=3.0), "fast": Stages(load_s=1.0, step_s=3.0)}
    assert added_up(stages, "") / added_up(stages, "variant=fast") == pytest.approx(7 / 4)
    stages = {"baseline": Stages(step_s=0.020, epoch_steps=8, evaluation_s=0.080)}
    ratios = [added_up(stages, "") / added_up(stages, f"evaluation_interval={epochs}") for epochs in (1, 3)]
    assert ratios == pytest.approx([160 / 240, 480 / 560])


def test_a_loop_gets_the_threads_and_the_start_of_its_stack() -> None:
    assert (parsed("").threads, parsed("").start) == (1, "fork")
    assert (parsed("trainer_threads=2").threads, parsed("workers=1+start_method=spawn").start) == (2, "spawn")


def test_the_page_says_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(read()), "run python -m tests.oracles.page --render"
