"""`data check` believes no file and says which of them are unlike the real ones; `data write` tells what it wrote."""

import os
import re
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalogue import read_catalogue
from harness.cli import checks as weighing
from harness.cli.checks import Weighed, weigh, write
from harness.core.mistake import Mistake
from harness.core.workload import Parts, Size, Yardstick
from harness.run.data import Files, Wanted, write_manifest
from tests.core.invented import SIZE, workload

YARDSTICK = Yardstick(what="a file", mean_bytes=1000, target_bytes=1100, work=lambda: None)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `data write` has asked for, nothing of which is really written but 3 MB each."""
    asked, found = list[str](), list[Files]()

    def ensure_all(root: Path, wanted: list[Wanted], _show: object) -> list[Files]:
        for place, (one, size) in enumerate(wanted):
            folder = root / one.name
            folder.mkdir(parents=True)
            (folder / "sound").write_bytes(bytes(3_000_000))
            write_manifest(folder)
            asked.append(f"{one.name}@{size}")
            found.append(Files(folder, 61.0 if place else None))
        return found

    monkeypatch.setattr(weighing, "ensure_all", ensure_all)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a lock of its own
    return asked


def test_what_was_written_is_told_with_its_weight_and_time(
    written: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write(("leak", "speaker"), "smoke", tmp_path / "data") == 0
    assert written == ["leak@smoke", "speaker@smoke"]
    rows = [re.findall(r"[\w.]+", line) for line in capsys.readouterr().out.splitlines()]
    assert ["leak", "3", "was", "there"] in rows
    assert ["speaker", "3", "61"] in rows
    assert ["all", "6", "0"] in rows


def test_all_workloads_are_written_unless_some_are_named(written: list[str], tmp_path: Path) -> None:
    write((), "standard", tmp_path / "data")
    assert written == [f"{name}@standard" for name in sorted(read_catalogue().workloads)]
    with pytest.raises(Mistake):
        write(("leak",), "huge", tmp_path / "data")


def test_what_cannot_be_written_is_left_out_unless_it_is_named(
    written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "soundfile is not installed; pip install soundfile"
    monkeypatch.setattr(weighing, "unread", lambda one: reason if one.name == "spoof" else None)
    assert write((), "smoke", tmp_path / "data") == 0
    assert written == [f"{name}@smoke" for name in sorted(read_catalogue().workloads) if name != "spoof"]
    assert capsys.readouterr().err == "spoof is left out: soundfile is not installed; pip install soundfile.\n"
    with pytest.raises(Mistake, match="The data of spoof can be neither written nor read: soundfile"):
        write(("leak", "spoof"), "smoke", tmp_path / "other")


def test_a_stopped_writing_says_so_by_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> list[Files]:
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    monkeypatch.setattr(weighing, "ensure_all", stopped)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert write(("leak",), "smoke", tmp_path) == 130


def weighed(work_s: float, like_s: float | None, **facts: object) -> Weighed:
    return Weighed(yardstick=replace(YARDSTICK, **facts), work_s=work_s, like_s=like_s)  # type: ignore[arg-type]


def test_bytes_and_cost_must_both_lie_within_a_fifth() -> None:
    assert weighed(1.0, 1.1).fits
    assert weighed(1.0, None).fits
    assert not weighed(1.3, 1.0).fits
    assert not weighed(0.7, 1.0).fits
    assert not weighed(1.0, 1.0, mean_bytes=1400).fits


def test_costs_are_measured_in_turns_and_scaled_to_the_real_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    now_s = 0.0
    monkeypatch.setattr(weighing, "perf_counter", lambda: now_s)

    def take(name: str, seconds: float) -> None:
        nonlocal now_s
        turns.append(name)
        now_s += seconds

    def yardsticks(_folder: Path, _size: Size) -> list[Yardstick]:
        return [replace(YARDSTICK, work=lambda: take("work", 0.05), like=lambda: take("like", 0.1), scale=0.5, units=2)]

    parts = Parts(
        model=lambda *_: None,  # type: ignore[arg-type, return-value]
        loss=lambda *_: None,  # type: ignore[arg-type, return-value]
        optimizer=lambda *_: None,  # type: ignore[arg-type, return-value]
        dataset=lambda *_: None,  # type: ignore[arg-type, return-value]
        yardsticks=yardsticks,
    )
    toy = replace(workload(), parts=lambda: parts, sizes={"quick": SIZE})
    (found,) = weigh(toy, Path(), "quick")
    assert turns[:5] == ["work", "work", "like", "work", "like"]
    assert found.like_s == pytest.approx(0.05)  # one of two units
    assert found.cost_ratio == pytest.approx(1.0)
