from dataclasses import replace

import pytest

from harness.analyze.evidence import Side
from harness.analyze.profile import Phases, beside, bottleneck, phases, profile
from harness.core.configuration import Option
from harness.core.optimization import Timing
from harness.core.recipe import Value
from tests.analyze.synthetic import arm, config, ready, window


def test_phases_are_sums_over_sums() -> None:
    found = phases([window(arm(), 0, 100.0), window(arm(), 2, 50.0)])
    assert (found.input_wait, found.copy, found.compute) == pytest.approx((0.8, 0.05, 0.15))


def test_what_runs_beside_the_compute_is_not_taken_from_it() -> None:
    """Batches sent ahead: the device works 90 % of the time, while the next batch is waited for and copied."""
    shares = Phases(input_wait=0.5, copy=0.3, compute=0.2)
    found = beside(0.9, shares)
    assert (found.input_wait, found.copy, found.compute) == pytest.approx((0.1, 0.0, 0.9))
    assert beside(0.2, shares).input_wait == 0.5
    assert beside(1.1, shares).compute == 1.0


def test_a_device_that_always_works_is_not_called_idle_because_its_next_batch_was_waited_for() -> None:
    """Windows in which the host waits 80 % of the time, at a rate that the step alone does not exceed."""
    told = {}
    for ahead in (True, False):
        working = {"workers": 2, "device_prefetch": ahead}
        readies = tuple(replace(one, effective=working, compute_rate=100.0) for one in side(loader_rate=120.0).readies)
        told[ahead] = profile(
            replace(side(), readies=readies, windows=(window(arm(), 0, 98.0), window(arm(1), 0, 98.0)))
        )
    for found in told.values():
        assert found is not None
        assert found.bottleneck is not None
    assert (told[True].bottleneck.stage, told[False].bottleneck.stage) == ("compute", "input")
    assert told[True].phases.input_wait == pytest.approx(0.02)
    assert told[True].phases.overlapped
    assert told[False].phases.input_wait == pytest.approx(0.8)


def test_a_host_that_runs_ahead_of_a_device_loads_beside_it() -> None:
    """The host waits 80 % of the time for batches, and the device still trains as fast as it can."""
    stages = {}
    for name in ("deferred_metrics", "set_to_none"):
        readies = tuple(replace(one, compute_rate=100.0) for one in side(loader_rate=120.0).readies)
        windows = tuple(replace(window(arm(number), 0, 98.0), device_s=0.9) for number in (0, 1))
        options = (Option(name=name, level=None),)
        found = profile(replace(side(), config=replace(config(), options=options), readies=readies, windows=windows))
        assert found is not None
        assert found.bottleneck is not None
        stages[name] = found.bottleneck.stage
    assert stages == {"deferred_metrics": "compute", "set_to_none": "input"}


def test_times_add_without_loader_workers() -> None:
    rate = 1 / (1 / 100 + 1 / 640)
    found = bottleneck(rate, loader_rate=100, compute_rate=640)
    assert found.stage == "input"
    assert found.bound == pytest.approx(7.4)


def test_the_lower_ceiling_is_the_rate_when_stages_overlap() -> None:
    found = bottleneck(198.0, loader_rate=1000, compute_rate=200)
    assert found.stage == "compute"
    assert found.bound == pytest.approx(1000 / 198)


def test_a_free_stage_slows_nothing_down() -> None:
    assert bottleneck(110.0, loader_rate=100, compute_rate=105).bound == 1.0


