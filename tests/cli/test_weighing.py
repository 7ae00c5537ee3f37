"""`data check` believes no file and says which of them are unlike the real ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import weighing
from harness.cli.weighing import Weighed, weigh
from harness.core.workload import Parts, Size
from harness.core.yardstick import Yardstick
from tests.core.invented import SIZE, workload

YARDSTICK = Yardstick(what="a file", mean_bytes=1000, target_bytes=1100, work=lambda: None)


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
