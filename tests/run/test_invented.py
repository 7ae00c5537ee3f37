"""Invented machines: every disturbance is what it says it is."""

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from benchmarks.invented.hidden import FASTEST
from benchmarks.invented.machines import (
    GRID_S,
    SPIKE,
    STRETCH,
    WORLDS,
    Drift,
    Machine,
    Neighbour,
    Periodic,
    Rare,
    TwoSpeeds,
    World,
)

CHANCE = Random(0)


def machine(seed: int = 0, **facts: object) -> Machine:
    world = World(name="test", **{"drifts": (), **facts})  # type: ignore[arg-type]
    return Machine(world=world, generator=np.random.default_rng(seed))


def slownesses(one: Machine, seconds: float = 1.0, gap_s: float = 0.0, count: int = 4000) -> np.ndarray:
    """Logs of how much longer works of so many seconds take, one after another."""
    found, now_s = [], 0.0
    for _ in range(count):
        taken_s = one.slowed(seconds, now_s, CHANCE)
        found.append(math.log(taken_s / seconds))
        now_s += taken_s + gap_s
    return np.array(found)


@pytest.mark.parametrize("work_s", [0.01, 0.55, 3.0, 1000.0])
@pytest.mark.parametrize("now_s", [0.0, 0.07, 599.95, 12_345.6])
def test_work_takes_its_time_where_nothing_disturbs(work_s: float, now_s: float) -> None:
    assert machine().slowed(work_s, now_s, CHANCE) == pytest.approx(work_s)


def test_heat_is_gained_at_work_and_lost_without() -> None:
    one = machine(heat=0.06, heating_s=100.0)
    assert math.log(one.slowed(1.0, 0.0, CHANCE)) < 0.001
    taken_s = one.slowed(1000.0, 10.0, CHANCE)
    assert math.log(one.slowed(1.0, 10.0 + taken_s, CHANCE)) == pytest.approx(0.06, abs=1e-4)
    assert math.log(one.slowed(1.0, 11.1 + taken_s + 100.0, CHANCE)) == pytest.approx(0.06 / math.e, abs=1e-3)


def test_a_neighbour_is_there_as_often_and_as_long_as_it_says() -> None:
    there = slownesses(machine(neighbour=Neighbour(on_s=40.0, off_s=80.0, slower=0.26)), GRID_S, count=100_000) > 0.13
    assert there.mean() == pytest.approx(1 / 3, abs=0.06)
    comes = int((np.diff(there.astype(int)) == 1).sum())
    assert 100_000 * GRID_S * 1.1 / comes == pytest.approx(120.0, rel=0.2)


def test_a_drift_has_its_deviation_and_its_memory_across_stretches() -> None:
    path = slownesses(machine(drifts=(Drift(deviation=0.03, memory_s=5.0),)), GRID_S, count=8 * STRETCH)
    assert path.std() == pytest.approx(0.03, rel=0.1)
    lag = round(5.0 / GRID_S)
    assert np.corrcoef(path[:-lag], path[lag:])[0, 1] == pytest.approx(1 / math.e, abs=0.1)
    assert np.abs(np.diff(path)).max() < 0.04  # no jump where one stretch ends


def test_spikes_spoil_a_share_of_moments() -> None:
    longer = np.expm1(slownesses(machine(spikes=0.01), GRID_S, count=50_000)).mean()
    assert longer == pytest.approx(0.01 * (1 - math.exp(-SPIKE)), rel=0.15)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_same_seed_invents_the_same_and_another_seed_another(world: World) -> None:
    first, again, other = (
        slownesses(Machine(world=world, generator=np.random.default_rng(seed)), gap_s=0.3, count=50)
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_world_tells_all_that_disturbs_it(world: World) -> None:
    told = str(world)
    assert all(f"{100 * drift.deviation:g} %" in told for drift in world.drifts)
    assert ("neighbour" in told) is (world.neighbour is not None)
    assert ("heat" in told) is (world.heat > 0)
    assert ("tenths" in told) is (world.spikes > 0)
    assert (str(world.workload) in told) is (world.workload is not None)


STALLING = [world for world in WORLDS if world.workload]


@pytest.mark.parametrize("world", STALLING, ids=lambda world: world.name)
def test_steps_wait_as_long_in_the_mean_as_their_workload_says(world: World) -> None:
    assert world.workload is not None
    waits = world.workload.waits(np.random.default_rng(1))
    found = [one for first in range(0, 400_000, 20) for one in waits(first % 400, 20)]
    assert len(found) == 400_000
    assert np.mean(found) == pytest.approx(world.workload.mean, rel=0.1)
    assert world.workload.mean < 1 / (
        FASTEST - 1
    )  # or the fastest configuration would be faster than what it waits for


def test_stalls_are_rare_periodic_or_in_runs_as_they_say() -> None:
    rare, periodic, two = (
        kind.waits(np.random.default_rng(2))(0, 200_000)
        for kind in (Rare(every=500, wait=60.0), Periodic(every=40, wait=20.0), TwoSpeeds(share=0.3, wait=1.0, run=8.0))
    )
    assert np.count_nonzero(rare) == pytest.approx(400, rel=0.15)
    assert [step for step, wait in enumerate(periodic[:100]) if wait] == [0, 40, 80]
    assert np.mean(two) == pytest.approx(0.3, abs=0.02)
    ends = sum(one > other for one, other in pairwise(two))
    assert sum(two) / ends == pytest.approx(8.0, rel=0.1)


def test_arms_draw_stalls_of_their_own() -> None:
    kind = Rare(every=50, wait=60.0)
    first, second = (kind.waits(np.random.default_rng(seed))(0, 1000) for seed in (1, 2))
    assert first != second
