from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison, Configuration, Option, compose, parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.core.protocol import PROTOCOLS
from harness.plan.designs import CROSSED, DESIGNS, factorial, full_stack, matrix, pairs, removed
from harness.plan.feasibility import Entry, Scope, all_options
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU, KNOWN, optimization
from tests.plan.test_designs import TOY, comparisons, no_results, scope

TIMED = optimization("kept", {"persistent_workers": True}, requires=("workers",), timed_on=Timing.EPOCH)


def about(*names: str, below: tuple[str, ...] = (), **facts: Any) -> Scope:
    """The toy, and what --only names."""
    return replace(scope(*below, environment=GPU), chosen=tuple(map(parse_option, names)), **facts)


def stacks(entries: Iterable[Entry]) -> list[str]:
    return ["+".join(map(str, one.treatment.options)) for one in entries if isinstance(one, Comparison)]


@pytest.mark.parametrize("name", ["leak", "speaker", "imagenet"])
@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU])
def test_a_matrix_of_k_switches_has_two_and_a_half_k_and_two_cells(name: str, environment: Any) -> None:
    catalogue = read_catalogue()
    found = catalogue.workload(name)
    there = Scope(
        workload=found, reference=Configuration(workload=name, size="quick", batch=found.sizes["quick"].batch),
        optimizations=catalogue.of(found), known=catalogue.optimizations, original=(), environment=environment,
        protocol=PROTOCOLS["standard"],
    )  # fmt: skip
    whole = all_options(there)
    on_steps = [one for one in whole if catalogue.optimizations[one.name].timed_on is Timing.STEP]
    entries = list(matrix(there))
    assert not no_results(entries)
    configs = {one.treatment.options for one in entries if isinstance(one, Comparison)}
    assert len(entries) == 1 + 2 * len(whole) + -(-len(on_steps) // 2)
    assert len(configs) == len(entries)
    for entry in entries:
        assert isinstance(entry, Comparison)
        compose(found, entry.treatment.options, catalogue.optimizations)


def test_each_is_removed_from_the_whole_and_compared_with_it() -> None:
    found = comparisons(removed(scope(environment=GPU)))
    whole = all_options(scope(environment=GPU))
    assert found["all"].treatment.options == whole
    assert found["all"].reference.options == ()
    fused = found["all without fused"]
    assert fused.reference.options == whole
    assert set(fused.treatment.options) == set(whole) - {Option(name="fused")}
    assert len(found) == 1 + len(whole)


def test_what_needs_a_removed_one_is_removed_with_it_and_named() -> None:
    found = comparisons(removed(about("workers=2", "prefetch=4", "fused")))
    one = found["all without workers=2 (nor prefetch=4, which cannot be without)"]
    assert stacks([one]) == ["fused"]
    assert stacks([found["all without prefetch=4"]]) == ["fused+workers=2"]


def test_removing_another_level_gives_the_reference_s_back() -> None:
    one = comparisons(removed(about("workers=2", "fused", below=("workers=4",))))["all without workers=2"]
    assert stacks([one]) == ["fused+workers=4"]


def test_each_is_timed_on_what_it_asks_for() -> None:
    known = {**KNOWN, "kept": TIMED}
    entries = list(matrix(about("workers=2", "kept", "fused", "tf32", known=known)))
    timings = {one.label: one.timing for one in entries if isinstance(one, Comparison)}
    assert timings["kept"] is timings["all without kept"] is Timing.EPOCH
    assert {timing for label, timing in timings.items() if "kept" not in label} == {Timing.STEP}
    both = comparisons(pairs(about("workers=2", "kept", known=known)))["workers=2+kept"]
    assert both.timing is Timing.EPOCH  # whole epochs hold steps


def test_a_matrix_of_evaluations_is_timed_on_evaluations() -> None:
    other = optimization("other", {"inference_mode": True}, timed_on=Timing.EVALUATION)
    entries = list(matrix(about("whole_evaluation", "other", known={**KNOWN, "other": other})))
    assert {one.timing for one in entries if isinstance(one, Comparison)} == {Timing.EVALUATION}


def test_what_acts_on_evaluations_makes_no_pair_with_what_acts_on_steps() -> None:
    found = no_results(pairs(about("fused", "whole_evaluation")))
    assert found == {"fused+whole_evaluation": "whole_evaluation acts on evaluations, fused does not"}


def test_levels_are_alternatives() -> None:
    entries = list(matrix(about("workers=2", "workers=4", "fused", "tf32")))
    found = comparisons(entries)
    assert stacks([found["all"]]) == ["fused+tf32+workers=2"]  # the level that is named first
    assert {"workers=2", "workers=4", "fused", "tf32"} <= set(found)
    assert [label for label in found if "without workers" in label] == ["all without workers=2"]
    assert len(entries) == 1 + 4 + 3 + 2
    assert any("workers=4" in stack for stack in stacks(entries[-2:]))
    for stack in stacks(entries):
        assert stack.count("workers") <= 1


def test_what_conflicts_with_what_was_named_before_is_no_part_of_the_whole() -> None:
    entries = list(matrix(about("halved", "fused", "tf32")))
    assert stacks([comparisons(entries)["all"]]) == ["halved+tf32"]
    words = "is no part of it, since it conflicts with what was named before"
    assert no_results(entries) == {"all without fused": words}
    assert not any("fused" in stack and "halved" in stack for stack in stacks(entries))
    assert any("fused" in stack for stack in stacks(entries[-2:]))


def test_what_cannot_run_here_is_a_hole_once() -> None:
    there = scope(environment=ENVIRONMENT, chosen=(Option(name="fused"), Option(name="tf32"), Option(name="halved")))
    entries = list(matrix(there))
    assert no_results(entries)["tf32"] == "needs a CUDA device"
    assert not any("tf32" in stack for stack in stacks(entries))


def test_pairs_are_compared_with_the_reference_that_both_need() -> None:
    found = comparisons(pairs(about("workers=2", "prefetch=4", "fused")))
    assert len(found) == 3 + 3
    assert (stacks([found["workers=2+prefetch=4"]]), found["workers=2+prefetch=4"].reference.options) == (
        ["prefetch=4+workers=2"],
        (),
    )
    both = found["prefetch=4+fused"]
    assert stacks([both]) == ["fused+prefetch=4+workers=2"]
    assert both.reference.options == (Option(name="workers", level=2),)


def test_a_factorial_has_every_subset_once() -> None:
    entries = list(factorial(about("workers=2", "workers=4", "fused", "tf32")))
    assert len(entries) == 3 * 2 * 2 - 1
    assert len(set(stacks(entries))) == 11
    assert {one.reference.options for one in entries if isinstance(one, Comparison)} == {()}


def test_a_subset_that_cannot_be_has_words() -> None:
    found = no_results(factorial(about("workers=2", "prefetch=4", "halved", "fused")))
    assert found["prefetch=4"] == "prefetch=4 needs workers, which is off here"
    assert found["workers=2+halved+fused"] == "halved excludes fused: they quarrel"


def test_a_factorial_of_seven_is_refused_in_one_sentence() -> None:
    names = ("workers=2", "prefetch=4", "fast_reader", "tf32", "halved", "split=2", "compile=default")
    words = "All subsets of 7 options are too many; name 6 at most, each with --only NAME."
    with pytest.raises(Mistake, match=words):
        list(factorial(about(*names)))
    assert len(list(factorial(about(*names[:6])))) == 63


@pytest.mark.parametrize("design", ["matrix", "removed", "factorial"])
def test_what_is_named_without_what_it_needs_is_refused(design: str) -> None:
    words = "prefetch=4 needs workers: name it too, with --only workers, or put it into --reference."
    with pytest.raises(Mistake, match=words):
        list(DESIGNS[design](about("prefetch=4", "fused")))
    assert comparisons(DESIGNS[design](about("prefetch=4", "fused", below=("workers=2",))))


@pytest.mark.parametrize("design", sorted(CROSSED))
def test_what_is_on_in_the_reference_is_not_crossed(design: str) -> None:
    entries = list(DESIGNS[design](about("fused", "tf32", below=("fused", "workers=2"))))
    assert stacks(entries)
    assert all(set(stack.split("+")) >= {"fused", "workers=2"} for stack in stacks(entries))


def test_the_whole_is_everything_unless_something_was_chosen() -> None:
    assert full_stack(scope(environment=GPU)) == all_options(scope(environment=GPU))
    assert full_stack(about("fused")) == (Option(name="fused"),)
    assert isinstance(next(iter(removed(about("fused")))), Comparison)
    assert not any(isinstance(one, NoResult) for one in removed(about("fused")))
    assert TOY.name == "toy"
