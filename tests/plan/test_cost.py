"""The cost model: what it counts, and how well it says what recorded runs took."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Option
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan, Request
from harness.core.protocol import BRIEF, STANDARD, Protocol
from harness.core.records import Ready, Record, Window
from harness.plan.cost import (
    IMPORTS_S,
    UNSEEN,
    USUAL,
    Forecast,
    Pace,
    arm_s,
    first_ratios_s,
    replicate_s,
    seconds_for,
    slowness,
    start_s,
    windows_s,
)
from harness.plan.planning import planned
from harness.plan.schedule import by_replicate
from harness.store import read_records, read_run
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan, records
from tests.core.invented import GPU

RESULTS = Path(__file__).parents[2] / "results"
# Runs of one machine and another, four of them with several loader workers, which the quick tests read.
FEW = (
    "cpu-2-amd-epyc/20261125T215019-2b038825",
    "cpu-2-amd-epyc/20261125T221233-2b706e3e",
    "cpu-2-amd-epyc/20261126T075124-23c9edcc",
    "cpu-2-amd-epyc/20261126T174103-0d793279",
    "cpu-2-amd-epyc/20261128T051212-47169898",
    "cpu-2-amd-epyc/20261128T051438-a018baf0",
    "cpu-2-amd-epyc/20261128T055457-dd646b74",
    "cpu-2-intel-xeon/20261128T204257-a726a442",
    "cpu-2-intel-xeon/20261129T014219-fa342c59",
    "cpu-2-intel-xeon/20261129T052637-1fa4053c",
    "emulated-h100-2-amd-epyc/20261127T173440-bdf14efd",
    "emulated-h100-2-amd-epyc/20261128T093142-b495d159",
)
by_runs = pytest.mark.parametrize("names", [FEW, pytest.param((), marks=pytest.mark.thorough)], ids=["few", "all"])


def block(protocol: Protocol = BRIEF, step_s: float = 0.1, *names: str) -> Block:
    (one, *_) = plan(comparison("workers")).blocks
    comparisons = tuple(comparison(name) for name in names or ("workers",))
    return replace(one, comparisons=comparisons, rounds=protocol.rounds_of(step_s))


def with_leads() -> Iterator[Path]:
    """All published runs in which steps led into each window, as today; the others are not decoded."""
    for path in sorted(RESULTS.glob("*/*/run.json")):
        if json.loads(path.read_text(encoding="utf-8"))["plan"]["protocol"].get("lead_s", 0) > 0:
            yield path.parent


@cache
def recorded_windows(names: tuple[str, ...]) -> tuple[tuple[float, float, bool], ...]:
    """Of the runs of those names, or of all; see `windows_of`."""
    folders = [RESULTS / name for name in names] or with_leads()
    return tuple(found for folder in folders for found in windows_of(folder))


def windows_of(folder: Path) -> Iterator[tuple[float, float, bool]]:
    """Seconds of a replicate's windows as the model says, and from the first begin to the last end; loader workers?"""
    run, attempts = read_run(folder), defaultdict[tuple[str, int, int], list[Record]](list)
    for one in read_records(folder):
        attempts[one.arm.block, one.arm.replicate, one.arm.attempt].append(one)
    blocks = {one.identity: one for one in run.plan.blocks}
    for (identity, _, _), found in attempts.items():
        block, protocol = blocks[identity], run.plan.protocol
        ready = {one.arm.position: one for one in found if isinstance(one, Ready)}
        windows = [one for one in found if isinstance(one, Window)]
        wanted = (block.rounds or protocol.rounds) * (len(ready) - 1)
        if windows and sum(one.arm.position > 0 for one in windows) == wanted:
            steps_s = [ready[position].step_s for position in sorted(ready)]
            alive = tuple(block.comparisons[position - 1] for position in sorted(ready) if position)
            timed = replace(block, comparisons=alive)
            guess_s = windows_s(timed, protocol, steps_s, ready[0].cycle_steps or math.inf)
            configs = (block.reference, *(one.treatment for one in block.comparisons))
            workers = any(
                option.name == "workers" and int(option.level) > 1 for one in configs for option in one.options
            )
            yield guess_s, max(one.began_s + one.wall_s for one in windows), workers


