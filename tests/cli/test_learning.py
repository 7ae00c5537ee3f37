"""`learn` with a learning rate that moves: a range of rates found and drawn, and one sentence for what cannot be."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli import learning
from harness.core.configuration import Configuration, Option
from harness.core.workload import Trained
from harness.results import races_below
from tests.cli.test_commands import call, is_one_sentence


@pytest.mark.thorough
def test_a_range_of_learning_rates_is_told_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rates.svg"
    words = f"leak@smoke --range 1e-5:3 --steps 60 --seeds 2 --output {path} --data {tmp_path}"
    ended = call(f"learn {words}", monkeypatch, capsys)
    assert (ended.status, ended.err) == (0, "")
    said = " ".join(ended.out.split())
    assert "leak@smoke#64: loss under a growing learning rate, 2 seeds of 60 steps" in said
    assert "The loss falls fastest at" in said
    assert "The system's own rate is 0.001" in said
    assert "falls fastest" in path.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_lesson_may_follow_the_systems_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        call(f"learn leak@smoke --steps 40 --data {tmp_path} {words}", monkeypatch, capsys).out
        for words in ("", "--schedule")
    ]
    first, last = (one.partition("last tenth")[2].split()[1:3] for one in said)
    assert first[0].rstrip(",") != "0"
    assert first != last, "another rate, another loss"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("leak --range 1:0.1", "1:0.1 is no range of learning rates; write the least and the greatest"),
        ("leak --range fast", "fast is no range of learning rates"),
        ("leak --range 0:1", "0:1 is no range of learning rates"),
        ("leak --range 1e-4:nan", "1e-4:nan is no range of learning rates"),
        ("leak --range 1e-4:1 --steps 5", "5 steps are too few for a range of learning rates; take at least 20."),
        ("leak --range 1e-4:1 --output rates.pdf", "Losses cannot be drawn in rates.pdf; name an .svg file"),
        ("leak --range 1e-4:1 --schedule", "--range moves the learning rate itself; leave --schedule and --until out."),
        ("leak --range 1e-4:1 --until 0.8", "--range moves the learning rate itself"),
        ("leak --until nan --device cpu", "nan is no score that anything reaches; give --until a number."),
        ("leak --until 0.8 --device cpu --results /dev/null/x", "Cannot write to /dev/null/x/"),
        ("leak --output rates.svg", "--output draws a range of learning rates; add --range LOW:HIGH."),
        ("leak --range 1e-4:1 --device emulated:a100", "An emulated device leaves the model out"),
    ],
)
def test_what_cannot_be_learned_has_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_one_sentence(call(f"learn {words}", monkeypatch, capsys), said, tmp_path)


def test_an_interrupted_race_keeps_the_heats_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def trained(made: object, lesson: object, seed: int, *_: object) -> Trained:
        seeds.append(seed)
        if seed == 2:
            raise KeyboardInterrupt
        return Trained(scores=((10, 1.0, 0.9),), reached=True, inactive=())

    configs = (
        Configuration(workload="leak", size="quick", batch=64, options=options)
        for options in ((), (Option(name="workers", level=2),))
    )
    jobs = (SimpleNamespace(config=config) for config in configs)
    monkeypatch.setattr(learning, "_exercised", lambda *_: (next(jobs), None))
    monkeypatch.setattr(learning, "_trained", trained)
    asked = learning.Exercise(
        what="leak:workers=2", steps=None, seed=0, device="cpu", own=None, data=None, data_roots=()
    )
    with pytest.raises(KeyboardInterrupt):
        learning.race(asked, "baseline", 0.8, 3, tmp_path)
    (folder,) = tmp_path.glob("*/learned")
    (race,) = races_below(folder.parent)
    assert [one.seed for one in race.heats] == [0, 1]
    assert seeds == [0, 0, 1, 1, 2]


@pytest.mark.thorough
def test_a_rate_that_an_option_keeps_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(__file__).parents[2] / "docs/example_workload.py"
    words = f"learn pictures@smoke:update_in_backward --range 1e-4:1 --steps 20 --workload {own} --data {tmp_path}"
    ended = call(words, monkeypatch, capsys)
    assert ended.status == 2
    assert "update_in_backward keeps the learning rate that it began with; leave it out." in ended.err
    words = words.replace(":update_in_backward --range 1e-4:1", " --schedule")
    assert "states no schedule of the learning rate" in call(words, monkeypatch, capsys).err
