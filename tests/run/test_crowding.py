"""Contention: others are told from ourselves, by the kernel's own accounts."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from harness.run.processes import Accounts, read_accounts, share_of_others

SPIN = "import time; until = time.monotonic() + 1.5\nwhile time.monotonic() < until: pass"
BEFORE = Accounts(moment_s=10.0, busy_s=100.0, own_s=50.0, cores=2)


def spun_beside(*, detached: bool) -> tuple[Accounts, Accounts]:
    """Accounts around a second in which a process spins: our own child, or nobody's."""
    command = [sys.executable, "-c", SPIN]
    if detached:  # the shell ends at once, and what it started is adopted
        subprocess.run(["/bin/sh", "-c", '"$@" &', "sh", *command], check=True)
        child = None
    else:
        child = subprocess.Popen(command)
    time.sleep(0.2)
    before = read_accounts()
    time.sleep(1.0)
    after = read_accounts()
    if child:
        child.wait()
    else:
        time.sleep(0.6)
    return before, after


@pytest.mark.parametrize(
    ("busy", "own", "share"),
    [
        (0.0, 0.0, 0.0),
        (2.0, 1.0, 0.5),
        (1.8, 1.0, 0.3),
        (1.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
        (2.0, 2.2, 0.0),
        (9.0, 0.0, 1.0),
    ],
)
def test_others_are_what_is_busy_beyond_ourselves_and_not_beside_idle_cores(
    busy: float, own: float, share: float
) -> None:
    after = replace(BEFORE, moment_s=11.0, busy_s=BEFORE.busy_s + busy, own_s=BEFORE.own_s + own)
    assert share_of_others(BEFORE, after) == pytest.approx(share)


def test_no_time_has_no_share() -> None:
    assert share_of_others(BEFORE, BEFORE) == 0.0


def test_a_stranger_is_counted_and_a_child_is_not() -> None:
    """Whatever else runs here is a stranger too, so only our own accounts are known on both sides."""
    before, after = spun_beside(detached=False)
    assert after.own_s - before.own_s > 0.1
    before, after = spun_beside(detached=True)
    assert after.own_s - before.own_s < 0.1
    assert (after.busy_s - before.busy_s) - (after.own_s - before.own_s) > 0.1