@pytest.mark.repeats
@by_runs
def test_recorded_windows_took_what_the_model_says(names: tuple[str, ...]) -> None:
    found = recorded_windows(names)
    assert len(found) >= 16
    assert median(abs(guess_s / took_s - 1) for guess_s, took_s, _ in found) < 0.2
    single = [(guess_s, took_s) for guess_s, took_s, workers in found if not workers]
    assert sum(guess_s for guess_s, _ in single) == pytest.approx(sum(took_s for _, took_s in single), rel=0.15)


@pytest.mark.repeats
@by_runs
def test_windows_of_several_loader_workers_take_no_less_than_the_model_says(names: tuple[str, ...]) -> None:
    """They hold whole groups of what workers finish; how much faster such arms are is not known before they run."""
    several = [(guess_s, took_s) for guess_s, took_s, workers in recorded_windows(names) if workers]
    assert len(several) >= 16
    guess_s, took_s = (sum(found) for found in zip(*several, strict=True))
    assert (0.5 if names else 0.0) * took_s < guess_s < 1.1 * took_s


def test_windows_cost_more_where_an_arm_is_far_faster_though_its_own_steps_cost_less() -> None:
    one, epoch = block(STANDARD), math.inf
    usual_s, fast_s, faster_s = (windows_s(one, STANDARD, (0.1, 0.1 / times), epoch) for times in (1.0, 8.0, 16.0))
    assert fast_s < usual_s
    assert faster_s > 1.6 * fast_s


def beside(*workers: int, timing: Timing = Timing.STEP) -> Block:
    """A block of arms with so many loader workers each, none where it is 0."""
    one = comparison(timing=timing)
    options = ((Option(name="workers", level=count),) if count else () for count in workers)
    arms = (replace(one, treatment=replace(one.treatment, options=chosen)) for chosen in options)
    return replace(block(), timing=timing, comparisons=tuple(arms))


@pytest.mark.parametrize(
    ("workers", "timing", "steps"),
    [
        ((0, 1), Timing.STEP, 5),
        ((2, 0), Timing.STEP, 6),
        ((8, 0), Timing.STEP, 16),
        ((8, 5), Timing.STEP, 80),
        ((8, 0), Timing.COMPUTE, 5),
        ((8, 0), Timing.EVALUATION, 5),
    ],
)
def test_windows_hold_whole_groups_of_all_loader_workers(workers: tuple[int, int], timing: Timing, steps: int) -> None:
    one, protocol = beside(*workers, timing=timing), replace(BRIEF, part_s=None)
    alone_s, found_s = (windows_s(each, protocol, (0.1,) * 3, math.inf) for each in (beside(0, 0), one))
    rounds = protocol.rounds
    visits = 3 * rounds + 1  # two treatments stand between two windows of the reference
    assert found_s - alone_s == pytest.approx(visits * (steps - 5) * 0.1)


def test_a_forecast_counts_the_loader_workers_of_those_that_are_alive() -> None:
    made = plan(comparison("workers"))
    told = forecast(replace(made, protocol=BRIEF, blocks=(beside(0, 8),)), [])
    without_s, with_s = (told.replicate_s(told.plan.blocks[0], (one,)) for one in (1, 2))
    assert with_s > 1.5 * without_s
    firsts_s = first_ratios_s(told.plan, {})
    assert firsts_s == first_ratios_s(replace(told.plan, blocks=(beside(0),)), {})


def test_later_replicates_of_what_steps_beside_the_host_take_as_many_first_steps() -> None:
    host, device = Pace(), Pace(steps_on_host=False)
    for timing, more in ((Timing.STEP, 2), (Timing.LOADER, 0)):
        took_s = [start_s(BRIEF, (1.0, 1.0), one, 0.0, timing) for one in (host, device)]
        assert took_s[1] - took_s[0] == pytest.approx(2 * more * 1.0), timing


