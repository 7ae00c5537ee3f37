from itertools import groupby, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from harness.core.configuration import Comparison, Configuration, Option
from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.plan.schedule import blocks, in_their_own, order_of_windows

ROUNDS = st.dictionaries(st.integers(1, 9), st.integers(0, 13), max_size=6)


def comparison(index: int, workload: str = "leak", timing: Timing = Timing.STEP, below: str = "") -> Comparison:
    reference = Configuration(workload=workload, size="quick", batch=8, options=(Option(name=below),) if below else ())
    treatment = Configuration(workload=workload, size="quick", batch=8, options=(Option(name=f"s{index}"),))
    return Comparison(label=f"s{index}", treatment=treatment, reference=reference, timing=timing)


@given(ROUNDS, st.integers())
def test_every_burst_of_a_treatment_stands_between_two_visits_of_the_reference(
    rounds: dict[int, int], seed: int
) -> None:
    order = order_of_windows(rounds, Random(seed))
    assert order[0] == order[-1] == 0
    visits = [index for index, position in enumerate(order) if position == 0]
    for before, after in pairwise(visits):
        between = order[before + 1 : after]
        assert 1 <= len(between) <= 2
        assert len(set(between)) == len(between)


@given(ROUNDS, st.integers())
def test_every_treatment_gets_the_bursts_it_needs(rounds: dict[int, int], seed: int) -> None:
    order = order_of_windows(rounds, Random(seed))
    assert {position: order.count(position) for position in rounds} == rounds
    assert set(order) <= {0, *rounds}


@given(ROUNDS, st.integers())
def test_the_order_comes_from_the_seed_alone(rounds: dict[int, int], seed: int) -> None:
    assert order_of_windows(rounds, Random(seed)) == order_of_windows(dict(rounds), Random(seed))


def test_the_order_changes_from_round_to_round_and_from_seed_to_seed() -> None:
    order = [one for one in order_of_windows(dict.fromkeys(range(1, 5), 20), Random(0)) if one]
    rounds = {tuple(order[first : first + 4]) for first in range(0, len(order), 4)}
    assert len(rounds) > 5
    assert order_of_windows({1: 9, 2: 9, 3: 9}, Random(1)) != order_of_windows({1: 9, 2: 9, 3: 9}, Random(2))


def test_nobody_always_follows_the_same_other() -> None:
    order = order_of_windows(dict.fromkeys(range(1, 5), 50), Random(0))
    before_first = {left for left, right in pairwise([one for one in order if one]) if right == 1}
    assert before_first >= {2, 3, 4}


def test_nothing_to_do_is_one_visit() -> None:
    assert order_of_windows({}, Random(0)) == (0,)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(list(Timing)), st.booleans()), max_size=40))
def test_blocks_hold_every_comparison_once_a_few_at_a_time(drawn: list[tuple[str, Timing, bool]]) -> None:
    given_in = [
        comparison(index, workload, timing, "below" if deep else "")
        for index, (workload, timing, deep) in enumerate(drawn)
    ]
    found = blocks(given_in, 4)
    assert sorted(one.label for block in found for one in block.comparisons) == sorted(one.label for one in given_in)
    assert len({block.identity for block in found}) == len(found)
    for block in found:
        assert 1 <= len(block.comparisons) <= 4
        assert {(one.reference, one.timing) for one in block.comparisons} == {(block.reference, block.timing)}


def test_blocks_are_filled_before_another_is_begun() -> None:
    found = blocks([comparison(index) for index in range(9)], 4)
    assert [[one.label for one in block.comparisons] for block in found] == [
        ["s0", "s1", "s2", "s3"],
        ["s4", "s5", "s6", "s7"],
        ["s8"],
    ]
    assert [block.identity for block in found] == ["b00", "b01", "b02"]


def test_what_is_split_shares_no_block_and_keeps_its_order() -> None:
    found = blocks([comparison(index) for index in range(6)], 4, split=lambda some: (some[::2], some[1::2]))
    assert labels(found, "leak") == [["s0", "s2"], ["s1", "s3"], ["s4"], ["s5"]]
    assert [block.identity for block in found] == ["b00", "b01", "b02", "b03"]


def test_workloads_take_turns() -> None:
    long, short = [comparison(index) for index in range(6)], [comparison(index, "speaker") for index in range(6, 8)]
    found = blocks([*long, *short], 2)
    assert [block.reference.workload for block in found] == ["leak", "speaker", "leak", "leak"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([Timing.STEP, Timing.LOADER])), max_size=30))
def test_an_order_that_is_kept_is_kept_by_those_that_share_too(drawn: list[tuple[str, Timing]]) -> None:
    """What a design has put first comes first; within a run of its order those that share a process do."""
    given_in = [comparison(index, workload, timing) for index, (workload, timing) in enumerate(drawn)]
    numbers = {one.label: index for index, one in enumerate(given_in)}
    plain, found = (
        blocks(given_in, 40, shares, in_order=True) for shares in (in_their_own, lambda one: numbers[one.label] % 3 > 0)
    )
    assert not any(block.shared for block in plain)
    for workload in "ab":
        runs = [[*run] for (reference, _), run in groupby(given_in, kind) if reference.workload == workload]
        assert labels(plain, workload) == [[one.label for one in run] for run in runs]
        parts = [
            [one.label for one in run if (numbers[one.label] % 3 > 0) is shared]
            for run in runs
            for shared in (True, False)
        ]
        assert labels(found, workload) == [one for one in parts if one]
    for block in found:
        assert {numbers[one.label] % 3 > 0 for one in block.comparisons} == {block.shared}


def labels(planned: tuple[Block, ...], workload: str) -> list[list[str]]:
    return [[one.label for one in block.comparisons] for block in planned if block.reference.workload == workload]


def kind(one: Comparison) -> tuple[Configuration, Timing]:
    return one.reference, one.timing
