"""Precisions, the point of Student's t that goes with looks, and what is said of an interval that is still wide."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.analyze.composition import precisions
from harness.analyze.estimate import BY_WIDTH, FIXED, Estimate, estimates, point_of
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.core.protocol import PROTOCOLS
from harness.core.records import Lost, Record
from tests.analyze.simulate_looks import LAWS, World, simulated
from tests.analyze.synthetic import Noise, arm, comparison, matrix, pairs_of, plan, records

NAMES = ("workers", "amp", "chunk_cache", "pin_memory", "augment")


def aimed(target: float | None, replicates: int = 2) -> Plan:
    base = plan(*(comparison(name) for name in NAMES), replicates=replicates)
    looks = () if target is None else (2, 3, 4)
    return replace(base, protocol=replace(base.protocol, target=target, looks=looks))


def found(replicates: int = 2, noise: float = 0.03) -> list[Record]:
    restless = Noise(replicate=noise, generator=np.random.default_rng(1))
    effective = {"workers": 2, "bfloat16_layers": True, "pinned_batches": True, "chunk_cache_bytes": 1}
    fast = {"effective": effective, "loader_rate": 1000.0, "compute_rate": 1000.0}
    return [
        one
        for index, _ in enumerate(NAMES)
        for one in records(index, 1.5, replicates=replicates, noise=restless, **fast)
    ]


def test_widths_are_those_of_the_intervals_and_say_nothing_of_the_ratios() -> None:
    the_plan = aimed(0.02)
    rows = {row.comparison: row.estimate for row in matrix(the_plan, found()).rows}
    known = precisions(the_plan, found())
    assert set(known) == {(str(index), 1) for index, _ in enumerate(NAMES)}
    for index, one in enumerate(the_plan.comparisons):
        estimate = rows[one]
        assert estimate is not None
        width = known[str(index), 1]
        assert math.exp(width.half_width) == pytest.approx(estimate.high / estimate.ratio)
        assert not hasattr(width, "ratio")


def test_what_failed_has_no_precision() -> None:
    lost = Lost(arm=arm(0, 1, 1), outcome="failed", reason="out of memory")
    assert set(precisions(aimed(0.02), [*found(), lost])) == {(str(index), 1) for index in range(1, len(NAMES))}


def test_looking_at_widths_asks_for_a_wider_interval() -> None:
    assert [point_of(one) for one in PROTOCOLS.values()] == [BY_WIDTH, BY_WIDTH]
    assert point_of(PROTOCOLS["brief"].fixed()) == FIXED
    fixed, looked = (matrix(aimed(target), found()).rows for target in (None, 0.02))
    for ours, theirs in zip(looked, fixed, strict=True):
        assert (ours.estimate, theirs.estimate) != (None, None)
        assert isinstance(ours.estimate, Estimate)
        assert isinstance(theirs.estimate, Estimate)
        widths = [math.log(one.high / one.ratio) for one in (ours.estimate, theirs.estimate)]
        df = ours.estimate.df
        assert widths[0] / widths[1] == pytest.approx(stats.t.ppf(0.985, df) / stats.t.ppf(0.975, df))


def test_the_least_spread_does_not_depend_on_looks() -> None:
    pairs = pairs_of((0.1,), (0.1,))
    (fixed,), (looked,) = estimates([pairs]), estimates([pairs], BY_WIDTH)
    assert (fixed.low, fixed.high) == (looked.low, looked.high)


def test_without_a_pool_two_replicates_that_agree_are_no_end() -> None:
    """Three comparisons of steps lend each other nothing, however many of the loader there are."""
    steps = [comparison(name) for name in NAMES[:3]]
    loads = [comparison(name, timing=Timing.LOADER) for name in NAMES[:4]]
    the_plan = plan(*steps, *loads)

    def widths(replicates: int) -> list[float]:
        calm = Noise(replicate=0.001, generator=np.random.default_rng(1))
        told = [
            one
            for index, each in enumerate((*steps, *loads))
            for one in records(index, 1.5, replicates=replicates, noise=calm, timing=each.timing)
        ]
        known = precisions(the_plan, told)
        return [known[str(index), 1].half_width for index in range(len(NAMES) + 2)]

    assert [math.isinf(one) for one in widths(2)] == [True] * 3 + [False] * 4
    assert [math.isinf(one) for one in widths(3)] == [True] * 3 + [False] * 4
    assert not any(map(math.isinf, widths(4)))


def test_a_pool_of_several_workloads_narrows_none_below_its_own_scatter() -> None:
    restless = pairs_of((0.3,), (-0.3,), (0.1,), (0.2,))
    calm = [pairs_of((0.01 * one,), (0.02,), (0.0,), (0.01,)) for one in range(5)]
    (alone,) = (one.half_width for one in estimates([restless]))
    lent = estimates([restless, *calm])[0].half_width
    joined = estimates([restless, *calm], joined=True)[0].half_width
    own = float(np.std([0.3, -0.3, 0.1, 0.2], ddof=1))
    assert joined >= lent
    assert joined >= float(stats.t.ppf(FIXED, 100)) * own / 2
    assert joined <= alone * (1 + 1e-9)


def noted(the_plan: Plan, given: list[Record]) -> list[str]:
    return [note for row in matrix(the_plan, given).rows for note in row.notes if ", target ±" in note]


def test_what_is_wider_than_its_target_says_so_and_what_would_help() -> None:
    notes = noted(aimed(0.02), found())
    assert len(notes) == len(NAMES)
    for note in notes:
        assert note.startswith("±")
        assert note.endswith(" %, target ±2 %")
        assert float(note.partition(" ")[0].removeprefix("±")) > 2.0
    (last, *_) = noted(aimed(0.02), found(replicates=4, noise=0.2))
    assert last.endswith(" %, target ±2 %: no more replicates are planned")


def test_nothing_is_said_where_the_target_is_met_or_there_is_none() -> None:
    assert noted(aimed(0.5), found()) == []
    assert noted(aimed(None), found()) == []


@pytest.mark.repeats
@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold_although_their_width_chose_the_restarts(law: str) -> None:
    """So many configurations settle the coverage to half a point; simulate_looks prints the whole table."""
    world = World(law=LAWS[law], configs=10, spread=0.015)
    looked, naive = (simulated(world, point, pools=150) for point in (BY_WIDTH, FIXED))
    assert looked.coverage >= 0.945
    assert looked.coverage > naive.coverage
    assert looked.reached > 0.9
    assert 2.5 < looked.replicates < 6
