"""The alarm: a slice's own clock, which ends it whatever an arm is doing."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf
from types import FrameType


@dataclass(slots=True)
class Alarm:
    """Whether a slice was ended by its own clock and not from outside."""

    rung: bool = False


@contextmanager
def ringing_after(seconds: float) -> Iterator[Alarm]:
    """After so many seconds everything is broken off as by Ctrl-C; never if they are infinite."""
    alarm = Alarm()

    def ring(_number: int, _frame: FrameType | None) -> None:
        alarm.rung = True
        raise KeyboardInterrupt

    if isinf(seconds):
        yield alarm
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield alarm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
