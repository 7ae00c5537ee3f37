"""The state of a campaign: minutes that are on the disk while they pass, charged ahead and never twice."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.invented.rehearsal import VirtualClock
from harness import __version__
from harness.cli import campaign_state as spending
from harness.cli.campaign_state import TICK_S, Meter, State, parsed, read_state
from harness.core.mistake import Mistake
from harness.exchange.archive import STATE
from tests.analyze.synthetic import ENVIRONMENT

ONE = State(
    began="2026-01-02T03:04:05+00:00",
    version=__version__,
    environment=ENVIRONMENT,
    words=("run", "leak", "--size", "quick"),
    minutes=30.0,
    spent_s=100.0,
    phase_s={"first look": 60.0},
)


def kept(path: Path) -> State:
    found = read_state(path)
    assert found is not None
    return found


def test_it_is_written_and_read(tmp_path: Path) -> None:
    assert read_state(tmp_path / STATE) is None
    assert parsed(ONE.encoded, "here") == ONE


def test_seconds_are_charged_ahead_and_settled_at_the_end(tmp_path: Path) -> None:
    clock, path = VirtualClock(now_s=50.0), tmp_path / STATE
    with Meter(path, ONE, age_s=3.0, clock=clock) as meter:
        assert kept(path).spent_s == pytest.approx(103 + TICK_S)
        clock.now_s += 20
        assert meter.spent_s == pytest.approx(123)
        meter.note(over=("matrix leak",))
        assert kept(path).spent_s == pytest.approx(123 + TICK_S)
        assert kept(path).over == meter.state.over == ("matrix leak",)
        clock.now_s += 2
    assert kept(path).spent_s == pytest.approx(125)
    with Meter(path, kept(path), age_s=0.0, clock=clock) as meter:
        assert meter.spent_s == pytest.approx(125)


def test_it_is_settled_when_something_breaks_off(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / STATE

    def broken_off() -> None:
        with Meter(path, ONE, age_s=0.0, clock=clock), Meter(tmp_path / "other.json", ONE, 0.0, clock):
            clock.now_s += 9
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert kept(path).spent_s == pytest.approx(109)


def test_while_files_are_written_the_minutes_stand_still(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / STATE
    with Meter(path, ONE, age_s=0.0, clock=clock) as meter:
        with meter.pausing():
            clock.now_s += 60
            assert meter.spent_s == pytest.approx(100)
        clock.now_s += 5
        with meter.pausing():
            clock.now_s += 10
        assert meter.spent_s == pytest.approx(105)
    assert kept(path).spent_s == pytest.approx(105)


def test_it_ticks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "TICK_S", 0.01)
    clock, path = VirtualClock(), tmp_path / STATE
    with Meter(path, ONE, age_s=0.0, clock=clock):
        clock.now_s += 33
        until = time.monotonic() + 10
        while kept(path).spent_s < 133 and time.monotonic() < until:
            time.sleep(0.01)
        assert kept(path).spent_s == pytest.approx(133.01)


def test_a_full_disk_is_said_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "absent" / STATE
    words = r"Cannot write .*campaign.json .*; make room or choose another folder"
    with pytest.raises(Mistake, match=words), Meter(path, ONE, age_s=0.0):
        pass


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b"\xff", b'{"schema": 3}', b'{"schema": 2}',
        b'{"schema": 1, "legs": []}',
        replace(ONE, spent_s=float("nan")).encoded, replace(ONE, minutes=-1.0).encoded,
        replace(ONE, arm_s={"quick": {"leak": 1e9}}).encoded, replace(ONE, phase_s={"first look": -1.0}).encoded,
        ONE.encoded.replace(b'"quick"', b"7"), replace(ONE, runs=("../20260102T030405-01234567",)).encoded,
        json.dumps({**json.loads(ONE.encoded), "more": 1}).encode(), b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_damaged_is_a_mistake(tmp_path: Path, text: bytes) -> None:
    (tmp_path / STATE).write_bytes(text)
    with pytest.raises(Mistake, match=r"campaign.json is damaged .*; remove it, and give --fresh"):
        read_state(tmp_path / STATE)
