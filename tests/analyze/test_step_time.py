import numpy as np
import pytest

from harness.analyze.search.stage_model import Array, Overlap, Traced, alone, computing, soft_maximum, step, variables

SHARP = Overlap(loading=7.0, launching=7.0, hidden=-9.0, asynchronous=True)
LOGS = np.log(np.array([[3.0, 2.0, 0.5, 0.25], [1.0, 2.0, 0.5, 0.25], [1.0, 0.5, 2.0, 0.25]]))
OVERLAPPED = np.array([True, True, True])


def test_with_workers_a_step_takes_its_slowest_stage_and_what_nothing_hides() -> None:
    found = step(variables(LOGS), OVERLAPPED, SHARP)
    assert np.exp(found.value) == pytest.approx([3.25, 2.25, 2.25], rel=1e-3)


def test_without_workers_loading_is_added_but_for_the_share_that_is_hidden() -> None:
    found = step(variables(LOGS), ~OVERLAPPED, SHARP)
    assert np.exp(found.value) == pytest.approx([5.25, 3.25, 3.25], rel=2e-3)
    hidden = Overlap(loading=7.0, launching=7.0, hidden=0.0, asynchronous=True)  # half of it, while the device works
    assert np.exp(step(variables(LOGS), ~OVERLAPPED, hidden).value) == pytest.approx([3.75, 2.75, 3.25], rel=2e-3)


def test_on_one_set_of_cores_everything_but_loading_workers_takes_turns() -> None:
    serial = Overlap(loading=7.0, launching=7.0, hidden=3.0, asynchronous=False)
    assert np.exp(step(variables(LOGS), ~OVERLAPPED, serial).value) == pytest.approx([5.75, 3.75, 3.75])
    assert np.exp(step(variables(LOGS), OVERLAPPED, serial).value) == pytest.approx([3.25, 2.75, 2.75], rel=2e-3)


def test_what_events_span_leaves_out_loading_and_sync_and_cached_batches_leave_out_loading() -> None:
    assert np.exp(computing(variables(LOGS), SHARP).value) == pytest.approx([2.0, 2.0, 2.0], rel=1e-3)
    assert np.exp(alone(variables(LOGS), SHARP).value) == pytest.approx([2.25, 2.25, 2.25], rel=1e-3)


def test_a_soft_maximum_of_power_one_is_the_sum_and_lies_above_both_otherwise() -> None:
    one, other = variables(LOGS)[:2]
    unit = Traced(value=np.ones(1), slope=np.zeros((1, 7)))
    assert np.exp(soft_maximum(one, other, unit).value) == pytest.approx([5.0, 3.0, 1.5])
    cube = Traced(value=np.array([3.0]), slope=np.zeros((1, 7)))
    assert np.exp(soft_maximum(one, other, cube).value) == pytest.approx(
        [35 ** (1 / 3), 9 ** (1 / 3), 1.125 ** (1 / 3)]
    )


@pytest.mark.parametrize("asynchronous", [True, False])
def test_slopes_are_those_of_the_values(asynchronous: bool) -> None:
    generator = np.random.default_rng(3)
    logs, overlapped = generator.normal(0, 1, (6, 4)), np.array([True, False] * 3)
    at = np.array([0.4, 0.9, -0.3])

    def values(point: Array) -> Array:
        shape = Overlap(loading=point[4], launching=point[5], hidden=point[6], asynchronous=asynchronous)
        return step(variables(logs + point[:4]), overlapped, shape).value

    start = np.concatenate([np.zeros(4), at])
    shape = Overlap(loading=at[0], launching=at[1], hidden=at[2], asynchronous=asynchronous)
    found = step(variables(logs), overlapped, shape).slope
    for index in range(7):
        away = np.zeros(7)
        away[index] = 1e-5
        assert found[:, index] == pytest.approx((values(start + away) - values(start - away)) / 2e-5, abs=1e-8)
