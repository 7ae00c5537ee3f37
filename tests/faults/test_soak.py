"""A short soak: killed every few seconds, a campaign still ends as it was planned."""

from pathlib import Path

import pytest

from harness.core.records import Arm, Fault, Lost
from tests.faults.soak import Asked, Soaked, soak, to_markdown, unexplained


@pytest.mark.thorough
@pytest.mark.alone  # beside others an attempt lasts longer than the time between kills, and an arm is given up
def test_a_campaign_that_is_killed_again_and_again_ends_as_planned(tmp_path: Path) -> None:
    asked = Asked(minutes=3.0, every_s=8.0, seed=1, options=2, attempt_s=30.0)
    soaked = soak(asked, tmp_path)
    assert soaked.is_sound, soaked
    assert sum(soaked.killed.values()) >= 2
    assert soaked.configs == 12
    assert soaked.given_up < soaked.configs
    assert soaked.windows > 0


def lost(position: int, kind: Fault, outcome: str) -> Lost:
    arm = Arm(block="b00", replicate=0, attempt=2, position=position)
    return Lost(arm=arm, outcome=outcome, reason="", trace="", kind=kind)


@pytest.mark.parametrize(
    ("record", "missing"),
    [
        (lost(1, Fault.KILLED, "failed"), [2]),
        (lost(0, Fault.KILLED, "failed"), []),
        (lost(1, Fault.KILLED, "interrupted"), [1, 2]),
        (lost(1, Fault.ERROR, "failed"), [1, 2]),
    ],
    ids=["arm", "reference", "another attempt follows", "a fault of its own"],
)
def test_only_an_arm_that_was_killed_in_its_last_attempt_explains_what_is_missing(
    record: Lost, missing: list[int]
) -> None:
    short = [("b00", 0, 1), ("b00", 0, 2)]
    assert unexplained(short, [record]) == [("b00", 0, position) for position in missing]
    later = [("b00", 1, 1), ("b00", 1, 2)]
    assert unexplained(later, [record]) == [("b00", 1, position) for position in missing]


@pytest.mark.parametrize(
    "flaw",
    [
        {"status": 1},
        {"missing": [("b00", 0, 1)]},
        {"double": [("b00", 0, 1)]},
        {"windows_twice": 1},
        {"orphans": 1},
        {"changed": 1},
    ],
    ids=lambda flaw: next(iter(flaw)),
)
def test_whatever_went_wrong_is_no_sound_end(flaw: dict[str, object]) -> None:
    assert Soaked(status=0).is_sound
    assert not Soaked(**({"status": 0} | flaw)).is_sound  # type: ignore[arg-type]


def test_the_page_tells_what_was_killed() -> None:
    page = to_markdown(Asked(minutes=40, every_s=45, seed=0), Soaked(status=0, killed={"command": 21, "arm": 23}))
    assert "| times the command was killed | 21 |" in page
    assert "--minutes 40 --every 45 --seed 0" in page
