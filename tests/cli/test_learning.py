"""`learn` with a learning rate that moves: a range of rates found and drawn, and one sentence for what cannot be."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.analyze.race import Race, sooner
from harness.catalogue import read_catalogue
from harness.cli import learning
from harness.core.configuration import Configuration
from harness.core.mistake import Mistake
from harness.core.plan import Plan
from harness.core.protocol import BRIEF
from harness.core.workload import Timeline, Trained
from harness.results import races_below
from harness.run.arm import Job
from harness.run.preparation import Prepared, described
from harness.run.worker import Assigned, Untrained
from tests.analyze.synthetic import ENVIRONMENT
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


ASKED = learning.Exercise(what="leak", steps=None, seed=0, device="cpu", own=None, data=None, data_roots=())


@pytest.mark.parametrize(
    "asking",
    [
        lambda folder: learning.range_test(ASKED, "1e-4:1", 2, folder / "rates.svg"),
        lambda folder: learning.timeline(ASKED, "3s", folder / "busy.svg"),
        lambda folder: learning.trace(ASKED, folder / "trace.json"),
    ],
    ids=["range", "timeline", "trace"],
)
def test_a_file_that_cannot_be_written_is_told_before_anything_is_trained(
    asking: Callable[[Path], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(Mistake, match="file in a folder that exists and is writable"):
        asking(tmp_path)


def test_a_timeline_that_cannot_be_drawn_after_all_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = Timeline(period_s=1.0, busy=(0.5, 0.6), waiting=(0.1, 0.2), steps=9, inactive=())
    path = tmp_path / "busy.svg"
    path.mkdir()
    job = SimpleNamespace(config="leak@quick")
    monkeypatch.setattr(learning, "measuring_alone", nullcontext)
    monkeypatch.setattr(learning, "_exercised", lambda *_: (job, None))
    monkeypatch.setattr(learning, "_given", lambda *_: seen)
    with pytest.raises(Mistake, match=r"Cannot write .*busy\.svg .*; choose another file with --output"):
        learning.timeline(ASKED, "3s", path)
    assert "9 steps in" in capsys.readouterr().out


# Races whose trainings are invented: what is trained, and what is kept of it.

TRAINED = Trained(scores=((5, 0.5, 0.1), (10, 1.0, 0.9)), reached=True, inactive=(), start_s=0.2)
AGAIN = ((5, 2.5, 0.1), (10, 5.0, 0.9))  # of a training that is taken again for its seconds
OWN = Path(__file__).parents[2] / "docs/example_workload.py"


def raced(
    what: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ends: Callable[[Job], Trained] = lambda _: TRAINED,
    against: str = "baseline",
    seeds: int = 3,
    own: Path | None = None,
) -> tuple[int, list[Job]]:
    """The status of a race whose trainings end as is told, and the jobs of those that began."""
    jobs: list[Job] = []

    def given(made: tuple[Job, object], task: Assigned, *_: object) -> Trained:
        jobs.append(made[0])
        return replace(task.before, scores=AGAIN) if task.before else ends(made[0])

    data = {("leak", "quick"): folder, ("spoof", "quick"): folder, ("pictures", "smoke"): folder}
    data |= {("train", "quick"): folder}
    monkeypatch.setattr(learning, "measuring_alone", nullcontext)
    monkeypatch.setattr(learning, "written", lambda *_: data)
    monkeypatch.setattr(learning, "_given", given)
    asked = learning.Exercise(what=what, steps=None, seed=0, device="cpu", own=own, data=None, data_roots=())
    return learning.race(asked, against, 0.8, seeds, folder), jobs


def kept(folder: Path) -> tuple[Path, Race]:
    (path,) = folder.glob("*/learned/*.json")
    (race,) = races_below(path.parents[1])
    return path, race


def test_both_trainings_of_a_race_have_the_same_order_of_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch of 24 batches is a step shorter, so that each of two loader workers comes to load all of them."""
    status, jobs = raced("spoof@quick:workers=2", tmp_path, monkeypatch)
    assert status == 0
    assert [job.recipe.workers for job in jobs] == [2, 0, 0, 2, 2, 0]
    assert {job.size.epoch_steps for job in jobs} == {23}


def test_a_larger_batch_races_against_as_many_samples_for_each_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, jobs = raced("leak@quick:batch_scale=2", tmp_path, monkeypatch)
    assert {job.config.batch for job in jobs} == {512}
    assert {job.recipe.micro_batches for job in jobs} == {1, 2}
    _, race = kept(tmp_path)
    assert (race.batch, race.reference) == (512, "gradient_accumulation=2")
    assert race.names == ("batch_scale=2", "gradient_accumulation=2")
    with pytest.raises(Mistake, match="an update takes 256 samples, in the reference 512; name another"):
        raced("leak@quick", tmp_path, monkeypatch, against="batch_scale=2")
    with pytest.raises(Mistake, match="is what it is to be held against"):
        raced("leak@quick", tmp_path, monkeypatch)


SCRIPT = """
import speedmatrix as sm
from tests.own.trainings import Net, Pictures, sgd
from torch import nn
job = sm.job(
    model=Net, dataset=Pictures(103), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8, score=lambda model: 0.5
)
"""


