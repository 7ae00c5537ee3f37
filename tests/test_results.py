"""The result store, read: whatever reads a damaged run says so in one sentence."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.calibration import DESIGN
from harness.catalogue import read_catalogue
from harness.cli.reading import exhibit, show_claims
from harness.cli.sharing import export
from harness.core.mistake import Mistake
from harness.results import finished, matrix_of, read_kept
from harness.store import MEASUREMENTS, ORIGIN, finish
from tests.cli.test_bundling import measured
from tests.exchange.made import GOOD_RUN, WINDOW

DAMAGE: dict[str, dict[str, Any]] = {
    "a window of no samples": {"samples": 0},
    "a block that the plan has not": {"arm": {"block": "9", "restart": 0, "life": 0, "position": 0}},
    "a position behind the last": {"arm": {"block": "0", "restart": 0, "life": 0, "position": 7}},
    "a position before the first": {"arm": {"block": "0", "restart": 0, "life": 0, "position": -1}},
}
READERS: dict[str, Callable[[Path], object]] = {
    "read_kept": read_kept,
    "matrix_of": matrix_of,
    "exhibit": lambda folder: exhibit(folder, read_catalogue()),
    "claims": lambda folder: show_claims((folder,), "json", (None, folder.parents[1]), None),
    "export": lambda folder: export((folder,), folder.parents[1] / "out", folder.parents[1]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_records_that_do_not_fit_their_plan_are_a_mistake_wherever_they_are_read(
    damage: str, reader: str, tmp_path: Path
) -> None:
    folder = measured(tmp_path)
    path = folder / MEASUREMENTS
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines[WINDOW] |= DAMAGE[damage]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with pytest.raises(Mistake, match=r"is damaged: its records do not fit its plan .*; ./speedmatrix bundle"):
        READERS[reader](folder)


def test_a_calibration_that_cannot_be_read_is_left_out_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = replace(GOOD_RUN.plan, design=DESIGN)
    finish(measured(tmp_path, replace(GOOD_RUN, plan=plan, began="2026-01-03T03:04:05")))  # in no time zone
    assert read_kept(measured(tmp_path)).matrix.looked_at == 2
    assert "Left out as a calibration: " in capsys.readouterr().err


def test_a_run_that_lies_there_twice_counts_once_and_a_word_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = measured(tmp_path), measured(tmp_path, replace(GOOD_RUN, began="2026-01-03T03:04:05+00:00"))
    for one in (folder, other):
        finish(one)
    backup, elsewhere = folder.with_name(f"{folder.name}-backup"), tmp_path / "a backup" / folder.name
    for one in (backup, elsewhere):
        shutil.copytree(folder, one)
    for _ in range(2):
        assert finished(tmp_path) == sorted((folder, other)), "the original is that under its machine's name"
    assert sorted(capsys.readouterr().err.splitlines()) == sorted(
        f"{one} is a copy of {folder} and left out; keep it in no folder of results." for one in (backup, elsewhere)
    )
    (backup / ORIGIN).write_text("{}")
    assert backup in finished(tmp_path), "what somebody else gave is never averaged with ours"