@pytest.mark.parametrize(
    ("workers", "timing", "epoch", "steps"),
    [
        (0, Timing.STEP, math.inf, 3 * 5),
        (8, Timing.STEP, math.inf, 3 * (16 + 16)),
        (0, Timing.STEP, 12, 12),
        (0, Timing.COMPUTE, math.inf, 0),
    ],
)
def test_arms_that_meet_all_shapes_first_pay_for_the_samples_of_all_windows(
    workers: int, timing: Timing, epoch: float, steps: int
) -> None:
    one, pace = beside(workers, timing=timing), Pace(step_s=0.1, epoch_steps=epoch)
    usual_s, met_s = (replicate_s(one, BRIEF, each, (1.0,)) for each in (pace, replace(pace, meets_shapes=True)))
    assert met_s - usual_s == pytest.approx(steps * 2 * 0.1)


def test_a_standard_arm_is_warmed_up_and_watched_longer() -> None:
    brief_s, standard_s = (start_s(protocol, (0.06, 0.06)) for protocol in (BRIEF, STANDARD))
    seconds = STANDARD.floor_s + STANDARD.settle_s - BRIEF.floor_s
    assert standard_s > brief_s + 2 * seconds


def test_a_reference_is_paid_for_once_in_a_block() -> None:
    pace = Pace(step_s=0.1)
    one_s, two_s, six_s = (replicate_s(block(), BRIEF, pace, [1.0] * count) for count in (1, 2, 6))
    assert one_s < two_s < 2 * one_s
    assert six_s < 4.5 * one_s


def test_fewer_rounds_and_shorter_steps_cost_less() -> None:
    usual = block()
    assert replicate_s(replace(usual, rounds=2), BRIEF, USUAL, (1.0,)) < replicate_s(usual, BRIEF, USUAL, (1.0,))
    assert arm_s(BRIEF, Pace(step_s=0.1)) < arm_s(BRIEF, Pace(step_s=2.0))


@pytest.mark.parametrize("replicates", [None, 2])
@pytest.mark.parametrize(("environment", "whole", "compute"), [(ENVIRONMENT, 6, 6), (GPU, 5, None)], ids=["cpu", "gpu"])
def test_there_are_as_many_rounds_as_steps_of_the_device_allow(
    environment: Environment, whole: int, compute: int | None, replicates: int | None
) -> None:
    """Of speaker's 0.27 s on a core 0.12 are not loading, which takes longer beside a GPU; None: the protocol's."""
    asked = Request(
        workloads=("speaker",), size="quick", design="alone", only=("set_to_none",), protocol="standard",
        replicates=replicates,
    )  # fmt: skip
    found = [planned(replace(asked, probe=probe), read_catalogue(), environment) for probe in (None, "compute")]
    assert [{one.rounds for one in each.blocks} for each in found] == [{whole}, {compute}]


def test_an_epoch_is_timed_whole() -> None:
    pace, steps = Pace(step_s=0.3, epoch_steps=40), block(BRIEF, 0.3)
    epochs = replace(steps, timing=Timing.EPOCH)
    assert replicate_s(epochs, BRIEF, pace, (1.0,)) > 2 * replicate_s(steps, BRIEF, pace, (1.0,))


def test_a_plan_costs_all_its_blocks_and_its_first_ratios_one_comparison_of_each_workload() -> None:
    both = plan(comparison("workers"), comparison("amp"), comparison("workers", workload="speaker"))
    paces = {"leak": Pace(step_s=0.2), "speaker": Pace(step_s=0.5)}
    firsts_s = first_ratios_s(both, paces)
    assert list(firsts_s) == ["leak", "speaker"]
    assert seconds_for(both, paces) == pytest.approx(2 * firsts_s["leak"] + firsts_s["speaker"])
    assert seconds_for(both, {}) == seconds_for(both, {"leak": USUAL, "speaker": USUAL})


def test_slowness_is_of_what_was_measured_and_guessed() -> None:
    assert slowness({}, {"leak": 1.0}) is None
    assert slowness({"leak": 2.0, "strange": 9.0}, {"leak": 1.0, "speaker": 1.0}) == 2.0
    assert slowness({"leak": 4.0, "speaker": 1.0}, {"leak": 1.0, "speaker": 1.0}) == pytest.approx(2.0)


