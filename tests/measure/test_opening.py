"""The first steps of a reference: what other runs make of the same batches, and what their memory leaves behind."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from time import sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Recipe
from harness.measure import opening, session, trial
from harness.measure.cuda import Cuda
from harness.measure.devices import Device, give_back, settle_backend
from harness.measure.session import Session, Task
from tests.measure.tasks import task_of

SHIVER = 1e-4  # of a loss, as of sums in any order


@pytest.fixture(autouse=True)
def _plain_backend_afterwards() -> Iterator[None]:
    """An arm's options belong to its process; these tests share one."""
    yield
    settle_backend(Recipe())


class Shivering(nn.Module):
    """A loss that no run gives twice, by numbers that no seed of torch decides."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss, self.numbers = loss, torch.Generator()
        self.numbers.seed()

    def forward(self, output: Any, targets: Tensor) -> Tensor:
        value: Tensor = self.loss(output, targets)
        return value * (1 + SHIVER * torch.rand((), generator=self.numbers))


def begun(task: Task) -> dict[str, Any]:
    """What a reference tells when it is ready."""
    started, ready = trial.begin(task, Timing.STEP, replace(UNTIMED, loss_steps=3), {}, other_seeds=True)
    started.session.feed.close()
    return ready


@pytest.mark.parametrize("workload", ["leak", "speaker"])
def test_a_reference_that_repeats_its_bits_has_no_spread_of_repeats(workload: str, smoke_data: dict[str, Path]) -> None:
    ready = begun(task_of(workload, smoke_data[workload], ()))
    assert ready["repeat_spread"] == 0.0
    assert ready["seed_spread"] > 0


def test_a_reference_that_does_not_repeat_its_bits_tells_by_how_much(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ())
    parts = replace(task.parts, loss=lambda size, recipe: Shivering(task.parts.loss(size, recipe)))
    ready = begun(replace(task, parts=parts))
    assert 0 < ready["repeat_spread"] < SHIVER * 10 * max(ready["losses"]) < ready["seed_spread"]


def test_memory_that_only_the_evidence_needed_is_forgotten_before_any_window(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    def noted(module: Any, name: str) -> None:
        call = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **named: (did.append(name), call(*given, **named))[1])

    noted(opening, "open_trainee")
    noted(session, "open_trainee")
    noted(Device, "forget_memory")
    noted(trial, "warm_up")
    noted(trial.observed_step, "of_precision")
    begun(task_of("leak", smoke_data["leak"], ()))
    assert did.index("forget_memory") > max(at for at, name in enumerate(did) if name == "open_trainee")
    assert did[-1] == "forget_memory"
    assert did.count("open_trainee") == 1 + 2 + 1  # its own, two of other seeds, one of its own again


def test_a_gpu_collects_what_only_cycles_hold_before_it_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    monkeypatch.setattr("gc.collect", lambda: did.append("collect"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: did.append("empty_cache"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    give_back(Cuda("cuda:0"))
    assert did.index("collect") < did.index("empty_cache")


def test_what_has_no_elements_needs_no_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no address by which the driver could know it, so that one empty part spoke for the whole batch."""
    monkeypatch.setattr(Tensor, "is_pinned", lambda _: False)
    assert [Cuda("cuda").is_pinned(one) for one in (torch.empty(0, 3), torch.ones(2))] == [True, False]


@pytest.mark.thorough
@pytest.mark.parametrize(("names", "vary"), [((), True), (("fixed_patch_shape",), False)])
def test_batches_that_differ_in_shape_are_seen(names: tuple[str, ...], vary: bool, smoke_data: dict[str, Path]) -> None:
    assert begun(task_of("patches3d", smoke_data["patches3d"], names))["effective"]["varying_shapes"] is vary


def test_a_shorter_last_batch_is_no_varying_shape(smoke_data: dict[str, Path]) -> None:
    assert begun(task_of("leak", smoke_data["leak"], ("keep_last_batch",)))["effective"]["varying_shapes"] is False


