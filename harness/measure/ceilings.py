"""The two upper bounds of an arm: its loader without the step, and its step without the loader.

Where nothing works ahead, the host loads, then computes: what its windows waited for is the loader alone and the rest
is the step alone, over the very same samples. Bounds are probed only where that cannot be told from windows.
"""

from collections.abc import Callable
from itertools import cycle

import torch

from harness.core.protocol import Protocol
from harness.measure.clock import timed
from harness.measure.opening import Opening
from harness.measure.session import Session

GROUPS = 4  # workers finish side by side: so many batches of each are the least that show their mean rate


def ceilings_of(session: Session, opening: Opening, protocol: Protocol) -> tuple[float | None, float | None]:
    """Samples a second of the loader alone and of the step alone; None for what the windows will tell."""
    ahead = session.task.recipe.workers > 0
    if not ahead and session.task.device.type == "cpu":
        return None, None
    return (_loader_rate(session, protocol) if ahead else None), _compute_rate(session, opening, protocol)


def _loader_rate(session: Session, protocol: Protocol) -> float:
    """Of batches that nobody has loaded yet: a whole epoch where that is short, so that rare stalls are met."""
    feed, task = session.feed, session.task
    for _ in range(feed.in_flight):
        feed.fetch()
    taken, group = feed.taken, task.recipe.workers
    epoch = task.size.epoch_steps * task.recipe.micro_batches
    spent_s = timed(feed.fetch, GROUPS * group, task.device)
    while spent_s < protocol.ceiling_s:
        spent_s += timed(feed.fetch, group, task.device)
    done = feed.taken - taken
    whole = -(-done // epoch) * epoch
    if spent_s / done * whole <= 2 * protocol.whole_s:
        spent_s += timed(feed.fetch, whole - done, task.device)
    return feed.order.samples(taken, feed.taken) / spent_s


def _compute_rate(session: Session, opening: Opening, protocol: Protocol) -> float:
    """On the batches of the first steps, which lie on the device."""
    slow = protocol.is_slow(opening.step_s)
    compute = session.step_on(cycle(opening.full_batches(session.feed.order)).__next__)
    compute()
    rate = session.task.size.batch * _calls_per_s(compute, 1 if slow else 2, protocol.ceiling_s, session.task.device)
    session.phases.split()
    return rate


def _calls_per_s(call: Callable[[], object], times: int, seconds: float, device: torch.device) -> float:
    """Calls a second over rounds of `times` calls, until the time is up."""
    calls, spent_s = 0, 0.0
    while spent_s < seconds:
        spent_s += timed(call, times, device)
        calls += times
    return calls / spent_s
