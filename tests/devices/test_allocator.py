"""The model of the caching allocator: known answers, and what it predicts for steps of the real sizes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.measure.session import Trainee
from harness.run.replicate import GROWTH, VARYING_GROWTH
from tests.devices.allocator import MIB, SMALLEST, Allocator, Event, Trace
from tests.devices.fakes import captured, fakes, smoke, trainee_of
from tests.measure.tasks import CATALOGUE, task_of
from workloads.patches3d.augmentation import drawn, floor_of, scaled
from workloads.patches3d.data import patch_shape

GIB = 1 << 30
H200_BYTES = 139 * GIB


def served(*sizes: int) -> Allocator:
    found = Allocator()
    found.replay(enumerate(sizes, 1))
    return found


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ((1,), 2 * MIB),
        ((MIB, MIB), 2 * MIB),  # small ones share a segment
        ((MIB, MIB, 1), 4 * MIB),
        ((MIB + 1,), 20 * MIB),
        ((9 * MIB, 9 * MIB), 20 * MIB),
        ((10 * MIB - 1,), 10 * MIB),  # rounded to 512 bytes it is no longer below
        ((10 * MIB - SMALLEST,), 20 * MIB),
        ((10 * MIB,), 10 * MIB),
        ((11 * MIB,), 12 * MIB),
        ((19 * MIB + SMALLEST, 2 * MIB), 40 * MIB),
        ((1, 2 * MIB, 30 * MIB), 52 * MIB),
    ],
)
def test_segments_are_as_large_as_pytorch_makes_them(sizes: tuple[int, ...], reserved: int) -> None:
    assert served(*sizes).reserved == reserved


def test_what_is_freed_serves_the_next_and_neighbours_become_one() -> None:
    found = served(5 * MIB, 5 * MIB, 10 * MIB)
    assert (found.reserved, found.in_use) == (20 * MIB, 20 * MIB)
    found.replay([(1, 0), (3, 0), (4, 11 * MIB)])  # 5 and 10 MiB are free, not side by side
    assert found.segments == 2
    found.replay([(2, 0), (5, 20 * MIB), (4, 0), (6, 3 * MIB)])  # all that the first segment has, and the other
    assert (found.reserved, found.in_use) == (32 * MIB, 23 * MIB)


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    found = served(40 * MIB, 20 * MIB, 30 * MIB)
    found.replay([(1, 0), (2, 0), (3, 0), (4, 25 * MIB), (5, 15 * MIB), (6, 40 * MIB)])
    assert found.segments == 3


def test_a_request_that_fits_nowhere_takes_a_segment_though_as_much_is_free() -> None:
    found = served(30 * MIB, 30 * MIB)
    found.replay([(1, 0), (2, 0), (3, 40 * MIB)])
    assert found.reserved == 100 * MIB


def test_storages_are_noted_from_their_first_tensor_to_their_last() -> None:
    with fakes(), Trace() as trace:
        one = torch.empty(1 << 20)
        view = one[3:]
        other = one + 1
        del one, other
        one = view.clone()
        del view, one
    assert [size for _, size in trace.events] == [4 << 20, 4 << 20, 0, (4 << 20) - 12, 0, 0]


def test_what_the_backward_pass_keeps_is_freed_by_it() -> None:
    with fakes(), Trace() as trace:
        weight = torch.ones(1 << 20, requires_grad=True)
        with trace.part() as step:
            value = (weight.exp() * weight).sum()
            value.backward()
            del value
    kept = Allocator()
    kept.replay(trace.events)
    assert kept.in_use == 2 * (4 << 20)  # the weight and its gradient
    assert sum(1 for _, size in step if not size) >= 3


def stepping(trainee: Trainee, trace: Trace, inputs: tuple[int, ...], targets: Tensor) -> list[Event]:
    """What one step on inputs of that shape takes and gives back."""
    bound = trainee.bound
    with trace.part() as events:
        batch = torch.empty(inputs), targets
        with bound.autocast():
            value = bound.loss(bound.model(batch[0]), batch[1])
        bound.backward(value)
        bound.update()
        del batch, value
    return events


@pytest.mark.parametrize(
    ("workload", "stack", "inputs", "least_gib", "most_gib"),
    [
        ("imagenet", (), (256, 3, 224, 224), 20, 30),
        ("imagenet", ("amp_bfloat16",), (256, 3, 224, 224), 10, 20),
        ("leak", (), (5632, 1, 64, 1), 0.5, 1.5),
        ("speaker", (), (100, 32_240), 1.0, 4),
        ("spoof", (), (32, 128, 404), 0.5, 2),
    ],
)
def test_steps_of_the_real_sizes_fit_and_do_not_grow(
    workload: str, stack: tuple[str, ...], inputs: tuple[int, ...], least_gib: float, most_gib: float,
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    captured(monkeypatch)
    task = smoke(workload, smoke_data, "cuda_graph", *stack)  # whose optimizer counts its steps on the device
    memory, reserved = Allocator(), list[int]()
    with fakes(), Trace() as trace:
        with trace.part() as built:
            trainee = trainee_of(task)
        memory.replay(built)
        targets = torch.zeros(inputs[0], dtype=torch.long)
        for _ in range(2):
            memory.replay(stepping(trainee, trace, inputs, targets))
            reserved.append(memory.reserved)
    print(f"{reserved[-1] / GIB:.1f} GiB reserved")  # -rP shows it
    assert least_gib * GIB < reserved[-1] < most_gib * GIB
    assert reserved[-1] <= GROWTH * reserved[0]


def patches_reserved(folder: Path, steps: int, *, fixed: bool) -> list[int]:
    """Reserved bytes after each step of patches3d on patches of the real sizes; its loss is another, of no size."""
    workload = CATALOGUE.workloads["patches3d"]
    usual, rng = patch_shape(workload.sizes["standard"]), np.random.default_rng(1)
    narrow, memory, reserved = task_of("patches3d", folder, ("cuda_graph",)), Allocator(), list[int]()
    task = replace(narrow, size=replace(narrow.size, shape={**narrow.size.shape, "narrowing": 1}))
    with fakes(), Trace() as trace:
        with trace.part() as built:
            trainee = trainee_of(task)
        memory.replay(built)
        for _ in range(steps):
            sides = usual if fixed else resampled(usual, rng)
            with trace.part() as events:
                prediction = trainee.bound.model(torch.empty(1, 1, *sides))
                value = torch.stack([one.sigmoid().mean() for one in (prediction.logits, *prediction.aux_logits)]).sum()
                trainee.bound.backward(value)
                if not reserved:  # later updates take as much, whatever the shape
                    trainee.bound.update()
                del prediction, value
            memory.replay(events)
            reserved.append(memory.reserved)
    return reserved


def resampled(usual: tuple[int, int, int], rng: np.random.Generator) -> tuple[int, ...]:
    """The sides of one patch after augmentation."""
    geometry, least = drawn(rng), floor_of(usual)
    return scaled(scaled(usual, (geometry.zoom,) * 3, least), geometry.stretch, least)


@pytest.mark.thorough
def test_patches_of_many_shapes_grow_out_of_the_room_that_is_left_for_them(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    captured(monkeypatch)
    varying = patches_reserved(smoke_data["patches3d"], 5, fixed=False)
    fixed = patches_reserved(smoke_data["patches3d"], 2, fixed=True)
    print([f"{one / GIB:.1f}" for one in (*varying, *fixed)], "GiB reserved")
    assert max(varying) < H200_BYTES
    # By the first steps an arm is admitted.
    assert GROWTH * varying[1] < varying[-1] <= VARYING_GROWTH * varying[1]
    assert fixed[-1] <= GROWTH * fixed[0]
