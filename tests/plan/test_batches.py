"""Other batches: which are compared, what stands in the way, how long they take, and how they are asked for by name."""

from dataclasses import replace
from math import inf

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison, Configuration, batch_of, changes_batch
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block, Request
from harness.core.protocol import BRIEF
from harness.plan.cost import Pace, expected_speedups, replicate_s
from harness.plan.designs import DESIGNS
from harness.plan.feasibility import with_batch
from harness.plan.planning import commands, planned
from tests.analyze.synthetic import ENVIRONMENT
from tests.plan.test_designs import TOY, comparisons, no_results, scope


@pytest.mark.parametrize(
    ("label", "found"),
    [("batch=128", (1, 128)), ("batch=4x100", (4, 100)), ("batch=0", None), ("batch=2x", None), ("workers=2", None)],
)
def test_a_label_of_a_batch_is_read(label: str, found: tuple[int, int] | None) -> None:
    assert batch_of(label) == found


def test_a_batch_is_compared_with_the_usual_one_and_says_so() -> None:
    one = with_batch(scope("fused"), "batch=24")
    assert isinstance(one, Comparison)
    assert (str(one.treatment), str(one.reference)) == ("toy@quick#24:fused", "toy@quick#12:fused")
    assert changes_batch(one)
    assert not changes_batch(replace(one, label="fused"))  # two batches without a word
    assert not changes_batch(replace(one, label="batch=36"))


def test_batches_that_add_up_are_whole_ones() -> None:
    one = with_batch(scope(), "batch=3x12")
    assert isinstance(one, Comparison)
    assert (str(one.treatment), str(one.reference)) == ("toy@quick#36:split=3", "toy@quick#12")


def test_a_batch_in_one_piece_is_one_whatever_the_reference_does() -> None:
    one = with_batch(scope("split=2"), "batch=24")
    assert isinstance(one, Comparison)
    assert (str(one.treatment), str(one.reference)) == ("toy@quick#24", "toy@quick#12:split=2")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("batch=2x6", "an update of the reference takes as many samples: gradient_accumulation compares those"),
        ("batch=50", "whole batches of 50 leave out 20 of the 120 samples of an epoch"),
        ("batch=130", "toy at size quick has 120 samples in an epoch; choose a batch of at most 120"),
    ],
)
def test_a_batch_that_compares_nothing_has_words(label: str, words: str) -> None:
    assert no_results([with_batch(scope(), label)]) == {label: words}


def test_a_batch_may_hold_a_whole_epoch_several_times() -> None:
    assert isinstance(with_batch(scope(), "batch=20x12"), Comparison)
    twice = TOY.at("quick", 240)
    assert (twice.epoch_steps, twice.passes, twice.samples) == (1, 2, 120)


@pytest.mark.parametrize("label", ["batch=50", "batch=130"])
def test_a_batch_that_a_short_epoch_cannot_fill_takes_more_of_a_longer_data_set(label: str) -> None:
    longer = replace(TOY, sizes={"quick": replace(TOY.sizes["quick"], shape={"items": 1000})})
    assert isinstance(with_batch(replace(scope(), workload=longer), label), Comparison)


def test_a_name_that_is_no_batch_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="write batch=SAMPLES"):
        with_batch(scope(), "batch=many")


def test_a_workload_without_a_report_gets_half_twice_four_times_and_two_that_add_up() -> None:
    entries = list(DESIGNS["batches"](scope()))
    assert list(comparisons(entries)) == ["batch=6", "batch=24", "batch=2x12"]
    assert no_results(entries) == {"batch=48": "whole batches of 48 leave out 24 of the 120 samples of an epoch"}


def test_batches_are_doubled_as_often_as_an_epoch_has_the_samples() -> None:
    entries = list(DESIGNS["doubled_batches"](scope()))
    assert list(comparisons(entries)) == ["batch=24"]
    assert list(no_results(entries)) == ["batch=48", "batch=96"]
    wide = replace(TOY, sizes={"quick": replace(TOY.sizes["quick"], epoch_steps=2**12)})
    found = comparisons(DESIGNS["doubled_batches"](replace(scope(), workload=wide)))
    assert [one.treatment.batch for one in found.values()] == [12 * 2**power for power in range(1, 11)]


def test_the_batches_of_a_report_keep_their_share_at_every_size() -> None:
    catalogue = read_catalogue()
    found = {}
    for name in ("speaker", "imagenet", "leak"):
        for size in ("quick", "standard"):
            request = Request(workloads=(name,), size=size, design="batches")
            plan = planned(request, catalogue, ENVIRONMENT)
            found[name, size] = [one.label for one in (*plan.comparisons, *plan.no_results)]
    assert found["speaker", "standard"] == ["batch=128", "batch=200", "batch=4x100"]
    assert sorted(found["speaker", "quick"]) == ["batch=10", "batch=4x5", "batch=6"]
    assert found["imagenet", "standard"] == ["batch=384", "batch=512"]
    assert found["imagenet", "quick"] == ["batch=12", "batch=16"]
    assert found["leak", "standard"] == ["batch=4096", "batch=2x5632"]


def test_what_no_pair_may_be_made_of_is_named_beside_the_others() -> None:
    request = Request(workloads=("patches3d",), size="quick", design="batches")
    plan = planned(request, read_catalogue(), ENVIRONMENT)
    assert [one.label for one in plan.comparisons] == ["batch=2x1"]
    assert {one.reason for one in plan.no_results} == {"patches of several shapes make no batch: add fixed_patch_shape"}
    fixed = planned(replace(request, reference="fixed_patch_shape"), read_catalogue(), ENVIRONMENT)
    assert [one.label for one in fixed.comparisons] == ["batch=2", "batch=4", "batch=2x1", "batch=2x2"]


def test_batches_are_asked_for_by_name_beside_options_and_one_again() -> None:
    request = Request(workloads=("leak",), size="quick", only=("workers=1", "batch=512", "batch=2x256"))
    catalogue = read_catalogue()
    plan = planned(request, catalogue, ENVIRONMENT)
    assert [one.label for one in plan.comparisons] == ["workers=1", "batch=512", "batch=2x256"]
    found = commands(plan, ENVIRONMENT, plan.comparisons, catalogue)
    assert "--only batch=2x256" in found[plan.comparisons[2]]
    with pytest.raises(Mistake, match="no optimization 'batch'"):
        planned(replace(request, design="pairs"), catalogue, ENVIRONMENT)


def test_a_larger_batch_is_planned_to_take_as_much_longer() -> None:
    def block(*batches: int) -> Block:
        configs = [Configuration(workload="toy", size="quick", batch=one) for one in (12, *batches)]
        return Block(
            identity="b00", reference=configs[0], timing=Timing.STEP,
            comparisons=tuple(
                Comparison(label=f"batch={one.batch}", treatment=one, reference=configs[0], timing=Timing.STEP)
                for one in configs[1:]
            ),
        )  # fmt: skip

    assert expected_speedups(block(6, 12, 48)) == [2.0, 1.0, 0.25]
    pace = Pace(step_s=0.2, epoch_steps=inf)
    usual, larger = (replicate_s(block(one), BRIEF, pace, expected_speedups(block(one))) for one in (12, 48))
    windows = BRIEF.rounds * BRIEF.steps_of(0.2) * 0.2
    assert larger - usual > 3 * windows