@pytest.mark.parametrize(
    ("what", "steps"), [("train@quick:channels_last", 12), ("train@quick:batch_scale=2", 6)], ids=["usual", "twice"]
)
def test_an_epoch_of_a_lesson_is_the_data_set_whatever_the_batch(
    what: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "cache"))
    own = tmp_path / "train.py"
    own.write_text(SCRIPT)
    _, jobs = raced(what, tmp_path, monkeypatch, own=own)
    assert {(job.size.epoch_steps, job.size.passes, job.size.samples) for job in jobs} == {(steps, 1, 96)}


def test_a_training_that_fails_keeps_its_place_among_the_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(job: Job) -> Trained:
        if (job.seed, job.recipe.workers) in {(0, 2), (1, 0)}:
            raise Untrained(f"{job.config} could not be trained: out of memory.")
        return TRAINED

    status, jobs = raced("leak@quick:workers=2", tmp_path, monkeypatch, ends=ends)
    assert (status, len(jobs)) == (1, 6)
    _, race = kept(tmp_path)
    first, second, last = race.heats
    assert first.treatment.failed == "leak@quick#256:workers=2 could not be trained: out of memory"
    assert second.reference.failed == "leak@quick#256 could not be trained: out of memory"
    assert (first.reference, second.treatment, last.treatment, last.reference) == (TRAINED,) * 4
    assert race.reached() == (2, 2)
    assert sooner(race) is None
    said = " ".join(capsys.readouterr().out.split())
    assert "the configuration failed (leak@quick#256:workers=2 could not be trained: out of memory)" in said


def test_a_training_that_waited_for_too_little_is_taken_again_and_its_seconds_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(job: Job) -> Trained:
        return replace(TRAINED, again=job.recipe.workers > 0)

    status, jobs = raced("leak@quick:workers=2", tmp_path, monkeypatch, ends=ends)
    assert status == 0
    assert [(job.seed, job.recipe.workers) for job in jobs[:4]] == [(0, 2), (0, 0), (0, 2), (0, 0)]
    assert len(jobs) == 12
    _, race = kept(tmp_path)
    assert {heat.treatment for heat in race.heats} == {replace(TRAINED, scores=AGAIN, again=True)}
    assert {heat.reference for heat in race.heats} == {replace(TRAINED, scores=AGAIN)}, "evaluations change a step"


@pytest.mark.parametrize("read", [True, False])
def test_items_that_any_process_keeps_for_all_must_have_been_read_before_a_race(
    *, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = read_catalogue(ledger=False)
    leak = catalogue.workload("leak")
    sizes = {name: replace(one, draw=None, all_items=read) for name, one in leak.sizes.items()}
    outside = replace(catalogue, workloads={**catalogue.workloads, "leak": replace(leak, sizes=sizes)})
    monkeypatch.setattr(learning, "read_catalogue", lambda *_: outside)
    if read:
        assert raced("leak@quick:deferred_metrics", tmp_path, monkeypatch)[0] == 0
        return
    with pytest.raises(Mistake, match="leak keeps what it reads where other processes find it"):
        raced("leak@quick:deferred_metrics", tmp_path, monkeypatch)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_cannot_be_trained_as_asked_ends_a_race_in_its_first_seed(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(job: Job) -> Trained:
        if job.recipe.workers == workers:
            raise Mistake("this workload states no schedule of the learning rate; give its Parts a `schedule`")
        return TRAINED

    with pytest.raises(Mistake, match="states no schedule"):
        raced("leak@quick:workers=2", tmp_path, monkeypatch, ends=ends)
    assert not [*tmp_path.glob("*/learned/*.json")]


def test_an_interrupted_race_names_the_file_of_the_heats_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(job: Job) -> Trained:
        if job.seed == 3:
            raise KeyboardInterrupt
        return TRAINED

    status, jobs = raced("leak@quick:workers=2", tmp_path, monkeypatch, ends=ends, seeds=5)
    assert status == 130
    path, race = kept(tmp_path)
    assert capsys.readouterr().err == f"Stopped after 3 of 5 seeds; what was trained is kept in {path}.\n"
    assert [one.seed for one in race.heats] == [0, 1, 2]
    assert [job.seed for job in jobs] == [0, 0, 1, 1, 2, 2, 3]
    assert sooner(race) is None, "two of its seeds are missing"


def test_a_race_tells_whose_data_and_code_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raced("pictures@smoke:anomaly_detection", tmp_path, monkeypatch, own=OWN)
    assert kept(tmp_path)[1].data.startswith("own workload, example_workload.py ")
    catalogue = read_catalogue(ledger=False)
    config = Configuration(workload="leak", size="quick", batch=256)
    nothing = Plan(design="alone", seed=0, protocol=BRIEF, blocks=(), no_results=(), names={}, promises={})
    suite = Prepared(catalogue=catalogue, environment=ENVIRONMENT, plan=nothing)
    assert learning._data_of(suite, config) == ""
    real = replace(suite, real_data={"leak": tmp_path})
    assert learning._data_of(real, config) == described(catalogue.workload("leak").sizes["quick"], tmp_path)


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