class Reading(Dataset[Any]):
    """Items of another data set that take their time, each time or only until they were read once.

    Or it keeps so many: those that it read last, or, where they stay, those that it read first.
    """

    def __init__(self, items: Any, *, keeps: bool | int, stays: bool = False) -> None:
        self.items, self.keeps, self.stays = items, keeps, stays
        self.kept, self.waits = dict[int, None](), 0
        self.reader = items.reader  # which the workload asks what it has seen

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if index not in self.kept:
            self.waits += 1
            sleep(0.006)  # several times what reading it takes, also on a slow machine
        if self.keeps and not (self.stays and len(self.kept) == self.keeps):
            self.kept[index] = None
        if self.keeps is not True and len(self.kept) > self.keeps:
            del self.kept[next(iter(self.kept))]
        return self.items[index]


@pytest.mark.parametrize(
    ("keeps", "stays", "whole_s", "told"),
    [
        (True, False, 60.0, "filled before"),
        (True, False, 0.0, "still filling"),
        (False, False, 60.0, None),
        (64, False, 60.0, None),  # the last batch
        (320, False, 60.0, "in part"),
        (384, True, 60.0, "in part"),
    ],
)
def test_a_data_set_that_keeps_what_it_read_has_read_an_epoch_before_it_is_timed(
    keeps: bool | int, stays: bool, whole_s: float, told: str | None, smoke_data: dict[str, Path]
) -> None:
    task, made = task_of("leak", smoke_data["leak"], ()), list[Reading]()

    def slow(folder: Path, size: Any, recipe: Recipe) -> Reading:
        made.append(Reading(task.parts.dataset(folder, size, recipe), keeps=keeps, stays=stays))
        return made[-1]

    slowly = replace(task, parts=replace(task.parts, dataset=slow))
    started, ready = trial.begin(slowly, Timing.STEP, replace(UNTIMED, whole_s=whole_s), {}, other_seeds=False)
    before = made[0].waits
    for _ in range(task.size.epoch_steps):
        started.step()
    assert ready["effective"].get("data_cache") == told
    assert (made[0].waits == before) is (told == "filled before")


class Cache:
    """What reading batches of an epoch of a hundred takes, from a cache whose batches were read up to the twentieth."""

    def __init__(
        self,
        keeps: int,
        *,
        stays: bool = False,
        dear_s: float = 0.0,
        stalls: tuple[int, ...] = (),
        files: int = 100,  # of which each batch is a piece
    ) -> None:
        self.keeps, self.stays, self.dear_s, self.stalls = keeps, stays, dear_s, stalls
        self.files = Random(0).choices(range(files), k=100) if files < 100 else range(100)
        self.kept, self.reads = dict[int, None](), 0
        self.fetched_s = [self.seconds(number) for number in range(20)]
        self.reads = 0

    def seconds_from(self, _: object, number: int, batches: int, within_s: float = inf) -> list[float]:
        took_s = list[float]()
        while len(took_s) < batches and sum(took_s) < within_s:
            took_s.append(self.seconds(number + len(took_s)))
        return took_s

    def seconds(self, number: int) -> float:
        self.reads += 1
        file = self.files[number]
        is_new = file not in self.kept
        if not (is_new and self.stays and len(self.kept) == self.keeps):
            self.kept.pop(file, None)
            self.kept[file] = None
        if len(self.kept) > self.keeps:
            del self.kept[next(iter(self.kept))]
        return (0.1 if is_new else 0.005) + self.dear_s * (number < 5) + 1.0 * (self.reads in self.stalls)


