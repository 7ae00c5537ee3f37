"""The training loop that anybody would write, without the harness: what the harness's own cost is measured against.

It is `baseline` alone: float32, no workers, nothing switched on. Same seed, same data, same order as a session; so the
losses agree to the last bit, and whatever time the two differ by is the harness's.
"""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from torch.utils.data import DataLoader

from harness.measure.session import Task


def step_by_hand(task: Task) -> Callable[[], float]:
    """One step of the baseline recipe: a batch, an update; gives the loss. The task must be plain and endless."""
    parts, size, recipe, device = task.parts, task.size, task.recipe, task.device.torch
    batches = iter(_loader(task))
    torch.manual_seed(task.seed)
    model = parts.model(size, recipe).to(device)
    criterion = parts.loss(size, recipe).to(device)
    parameters = [*model.parameters(), *criterion.parameters()]
    optimizer = parts.optimizer(parameters, {"foreach": False, "fused": False})
    stage = parts.device_stage(task.data, size, recipe, device)
    clip_norm, decay = parts.clip_norm, parts.average_decay
    averages = [one.detach().clone() for one in parameters] if decay is not None else []
    torch.manual_seed(task.seed + 1)  # as a session does, so that dropout draws the same
    model.train()
    running = 0.0

    def step() -> float:
        nonlocal running
        batch = [one.to(device) for one in next(batches)]
        inputs, targets = stage(batch) if stage else batch
        loss = criterion(model(inputs), targets)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm, foreach=False)
        optimizer.step()
        if decay is not None:
            with torch.no_grad():
                for average, weight in zip(averages, parameters, strict=True):
                    average.lerp_(weight, 1 - decay)
        optimizer.zero_grad(set_to_none=False)
        value = float(loss.item())
        running += value
        return value

    return step


def _loader(task: Task) -> DataLoader[Any]:
    """The usual loader over one shuffled order, gone through again and again."""
    samples, batch = task.size.batch * task.size.epoch_steps, task.size.batch
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(0)).tolist()
    # Endless, so it has no length, which nobody asks for.
    batches = cycle([order[first : first + batch] for first in range(0, samples, batch)])
    generator = torch.Generator().manual_seed(0)  # leaves the global one to the model
    dataset = task.parts.dataset(task.data, task.size, task.recipe)
    return DataLoader(dataset, batch_sampler=batches, generator=generator)
