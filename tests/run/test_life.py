"""How windows lie over the samples: the same in every arm of an attempt."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace

import pytest

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.records import Fault, Ready
from harness.plan.schedule import order_of_windows
from harness.run.arm import ArmLost
from harness.run.replicate import Attempt, Room, Turns, numbered
from tests.analyze.synthetic import comparison, plan, records


def turns(skipped: int, extra: tuple[int, ...] = (0, 0, 0, 0)) -> Turns:
    return Turns(steps=6, leads={0: 1, 1: 3, 2: skipped}, extra=extra, offsets={0: 5, 2: 5}, skipped=skipped)


def test_windows_follow_each_other_without_gaps_where_every_arm_can_be_told_where_to_go_on() -> None:
    assert [turns(0, (1, 0, 1, 1)).start(0, number) for number in range(4)] == [5, 11, 17, 23]


@pytest.mark.parametrize("extra", [(0, 0, 0, 0), (1, 0, 1, 1)])
def test_an_arm_with_workers_simply_goes_on_and_so_finds_the_samples_of_the_others(extra: tuple[int, ...]) -> None:
    made, at = turns(4, extra), 5
    for number in range(4):
        at += made.lead(2, number)
        assert made.start(2, number) == at
        at += made.steps


def test_a_cost_that_comes_every_so_many_steps_is_not_met_in_step() -> None:
    made = turns(0, tuple(Random(0).randrange(2) for _ in range(40)))
    taken, met = 0, Counter[int]()
    for number in range(40):
        taken += made.lead(0, number)
        met.update((taken + step) % 7 == 0 for step in range(made.steps))  # lead-in and window together are 7 steps
        taken += made.steps
    assert met[True] / met.total() == pytest.approx(1 / 7, rel=0.25)


@pytest.mark.parametrize("treatments", [1, 2, 3, 5])
def test_the_reference_goes_through_the_samples_that_treatments_go_through(treatments: int) -> None:
    rounds = dict.fromkeys(range(1, treatments + 1), 4)
    found = list(numbered(order_of_windows(rounds, Random(3))))
    for position in rounds:
        assert [number for one, number in found if one == position] == [0, 1, 2, 3]
    visits = [number for one, number in found if one == 0]
    assert (visits[0], visits[-1]) == (0, 0), "it ends with the samples with which it began"
    assert set(visits) == {0, 1, 2, 3}
    assert visits[:-1] == sorted(visits[:-1])


@pytest.mark.parametrize("treatments", [1, 2, 3, 5])
def test_no_arm_takes_samples_again_where_the_data_set_keeps_them(treatments: int) -> None:
    rounds = dict.fromkeys(range(1, treatments + 1), 4)
    found = list(numbered(order_of_windows(rounds, Random(3)), new=True))
    assert len(found) == len(set(found))
    assert {0, 1, 2, 3} <= {number for position, number in found if not position}
    assert max(number for _, number in found) < 4 + sum(rounds.values()) + 1  # as many as an attempt has lead-ins for


@dataclass(slots=True)
class Settling:
    """An arm that notes how it is settled, and may be lost to that."""

    turns: list[tuple[int, int]] = field(default_factory=list)
    is_lost: bool = False

    def settle(self, steps: int, offset: int) -> int:
        self.turns.append((steps, offset))
        if self.is_lost:
            raise ArmLost(Fault.CRASHED, "ended by SIGSEGV")
        return 1

    def close(self) -> None:
        pass


def attempt_of(timing: Timing, *shown: dict[str, object], epoch: int = 1000) -> Attempt:
    """An attempt whose arms, of 50 ms a step, show such settings."""
    (block,) = plan(replace(comparison("workers"), timing=timing)).blocks
    ready = next(one for one in records(0, 2.0) if isinstance(one, Ready))
    attempt = Attempt(
        block=block, replicate=0, number=0, timetable=BRIEF, seed="0", start=lambda _: None, record=lambda _: None,  # type: ignore[arg-type,return-value]
        watcher=SimpleNamespace(recorded=lambda *_: None), clock=lambda: 0.0, check_time=lambda: None,  # type: ignore[arg-type]
    )  # fmt: skip
    for position, effective in enumerate(shown):
        attempt.arms[position] = Settling()  # type: ignore[assignment]
        attempt._ready[position] = replace(ready, step_s=0.05, cycle_steps=epoch, effective=effective)
    return attempt


@pytest.mark.parametrize(
    ("rests", "step_s", "workers", "settles"),
    [(False, 0.3, 0, True), (True, 0.3, 0, False), (True, 0.03, 0, True), (True, 0.3, 2, True)],
)
def test_only_what_can_have_gone_on_in_a_pause_or_is_short_takes_a_settling_turn(
    rests: bool, step_s: float, workers: int, settles: bool
) -> None:
    attempt = attempt_of(Timing.STEP, {"workers": workers})
    attempt.rests = rests
    attempt._ready[0] = replace(attempt._ready[0], step_s=step_s)
    turns = attempt._settled({}, Random(0))
    assert turns
    assert turns.leads[0] * step_s >= BRIEF.lead_s
    assert bool(attempt.arms[0].turns) is settles  # type: ignore[attr-defined]


@pytest.mark.parametrize(("late_s", "turns"), [(0.9, [1, 2]), (0.3, [1, 1])])
def test_what_has_hardly_stood_still_shows_once_more_what_a_pause_costs_it(late_s: float, turns: list[int]) -> None:
    attempt = attempt_of(Timing.STEP, {}, {})
    attempt.clock = lambda: 1.0
    attempt._still_since_s |= {0: 0.2, 1: late_s}
    assert attempt._settled({}, Random(0))
    assert [len(arm.turns) for arm in attempt.arms.values()] == turns  # type: ignore[attr-defined]


def steps_of(timing: Timing, *shown: dict[str, object], epoch: int = 1000, windows: int = 9) -> int:
    """Steps of a window beside arms of 50 ms a step that show such settings."""
    return attempt_of(timing, *shown, epoch=epoch)._window_steps(windows)


def test_windows_hold_whole_groups_of_workers_and_whole_rounds_of_uneven_steps() -> None:
    assert steps_of(Timing.STEP, {}, {"workers": 3}) % 3 == 0
    assert steps_of(Timing.STEP, {"uneven_steps": 4}, {"workers": 3, "uneven_steps": 4}) % 12 == 0
    assert steps_of(Timing.LOADER, {"uneven_steps": 4}, {"workers": 3, "uneven_steps": 4}) % 3 == 0
    assert steps_of(Timing.COMPUTE, {"workers": 7}, {"workers": 8}) == steps_of(Timing.COMPUTE, {}, {})
    assert steps_of(Timing.COMPUTE, {"uneven_steps": 4}, {}) % 4 == 0


def test_windows_without_a_sample_that_was_read_before_fit_into_half_an_epoch() -> None:
    kept: dict[str, object] = {"keeps_items": True}
    assert steps_of(Timing.STEP, kept, kept, epoch=1000, windows=9) == steps_of(Timing.STEP, {}, {})
    assert 9 * (steps_of(Timing.STEP, kept, kept, epoch=160, windows=9) + 3) <= 80
    assert steps_of(Timing.STEP, kept, kept | {"workers": 3}, epoch=160, windows=9) % 3 == 0


def test_no_replicate_reads_what_a_kept_data_set_was_warmed_up_with() -> None:
    kept: dict[str, object] = {"keeps_items": True}
    attempt = attempt_of(Timing.STEP, kept, kept, epoch=600)
    for replicate in range(6):
        attempt.replicate = replicate
        turns = attempt._settled({1: 12}, Random(0))
        assert turns is not None
        windows = [number for _, number in numbered(order_of_windows({1: 12}, Random(0)), new=True)]
        read = [turns.start(0, number) + step for number in windows for step in range(turns.steps)]
        assert min(read) >= 300, "what the warm-up leaves"
        assert max(read) < 600, "beyond which an epoch begins anew"


def test_nor_do_arms_whose_workers_go_on_between_windows() -> None:
    kept: dict[str, object] = {"keeps_items": True}
    attempt = attempt_of(Timing.STEP, kept, kept | {"workers": 2}, epoch=600)
    attempt.leads[1] = 5
    turns = attempt._settled({1: 12}, Random(0))
    assert turns is not None
    windows = [number for _, number in numbered(order_of_windows({1: 12}, Random(0)), new=True)]
    assert max(turns.start(0, number) + turns.steps for number in windows) <= 600


VARYING, DEVICE, HOST = {"varying_shapes": True}, (10, 30), (10,)  # what an arm shows; bytes of each kind of memory
SETTLES = [(8, 0)]  # as every arm does before its windows


def turns_of(attempt: Attempt, memory: tuple[int, ...] = DEVICE) -> list[list[tuple[int, int]]]:
    """How each arm was settled before three windows of ten steps."""
    attempt.room = Room(free=lambda: memory, largest=memory)
    arms = list(attempt.arms.values())
    attempt._settled({1: 3}, Random(0))
    return [one.turns for one in arms if isinstance(one, Settling)]


def test_a_device_meets_the_shapes_of_all_windows_before_the_first_of_them() -> None:
    assert turns_of(attempt_of(Timing.STEP, VARYING, VARYING)) == [[(30, 30), *SETTLES]] * 2
    assert turns_of(attempt_of(Timing.STEP, VARYING, VARYING, epoch=24)) == [[(24, 24), *SETTLES]] * 2
    assert turns_of(attempt_of(Timing.STEP, VARYING, {})) == [[(30, 30), *SETTLES], SETTLES]
    queue = {"workers": 2}  # whose lead-ins lie between its windows
    assert turns_of(attempt_of(Timing.STEP, VARYING, VARYING | queue)) == [[(42, 42), *SETTLES]] * 2


@pytest.mark.parametrize(
    ("timing", "shown", "memory"),
    [
        (Timing.STEP, VARYING, HOST),  # a CPU's, and beside a device that is emulated
        (Timing.STEP, {"varying_shapes": False}, DEVICE),
        (Timing.STEP, VARYING | {"keeps_items": True}, DEVICE),  # no window may hold what was read before
        (Timing.LOADER, VARYING, DEVICE),
    ],
)
def test_where_no_first_visit_costs_anything_none_is_paid(
    timing: Timing, shown: dict[str, object], memory: tuple[int, ...]
) -> None:
    attempt = attempt_of(timing, shown, shown)
    assert all(len(turns) == 1 for turns in turns_of(attempt, memory))


def test_an_arm_that_is_lost_among_its_shapes_is_not_settled_any_further() -> None:
    attempt = attempt_of(Timing.STEP, VARYING, VARYING)
    attempt.arms[1] = Settling(is_lost=True)  # type: ignore[assignment]
    assert turns_of(attempt) == [[(30, 30), *SETTLES], [(30, 30)]]
    assert set(attempt.arms) == {0}


def test_windows_of_another_run_begin_elsewhere_in_an_epoch() -> None:
    attempts = [attempt_of(Timing.STEP, {}, {}) for _ in range(2)]
    attempts[1].first, found = 0.5, []
    for replicate in (0, 1):
        for attempt in attempts:
            attempt.replicate = replicate
            turns = attempt._settled({1: 3}, Random(0))
            assert turns is not None
            found.append(turns.offsets)
    assert found == [dict.fromkeys((0, 1), begin) for begin in (0, 500, 618, 118)]


def test_arms_of_other_batches_begin_on_the_same_sample_and_on_another_one_in_every_replicate() -> None:
    attempt = attempt_of(Timing.STEP, {}, {})
    (one,) = attempt.block.comparisons
    twice = replace(one, treatment=replace(one.treatment, batch=2 * one.reference.batch))
    attempt.block = replace(attempt.block, comparisons=(twice,))
    attempt._ready[1] = replace(attempt._ready[1], cycle_steps=500)
    for replicate, offsets in ((0, {0: 500, 1: 250}), (1, {0: 118, 1: 59})):
        attempt.first, attempt.replicate = 0.5, replicate
        turns = attempt._settled({1: 3}, Random(0))
        assert turns is not None
        assert turns.offsets == offsets
