"""`learn --until` with real processes: what is kept, and that nothing is loaded while the clock stands still."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.analyze.race import sooner
from harness.core.mistake import Mistake
from harness.report.words import ratio
from harness.results import races_below

ROOT = Path(__file__).parents[2]
SPIN = """
import time
_item, _evaluate = Pictures.__getitem__, evaluate


def spun(self, index):
    began = time.perf_counter()
    while time.perf_counter() < began + 0.002:
        pass
    return _item(self, index)


def slowly(*given):
    time.sleep(0.6)
    return _evaluate(*given)


Pictures.__getitem__ = spun
"""


def called(
    folder: Path, *words: str, own: Path = ROOT / "docs/example_workload.py"
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "harness", "learn", *words, "--workload", str(own), "--results", str(folder)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "HOME": str(folder),
             "SPEEDMATRIX_DATA": str(folder / "data"), "COLUMNS": "200"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.thorough
def test_a_race_is_kept_with_all_that_it_rests_on(tmp_path: Path) -> None:
    told = called(tmp_path, "pictures@smoke:anomaly_detection", "--until", "0.9", "--seeds", "3")
    assert told.returncode == 0, told.stderr
    (path,) = tmp_path.glob("*/learned/*.json")
    (race,) = races_below(path.parent.parent)
    assert race.reached() == (3, 3)
    assert [heat.seed for heat in race.heats] == [0, 1, 2]
    for heat in race.heats:  # the same weights and samples: the same scores, whatever they take
        assert [(steps, score) for steps, _, score in heat.treatment.scores] == [
            (steps, score) for steps, _, score in heat.reference.scores
        ]
    assert all(one.start_s and one.start_s > 0 for one in race.trainings)
    found = sooner(race, in_steps=True)
    assert found is not None
    assert found.ratio == 1.0
    assert found.low < 1 < found.high, "between two looks nobody knows"
    assert ratio(found) in " ".join(told.stdout.split())
    path.write_text("{}")
    with pytest.raises(Mistake, match="is damaged"):
        races_below(path.parent.parent)


@pytest.mark.thorough
def test_workers_load_nothing_while_the_model_is_evaluated(tmp_path: Path) -> None:
    """Items that spin for 2 ms, 32 in a batch: whatever the evaluation takes, a step waits 64 ms for its batch."""
    own = tmp_path / "own.py"
    text = (ROOT / "docs/example_workload.py").read_text()
    own.write_text(
        text.replace("PARTS = Parts(", f"{SPIN}\nPARTS = Parts(").replace("evaluate=evaluate", "evaluate=slowly")
    )
    words = ("pictures@smoke:workers=1", "--until", "2.0", "--steps", "16", "--seeds", "1")  # never reached
    told = called(tmp_path, *words, own=own)
    assert told.returncode == 1, told.stderr
    (path,) = tmp_path.glob("*/learned/*.json")
    (heat,) = json.loads(path.read_text())["heats"]
    steps, seconds, _ = heat["treatment"]["scores"][-1]
    assert steps == 16
    assert seconds > 0.75 * 0.064 * (steps - 3), "three batches may lie ready when training begins"


@pytest.mark.thorough
def test_a_training_that_fails_is_kept_with_its_reason(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    spoilt = "def evaluate(*_):\n    raise RuntimeError('the ink is gone')\n\n\nPARTS = Parts("
    own.write_text((ROOT / "docs/example_workload.py").read_text().replace("PARTS = Parts(", spoilt))
    told = called(tmp_path, "pictures@smoke:anomaly_detection", "--until", "0.9", "--seeds", "2", own=own)
    assert told.returncode == 1, told.stderr
    (path,) = tmp_path.glob("*/learned/*.json")
    (race,) = races_below(path.parent.parent)
    assert [heat.seed for heat in race.heats] == [0, 1]
    assert all("RuntimeError: the ink is gone" in str(one.failed) for one in race.trainings)
    assert race.reached() == (0, 0)
    assert "the ink is gone" in " ".join(told.stdout.split())
