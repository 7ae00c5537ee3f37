"""Batches sent ahead: their order, on a road without a device; bits and overlap are seen on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.measure import observed_process as evidence
from harness.measure.devices import Device
from harness.measure.session import Session, open_session, open_trainee
from harness.measure.transfer import Ahead, Parcel
from tests.measure.tasks import task_of


@dataclass
class Lane:
    """Carries batches without moving them and writes down what happens."""

    diary: list[str] = field(default_factory=list)
    stream: str = "side"
    number: int = 0

    def carry(self, batch: Any) -> Parcel:
        self.number += 1
        self.diary.append(f"carry {self.number}")
        return Parcel(tuple(batch), f"copied {self.number}", self.stream)

    def deliver(self, parcel: Parcel) -> tuple[Tensor, ...]:
        self.diary.append(f"wait until {parcel.copied}")
        return parcel.tensors

    def is_apart(self, parcel: Parcel) -> bool:
        return bool(parcel.stream != "main")


def opened(folder: Path, *names: str, lane: Lane | None = None) -> Session:
    session = open_session(task_of("leak", folder, names))
    session.ahead = Ahead(lane, session.feed.fetch) if lane else None
    return session


def noting(lane: Lane, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any) -> Any:
        lane.diary.append(name)
        return call(*given)

    return noted


def losses(session: Session) -> list[float]:
    """Of the first steps of a session that was opened last, whose seed is still the one that decides dropout."""
    step = session.step()
    found = [float(step()) for _ in range(5)]
    session.feed.close()
    return found


@pytest.mark.parametrize("names", [(), ("gradient_accumulation=2",), ("workers=1",)])
def test_the_same_batches_arrive_in_the_same_order(names: tuple[str, ...], smoke_data: dict[str, Path]) -> None:
    plain = opened(smoke_data["leak"], *names)
    expected = losses(plain)
    ahead = opened(smoke_data["leak"], *names, lane=Lane())
    assert losses(ahead) == expected
    assert ahead.consumed == plain.consumed == ahead.feed.taken - 1


def test_the_next_batch_leaves_behind_the_backward_pass_and_before_the_update(smoke_data: dict[str, Path]) -> None:
    lane = Lane()
    session = opened(smoke_data["leak"], lane=lane)
    assert session.ahead is not None
    bound = session.ahead.bound(session.trainee.bound, session.trainee.device_stage)
    value = torch.zeros((), requires_grad=True)
    bound.fetch()
    bound.backward(value)
    bound.fetch()
    assert lane.diary == ["carry 1", "wait until copied 1", "carry 2", "wait until copied 2"]
    for _ in range(2):  # a backward pass beside the step sends no second batch
        bound.backward(value)
    assert lane.diary[4:] == ["carry 3"]
    assert session.ahead.bound(session.trainee.bound, None).whole_step is None


def test_a_captured_step_sends_when_it_has_been_replayed(smoke_data: dict[str, Path]) -> None:
    lane = Lane()
    session = opened(smoke_data["leak"], lane=lane)
    assert session.ahead is not None
    graph = noting(lane, "replay", lambda inputs, _: inputs.mean())
    bound = session.ahead.bound(replace(session.trainee.bound, whole_step=graph), None)
    assert bound.whole_step is not None
    bound.whole_step(*bound.fetch()[:2])
    assert lane.diary == ["carry 1", "wait until copied 1", "replay", "carry 2"]


def test_a_batch_on_the_stream_that_computes_or_unpinned_is_not_ahead() -> None:
    batches = iter([[torch.ones(1)]] * 9).__next__
    for stream, pinned, active in (("side", True, True), ("side", False, False), ("main", True, False)):
        ahead = Ahead(Lane(stream=stream), batches)
        assert evidence.of_ahead(ahead, pinned=pinned) == {"device_prefetch": False}  # nothing is under way yet
        ahead.send()
        assert evidence.of_ahead(ahead, pinned=pinned) == {"device_prefetch": active}
    assert evidence.of_ahead(None, pinned=True) == {"device_prefetch": False}


STAGES = [
    ("imagenet", ("gpu_decoding",)),
    ("imagenet", ("uint8_transfer",)),
    ("leak", ("data_on_device",)),
    ("leak", ("device_spec_augment",)),
    ("patches3d", ("device_augmentation",)),
    ("speaker", ("device_mixing",)),
    ("spoof", ("device_mel",)),
]


def refused(*_given: Any, device: Any = None, **_named: Any) -> Tensor:
    raise AssertionError(f"sends numbers of the host to {device}, which waits for all that the device has still to do")


@pytest.mark.parametrize(("name", "names"), STAGES)
def test_a_device_stage_never_waits_for_the_device(
    name: str, names: tuple[str, ...], smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(task_of(name, smoke_data[name], names))
    batch, stage = session.feed.fetch(), session.trainee.device_stage
    assert stage is not None
    trainee = open_trainee(replace(session.task, device=Device("meta")), session.phases)
    moved = [one.is_meta for one in trainee.move(batch)]
    assert any(moved)
    on_device = FakeTensorMode(allow_non_fake_inputs=True)  # whose tensors have no values to ask for
    arrived = [on_device.from_tensor(one) if away else one for one, away in zip(batch, moved, strict=True)]
    for maker in ("tensor", "as_tensor", "asarray"):
        monkeypatch.setattr(torch, maker, refused)
    assert len(stage(tuple(arrived))) == 2