# ------------------------------------------------------------------------------------------------------ forecasts


def forecast(of: Plan, found: Sequence[Record], arms_s: dict[str, float] | None = None) -> Forecast:
    return Forecast(plan=of, kept=by_replicate(found), paces={}, arm_s={} if arms_s is None else arms_s)


TWO = plan(comparison("workers"), comparison("amp"), comparison("workers", workload="speaker"))


def test_what_nobody_has_seen_is_forecast_with_a_margin_and_what_was_seen_without() -> None:
    unseen = forecast(TWO, [])
    guess_s = replicate_s(TWO.blocks[0], TWO.protocol, USUAL, (1.0,))
    assert unseen.replicate_s(TWO.blocks[0], (1,)) == pytest.approx(UNSEEN * (guess_s - IMPORTS_S) + IMPORTS_S)
    unseen.learn(TWO.blocks[0], (1,), 3 * guess_s)
    assert unseen.replicate_s(TWO.blocks[0], (1,)) == pytest.approx(3 * guess_s)
    assert unseen.replicate_s(TWO.blocks[2], (1,)) == pytest.approx(3 * guess_s), "as others do"


def test_imports_that_the_first_workload_pays_for_make_no_other_look_slow() -> None:
    told, untold = forecast(TWO, []), forecast(TWO, [])
    guess_s = replicate_s(TWO.blocks[0], TWO.protocol, USUAL, (1.0,))
    told.learn(TWO.blocks[0], (1,), guess_s + 4.0, imports_s=4.0 + IMPORTS_S)
    untold.learn(TWO.blocks[0], (1,), guess_s + 4.0)
    assert told.replicate_s(TWO.blocks[2], (1,)) == pytest.approx(guess_s)
    assert told.replicate_s(TWO.blocks[0], (1,)) == pytest.approx(guess_s + 4.0), "its next replicate imports again"
    assert untold.replicate_s(TWO.blocks[2], (1,)) == pytest.approx(guess_s + 4.0)


def test_a_new_root_imports_as_long_as_the_longest_before_it() -> None:
    def next_s(first_s: float) -> float:
        told = forecast(TWO, [])
        told.learn(TWO.blocks[0], (1,), 10.0, imports_s=first_s)
        told.learn(TWO.blocks[0], (1,), 6.0, imports_s=0.1)  # a part of steps, forked from the root that is there
        told.learn(TWO.blocks[2], (1,), 6.0, imports_s=0.2)
        return told.replicate_s(TWO.blocks[0], (1,), 1)

    assert next_s(4.0) - next_s(1.0) == pytest.approx(3.0)


def test_a_fast_arm_that_was_seen_counts_with_its_own_steps() -> None:
    seen = [replace(one, step_s=0.3 / (1 + one.arm.position)) for one in records(0, 2.0) if isinstance(one, Ready)]
    before_s, after_s = (forecast(TWO, found).replicate_s(TWO.blocks[0], (1,)) for found in ([], seen))
    assert after_s < before_s


def test_a_first_ratio_needs_what_is_missing_of_two_restarts() -> None:
    fresh, half = forecast(TWO, []), forecast(TWO, [one for one in records(0, 2.0) if one.arm.replicate == 0])
    assert [(block.identity, position) for block, position in fresh.first_ratios()] == [("0", 1), ("2", 1)]
    assert half.first_ratio_s(TWO.blocks[0], 1) < 0.6 * fresh.first_ratio_s(TWO.blocks[0], 1)
    assert not half.has_ratio
    whole = forecast(TWO, list(records(0, 2.0)))
    assert whole.has_ratio
    assert [block.reference.workload for block, _ in whole.first_ratios()] == ["speaker"]


def test_replicates_that_a_block_alone_has_were_timed_too() -> None:
    one = plan(comparison("workers"))
    (block,) = (replace(block, replicates=4) for block in one.blocks)
    found = forecast(replace(one, blocks=(block,)), records(0, 2.0, replicates=4))
    assert (found.timed(block, 1), one.protocol.most_replicates) == (4, 2)
