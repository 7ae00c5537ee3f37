"""Crowding: how much of the cores others take while an arm is timed.

An arm on one core may keep its pace while a neighbour works on the next one; an arm on two does not. The reference's
own rate then tells too little, so it is read from the kernel's accounts of all cores and of our own processes.
"""

import os
from dataclasses import dataclass
from time import monotonic

import psutil

BUSY = ("user", "nice", "system", "irq", "softirq", "steal")  # stolen time is a neighbour on the same host


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """What the kernel has counted so far, in seconds."""

    moment_s: float
    busy_s: float  # all cores that we may use
    own_s: float  # our own processes, those that have ended among them
    cores: int


def read_accounts() -> Accounts:
    """The accounts of this moment: this process and all below it are our own."""
    each, ours = psutil.cpu_times(percpu=True), sorted(os.sched_getaffinity(0))
    cores = [each[core] for core in ours if core < len(each)]
    return Accounts(
        moment_s=monotonic(),
        busy_s=sum(getattr(core, name, 0.0) for core in cores for name in BUSY),
        own_s=sum(map(_spent_s, _family())),
        cores=len(cores),
    )


def share_of_others(before: Accounts, after: Accounts) -> float:
    """The share of all cores, 0 to 1, that others took between two moments beyond what was left idle.

    Whoever works beside idle cores takes nothing from us: on a host of many cores others may be busy all the time.
    """
    whole_s = (after.moment_s - before.moment_s) * after.cores
    busy_s = after.busy_s - before.busy_s
    others_s, idle_s = busy_s - (after.own_s - before.own_s), max(0.0, whole_s - busy_s)
    return min(1.0, max(0.0, (others_s - idle_s) / whole_s)) if whole_s > 0 else 0.0


def _family() -> list[psutil.Process]:
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


def _spent_s(process: psutil.Process) -> float:
    """Seconds of a process and of its children that have ended; one that ends right now is its parent's."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system
