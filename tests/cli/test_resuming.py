"""The same command goes on with what it began, unless the machine or its software has changed since."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalogue import code_digest, read_catalogue
from harness.core.mistake import Mistake
from harness.core.plan import Plan, Request
from harness.run.preparation import prepared, run_of
from harness.store import IN_PROGRESS, RUN, SCHEMA, Run, changes, clock_note, create, finish, read_run, resumable
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan
from tests.test_store import RUN_FACTS

LATER = "2026-02-01T00:00:00+00:00"
NEWER = replace(
    RUN_FACTS,
    began=LATER,
    version="9.9.9",
    environment=replace(ENVIRONMENT, packages=(("torch", "99.0"),), compiler="clang++"),
)


def test_what_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    assert resumable(tmp_path, RUN_FACTS) is None
    folder = create(tmp_path, RUN_FACTS)
    assert resumable(tmp_path, replace(RUN_FACTS, began=LATER)) == folder
    finish(folder)
    assert resumable(tmp_path, replace(RUN_FACTS, began=LATER)) is None


def test_another_environment_is_refused_with_the_difference_and_the_choice(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    with pytest.raises(Mistake) as refused:
        resumable(tmp_path, NEWER)
    words = str(refused.value)
    assert str(folder) in words
    assert "speedmatrix was 0.1.0, now is 9.9.9" in words
    assert "torch was " in words
    assert "now is 99.0" in words
    assert words.endswith("Restore them to continue it, or begin anew with --fresh.")


def test_what_differs_is_told_fact_by_fact() -> None:
    were = replace(RUN_FACTS, environment=replace(ENVIRONMENT, cores=2, packages=(("numpy", "1"), ("torch", "2"))))
    are = replace(RUN_FACTS, environment=replace(ENVIRONMENT, cores=4, packages=(("torch", "3"), ("triton", "1"))))
    assert list(changes(were, are)) == [
        "cores was 2, now is 4",
        "numpy was 1, now is missing",
        "torch was 2, now is 3",
        "triton was missing, now is 1",
    ]
    assert list(changes(were, were)) == []


@pytest.mark.parametrize("plan_now", [RUN_FACTS.plan, plan(comparison("amp"))], ids=["same plan", "another plan"])
def test_other_code_of_the_arms_is_refused(tmp_path: Path, plan_now: Plan) -> None:
    begun, edited = replace(RUN_FACTS, code="0123abcd"), replace(RUN_FACTS, code="4567cdef", plan=plan_now)
    folder = create(tmp_path, begun)
    with pytest.raises(Mistake) as refused:
        resumable(tmp_path, replace(edited, began=LATER))
    assert str(refused.value) == (
        f"This command has begun the run in {folder} under other conditions: the code of the arms was 0123abcd, now is "
        "4567cdef. Restore them to continue it, or begin anew with --fresh."
    )
    fresh = create(tmp_path, replace(edited, began=LATER))
    assert resumable(tmp_path, edited) == fresh
    assert resumable(tmp_path, begun) == folder, "restored"


def test_a_run_from_before_code_was_known_is_read_and_not_continued_with_code_that_is(tmp_path: Path) -> None:
    path = create(tmp_path, RUN_FACTS) / RUN
    path.write_text(json.dumps({name: one for name, one in json.loads(path.read_text()).items() if name != "code"}))
    assert read_run(path.parent) == RUN_FACTS
    assert path.parent.name.endswith(read_run(path.parent).digest), "it keeps its name"
    with pytest.raises(Mistake, match="the code of the arms was unknown, now is 4567cdef"):
        resumable(tmp_path, replace(RUN_FACTS, code="4567cdef"))
    finish(path.parent)
    assert resumable(tmp_path, replace(RUN_FACTS, code="4567cdef")) is None


def test_a_workload_file_that_was_edited_is_not_gone_on_with(tmp_path: Path) -> None:
    mine = tmp_path / "code" / "mine.py"
    mine.parent.mkdir()
    shutil.copy(Path(__file__).parents[2] / "docs" / "example_workload.py", mine)
    helper = mine.with_name("helper.py")
    request = Request(own=mine, size="smoke", only=("channels_last",), environment=ENVIRONMENT)

    def begun_now() -> Run:
        return run_of(prepared(request, "speedmatrix run --workload mine.py"))

    folder = create(tmp_path / "results", begun_now())
    (mine.parent / "notes.txt").write_text("no code")
    (mine.parent / "__pycache__").mkdir(exist_ok=True)
    (mine.parent / "__pycache__" / "helper.py").write_text("no code of anybody's")
    assert resumable(tmp_path / "results", begun_now()) == folder
    helper.write_text("FASTER = True\n")
    with pytest.raises(Mistake, match="the code of the arms was"):
        resumable(tmp_path / "results", begun_now())
    helper.unlink()
    assert resumable(tmp_path / "results", begun_now()) == folder
    mine.write_text(mine.read_text() + "\n# edited\n")
    with pytest.raises(Mistake, match="the code of the arms was"):
        resumable(tmp_path / "results", begun_now())


def test_the_digest_of_code_knows_the_files_of_its_workloads_alone() -> None:
    known = read_catalogue(ledger=False).workloads
    digests = [code_digest([]), *(code_digest([one]) for one in known.values()), code_digest(known.values())]
    assert len(set(digests)) == len(known) + 2
    assert code_digest([known["leak"]]) == code_digest([known["leak"]])
    job = replace(known["leak"], path="/nowhere/train.py:job", source="own training, train.py 01234567")
    assert code_digest([job]) == code_digest([]), "its code is part of the plan"


def test_a_plan_that_follows_the_machine_is_refused_by_its_command(tmp_path: Path) -> None:
    create(tmp_path, RUN_FACTS)
    with pytest.raises(Mistake, match="under other conditions"):
        resumable(tmp_path, replace(NEWER, plan=plan(comparison("amp"))))


@pytest.mark.parametrize(
    "other",
    [
        {"plan": plan(comparison("amp")), "command": "speedmatrix run speaker"},
        {"environment": replace(NEWER.environment, cpu="another one", accelerator="another one")},
        {"rehearsed": True},
    ],
    ids=["another plan", "another machine", "a rehearsal"],
)
def test_what_another_command_or_machine_began_is_nobody_s_hindrance(tmp_path: Path, other: dict[str, object]) -> None:
    create(tmp_path, RUN_FACTS)
    assert resumable(tmp_path, replace(NEWER, **other)) is None  # type: ignore[arg-type]


def test_the_same_conditions_with_another_plan_begin_another_run(tmp_path: Path) -> None:
    create(tmp_path, RUN_FACTS)
    assert resumable(tmp_path, replace(RUN_FACTS, began=LATER, plan=plan(comparison("amp")))) is None


def test_what_fresh_has_left_behind_hinders_nobody(tmp_path: Path) -> None:
    create(tmp_path, RUN_FACTS)
    fresh = create(tmp_path, NEWER)
    assert resumable(tmp_path, NEWER) == fresh
    finish(fresh)
    assert resumable(tmp_path, replace(NEWER, began="2026-03-01T00:00:00+00:00")) is None


def test_a_damaged_run_is_noticed_before_anything_is_written_beside_it(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    (folder / RUN).write_text("{")
    with pytest.raises(Mistake, match="cannot be read"):
        resumable(tmp_path, RUN_FACTS)
    assert resumable(tmp_path, NEWER) is None, "what it was begun on is not known"


def test_a_run_that_died_before_it_said_what_it_is_is_nobody_s(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    (folder / RUN).unlink()
    assert (folder / IN_PROGRESS).exists()
    assert resumable(tmp_path, replace(RUN_FACTS, began=LATER)) is None


def test_a_clock_that_went_back_is_told_of(tmp_path: Path) -> None:
    assert clock_note(tmp_path, RUN_FACTS) is None
    folder = create(tmp_path, replace(RUN_FACTS, began=LATER))
    note = clock_note(tmp_path, RUN_FACTS)
    assert note is not None
    assert folder.name in note
    assert RUN_FACTS.began in note
    assert clock_note(tmp_path, replace(RUN_FACTS, began="2026-03-01T00:00:00+00:00")) is None


def test_a_run_of_a_former_baseline_is_not_continued(tmp_path: Path) -> None:
    path = create(tmp_path, RUN_FACTS) / RUN
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA - 1}'))
    assert resumable(tmp_path, replace(RUN_FACTS, began=LATER)) is None