@pytest.mark.parametrize(
    ("cache", "told"),
    [
        (Cache(100), "filled before"),
        (Cache(0), None),
        (Cache(60), "in part"),
        (Cache(95), "in part"),
        (Cache(60, stays=True), "in part"),
        (Cache(95, stays=True), "in part"),
        (Cache(30, files=60), "in part"),  # which saves two readings of three
        (Cache(60, files=60), "filled before"),
        (Cache(100, dear_s=0.08), "filled before"),  # whether they were kept or not
        (Cache(60, dear_s=0.08), "in part"),
        (Cache(100, stalls=(2,)), "filled before"),
        (Cache(100, stalls=(5,)), "filled before"),
        (Cache(0, stalls=(2,)), None),
        (Cache(100, stalls=(108,)), "filled before"),  # of the first batches, after an epoch
        (Cache(100, stalls=(107, 109)), "filled before"),
        (Cache(100, stalls=(114,)), "filled before"),  # and of the last ones
        (Cache(60, stays=True, stalls=(105,)), "in part"),  # of the last ones, in the epoch
        (Cache(10, stays=True), "in part"),  # full before it was looked at
    ],
)
def test_what_a_cache_keeps_is_told_whatever_batches_cost_and_a_busy_machine_does(
    cache: Cache, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_seconds_from", cache.seconds_from)
    assert opening.fill_cache(looking(), 0.2, 60.0, fetched_s=cache.fetched_s).get("data_cache") == told


@pytest.mark.parametrize(
    ("cache", "shown"), [(Cache(0), True), (Cache(0, stalls=(1,)), False), (Cache(10, stays=True), False)]
)
def test_batches_that_took_as_long_again_are_surely_not_kept(
    cache: Cache, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_seconds_from", cache.seconds_from)
    assert ("keeps_nothing" in opening.fill_cache(looking(), 0.2, 60.0, fetched_s=cache.fetched_s)) is shown


def test_first_batches_that_are_cheap_by_themselves_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: object, number: int, batches: int, _within_s: float = inf) -> list[float]:
        return [0.05 if one < 50 else 0.2 for one in range(number, number + batches)]

    monkeypatch.setattr(opening, "_seconds_from", read)
    assert opening.fill_cache(looking(), 0.2, 60.0, fetched_s=(0.05, 0.05, 0.05)) == {"keeps_nothing": True}
    assert opening.fill_cache(looking(), 0.2, 60.0, fetched_s=(0.2, 0.2, 0.2)) == {"data_cache": "in part"}
    assert not opening.fill_cache(looking(), 0.2, 60.0, fetched_s=(0.2,)), "of one alone nobody can tell"


def test_an_arm_whose_first_steps_are_known_is_surely_plain_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_seconds_from", Cache(0).seconds_from)
    assert opening.fill_cache(looking(), 0.2, 60.0) == {"keeps_nothing": True}


@pytest.mark.parametrize("cache", [Cache(100), Cache(0)])
def test_what_was_read_before_tells_nothing_of_a_cache(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_seconds_from", cache.seconds_from)
    cache.seconds_from(None, 0, 100)
    assert opening.fill_cache(looking(taken=100), 0.2, 60.0) == {}


def test_of_an_epoch_that_was_read_whole_nobody_asks_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(100)
    monkeypatch.setattr(opening, "_seconds_from", cache.seconds_from)
    assert opening.fill_cache(looking(epoch_steps=3), 0.2, 60.0) == {}
    assert not cache.reads


def looking(epoch_steps: int = 100, taken: int = 20) -> Session:
    """A session of a hundred batches, of which twenty were taken."""
    feed = SimpleNamespace(taken=20, taken_from_workers=taken, order=SimpleNamespace(go_to=lambda _: None))
    size = SimpleNamespace(keeps_items=False, epoch_steps=epoch_steps)
    return cast("Session", SimpleNamespace(feed=feed, task=SimpleNamespace(recipe=Recipe(), size=size)))


@pytest.mark.parametrize(
    ("cache", "told"),
    [
        (Cache(1), None),  # of the last batch
        (Cache(2), None),
        (Cache(100), "still filling"),
    ],
)
def test_of_slow_batches_one_is_read_twice_with_others_between(
    cache: Cache, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_seconds_from", cache.seconds_from)
    assert opening.fill_cache(looking(), 0.2, 0.2, fetched_s=cache.fetched_s).get("data_cache") == told
    assert cache.reads == 4


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(60.0, 100, 100), (1.0, 40, 60)])
def test_a_later_replicate_reads_no_long_epoch_for_a_cache_that_was_full_before(
    seconds: float, fewest: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = Cache(10, stays=True), Cache(10, stays=True)
    monkeypatch.setattr(opening, "_seconds_from", first.seconds_from)
    told = opening.fill_cache(looking(), 0.1, seconds, fetched_s=first.fetched_s)
    assert told == {"data_cache": "in part"}
    assert first.reads == 11, "no epoch: three batches twice, the first ones before and two of them after"
    monkeypatch.setattr(opening, "_seconds_from", later.seconds_from)
    assert opening.fill_cache(looking(), 0.1, seconds, "in part") == told
    assert fewest <= later.reads <= most


class Fed:
    """A feed of two loader workers, four of whose batches are under way."""

    def __init__(self) -> None:
        self.taken, self.in_flight = 0, 4
        self.order = SimpleNamespace(samples=lambda first, last: last - first)

    def fetch(self) -> None:
        self.taken += 1


@pytest.mark.parametrize(
    ("endless", "first_step_s", "taken"),
    [
        (False, 1.2, 4 + 100),  # which its start may be a part of
        (False, 0.15, 4 + 8),
        (True, 1.2, 4 + 8),
    ],
)
def test_a_long_epoch_is_gone_through_for_its_bound_where_its_start_is_much_of_it(
    endless: bool, first_step_s: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred batches of a tenth of a second each."""
    feed, recipe = Fed(), SimpleNamespace(workers=2, micro_batches=1)
    task = SimpleNamespace(recipe=recipe, size=SimpleNamespace(epoch_steps=100), endless=endless, device=None)
    monkeypatch.setattr(opening, "timed", lambda call, times, _: 0.1 * len([call() for _ in range(times)]))
    begun = cast("opening.Opening", SimpleNamespace(first_step_s=first_step_s))
    session = cast("Session", SimpleNamespace(feed=feed, task=task))
    rate = opening._loader_rate(session, begun, replace(UNTIMED, whole_s=2.0))
    assert rate == pytest.approx(10)
    assert feed.taken == taken


@pytest.mark.parametrize("done", ["filled before", "still filling", ""])
def test_a_later_replicate_does_about_a_cache_what_the_first_one_did(done: str, smoke_data: dict[str, Path]) -> None:
    task, made = task_of("leak", smoke_data["leak"], ()), list[Reading]()

    def slow(folder: Path, size: Any, recipe: Recipe) -> Reading:
        made.append(Reading(task.parts.dataset(folder, size, recipe), keeps=True))
        return made[-1]

    slowly = replace(task, parts=replace(task.parts, dataset=slow))
    protocol = replace(UNTIMED, whole_s=60.0)
    started, ready = trial.begin(slowly, Timing.STEP, protocol, {}, other_seeds=False, data_cache=done)
    before = made[0].waits
    for _ in range(task.size.epoch_steps):
        started.step()
    assert ready["effective"].get("data_cache", "") == done
    assert (made[0].waits == before) is (done == "filled before")


@pytest.mark.parametrize(
    "batch",
    [
        (torch.zeros(4, 3), torch.zeros(4)),
        (torch.zeros(90_000, dtype=torch.uint8), torch.zeros(4, 6), torch.zeros(4)),  # encoded images
        (torch.zeros(8, 100), torch.zeros(4), torch.zeros(9)),  # two crops of each
        (torch.zeros(4, 12), torch.zeros(48)),  # a target for each word
        (torch.zeros(4, 3), torch.tensor(1.0)),
    ],
)
def test_samples_are_counted_however_a_batch_is_laid_out(batch: tuple[Tensor, ...]) -> None:
    assert opening.samples_in(batch) == 4


@pytest.mark.parametrize(("least_s", "told"), [(0.0, "filled before"), (opening.LEAST_S, None)])
def test_what_is_little_of_a_step_is_no_cache_of_a_loader_alone(
    least_s: float, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(100)
    monkeypatch.setattr(opening, "_seconds_from", lambda *asked: [one / 1000 for one in cache.seconds_from(*asked)])
    assert opening.fill_cache(looking(), 2e-4, 60.0, None, least_s).get("data_cache") == told
