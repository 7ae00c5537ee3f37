"""The two ceilings of an arm: its loader without the step, and its step without the loader."""

from collections.abc import Callable
from itertools import cycle

import torch

from harness.core.protocol import Protocol
from harness.measure.clock import timed
from harness.measure.opening import Opening
from harness.measure.session import Session


def ceilings_of(session: Session, opening: Opening, protocol: Protocol) -> tuple[float, float]:
    """Samples a second of the loader alone and of the step alone."""
    size, recipe = session.task.size, session.task.recipe
    for _ in range(2 * recipe.prefetched_batches):
        session.feed.fetch()
    slow = protocol.is_slow(opening.step_s)
    whole = size.epoch_steps <= 16 and not slow
    loader_batches = size.epoch_steps * recipe.micro_batches if whole else protocol.burst_steps
    compute = session.step_on(cycle(opening.full_batches(session.feed.order)).__next__)
    if not slow:
        compute()
    device = session.task.device
    taken = session.feed.taken
    fetches_per_s = _calls_per_s(session.feed.fetch, loader_batches, protocol.ceiling_s, device)
    loader_rate = fetches_per_s * session.feed.mean_samples(taken)
    compute_rate = size.batch * _calls_per_s(compute, 1 if slow else 2, protocol.ceiling_s, device)
    session.phases.split()
    return loader_rate, compute_rate


def _calls_per_s(call: Callable[[], object], times: int, seconds: float, device: torch.device) -> float:
    """Calls a second over rounds of `times` calls, until the time is up."""
    calls, spent_s = 0, 0.0
    while spent_s < seconds:
        spent_s += timed(call, times, device)
        calls += times
    return calls / spent_s
