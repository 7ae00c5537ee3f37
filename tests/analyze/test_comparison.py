"""The comparison of places: what is held beside what, which differences are seen, and what is refused."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from benchmarks.invented.rehearsal import Effects
from harness.analyze.collection import StoredRun
from harness.analyze.comparison import (
    Known,
    Limit,
    MachineComparison,
    Shared,
    compare,
    letter,
    of_machines,
    of_runs,
    parse_limits,
)
from harness.analyze.estimate import Difference
from harness.analyze.matrix import NO_PRICES, parse_prices
from harness.analyze.verdict import Verdict
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import NoResult, Request
from harness.core.records import Window
from harness.run.preparation import prepared
from tests.analyze.machines import H200, LARGE, SMALL, by_somebody_else, planned, rehearsed, run, told
from tests.analyze.synthetic import comparison, records

NOTHING_KNOWN = Known(work={})
RATIOS = {"workers": 1.5, "amp": 1.2, "pin_memory": 1.0}


def compared(*runs: StoredRun, known: Known = NOTHING_KNOWN, prices: str = "") -> MachineComparison:
    return compare(of_runs(runs), known, parse_prices(prices, "prices.toml") if prices else NO_PRICES)


def config(of: MachineComparison, label: str) -> Shared:
    (found,) = [one for one in of.configs if one.label == label]
    return found


def contrasts(of: MachineComparison, label: str) -> dict[str, tuple[str, Difference]]:
    """Letter -> the letter it is held against, and the word."""
    found = [(one.letter, one.against) for one in config(of, label).found]
    return {name: (against.letter, against.contrast.difference) for name, against in found if against}


def test_the_same_cells_are_held_beside_each_other() -> None:
    made = compared(told(SMALL, RATIOS), told(LARGE, {"workers": 3.0, "amp": 1.2, "pin_memory": 0.9}))
    assert contrasts(made, "workers") == {"B": ("A", Difference.MORE)}
    assert contrasts(made, "amp") == {"B": ("A", Difference.ALIKE)}
    assert contrasts(made, "pin_memory") == {"B": ("A", Difference.LESS)}
    (only,) = config(made, "workers").contrasts
    assert only.ratio == pytest.approx(2.0)
    assert only.low < 2.0 < only.high
    assert [one.label for one in made.configs] == ["pin_memory", "workers", "amp"]  # opposite verdicts, then by size


def test_verdicts_that_disagree_are_found() -> None:
    made = compared(told(SMALL, RATIOS), told(LARGE, {"workers": 0.9, "amp": 1.25, "pin_memory": 1.0}))
    assert [one.label for one in made.configs if one.disagrees] == ["workers"]
    assert config(made, "amp").differs
    assert not config(made, "amp").disagrees  # faster on both, by different factors


def test_a_disturbed_machine_disagrees_with_nobody() -> None:
    made = config(compared(told(SMALL, RATIOS), told(LARGE, {"workers": 0.9})), "workers")
    assert made.disagrees
    here, there = made.found
    assert there.entry.row.estimate
    row = replace(there.entry.row, result=replace(there.entry.row.estimate, verdict=Verdict.DISTURBED))
    disturbed = replace(made, found=(here, replace(there, entry=replace(there.entry, row=row))))
    assert disturbed.found[1].word == "disturbed"
    assert not disturbed.disagrees


def test_the_first_place_with_a_ratio_is_what_others_are_held_against() -> None:
    lacking = run(
        SMALL,
        records(0, 1.5, inactive=("workers is 0, not 2",)) + records(1, 1.2, replicates=4),
        planned([comparison("workers"), comparison("amp")]),
    )
    made = compared(lacking, told(LARGE, {"workers": 2.0, "amp": 1.2}, 2), told(H200, {"workers": 3.0, "amp": 1.2}, 3))
    assert contrasts(made, "workers") == {"C": ("B", Difference.MORE)}
    assert [one.word for one in config(made, "workers").found] == ["no ratio", "faster", "faster"]
    assert set(contrasts(made, "amp")) == {"B", "C"}


def test_another_stage_and_other_settings_are_told() -> None:
    fed = {"loader_rate": 900.0, "effective": {"layout": "contiguous", "workers": 8}}
    made = compared(told(SMALL, {"workers": 1.5}), told(LARGE, {"workers": 3.0}, **fed))
    against = config(made, "workers").found[1].against
    assert against is not None
    assert against.settings == {"workers": (0, 8)}
    assert not against.moved  # of the reference, which was fed alike
    found = [
        replace(one, wait_s=0.1 * one.wall_s) if isinstance(one, Window) and one.arm.position == 0 else one
        for one in records(0, 3.0, replicates=4)
    ]
    moved = compared(told(SMALL, {"workers": 1.5}), run(LARGE, found, planned([comparison("workers")])))
    against = config(moved, "workers").found[1].against
    assert against is not None
    assert against.moved
    there, here = against.bottlenecks
    assert there is not None
    assert here is not None
    assert (there.stage, here.stage) == ("input", "compute")
    assert (there.loader_rate, here.loader_rate) == pytest.approx((125.0, 1000.0))  # by the shares that they waited


def test_whatever_differs_between_environments_and_protocols_is_named() -> None:
    made = compared(
        told(SMALL, RATIOS, replicates=2), told(LARGE, RATIOS, replicates=4), told(H200, RATIOS, replicates=4)
    )
    facts = {one.fact: one.values for one in made.environments}
    assert facts["cores"] == {"A": "2", "B": "16", "C": "2"}
    assert facts["torch"] == {"A": "2.11.0", "B": "2.9.1", "C": "2.11.0"}
    assert facts["accelerator"] == {"A": "none", "B": "none", "C": "NVIDIA H200"}
    assert set(facts) == {"device", "accelerator", "capability", "driver", "cores", "torch"}
    assert {one.fact: one.values for one in made.protocols} == {"replicates": {"A": "2", "B": "4", "C": "4"}}


def test_a_package_that_is_missing_is_a_difference() -> None:
    bare = replace(SMALL, packages=(("torch", "2.11.0"),))
    (only,) = compared(told(SMALL, RATIOS), told(bare, RATIOS)).environments
    assert (only.fact, only.values) == ("numpy", {"A": "2.1.0", "B": "none"})


def sized(batch: int, size: str = "quick") -> StoredRun:
    one = comparison("workers")
    treatment, reference = (replace(config, batch=batch, size=size) for config in (one.treatment, one.reference))
    return run(LARGE, records(0, 2.0), planned([replace(one, treatment=treatment, reference=reference)]))


@pytest.mark.parametrize(("batch", "size"), [(128, "quick"), (64, "standard")])
def test_other_batches_and_sizes_give_no_ratio_but_words(batch: int, size: str) -> None:
    with pytest.raises(Mistake) as refused:
        compared(told(SMALL, {"workers": 1.5}), sized(batch, size))
    assert str(refused.value) == (
        f"These runs have no configuration in common: leak has quick with batch 64 on A, {size} with batch {batch} on "
        "B; give both the same --size, --batch and data."
    )


def test_sizes_that_differ_beside_a_common_cell_are_told() -> None:
    both = run(
        LARGE,
        [*records(0, 2.0), *records(1, 2.0)],
        planned([comparison("workers"), *sized_comparisons(128)]),
    )
    made = compared(told(SMALL, {"workers": 1.5}), both)
    assert len(made.configs) == 1
    assert [(one.letter, one.batch) for one in made.scales["leak"]] == [("A", 64), ("B", 64), ("B", 128)]
    assert [(one.letter, one.label) for one in made.lonely["leak"]] == [("B", "workers")]


def sized_comparisons(batch: int) -> list[Any]:
    one = comparison("workers")
    return [replace(one, treatment=replace(one.treatment, batch=batch), reference=replace(one.reference, batch=batch))]


def test_real_data_and_made_data_are_never_compared() -> None:
    real = run(LARGE, records(0, 2.0), planned([comparison("workers")], data={"leak": "44 recordings of a plant"}))
    with pytest.raises(Mistake, match=r"batch 64 on A, quick with batch 64 on B \(44 recordings of a plant\)"):
        compared(told(SMALL, {"workers": 1.5}), real)


def test_one_name_for_two_stacks_is_told_and_not_compared() -> None:
    ours, theirs = comparison("workers", "amp"), comparison("workers", "pin_memory")
    runs = [
        run(
            where,
            [*records(0, 2.0), *records(1, 1.1)],
            planned([replace(one, label="all"), comparison("amp")]),
        )
        for where, one in ((SMALL, ours), (LARGE, theirs))
    ]
    made = compared(*runs)
    assert [one.label for one in made.configs] == ["amp"]
    ours_alone, theirs_alone = made.lonely["leak"]
    assert ours_alone.words == ("B has pin_memory, no amp under that name",)
    assert theirs_alone.words == ("A has amp, no pin_memory under that name",)


def test_a_cell_of_one_place_says_why_the_other_lacks_it() -> None:
    no_result = NoResult(workload="leak", label="pin_memory", reason="needs a CUDA device")
    small = run(SMALL, records(0, 1.5), planned([comparison("workers")], no_results=(no_result,)))
    made = compared(small, told(H200, RATIOS))
    words = {one.label: (one.letter, one.words) for one in made.lonely["leak"]}
    assert words == {"amp": ("B", ()), "pin_memory": ("B", ("A: needs a CUDA device",))}


@pytest.mark.parametrize("count", [0, 1])
def test_one_run_is_no_comparison(count: int) -> None:
    with pytest.raises(Mistake, match=r"needs two runs; name a second, or compare --machines"):
        of_runs([told(SMALL, RATIOS)] * count)


def test_the_same_run_twice_is_refused_under_another_name_too() -> None:
    one = told(SMALL, RATIOS)
    for other in (one, replace(one, name="renamed")):
        with pytest.raises(Mistake, match="is named twice, or is a copy of a run that is"):
            of_runs([one, told(LARGE, RATIOS), other])


def test_runs_of_other_workloads_or_other_comparisons_are_refused() -> None:
    other = run(LARGE, records(0, 2.0), planned([comparison("workers", workload="speaker")]))
    with pytest.raises(Mistake, match=r"no workload in common \(A: leak, B: speaker\); run one workload on both"):
        compared(told(SMALL, RATIOS), other)
    with pytest.raises(Mistake, match="no comparison in common; run leak on both with the same --design"):
        compared(told(SMALL, {"workers": 1.5}), told(LARGE, {"amp": 1.5}))


def test_machines_are_their_averaged_answers_and_environments_are_never_mixed() -> None:
    stored_runs = [
        told(SMALL, {"workers": 1.5, "amp": 1.2}, day=1),
        told(SMALL, {"workers": 2.0}, day=2),
        told(LARGE, {"workers": 3.0}, day=3),
        told(replace(SMALL, memory_bytes=1), {"workers": 1.0}, day=4),
    ]
    places = of_machines(stored_runs)
    assert (places[0].letter, places[0].environment) == ("A", SMALL)  # the one with most ratios
    assert len(places) == 3
    made = compare(places, NOTHING_KNOWN, NO_PRICES)
    assert [one.entry.row.estimate.ratio for one in config(made, "workers").found if one.entry.row.estimate] == (
        pytest.approx([math.sqrt(1.5 * 2.0), 3.0, 1.0])
    )
    assert [run.name[:8] for run in places[0].runs] == ["20260302", "20260301"]


def test_what_somebody_else_measured_stands_in_for_nothing_of_ours() -> None:
    theirs = by_somebody_else(told(SMALL, {"workers": 9.0}, day=2))  # newer, and the same environment it says
    places = of_machines([told(SMALL, {"workers": 1.5, "amp": 1.2}), theirs, told(LARGE, {"workers": 3.0}, day=3)])
    assert sorted(one.contributed for one in places) == [False, False, True]
    ours = config(compare(places, NOTHING_KNOWN, NO_PRICES), "workers").found[0].entry.row.estimate
    assert ours is not None
    assert ours.ratio == pytest.approx(1.5)


def test_small_sizes_prove_nothing_unless_their_run_is_named() -> None:
    smoke = [replace(sized(64, "smoke"), name=name) for name in ("one", "two")]
    other = replace(smoke[1].matrix, environment=SMALL)
    smoke[1] = replace(smoke[1], matrix=other)
    with pytest.raises(Mistake, match="nowhere, or at sizes that prove nothing"):
        of_machines(smoke)
    assert len(compare(of_runs(smoke), NOTHING_KNOWN, NO_PRICES).configs) == 1


def test_one_environment_alone_is_no_comparison_of_machines() -> None:
    with pytest.raises(Mistake, match="in one environment alone; run the same workloads on another machine"):
        of_machines([told(SMALL, RATIOS), told(SMALL, RATIOS, day=2)])


def test_letters_go_on_after_the_alphabet() -> None:
    assert [letter(index) for index in (0, 25, 26, 27, 51, 52, 701, 702)] == [
        *("A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA")
    ]


def test_throughputs_have_a_range_over_restarts_and_the_best_stack_learns_alike() -> None:
    found = [*records(0, 1.5), *records(1, 3.0, losses=(9.0, 9.0, 9.0)), *records(2, 1.2)]
    of = planned([comparison("workers"), comparison("amp"), comparison("pin_memory")])
    faster = [
        replace(one, wall_s=one.wall_s / (2 + one.arm.replicate)) if hasattr(one, "wall_s") else one for one in found
    ]
    (group,) = compared(run(SMALL, found, of), run(LARGE, faster, of)).groups
    one, other = group.throughputs
    assert one.reference.rate == pytest.approx(100.0)
    assert (one.best.name if one.best else "") == "workers"  # amp is faster and learns something else
    assert (one.reference.against, one.fastest.against) == (None, None)
    assert (other.reference.low, other.reference.high) == pytest.approx((200.0, 300.0))
    quotient = other.reference.against
    assert quotient is not None
    assert (quotient.letter, quotient.low, quotient.high) == ("A", pytest.approx(2.0), pytest.approx(3.0))
    assert quotient.low < quotient.ratio < quotient.high
    assert not hasattr(quotient, "difference")


def test_the_best_stack_stands_beside_the_reference_of_its_own_run() -> None:
    """On the second day the machine is twice as fast."""
    later = [
        replace(one, wall_s=one.wall_s / 2) if isinstance(one, Window) else one for one in records(0, 1.2, replicates=4)
    ]
    of = planned([comparison("amp")])
    stored = [told(SMALL, {"workers": 1.5}), run(SMALL, later, of, day=2), told(LARGE, {"workers": 2.0, "amp": 1.1})]
    (group,) = compare(of_machines(stored), NOTHING_KNOWN, NO_PRICES).groups
    (small,) = [one for one in group.throughputs if one.best and one.best.rate == pytest.approx(150.0)]
    assert small.reference.rate == pytest.approx(100.0)


def test_where_nothing_surely_pays_there_is_no_best_stack() -> None:
    (group,) = compared(told(SMALL, {"workers": 1.0}), told(LARGE, {"workers": 2.0})).groups
    one, other = group.throughputs
    assert one.best is None
    assert other.best is not None
    assert other.best.against is not None
    assert other.best.against.ratio == pytest.approx(2.0)  # held against the other's reference


def test_shares_of_the_limit_and_costs() -> None:
    limit = Limit(devices=("NVIDIA H200",), operations_per_s=1e6, source="a test")
    known = Known(limits=(limit,), work={("leak", "quick"): 500})
    prices = 'currency = "EUR"\n[[price]]\nmachine = "h200"\nper_hour = 3.6\nsource = "a test"\n'
    (group,) = compared(told(SMALL, {"workers": 1.5}), told(H200, {"workers": 1.5}), known=known, prices=prices).groups
    small, large = group.throughputs
    assert small.reference.share == "no limit is published of a CPU"
    assert small.reference.cost is None
    assert large.reference.share == pytest.approx(100.0 * 500 / 1e6)
    assert large.fastest.share == pytest.approx(150.0 * 500 / 1e6)
    assert large.reference.cost == pytest.approx(3.6 / 3600 / 100.0 * 1e6)
    assert large.fastest.cost == pytest.approx(3.6 / 3600 / 150.0 * 1e6)


def test_a_share_that_cannot_be_told_has_words() -> None:
    known = Known(limits=(Limit(devices=("NVIDIA H200",), operations_per_s=1e6, source="a test"),), work={})
    other = replace(H200, accelerator="NVIDIA Example")
    (group,) = compared(told(H200, {"workers": 1.5}), told(other, {"workers": 1.5}), known=known).groups
    assert [one.reference.share for one in group.throughputs] == [
        "the work of a sample of leak at size quick was not counted",
        "no limit of NVIDIA Example is known; harness/limits.toml holds those that are",
    ]
    evaluation = [
        run(where, records(0, 2.0, timing=Timing.EVALUATION), planned([comparison("amp", timing=Timing.EVALUATION)]))
        for where in (H200, other)
    ]
    (group,) = compared(*evaluation, known=known).groups
    assert {one.reference.share for one in group.throughputs} == {"a share of the limit is told of training alone"}
    assert [one.best for one in group.throughputs] == [None, None]


def test_the_work_of_another_model_is_not_guessed() -> None:
    """A reference of other options may train another model; only `original` is known to train the plain one."""
    known = Known(limits=(Limit(devices=("NVIDIA H200",), operations_per_s=1e6, source="a test"),), work=WORK)
    one = comparison("workers", "pin_memory")
    against = replace(one, reference=comparison("workers").treatment)
    runs = [run(where, records(0, 2.0), planned([against])) for where in (H200, replace(H200, driver="570.11"))]
    (group,) = compared(*runs, known=known).groups
    words = "the work of a sample was counted for the baseline training, not for workers"
    assert {one.reference.share for one in group.throughputs} == {words}
    found = replace(one, reference=comparison("workers", "amp").treatment)
    runs = [run(where, records(0, 2.0), planned([found])) for where in (H200, replace(H200, driver="570.11"))]
    (group,) = compared(*runs, known=known).groups
    assert {one.reference.name for one in group.throughputs} == {"original"}
    assert [one.reference.share for one in group.throughputs] == pytest.approx([100.0 * 500 / 1e6] * 2)
    real = [replace(one, matrix=replace(one.matrix, data={"leak": "44 recordings"})) for one in runs]
    (group,) = compared(*real, known=known).groups
    words = "the work of a sample was counted on the suite's own data"
    assert {one.reference.share for one in group.throughputs} == {words}


WORK = {("leak", "quick"): 500}


def test_a_place_that_never_gave_a_burst_has_no_throughput() -> None:
    silent = run(LARGE, [], planned([comparison("workers")]))
    (group,) = compared(told(SMALL, {"workers": 1.5}), silent).groups
    assert [one.letter for one in group.throughputs] == ["A"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[[limit]]\ndevices = ['X']\noperations_per_s = 0.0\nsource = 's'\n",
            "needs a limit above 0 and a source for X",
        ),
        (
            "[[limit]]\ndevices = ['X']\noperations_per_s = inf\nsource = 's'\n",
            "needs a limit above 0 and a source for X",
        ),
        (
            "[[limit]]\ndevices = ['X']\noperations_per_s = 1.0\nsource = ''\n",
            "needs a limit above 0 and a source for X",
        ),
        ("[[limit]]\ndevices = ['X', 'Y']\noperations_per_s = 1.0\nsource = 's'\n" * 2, "names X twice; keep one"),
    ],
)
def test_limits_that_cannot_be_are_refused(text: str, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        parse_limits(text, "limits.toml")


@pytest.mark.repeats
def test_the_intervals_hold_the_known_truth_of_two_rehearsed_machines() -> None:
    """Known effects on two invented machines: the ratio of ratios is covered as often as it promises."""
    small, large = Effects({"workers": 2.5, "compile": 0.7, "set_to_none": 1.0}), Effects({"workers": 1.2})
    held, words = list[bool](), set[Difference]()
    for seed in range(6):
        ready = prepared(
            Request(workloads=("leak",), size="quick", protocol="standard", rounds=2, seed=seed, device="cpu")
        )  # fmt: skip
        made = compared(rehearsed(SMALL, ready, small), rehearsed(LARGE, ready, large))
        for one in made.configs:
            question, (found,) = one.question, one.contrasts
            ours, theirs = (effects.speedup(question.treatment, question.reference) for effects in (large, small))
            held.append(found.low <= ours / theirs <= found.high)
            if one.label.startswith("workers"):
                words.add(found.difference)
    assert words == {Difference.LESS}
    assert len(held) > 50
    assert 0.92 <= sum(held) / len(held) <= 1.0


def test_an_invented_machine_is_its_own_draw() -> None:
    """The two machines of the test above must not share their noise, or it would cancel."""
    assert Random(f"1 {SMALL.digest}").random() != Random(f"1 {LARGE.digest}").random()
