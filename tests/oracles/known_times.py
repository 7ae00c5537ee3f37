"""The workload of the oracles: a real data set and a real model whose durations alone are told from outside.

What a batch and a step take is read from the environment (`stages.py`); everything else is as in any other workload:
DataLoader workers are processes, batches travel through shared memory, the step has a backward pass and an update.
"""

import ctypes
import gc
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from math import exp, pi, sin
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, get_worker_info

from harness.core.recipe import Recipe, Value
from harness.core.workload import Built, Evaluation, Parts, Size
from tests.oracles.sabotage import VARIABLE, sabotaged
from tests.oracles.stages import Kind, Stages, changed, read_told, workload_of

sabotaged(os.environ.get(VARIABLE, ""))
TOLD = read_told()
FIRST = next(iter(TOLD.variants.values()))
LATE_S = 0.002  # what lies between two pieces of work without waiting counts as part of the second, up to this,
LATE_SHARE = 0.3  # or up to so much of a step where that is more
TIMER_SLACK = 29  # PR_SET_TIMERSLACK, inherited by loader workers
NUMBERS = 1 << 17  # whose sines an operator takes: as many as PyTorch divides among threads
OWN_PACE = random.Random(os.urandom(8)).gauss(0.0, 1.0)  # of this process and its workers


class Pace:
    """Work of one thread that takes exactly as long as it is told, with whatever PyTorch does in between.

    A piece of work begins where the last one ended, unless the thread has waited for somebody since.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.late_s = max(LATE_S, min(0.005, LATE_SHARE * stages.step_s))
        self.own = exp(stages.process_spread * OWN_PACE)
        self.ended_s, self.cpu_s = time.monotonic(), time.thread_time()
        ctypes.CDLL(None).prctl(TIMER_SLACK, 1, 0, 0, 0)  # nanoseconds

    def begin(self) -> None:
        """Forgets the time since the last piece of work if that was waiting."""
        now, cpu = time.monotonic(), time.thread_time()
        if now - self.ended_s > self.late_s:
            self.ended_s = now
        if cpu - self.cpu_s > self.late_s:
            self.cpu_s = cpu

    def spend(self, seconds: float, kind: Kind) -> None:
        """Returns when so long has passed since the work began."""
        seconds *= self.weather()
        if kind == "compute":
            self.cpu_s += seconds
            while time.thread_time() < self.cpu_s:
                pass
            self.ended_s = time.monotonic()
            return
        self.ended_s += seconds
        if (left := self.ended_s - time.monotonic()) > 0:
            time.sleep(left)

    def weather(self) -> float:
        """How much longer everything takes at this moment."""
        told, now = self.stages, time.monotonic()
        return self.own * (1 + told.swing * sin(2 * pi * now / told.swing_period_s))


PACES: dict[tuple[int, int], Pace] = {}


def pace_of(stages: Stages) -> Pace:
    """That of this thread of this process: a worker starts without debts."""
    key = os.getpid(), threading.get_ident()
    if key not in PACES:
        PACES[key] = Pace(stages)
    return PACES[key]


class Batches(Dataset[Any]):
    """Batches of numbers that take their time; each says how much of a step it will take."""

    collated = True

    def __init__(self, stages: Stages, variant: str) -> None:
        self.stages, self.variant = stages, variant
        shuffle = torch.randperm(stages.samples, generator=torch.Generator().manual_seed(0)).tolist()
        self.rank = {index: rank for rank, index in enumerate(shuffle)}
        self.process = self.loads = 0
        self.objects: list[list[int]] = []
        self.kept: dict[int, None] = {}  # the first ranks of batches that were loaded, the last one last
        self.ahead = Ahead(self) if stages.ahead else None
        self.server = Server(stages) if stages.server else None
        self.helpers = [_helper() for _ in range(stages.helpers)]

    def __len__(self) -> int:
        return self.stages.samples

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        ranks = [self.rank[index] for index in indices]
        self.objects = [[one] for one in range(self.stages.objects)]
        if self.server:
            self.server.take()
        elif self.ahead:
            self.ahead.take()
        else:
            self.load(ranks)
        self.objects.clear()
        weights = [self.stages.step_weight(rank // self.stages.batch) for rank in ranks]
        return torch.tensor(weights).unsqueeze(1), torch.ones(len(ranks), 1)

    def load(self, ranks: list[int]) -> None:
        """Takes as long as the batch's items do."""
        pace, told = pace_of(self.stages), self.stages
        if self.process != os.getpid():
            self.process, self.loads, self.kept = os.getpid(), 0, {}
        if self.loads == 0 and told.late_s and get_worker_info() is not None:
            time.sleep(told.late_s)
        extra_s = told.first_load_s if self.loads < told.first_loads else 0.0
        extra_s += told.unread_s if ranks[0] not in self.kept else 0.0
        self.keep(ranks[0])
        self.loads += 1
        costs = [told.item_s(rank) for rank in ranks]
        part = max(1, len(costs) // told.slices)
        for first in range(0, len(costs), part):
            pace.begin()
            pace.spend(sum(costs[first : first + part]) + extra_s * part / len(costs), told.load)

    def keep(self, rank: int) -> None:
        """Keeps a batch, as far as there is room for it."""
        told = self.stages
        if told.stays and rank not in self.kept and len(self.kept) == told.keeps:
            return
        self.kept.pop(rank, None)
        self.kept[rank] = None
        if told.keeps and len(self.kept) > told.keeps:
            del self.kept[next(iter(self.kept))]


class Ahead:
    """A thread that loads the next batches before anybody asks for them, as some data sets have one."""

    def __init__(self, batches: Batches) -> None:
        self.ready = threading.Semaphore(0)
        self.room = threading.Semaphore(batches.stages.ahead)
        self.batches, self.next = batches, 0
        threading.Thread(target=self._load, daemon=True).start()

    def take(self) -> None:
        self.ready.acquire()
        self.room.release()

    def _load(self) -> None:
        while True:
            self.room.acquire()
            first = self.next * self.batches.stages.batch
            self.batches.load(list(range(first, first + self.batches.stages.batch)))
            self.next += 1
            self.ready.release()


SERVER = """
import socket, sys, time
channel, load_s, room = socket.socket(fileno=int(sys.argv[1])), float(sys.argv[2]), int(sys.argv[3])
held, until = 0, time.monotonic()

def taken(flags):
    try:
        received = len(channel.recv(64, flags))
    except BlockingIOError:
        return 0
    return received or sys.exit()

while True:
    held -= taken(socket.MSG_DONTWAIT)
    while held >= room:
        held -= taken(0)
        until = time.monotonic()
    until += load_s
    time.sleep(max(0.0, until - time.monotonic()))
    channel.send(b"b")
    held += 1
"""


class Server:
    """A process in a session of its own that prepares batches, as a data service does: no pause of the arm stops it."""

    def __init__(self, stages: Stages) -> None:
        self.channel, theirs = socket.socketpair()
        words = [str(theirs.fileno()), str(stages.load_s), str(stages.server)]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, *words], pass_fds=[theirs.fileno()], start_new_session=True
            )

    def take(self) -> None:
        self.channel.recv(1)
        self.channel.send(b"t")


