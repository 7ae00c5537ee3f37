"""The watch, held against loops whose loader and step are sleeps of known length."""

import io
import sys
import time
from collections import UserDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import speedmatrix as sm
from harness.own.suggestion import Rate, _rate, answer
from harness.own.watch import Batch, Effects, Watched, times_of


class Sleeping(Dataset[Tensor]):
    """Items that take so many milliseconds."""

    def __init__(self, ms: float, count: int = 64) -> None:
        self.ms, self.count = ms, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < self.count:
            raise IndexError
        time.sleep(self.ms / 1000)
        return torch.zeros(4)


def went_through(loader: Any, step_ms: float, **options: Any) -> Watched:
    watched = sm.watch(loader, to=io.StringIO(), **options)
    for _ in watched:
        time.sleep(step_ms / 1000)
    assert watched.last is not None
    return watched.last


@pytest.mark.alone
@pytest.mark.parametrize(("item_ms", "step_ms", "held"), [(1, 20, "both"), (5, 1, "loader"), (0, 20, "step")])
def test_planted_sleeps_are_found_without_workers(item_ms: float, step_ms: float, held: str) -> None:
    seen = went_through(DataLoader(Sleeping(item_ms), batch_size=4), step_ms)
    assert 1000 * np.median(seen.waits) == pytest.approx(4 * item_ms, abs=2.0, rel=0.1)  # four sleeps wake late
    assert 1000 * np.median(seen.works) == pytest.approx(step_ms, abs=1.0, rel=0.1)
    assert seen.held_back_by == held
    assert seen.loader_bound == pytest.approx(1 / seen.waits.mean())
    assert seen.step_bound == pytest.approx(1 / seen.works.mean())


@pytest.mark.alone
def test_a_loader_with_workers_delivers_at_its_own_rate() -> None:
    seen = went_through(DataLoader(Sleeping(5, 160), batch_size=4, num_workers=2), step_ms=2)
    assert seen.held_back_by == "loader"
    assert seen.loader_bound == pytest.approx(2 / 0.020, rel=0.15)  # two workers of 20 ms a batch
    assert (seen.workers, seen.alive, seen.samples) == (2, 2, 4)


@pytest.mark.alone
def test_a_loader_that_is_ahead_is_only_bounded_unless_it_is_probed() -> None:
    loader = DataLoader(Sleeping(2, 160), batch_size=4, num_workers=2)
    seen = went_through(loader, step_ms=20)
    assert (seen.held_back_by, seen.loader_bound) == ("step", None)
    assert "at least" in str(seen)
    probed = went_through(loader, step_ms=20, probe_s=0.2)
    assert probed.loader_bound == pytest.approx(2 / 0.008, rel=0.25)


def test_the_probe_leaves_random_numbers_as_they_were() -> None:
    loader = DataLoader(Sleeping(0), batch_size=4, shuffle=True)
    torch.manual_seed(0)
    list(loader)
    expected = torch.rand(3)
    torch.manual_seed(0)
    went_through(loader, step_ms=0, probe_s=0.05)
    assert torch.equal(torch.rand(3), expected)


def test_times_of_known_stamps() -> None:
    # Waits of 1, 2, 3, ... and works of 10, 20, 30, ...
    stamps, now = [0.0], 0.0
    for step in range(1, 13):
        now += step
        stamps.append(now)
        now += 10 * step
        stamps.append(now)
    waits, works = times_of(stamps, skipped=0, looked_at=None)
    assert waits.tolist() == list(range(2, 13))
    assert works.tolist() == list(range(20, 130, 10))
    waits, _ = times_of(stamps, skipped=0, looked_at=3)
    assert waits.tolist() == list(range(6, 13))
    waits, works = times_of(stamps[:-1], skipped=1, looked_at=None)  # left in the middle of the last step
    assert waits.tolist() == list(range(3, 12))
    assert len(waits) == len(works)
    for steps in range(1, 13):  # a short pass too leaves out the one that was looked at, which is the fourth
        waits, _ = times_of(stamps[: 2 * steps + 1], skipped=0, looked_at=3)
        assert 4 not in waits


