"""Work is shared out over processes, all of it, and an error ends it."""

import os
from functools import partial
from pathlib import Path

import pytest

from harness.core import parallel
from harness.core.parallel import spread


def leave_a_mark(folder: Path, number: int) -> None:
    if number < 0:
        raise ValueError(f"no file for {number}")
    (folder / str(number)).write_text(str(os.getpid()))


def test_every_item_is_handled_once_and_the_share_grows_to_one(tmp_path: Path) -> None:
    shares = list(spread(partial(leave_a_mark, tmp_path), range(23), chunk=2))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) == 12
    assert {path.name for path in tmp_path.iterdir()} == {str(number) for number in range(23)}
    assert str(os.getpid()) not in {path.read_text() for path in tmp_path.iterdir()}


def test_the_first_error_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file for -1"):
        list(spread(partial(leave_a_mark, tmp_path), [1, -1, 2]))


def test_a_quota_of_the_control_group_leaves_fewer_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    for quota, cores in ((None, 64), (16.5, 16), (0.5, 1), (100.0, 64)):
        monkeypatch.setattr(parallel, "cgroup_cpu_quota", lambda quota=quota: quota)
        assert parallel.usable_cores() == cores
