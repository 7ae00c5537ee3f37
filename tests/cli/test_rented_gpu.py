"""A campaign of 25 minutes on the invented H200: ratios of every workload, and few of them bought twice."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from benchmarks.invented import h200
from harness.cli import campaign as campaigning
from harness.cli.campaign_state import resolved
from harness.core.plan import Request
from harness.core.records import Record
from harness.results import read_kept
from harness.run.execution import Start
from harness.run.preparation import Prepared
from tests.cli.test_campaigning import Machine, Trip


@dataclass(slots=True, kw_only=True)
class Rented(Machine):
    """A machine with that GPU."""

    gpu: h200.Machine

    def starter(self, ready: Prepared, records: list[Record]) -> Start:
        return h200.starter(ready, records, self.gpu, Random(len(self.begun)))


def ratios(results: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> Counter[str]:
    """How many different comparisons of each workload have a ratio in the end."""
    gpu = h200.Machine()
    there = Rented(gpu=gpu, clock=gpu.clock, is_paced=True)
    for name, other in (("measure_into", there.measure_into), ("written", there.write), ("age_s", lambda: 1.0)):
        monkeypatch.setattr(campaigning, name, other)
    asked = resolved(Request(size=size, device="cuda", environment=h200.H200))
    trip = Trip(there=there, results=results, request=asked, minutes=25.0)
    trip.session()
    assert there.begun[0].startswith("stages")
    assert gpu.clock() < 25 * 60
    rows = [row for folder in trip.runs for row in read_kept(folder).matrix.every_row if row.estimate]
    found = {(row.comparison.treatment, row.comparison.reference): row.comparison.reference.workload for row in rows}
    return Counter(found.values())


@pytest.mark.thorough
def test_half_an_hour_at_quick_brings_ratios_of_every_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ratios(tmp_path, monkeypatch, "quick")
    assert set(found) == set(h200.STEPS_S["quick"])
    assert min(found.values()) >= 4
    assert found.total() >= 60


@pytest.mark.thorough
def test_half_an_hour_at_the_real_size_is_not_spent_on_the_slowest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ratios(tmp_path, monkeypatch, "standard")
    assert set(found) >= {"leak", "spoof", "speaker", "imagenet"}  # a step of patches3d takes 13 s
    assert found.total() >= 20  # imagenet loads for 6 s a step there, as an H200's host showed