def test_batches_are_the_loaders_own_and_a_break_is_no_error() -> None:
    loader = DataLoader(Sleeping(0), batch_size=4)
    watched = sm.watch(loader, to=io.StringIO())
    assert len(watched) == 16
    assert watched.batch_size == 4
    assert len(list(watched)) == 16
    for at, _ in enumerate(watched):
        if at == 12:
            break
    assert watched.last is not None
    assert watched.last.steps == 13


@pytest.mark.parametrize(("steps", "words"), [(0, ""), (1, "1 step"), (7, "7 steps")])
def test_a_pass_of_too_few_steps_is_told(steps: int, words: str) -> None:
    told = io.StringIO()
    assert len(list(sm.watch([torch.zeros(2)] * steps, to=told))) == steps
    assert told.getvalue() == (words and f"speedmatrix watched {words}, too few to tell; it needs 8.\n")
    assert went_through([torch.zeros(2)] * 8, step_ms=0).steps == 8


def test_a_plain_generator_can_be_watched() -> None:
    def batches() -> Iterator[Tensor]:
        for _ in range(20):
            yield torch.zeros(2)

    seen = went_through(batches(), step_ms=0)
    assert (seen.workers, seen.loader_bound) == (None, None)
    assert "loader alone unknown" in str(seen)
    assert "unknown workers" in str(seen)


def test_the_tensors_of_a_tokenizers_batch_are_seen() -> None:
    assert went_through([UserDict(words=torch.zeros(4, 2))] * 20, step_ms=0).samples == 4


def test_workers_that_live_on_already_are_not_advised() -> None:
    loader = DataLoader(Sleeping(0), batch_size=4, num_workers=1, persistent_workers=True)
    slow_start = replace(went_through(loader, step_ms=0), first_s=9.0)
    assert "persistent_workers=True" not in str(slow_start)
    assert "persistent_workers=True" in str(replace(slow_start, persistent=False))


def test_where_nothing_is_read_back_the_gpu_is_not_judged_by_the_host() -> None:
    host = went_through(DataLoader(Sleeping(2), batch_size=4), step_ms=0)
    assert host.held_back_by == "loader"
    ahead = replace(host, device="cuda", effects=Effects(read_backs=0))
    assert (ahead.step_bound, ahead.held_back_by) == (None, "unknown")
    assert "step alone unknown" in str(ahead)
    waiting = replace(ahead, effects=Effects(read_backs=1))
    assert (waiting.step_bound, waiting.held_back_by) == (host.step_bound, "loader")


