"""`learn --until` with real processes: what is kept, that no loading is left out, and ratios that are known."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.analyze.race import Race, sooner
from harness.core.mistake import Mistake
from harness.core.workload import Trained
from harness.report.words import ratio
from harness.results import races_below
from tests.run.raced import EPOCH_STEPS, LOOK_EVERY, VARIABLE

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
    folder: Path, *words: str, own: Path = ROOT / "docs/example_workload.py", told: str = "{}"
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "harness", "learn", *words, "--workload", str(own), "--results", str(folder)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "HOME": str(folder),
             "SPEEDMATRIX_DATA": str(folder / "data"), "COLUMNS": "200", VARIABLE: told},
        capture_output=True, text=True, timeout=600, check=False,
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


# Races whose ratios are known, with an evaluation of half a second after every fourth step.

STEPS = 32  # to the score: two epochs and two batches
ERROR = 0.06  # of seconds: a loader's workers take some 50 ms to begin, and a batch a millisecond beside its request


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a batch takes when it is read first and again, and a step with it. Seconds."""

    first_s: float
    again_s: float
    step_s: float

    def told(self) -> str:
        """For the workload."""
        return json.dumps({"first_s": self.first_s, "again_s": self.again_s, "step_s": self.step_s})

    def load_s(self, number: int) -> float:
        """Of batch `number` of a training."""
        return self.first_s if number < EPOCH_STEPS else self.again_s

    def alone(self) -> list[float]:
        """When each step ends without anything that loads ahead."""
        return [sum(self.load_s(one) + self.step_s for one in range(number + 1)) for number in range(STEPS)]

    def beside(self, loaders: int, ahead: int) -> list[float]:
        """The same of so many loaders in turn, up to `ahead` batches beyond the one that is taken."""
        free, taken, ends, clock = [0.0] * loaders, list[float](), list[float](), 0.0
        for number in range(STEPS):
            begun = max(free[number % loaders], taken[number - ahead] if number >= ahead else 0.0)
            free[number % loaders] = begun + self.load_s(number)
            taken.append(max(clock, free[number % loaders]))
            clock = taken[-1] + self.step_s
            ends.append(clock)
        return ends


SLOW, KEPT, HELPED = (
    Times(first_s=0.25, again_s=0.25, step_s=0.02),
    Times(first_s=0.4, again_s=0.02, step_s=0.02),
    Times(first_s=0.1, again_s=0.1, step_s=0.02),
)


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    ("option", "times", "truth", "again"),
    [
        # Batches that come in evaluations would make the first race 3 to 5 times, and the last one 6 times.
        ("workers=2", SLOW, SLOW.beside(2, 4), (True, False)),
        # A cache that the first training has filled would make it 10 times, and less than half a time where only the
        # reference found it full.
        ("workers=2", KEPT, KEPT.beside(2, 4), (True, True)),
        ("helper", HELPED, HELPED.beside(1, 17), (True, False)),
    ],
    ids=["requests of workers", "a cache that processes share", "a thread"],
)
def test_how_much_sooner_a_score_is_reached_is_what_was_told(
    option: str, times: Times, truth: list[float], again: tuple[bool, bool], tmp_path: Path
) -> None:
    words = (f"raced@quick:{option}", "--until", f"{STEPS - 0.5}", "--seeds", "3")
    told = called(tmp_path, *words, own=ROOT / "tests/run/raced.py", told=times.told())
    assert told.returncode == 0, told.stderr + told.stdout
    (path,) = tmp_path.glob("*/learned/*.json")
    (race,) = races_below(path.parent.parent)
    assert race.reached() == (3, 3)
    looks = range(LOOK_EVERY, STEPS + 1, LOOK_EVERY)
    for heat in race.heats:
        assert (heat.treatment.again, heat.reference.again) == again
        for one, ends in ((heat.treatment, truth), (heat.reference, times.alone())):
            assert [(steps, score) for steps, _, score in one.scores] == [(number, number) for number in looks]
            assert one.scores[-1][1] == pytest.approx(ends[-1], rel=ERROR)
    found = sooner(without_start(race))
    assert found is not None
    expected = middle(times.alone()) / middle(truth)
    assert found.ratio == pytest.approx(expected, rel=ERROR)
    assert found.low < expected < found.high


def without_start(race: Race) -> Race:
    """The same but for seconds before the first step, which nobody has told."""

    def left(one: Trained) -> Trained:
        return replace(one, start_s=None)

    heats = (replace(one, treatment=left(one.treatment), reference=left(one.reference)) for one in race.heats)
    return replace(race, heats=tuple(heats))


def middle(ends: list[float]) -> float:
    """Between the look that reached the score and the one before."""
    return (ends[STEPS - LOOK_EVERY - 1] + ends[STEPS - 1]) / 2