@pytest.mark.parametrize(
    ("effective", "told"),
    [
        ({"workers": 2, "varying_shapes": True}, False),
        ({"workers": 2, "varying_shapes": False}, True),
        ({"workers": 0, "varying_shapes": True}, True),  # its windows tell it
        ({"workers": 2, "varying_shapes": True, "emulated_step_ms": 7.0}, True),  # whatever their shapes
    ],
)
def test_a_step_alone_on_a_few_of_many_shapes_bounds_nothing(effective: dict[str, Value], *, told: bool) -> None:
    first, later = side().readies
    readies = (replace(first, effective=effective), replace(later, effective={"workers": effective["workers"]}))
    found = profile(replace(side(), readies=readies))
    assert found is not None
    assert found.loader_rate is not None
    assert (found.compute_rate is not None, found.bottleneck is not None) == (told, told)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"varying_shapes": True}, False),
        ({"varying_shapes": False}, True),
        ({"varying_shapes": True, "emulated_step_ms": 7.0}, True),
    ],
)
def test_nor_does_it_without_workers_where_the_device_works_on_its_own(facts: dict[str, Value], *, told: bool) -> None:
    readies = tuple(replace(one, effective={"workers": 0, **facts}) for one in side().readies)
    windows = tuple(replace(one, device_s=0.5 * one.wall_s) for one in side().windows)
    found = profile(replace(side(), readies=readies, windows=windows))
    assert found is not None
    assert (found.compute_rate is not None, found.bottleneck is not None) == (told, told)


@pytest.mark.parametrize("workers", [0, 2])
def test_only_loader_workers_load_beside_a_step(workers: int) -> None:
    readies = tuple(replace(one, effective={"workers": workers}) for one in side().readies)
    found = profile(replace(side(), readies=readies))
    assert found is not None
    assert found.bottleneck is not None
    assert found.bottleneck.loads_beside is (workers > 0)


def test_what_many_shapes_leave_of_a_probe_still_tells_what_runs_beside_it() -> None:
    """Batches sent ahead: the host waits 80 % of the time while the device works."""
    working = {"workers": 2, "device_prefetch": True, "varying_shapes": True}
    readies = tuple(replace(one, effective=working, compute_rate=100.0) for one in side().readies)
    found = profile(replace(side(), readies=readies, windows=(window(arm(), 0, 98.0), window(arm(1), 0, 98.0))))
    assert found is not None
    assert found.compute_rate is None
    assert found.phases.input_wait == pytest.approx(0.02)


def side(timing: Timing = Timing.STEP, loader_rate: float | None = 100.0) -> Side:
    working = {"layout": "contiguous", "workers": 2}  # ahead of the step, so that bounds are probed
    readies = (
        ready(arm(), loader_rate=loader_rate, effective=working),
        ready(arm(replicate=1), loader_rate=300.0, effective=working, steady=False),
    )
    windows = (window(arm(), 0, 100.0, timing=timing), window(arm(replicate=1), 0, 50.0, timing=timing))
    return Side(config=config(), proved=frozenset({"workers"}), pointless=(), windows=windows, readies=readies, lost=())


def test_a_profile_gathers_all_restarts() -> None:
    found = profile(side())
    assert found is not None
    assert found.rate == pytest.approx(2 / (1 / 100 + 1 / 50))
    assert found.loader_rate == pytest.approx(150)
    assert (found.first_step_s, found.steady, found.device_bytes, found.device_span) == (1.35, False, None, None)
    assert found.facts == {"layout": "contiguous", "workers": 2}
    assert found.bottleneck is not None


def test_no_bottleneck_of_training_where_evaluation_is_timed_or_a_ceiling_is_missing() -> None:
    evaluation = profile(side(Timing.EVALUATION))
    assert evaluation is not None
    assert evaluation.bottleneck is None
    missing = side()
    blind = Side(
        config=config(),
        proved=frozenset(),
        pointless=(),
        windows=missing.windows,
        readies=tuple(ready(arm(), compute_rate=None, effective={"workers": 2}) for _ in range(2)),
        lost=(),
    )
    found = profile(blind)
    assert found is not None
    assert (found.bottleneck, found.compute_rate) == (None, None)


def test_no_profile_before_the_first_burst() -> None:
    unborn = Side(config=config(), proved=frozenset(), pointless=(), windows=(), readies=(ready(arm()),), lost=())
    assert profile(unborn) is None


def test_where_neither_stage_clearly_takes_longer_both_hold_the_rate_back() -> None:
    even, uneven = (bottleneck(22.0, loader_rate=loader, compute_rate=44.0) for loader in (47.0, 60.0))
    assert even.stages == ("input", "compute")
    assert uneven.stages == ("compute",)