@pytest.fixture
def nothing_compiled() -> None:
    """A process whose steps are looked at, whatever other tests have compiled in it."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo.utils"].counters.clear()


@pytest.mark.usefixtures("nothing_compiled")
def test_a_loop_on_the_host_beside_an_idle_gpu_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    watched = sm.watch([torch.zeros(2)] * 20, to=io.StringIO())
    for batch in watched:
        batch.sum()
    assert watched.last is not None
    assert watched.last.device == "cpu"


def trained(autocast: bool, *, reads: bool, fused: bool, layout: torch.memory_format) -> Watched:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 2)).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused, foreach=not fused)
    watched = sm.watch([torch.randn(2, 3, 8, 8).to(memory_format=layout)] * 16, to=io.StringIO())
    total = 0.0
    for batch in watched:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if reads:
            total += loss.item()
            total += float(loss.detach())
    assert watched.last is not None
    return watched.last


@pytest.mark.usefixtures("nothing_compiled")
def test_settings_are_seen_where_they_take_effect() -> None:
    on = trained(autocast=True, reads=True, fused=True, layout=torch.channels_last).effects
    assert on.dtypes == {"bfloat16"}
    assert (on.read_backs, on.kernels, on.formats) == (2, {"fused"}, {"channels_last"})
    off = trained(autocast=False, reads=False, fused=False, layout=torch.contiguous_format).effects
    assert off.dtypes == {"float32"}
    assert (off.read_backs, off.kernels, off.formats) == (0, {"foreach"}, {"contiguous"})


def test_the_lines_name_what_to_try() -> None:
    told = str(went_through(DataLoader(Sleeping(2), batch_size=4), step_ms=0))
    assert "held back by the loader" in told
    assert "suggest_workers" in told
    assert "tune" in told


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(64):
            time.sleep(0.002)
            yield torch.zeros(4)


def test_what_cannot_be_indexed_is_not_to_be_asked_for_workers() -> None:
    told = str(went_through(DataLoader(Stream(), batch_size=4), step_ms=0))
    assert "held back by the loader" in told
    assert "suggest_workers" not in told


def test_batches_that_lie_on_the_device_already_need_no_pinning() -> None:
    first = Batch()
    first.look_at([torch.zeros(4, 2, device="meta")])
    assert (first.samples, first.pinned) == (4, None)
    seen = went_through(DataLoader(Sleeping(0), batch_size=4), step_ms=0)
    for pinned in (None, False):
        told = str(replace(seen, device="cuda", pinned=pinned))
        assert ("not pinned" in told) is ("pin_memory=True" in told) is (pinned is False)


@pytest.mark.alone
def test_a_step_costs_at_most_five_microseconds() -> None:
    batches = [torch.zeros(2)] * 20_000

    def seconds(loader: Any) -> float:
        began = time.perf_counter()
        for _ in loader:
            pass
        return time.perf_counter() - began

    plain = min(seconds(batches) for _ in range(5))
    watched = min(seconds(sm.watch(batches, to=io.StringIO())) for _ in range(5))
    assert (watched - plain) / len(batches) < 5e-6


def test_what_cannot_be_gone_through_is_told() -> None:
    with pytest.raises(sm.Mistake, match="A int cannot be gone through; give the loader"):
        sm.watch(3)


# How many workers.


def rate(workers: int, low: float, high: float) -> Rate:
    """Of four rounds around the middle whose interval has these ends."""
    middle, half = (low * high) ** 0.5, (high / low) ** 0.5
    spread = half ** (3**0.5 / 3.182)  # Student's quantile of three degrees of freedom
    rounds = (middle * spread, middle / spread) * 2 if workers < 4 else (middle / spread, middle * spread) * 2
    return Rate(workers=workers, rate=middle, low=low, high=high, first_s=0.1, rounds=rounds)


def test_the_fewest_that_do_are_taken_by_intervals() -> None:
    rates = [rate(0, 9, 11), rate(1, 10, 12), rate(2, 18, 22), rate(4, 19, 24)]
    assert answer(rates, 8, None).workers == 2
    assert answer(rates, 8, step_s=0.2).workers == 1  # 5 steps a second: a worker keeps up, none would take turns
    assert answer(rates, 8, step_s=0.06).workers == 2
    slow = answer(rates, 8, step_s=0.01)
    assert slow.workers == 2
    assert "takes more" in slow.reason


def test_rates_whose_intervals_overlap_are_told_apart_by_rounds() -> None:
    """Each round the second is 34 % faster, on a machine that changes by more from round to round."""
    slow, fast = (86.0, 116.0, 92.0, 109.0), (117.0, 153.0, 125.0, 144.0)
    rates = [_rate(workers, [(one, 0.1) for one in rounds]) for workers, rounds in ((0, slow), (2, fast))]
    assert rates[0].high > rates[1].low
    assert answer(rates, 8, None).workers == 2
    crossed = [_rate(workers, [(one, 0.1) for one in rounds]) for workers, rounds in ((0, slow), (2, slow[::-1]))]
    assert answer(crossed, 8, None).workers == 0


@pytest.mark.thorough
@pytest.mark.alone
def test_known_rates_of_workers_are_found() -> None:
    found = sm.suggest_workers(Sleeping(5, 400), batch=4, workers=(0, 1, 2), rounds=3)
    known = {0: 50, 1: 50, 2: 100}  # batches a second
    for one in found.rates:
        assert one.rate == pytest.approx(known[one.workers], rel=0.15)
    assert found.workers == 2
    assert "samples/s" in str(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataset": Sleeping(0)}, "The batch is None"),
        ({"dataset": Sleeping(0), "batch": 65}, "The batch is 65 of 64 items"),
        ({"dataset": Sleeping(0), "batch": 4, "workers": ()}, "Name numbers of workers"),
        ({"dataset": Sleeping(0), "batch": 4, "rounds": 1}, "One round has no interval"),
        ({"dataset": iter([])}, "cannot be indexed"),
    ],
)
def test_a_question_that_has_no_answer_is_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(sm.Mistake, match=words):
        sm.suggest_workers(**given)
