"""The account of a campaign: minutes that are on the disk while they pass, charged ahead and never twice."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import __version__
from harness.cli import campaign_state as spending
from harness.cli.campaign_state import TICK_S, Account, Asked, Meter, account_text, parsed_account, read_account
from harness.core.mistake import Mistake
from harness.exchange.archive import ACCOUNT
from harness.plan.campaign import Kind, Leg
from harness.run.rehearsal import VirtualClock
from tests.analyze.synthetic import ENVIRONMENT

ONE = Account(
    began="2026-01-02T03:04:05+00:00",
    version=__version__,
    environment=ENVIRONMENT,
    asked=Asked(workloads=("leak",), size="quick", protocol="brief", seed=0),
    minutes=30.0,
    legs=(Leg(kind=Kind.FIRST_LOOK, workloads=("leak",), share_s=1775.0, until_s=1775.0),),
    spent_s=100.0,
    data_s=7.0,
)


def kept(path: Path) -> Account:
    found = read_account(path)
    assert found is not None
    return found


def test_it_is_written_and_read(tmp_path: Path) -> None:
    assert read_account(tmp_path / ACCOUNT) is None
    assert parsed_account(account_text(ONE), "here") == ONE
    assert ONE.measuring_s == 1775.0


def test_seconds_are_charged_ahead_and_settled_at_the_end(tmp_path: Path) -> None:
    clock, path = VirtualClock(now_s=50.0), tmp_path / ACCOUNT
    with Meter(path, ONE, age_s=3.0, clock=clock) as meter:
        assert kept(path).spent_s == pytest.approx(103 + TICK_S)
        clock.now_s += 20
        assert meter.spent_s == pytest.approx(123)
        meter.note(over=("matrix leak",))
        assert kept(path).spent_s == pytest.approx(123 + TICK_S)
        assert kept(path).over == meter.account.over == ("matrix leak",)
        clock.now_s += 2
    assert kept(path).spent_s == pytest.approx(125)
    with Meter(path, kept(path), age_s=0.0, clock=clock) as meter:
        assert meter.spent_s == pytest.approx(125)


def test_it_is_settled_when_something_breaks_off(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / ACCOUNT

    def broken_off() -> None:
        with Meter(path, ONE, age_s=0.0, clock=clock), Meter(tmp_path / "other.json", ONE, 0.0, clock):
            clock.now_s += 9
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert kept(path).spent_s == pytest.approx(109)


def test_files_are_written_on_another_account(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / ACCOUNT
    with Meter(path, ONE, age_s=0.0, clock=clock) as meter:
        with meter.pausing():
            clock.now_s += 60
            assert meter.spent_s == pytest.approx(100)
            assert meter.account.data_s == pytest.approx(67)
        clock.now_s += 5
        with meter.pausing():
            clock.now_s += 10
        assert meter.spent_s == pytest.approx(105)
    assert (kept(path).spent_s, kept(path).data_s) == (pytest.approx(105), pytest.approx(77))


def test_it_ticks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "TICK_S", 0.01)
    clock, path = VirtualClock(), tmp_path / ACCOUNT
    with Meter(path, ONE, age_s=0.0, clock=clock):
        clock.now_s += 33
        until = time.monotonic() + 10
        while kept(path).spent_s < 133 and time.monotonic() < until:
            time.sleep(0.01)
        assert kept(path).spent_s == pytest.approx(133.01)


def test_a_full_disk_is_said_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "absent" / ACCOUNT
    words = r"Cannot write .*campaign.json .*; make room or choose another folder"
    with pytest.raises(Mistake, match=words), Meter(path, ONE, age_s=0.0):
        pass


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b"\xff", b'{"schema": 2}', b'{"schema": 1}',
        account_text(replace(ONE, spent_s=float("nan"))), account_text(replace(ONE, minutes=-1.0)),
        account_text(replace(ONE, legs=())), account_text(ONE).replace(b'"quick"', b"7"),
        json.dumps({**json.loads(account_text(ONE)), "more": 1}).encode(), b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_damaged_is_a_mistake(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ACCOUNT).write_bytes(text)
    with pytest.raises(Mistake, match=r"campaign.json is damaged .*; remove it, and give --fresh"):
        read_account(tmp_path / ACCOUNT)
