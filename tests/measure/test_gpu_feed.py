"""What only a GPU can show of the way to it; without one each test says what it would have checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.recipe import Recipe
from harness.measure import observed_process as evidence
from harness.measure.cuda import Cuda
from harness.measure.phases import EventPhases
from harness.measure.transfer import Ahead, SideStream, transfer_to
from harness.measure.trial import begin
from harness.run.arm import launch_environment
from tests.measure.tasks import CATALOGUE, task_of
from tests.measure.test_gpu import gpu

pytestmark = pytest.mark.gpu

PREFETCH = ("pin_memory", "non_blocking", "device_prefetch")
SEGMENTS = """
import json, torch
from harness.measure import observed_process as evidence
from harness.measure.cuda import Cuda
kept = torch.ones(1 << 20, device="cuda")
print(json.dumps(evidence.of_launch(Cuda('cuda'))))
"""
WAITS = """
import json, sys, torch
from harness.measure.cuda import Cuda
device = Cuda('cuda')
if sys.argv[1:]:
    device.block()  # before there is a context, as an arm does
torch.ones(1, device="cuda").item()
print(json.dumps(device.blocks()))
"""


def road() -> SideStream:
    device = Cuda("cuda")
    move = transfer_to(device, Recipe(non_blocking=True, pin_memory=True))
    return SideStream(move, device, EventPhases(device))


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_batches_that_were_sent_ahead_give_the_same_bits(name: str, smoke_data: dict[str, Path]) -> None:
    gpu(f"device_prefetch engages on {name}, keeps every bit of the losses, and has a copy and a span for each step")
    losses, usual = [], ("pin_memory", "cudnn_deterministic")
    for stack in (usual, usual, (*PREFETCH, "cudnn_deterministic")):
        task = task_of(name, smoke_data[name], stack, device="cuda")
        proof = {"device_prefetch": True, "overlapping_copies": True} if "device_prefetch" in stack else {}
        trial, ready = begin(task, Timing.STEP, BRIEF, dict(proof), other_seeds=False)
        assert ready["inactive"] == ()
        window = trial.window(lead=1, steps=8)
        assert 0 < window["device_s"] <= window["wall_s"] * 1.01
        assert window["samples"] == window["steps"] * task.size.batch
        losses.append(ready["losses"])
        trial.session.feed.close()
    # Some backward kernels add up in any order: then the workload does not repeat its own bits either.
    assert losses[2] == (losses[0] if losses[0] == losses[1] else pytest.approx(losses[0], rel=1e-3))


def test_a_batch_arrives_while_the_device_computes() -> None:
    gpu("a batch sent ahead has been copied before the kernels that were queued earlier are done")
    ahead = Ahead(road(), iter([[torch.ones(1 << 20).pin_memory()]] * 3).__next__)
    square, done = torch.ones(8192, 8192, device="cuda"), torch.cuda.Event()
    ahead.take()
    torch.cuda.synchronize()
    for _ in range(50):
        torch.mm(square, square)
    done.record()
    ahead.send()
    assert ahead.pending is not None
    ahead.pending.copied.synchronize()
    assert not done.query()
    (batch,) = ahead.take()
    assert float(batch.sum()) == 1 << 20


def test_a_batch_on_the_stream_that_computes_is_seen() -> None:
    gpu("a prefetcher whose copies run on the main stream is found out")
    found = road()
    ahead = Ahead(found, iter([[torch.ones(4).pin_memory()]] * 2).__next__)
    ahead.send()
    assert evidence.of_ahead(ahead, pinned=True) == {"device_prefetch": True}
    ahead.take()
    found.stream = torch.cuda.current_stream()
    ahead.send()
    assert evidence.of_ahead(ahead, pinned=True) == {"device_prefetch": False}


@pytest.mark.parametrize("expandable", [True, False])
def test_segments_that_can_grow_are_told_from_those_that_cannot(expandable: bool) -> None:
    gpu("an arm whose device memory is to grow in segments has only such segments, and a plain arm none")
    environment = launch_environment(Recipe(expandable_segments=expandable), dict(os.environ))
    done = subprocess.run([sys.executable, "-c", SEGMENTS], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["expandable_segments"] is expandable


@pytest.mark.parametrize("blocks", [True, False])
def test_blocking_sync_takes_effect_before_a_context(blocks: bool) -> None:
    gpu("a host that is to wait without spinning does so, and another one spins")
    command = [sys.executable, "-c", WAITS, *["blocks"] * blocks]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is blocks


def test_pickled_batches_are_pinned_on_their_way(smoke_data: dict[str, Path]) -> None:
    gpu("batches that came through a pipe are pinned all the same, and known for what they are")
    task = task_of("leak", smoke_data["leak"], ("workers=1", "pin_memory", "pickled_batches"), device="cuda")
    proof = {"batch_transport": "pickle", "pinned_batches": True}
    trial, ready = begin(task, Timing.STEP, BRIEF, dict(proof), other_seeds=False)
    assert ready["inactive"] == ()
    trial.session.feed.close()