def _helper() -> int:
    """A child with memory of its own that waits for its parent's end."""
    pid = os.fork()
    if pid == 0:
        kept = bytearray(os.urandom(1) * 20_000_000)
        parent = os.getppid()
        while os.getppid() == parent and kept:
            time.sleep(1.0)
        os._exit(0)
    return pid


class Wait(torch.autograd.Function):
    """Passes a weight through; its backward, which comes last in a pass, returns when the pass has had its time."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, model: "Slow") -> Tensor:
        ctx.model = model
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.model.wait()
        return gradient, None


class Slow(nn.Module):
    """A line whose forward and backward pass take their time together."""

    def __init__(self, stages: Stages) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)
        self.stages, self.pace = stages, pace_of(stages)
        self.weight, self.passes, self.cold, self.ended_s = 1.0, 0, 0, time.monotonic()
        self.heap = [[one] for one in range(stages.heap)]
        self.numbers = torch.linspace(0.0, 1.0, NUMBERS if stages.operators else 0, dtype=torch.float64)
        self.sines = torch.empty_like(self.numbers)

    def forward(self, inputs: Tensor) -> Tensor:
        self.pace.begin()
        self.weight = float(inputs.mean().numpy())  # no read-back for an emulated device: the step has none of its own
        return nn.functional.linear(inputs, Wait.apply(self.line.weight, self), self.line.bias)  # type: ignore[no-untyped-call]

    def wait(self) -> None:
        told = self.stages
        seconds = told.step_s * self.weight
        if self.passes < told.warm_steps:
            seconds += told.warm_s * (1 - self.passes / told.warm_steps)
        if told.idle_s and time.monotonic() - self.ended_s > told.idle_s:
            self.cold = told.cold_steps
        if self.cold:
            self.cold -= 1
            seconds += told.cold_s
        self.passes += 1
        if told.step_stall_every and self.passes % told.step_stall_every == told.step_stall_phase:
            seconds += told.step_stall_s
        self.pace.spend(seconds, self.stages.step)
        if told.threads:
            torch.set_num_threads(told.threads)
        for _ in range(told.operators):
            torch.sin(self.numbers, out=self.sines)
        if told.collect_every and self.passes % told.collect_every == 0:
            gc.collect()
        self.ended_s = time.monotonic()


def _stages(recipe: Recipe) -> tuple[str, Stages]:
    variant = str(recipe.choice("variant"))
    return variant, TOLD.variants[variant]


def _dataset(_folder: Path, size: Size, recipe: Recipe) -> Batches:
    variant, stages = _stages(recipe)
    stages = changed(stages, epoch_steps=size.epoch_steps)  # what the arms of a block may have shortened
    if stages.false_clock:
        true_time, began_s = time.time, time.time()
        time.time = lambda: 2 * true_time() - began_s
    return Batches(stages, variant)


def _evaluate(model: nn.Module, _folder: Path, _size: Size, recipe: Recipe, _device: torch.device) -> Evaluation:
    """An evaluation that scores as often as the recipe says."""
    slow, (_, stages) = cast("Slow", model), _stages(recipe)
    slow.pace.begin()
    slow.pace.spend(stages.evaluation_s * cast("int", recipe.choice("scored")), stages.step)
    return Evaluation(items=1, score=0.0)


def _effective(built: Built) -> Mapping[str, Value]:
    return {"variant": cast("Batches", built.dataset).variant}


def parts() -> Parts:
    """What needs torch."""
    return Parts(
        model=lambda _size, recipe: Slow(_stages(recipe)[1]),
        loss=lambda _size, _recipe: nn.MSELoss(),
        optimizer=lambda parameters, keywords: torch.optim.SGD(parameters, lr=1e-6, **keywords),
        dataset=_dataset,
        effective=_effective,
        evaluate=_evaluate,
        between_epochs={"scored": 1},
    )


WORKLOAD = workload_of(FIRST, parts)
