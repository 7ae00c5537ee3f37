import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.precision.records import append
from benchmarks.precision.tools import TOOLS
from benchmarks.precision_per_second import PAIRS, main, schedule
from tests.benchmarks.precision.invented import record


def test_every_tool_takes_every_pair_once_in_each_repetition() -> None:
    keys = list(schedule(3, TOOLS, "0 nothing else"))
    assert set(Counter(keys).values()) == {1}
    assert len(keys) == 3 * len(TOOLS) * len(PAIRS)
    assert [repetition for repetition, *_ in keys] == sorted(repetition for repetition, *_ in keys)


def test_repetitions_have_orders_of_their_own_that_the_seed_decides() -> None:
    one, again, other = (
        [(truth, tool.name) for _, truth, tool in schedule(2, TOOLS, seed)] for seed in ("0", "0", "1")
    )
    assert one == again
    assert one != other
    assert one[:10] != one[10:]


def test_the_truth_is_the_ratio_of_passes() -> None:
    for truth, (reference, treatment) in PAIRS.items():
        assert reference / treatment == pytest.approx(truth, rel=1e-12)


def test_a_table_is_written_again_from_the_records_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, table = tmp_path / "some.jsonl", tmp_path / "some.md"
    append(records, record())
    assert main(["--only-table", "--records", str(records), "--table", str(table)]) == 0
    assert table.read_text() == capsys.readouterr().out
    assert "| asv 0.6.6 | 1 of 1 | ±0.95 % |" in table.read_text()


def test_a_tool_that_is_missing_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyperf" else name)
    assert main(["--records", str(tmp_path / "none.jsonl"), "--table", str(tmp_path / "none.md")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Not installed: pyperf;")
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
