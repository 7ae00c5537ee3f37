"""A slice's own clock: it breaks off whatever is going on, tells that it did, and leaves nothing behind."""

import math
import signal
import time

import pytest

from harness.cli.campaign import ringing_after


def test_it_breaks_off_and_says_that_it_did() -> None:
    before, began_s = signal.getsignal(signal.SIGALRM), time.monotonic()
    with pytest.raises(KeyboardInterrupt), ringing_after(0.15) as alarm:
        time.sleep(20)
    assert alarm.is_set()
    assert time.monotonic() - began_s < 10
    assert signal.getsignal(signal.SIGALRM) == before


def test_what_ends_in_time_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with ringing_after(30) as alarm:
        pass
    assert not alarm.is_set()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_it_rings_at_once_where_the_time_is_over() -> None:
    with pytest.raises(KeyboardInterrupt), ringing_after(-5):
        time.sleep(20)


def test_without_an_end_nothing_is_installed() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with ringing_after(math.inf) as alarm:
        assert signal.getsignal(signal.SIGALRM) == before
    assert not alarm.is_set()
