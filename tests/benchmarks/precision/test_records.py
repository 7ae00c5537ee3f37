from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.precision.records import append, read
from harness.core.mistake import Mistake
from tests.benchmarks.precision.invented import record


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    kept = [record(), record(repetition=1, ratio=None, low=None, high=None, changed=None, failure="ended")]
    for one in kept:
        append(path, one)
    assert read(path) == kept
    assert len({one.turn for one in kept}) == 2
    assert replace(kept[0], ratio=2.0, used_s=1.0).turn == kept[0].turn


def test_no_file_has_no_records(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"schema": 2}', '{"schema": 1, "tool": "asv"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    append(path, record())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(Mistake, match="line 2 is no record"):
        read(path)


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="--records"):
        append(tmp_path / "missing" / "records.jsonl", record())
