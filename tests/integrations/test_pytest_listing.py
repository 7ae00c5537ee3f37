"""What is listed before anything is measured, and what is then measured for a selection."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from harness.core.configuration import Comparison, Configuration
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.integrations.configurations import BUDGET, Listed, listed, recorded, wanted
from harness.run.preparation import prepared
from tests.integrations.recorded import COMPARED, NO_RESULT, record

ROOT = Path(__file__).parents[2]
ON_CPU = Request(workloads=("leak",), device="cpu", target="none")


@cache
def on_cpu(budget: str = BUDGET) -> tuple[Listed, ...]:
    return listed([ON_CPU], budget)


def entry(label: str, workload: str = "leak") -> Listed:
    config = Configuration(workload=workload, size="smoke", batch=8)
    comparison = Comparison(label=label, treatment=config, reference=config, timing=Timing.STEP)
    return Listed(
        device="cpu",
        workload=workload,
        label=label,
        name=f"{workload}@smoke#8:{label}",
        reference="baseline",
        comparison=comparison,
    )


LEAK = [entry(name) for name in ("all", "one", "two=2", "three", "four", "original")]


def test_the_list_begins_with_everything_and_what_the_workload_wants_seen_first() -> None:
    names = [one.name.partition(":")[2] for one in on_cpu() if one.comparison]
    assert names[:5] == [
        "all",
        "batched_fetch",
        "hdf5_chunk_cache=32 loader",
        "itself loader",
        "file_index_cache loader",
    ]


def test_more_time_lists_more_and_no_limit_lists_the_whole_design() -> None:
    counts = [len([one for one in on_cpu(budget) if one.comparison]) for budget in ("1s", "3m", "none")]
    assert counts[0] == 4
    assert counts[0] < counts[1] < counts[2]


def test_the_time_is_shared_by_all_workloads() -> None:
    both = listed([replace(ON_CPU, workloads=("leak", "speaker"))], "6m")
    of_leak = [one for one in both if one.workload == "leak" and one.comparison]
    assert of_leak == [one for one in on_cpu("3m") if one.comparison]


def test_holes_have_the_words_of_the_plan() -> None:
    no_results = {one.label: one.reason for one in on_cpu() if one.comparison is None}
    assert no_results["pin_memory"] == "needs a CUDA device"
    assert all(no_results.values())


def test_a_device_that_is_named_twice_is_listed_once() -> None:
    assert listed([ON_CPU, ON_CPU]) == on_cpu()


def test_names_differ() -> None:
    found = listed([replace(ON_CPU, workloads=())], "none")
    names = [(one.device, one.name) for one in found]
    assert len(names) == len(set(names)) > 200


def test_a_recorded_run_lists_what_it_has_and_its_holes(tmp_path: Path) -> None:
    found = recorded(record(tmp_path))
    assert [one.comparison for one in found if one.comparison] == list(COMPARED), "what failed shows its words later"
    assert [(one.label, one.reason) for one in found if one.reason] == [(NO_RESULT.label, NO_RESULT.reason)]
    assert {one.device for one in found} == {"cpu"}


def test_what_is_no_run() -> None:
    with pytest.raises(Mistake, match=r"is not a run: it has no run\.json"):
        recorded(ROOT / "docs")


def test_all_that_is_listed_is_one_look_at_all_workloads() -> None:
    both = [*LEAK, entry("all", "spoof")]
    want = wanted(ON_CPU, both, both)
    assert want.words == ("run", "leak", "spoof", "--target", "none", "--device", "cpu")


def test_a_part_of_several_workloads_is_a_look_at_those() -> None:
    both = [*LEAK, entry("all", "spoof"), entry("all", "speaker")]
    want = wanted(ON_CPU, both, {both[0], both[-1]})
    assert (want.workloads, want.only) == (("leak", "speaker"), ())


@pytest.mark.parametrize(("count", "stack"), [(4, "all"), (3, None)])
def test_one_stack_on_many_workloads_is_measured_alone_where_they_make_a_pool(count: int, stack: str | None) -> None:
    every = [entry(label, workload) for workload in ("a", "b", "c", "d") for label in ("all", "one")]
    want = wanted(ON_CPU, every, [one for one in every if one.label == "all"][:count])
    assert (want.workloads, want.stack, want.only) == (("a", "b", "c", "d")[:count], stack, ())


def test_a_part_of_one_workload_is_measured_first_with_company_for_its_pool() -> None:
    want = wanted(replace(ON_CPU, size="smoke"), LEAK, {LEAK[3]})
    assert (want.stack, want.only) == (None, ("three", "one", "two=2", "four"))
    want = wanted(replace(ON_CPU, size="smoke"), LEAK, {LEAK[0], LEAK[4]})
    assert (want.stack, want.only) == ("all", ("four", "one", "two=2"))
    assert "--size smoke --only four --only one --only two=2 --stack all" in " ".join(want.words)


def test_four_need_no_company() -> None:
    assert wanted(ON_CPU, LEAK, set(LEAK[:4])).only == ("one", "two=2", "three")


def test_two_stacks_are_the_whole_design() -> None:
    want = wanted(ON_CPU, LEAK, {LEAK[0], LEAK[-1]})
    assert (want.stack, want.only) == (None, ())


def test_whatever_is_listed_is_compared_again_where_it_is_asked_for_alone() -> None:
    found = [one for one in on_cpu("3m") if one.comparison]
    assert {one.comparison.timing for one in found if one.comparison} >= {Timing.STEP, Timing.LOADER}
    for one in found:
        plan = prepared(wanted(ON_CPU, on_cpu("3m"), {one})).plan
        assert one.comparison in plan.comparisons, one.name


def test_parts_of_a_step_have_company_of_their_kind() -> None:
    loaders = [one for one in on_cpu("none") if one.comparison and one.comparison.timing is Timing.LOADER]
    want = wanted(ON_CPU, on_cpu("none"), {loaders[0]})
    assert want.probe == "loader"
    assert set(want.only) < {one.label for one in loaders}
    steps = next(one for one in on_cpu("none") if one.comparison and one.comparison.timing is Timing.STEP)
    assert wanted(ON_CPU, on_cpu("none"), {loaders[0], steps}).probe is None


def test_a_hole_is_never_measured() -> None:
    no_result = replace(entry("pin_memory"), comparison=None, reason="needs a CUDA device")
    assert wanted(ON_CPU, [*LEAK, no_result], {*LEAK, no_result}).only == ()
