import math
from dataclasses import replace

import pytest

from harness.analyze.matrix import Matrix, build_matrix
from harness.analyze.profile import Profile
from harness.analyze.search.stage_model import Declared, Signal, Stack, Study, fit, signals, study_of
from harness.core.configuration import Option
from harness.core.environment import Environment
from harness.core.optimization import Stage, Timing
from harness.core.records import Record, Window
from tests.analyze.synthetic import ENVIRONMENT, Noise, comparison, config, plan, records

RATIOS = {("workers",): 1.8, ("amp",): 1.1, ("pin_memory",): 1.0, ("amp", "workers"): 2.5}


def overlapped(stack: Stack) -> bool:
    return any(one.name == "workers" for one in stack)


DECLARED = Declared(
    stages={"workers": Stage.INPUT, "amp": Stage.DEVICE, "pin_memory": Stage.HOST}, overlapped=overlapped
)
KIND = {"loader_rate": 240.0, "compute_rate": 500.0, "effective": {"layout": "contiguous", "workers": 2}}


def matrix(
    environment: Environment = ENVIRONMENT, *, busy: float | None = None, timing: Timing = Timing.STEP
) -> Matrix:
    """Four stacks against the baseline, with one device time for all where it is asked for."""
    stacks = [comparison(*names, timing=timing) for names in RATIOS]
    found: list[Record] = []
    for block, ratio in enumerate(RATIOS.values()):
        noise = Noise(window=0.002, replicate=0.004)
        found += records(block, ratio, noise=noise, timing=timing, **(KIND if block == 0 else {}))
    told = [replace(one, device_s=busy * one.wall_s) if busy and isinstance(one, Window) else one for one in found]
    return build_matrix(plan(*stacks), told, environment)


def study(found: Matrix) -> Study:
    known = study_of(found, "leak", DECLARED)
    assert isinstance(known, Study)
    return known


def test_a_study_holds_every_ratio_with_its_error_and_the_time_of_its_reference() -> None:
    known = study(matrix())
    assert len(known.ratios) == 4
    for one in known.ratios:
        names = tuple(option.name for option in one.treatment.options)
        assert one.log_ratio == pytest.approx(math.log(RATIOS[names]), abs=0.03)
        assert 0.002 < one.deviation < 0.03
        assert one.treatment.overlapped == ("workers" in names)
        assert one.reference.options == ()
    assert known.seconds == pytest.approx(0.01, rel=0.05)  # the synthetic reference takes 100 samples a second
    assert known.declared == DECLARED.stages


def test_a_study_holds_no_ratio_of_a_disturbed_machine() -> None:
    stacks = [comparison(*names) for names in RATIOS]
    found = [one for block, ratio in enumerate(RATIOS.values()) for one in records(block, ratio)]
    shaken = [
        replace(one, others=0.5) if isinstance(one, Window) and (one.arm.block, one.arm.position) == ("3", 1) else one
        for one in found
    ]
    disturbed = build_matrix(plan(*stacks), shaken, ENVIRONMENT)
    assert [row.label for row in disturbed.rows if row.estimate and row.estimate.disturbed] == ["amp+workers"]
    known = study(disturbed)
    assert {one.treatment.options for one in known.ratios} == {stack.treatment.options for stack in stacks[:3]}
    assert not any(len(one.arrangement.options) == 2 for one in known.sights)


def test_signals_are_seconds_of_a_sample_where_the_records_have_them() -> None:
    sights = {one.arrangement.options: one.seconds for one in study(matrix()).sights}
    assert sights[Option(name="workers"),] == pytest.approx({Signal.LOADER: 1 / 240, Signal.COMPUTE: 1 / 500})
    assert set(sights[()]) == {Signal.LOADER, Signal.COMPUTE, Signal.WAIT}
    assert (sights[()][Signal.LOADER], sights[()][Signal.COMPUTE]) == pytest.approx((1 / 125, 1 / 500), rel=0.01)
    assert sights[()][Signal.WAIT] == pytest.approx(0.8 / 100, rel=0.02)  # the synthetic arms wait for 80 % of the time
    assert len(sights) == 5


def test_device_times_are_the_share_of_the_time_of_a_sample() -> None:
    known = study(matrix(busy=0.5))
    plain = next(one for one in known.sights if not one.arrangement.options)
    assert plain.seconds[Signal.SPAN] == pytest.approx(0.5 * known.seconds, rel=0.02)


def test_what_was_not_recorded_is_not_there() -> None:
    profile = matrix().tables[0].profile
    assert isinstance(profile, Profile)
    assert signals(replace(profile, loader_rate=None, compute_rate=None), overlapped=True) == {}
    told = signals(replace(profile, device_span=0.25), overlapped=True)
    assert set(told) == {Signal.LOADER, Signal.COMPUTE, Signal.SPAN}
    assert set(signals(profile, overlapped=False)) == {Signal.LOADER, Signal.COMPUTE, Signal.WAIT}


def test_a_gpu_works_while_the_host_goes_on() -> None:
    assert not study(matrix()).asynchronous
    assert study(matrix(replace(ENVIRONMENT, device="cuda"))).asynchronous


@pytest.mark.parametrize(("workload", "timing"), [("speaker", Timing.STEP), ("leak", Timing.EVALUATION)])
def test_other_workloads_and_timings_say_nothing_of_training_steps(workload: str, timing: Timing) -> None:
    found = study_of(matrix(timing=timing), workload, DECLARED)
    assert found == f"no ratio of {workload} was measured on training steps"


def test_cells_of_another_batch_are_left_out() -> None:
    found = matrix()
    table = found.tables[0]
    larger = replace(table.rows[0].comparison, treatment=config("amp", batch=128))
    rows = (replace(table.rows[0], comparison=larger), *table.rows[1:])
    assert len(study(replace(found, tables=(replace(table, rows=rows),))).ratios) == 3


def test_a_ratio_without_bounds_tells_nothing() -> None:
    found = matrix()
    table = found.tables[0]
    assert table.rows[0].estimate
    boundless = replace(table.rows[0], result=replace(table.rows[0].estimate, high=math.inf))
    one_less = study(replace(found, tables=(replace(table, rows=(boundless, *table.rows[1:])),)))
    assert len(one_less.ratios) == 3
    none_left = replace(found, tables=(replace(table, rows=(boundless,)),))
    assert study_of(none_left, "leak", DECLARED) == "no ratio of leak was measured on training steps"


def test_a_study_of_records_can_be_fitted() -> None:
    known = study(matrix(replace(ENVIRONMENT, device="cuda"), busy=0.5))
    model = fit(known)
    plain = known.ratios[0].reference
    for one in known.ratios:
        found, _ = model.log_ratios([one.treatment], plain)
        assert math.exp(found[0]) == pytest.approx(math.exp(one.log_ratio), rel=0.1)
