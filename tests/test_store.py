import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.mistake import Mistake
from harness.core.records import Fault, Lost, Record
from harness.store import (
    IN_PROGRESS,
    LONGEST_LINE,
    MEASUREMENTS,
    ORIGIN,
    PLACES,
    RUN,
    Journal,
    Run,
    create,
    finish,
    finished,
    hold_to_data,
    in_progress,
    is_finished,
    read_records,
    read_run,
    reopen,
    set_aside,
    unfinished,
    write_durably,
)
from tests.analyze.synthetic import ENVIRONMENT, arm, comparison, plan, ready, window

RUN_FACTS = Run(
    began="2026-01-02T03:04:05+00:00",
    version="0.1.0",
    command="speedmatrix run leak",
    rehearsed=False,
    environment=ENVIRONMENT,
    plan=plan(comparison("workers")),
)
RECORDS: list[Record] = [
    ready(arm(), losses=(2.3, float("inf"))),
    window(arm(), 0, 100.0),
    Lost(arm=arm(position=1), outcome="failed", reason='out of memory: "2 GiB"\n', trace="…", kind=Fault.HOST_MEMORY),
]


def written(folder: Path, records: list[Record]) -> Path:
    journal = Journal(folder)
    for record in records:
        journal.append(record)
    journal.close()
    return folder / MEASUREMENTS


def damaged(folder: Path, line: str) -> str:
    """The complaint about a file whose second line is damaged."""
    path = written(folder, RECORDS)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], line, lines[2]]) + "\n", encoding="utf-8")
    with pytest.raises(Mistake) as found:
        read_records(folder)
    assert len(str(found.value).splitlines()) == 1
    return str(found.value)


def test_what_is_appended_comes_back(tmp_path: Path) -> None:
    written(tmp_path, RECORDS[:1])
    written(tmp_path, RECORDS[1:])
    assert read_records(tmp_path) == RECORDS
    assert read_records(tmp_path / "nothing here") == []


def test_a_record_is_on_the_disk_when_append_returns(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(RECORDS[0])
    assert read_records(tmp_path) == RECORDS[:1]
    journal.close()


def test_a_line_that_a_crash_cut_short_is_ignored_and_cut_off_by_the_next_append(tmp_path: Path) -> None:
    path = written(tmp_path, RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert read_records(tmp_path) == RECORDS[:2]
    written(tmp_path, RECORDS[2:])
    assert path.read_bytes() == whole


def test_a_file_with_nothing_but_a_cut_line_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / MEASUREMENTS
    path.write_text('{"schema": 1, "rec')
    assert read_records(tmp_path) == []
    written(tmp_path, RECORDS)
    assert read_records(tmp_path) == RECORDS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not JSON",
        '{"schema": 1, "record": "window"',
        '{"schema": 1, "record": "window"}',
        '{"schema": 1}',
        '{"schema": 1, "record": "lunch"}',
        '{"schema": 1, "record": []}',
        '{"record": "window"}',
        "[1, 2]",
        "null",
        "[" * 100_000,
        "\x00\x1b",
    ],
    ids=lambda line: line[:24] or "empty",
)
def test_a_damaged_line_is_a_mistake_with_its_number(tmp_path: Path, line: str) -> None:
    complaint = damaged(tmp_path, line)
    assert f"{MEASUREMENTS}, line 2" in complaint
    assert "restore the file or measure again" in complaint or "not written by speedmatrix or is damaged" in complaint


def test_bytes_that_are_no_text_are_a_mistake_too(tmp_path: Path) -> None:
    (tmp_path / MEASUREMENTS).write_bytes(b"\xff\xfe\n")
    with pytest.raises(Mistake, match="line 1 is damaged"):
        read_records(tmp_path)


def test_a_later_schema_asks_for_an_update(tmp_path: Path) -> None:
    assert "line 2 has schema 5, newer than 4; update speedmatrix" in damaged(tmp_path, '{"schema": 5, "new": true}')


def test_an_endless_line_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / MEASUREMENTS).write_bytes(b"x" * (LONGEST_LINE + 1))
    with pytest.raises(Mistake, match="line 1 is longer than any record"):
        read_records(tmp_path)


def test_measurements_that_are_a_folder_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / MEASUREMENTS).mkdir()
    with pytest.raises(Mistake, match="cannot be read"):
        read_records(tmp_path)
    with pytest.raises(Mistake, match="make the folder writable"):
        Journal(tmp_path)


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    assert folder == tmp_path / ENVIRONMENT.machine / f"20260102T030405-{RUN_FACTS.digest}"
    assert read_run(folder) == RUN_FACTS
    assert sorted(path.name for path in folder.iterdir()) == [IN_PROGRESS, RUN]


def test_the_digest_knows_plan_machine_and_version_but_not_the_hour() -> None:
    assert replace(RUN_FACTS, began="2027-01-01T00:00:00", command="another spelling").digest == RUN_FACTS.digest
    others: list[dict[str, Any]] = [
        {"plan": plan(comparison("amp"))},
        {"environment": replace(ENVIRONMENT, cores=3)},
        {"version": "0.2.0"},
        {"code": "0123abcd"},
        {"rehearsed": True},
    ]
    assert len({RUN_FACTS.digest, *(replace(RUN_FACTS, **other).digest for other in others)}) == 6


def test_the_latest_unfinished_run_of_a_digest_is_found(tmp_path: Path) -> None:
    assert in_progress(tmp_path, RUN_FACTS.digest) is None
    create(tmp_path, RUN_FACTS)
    create(tmp_path, replace(RUN_FACTS, version="0.2.0", began="2026-03-01T00:00:00"))
    newer = create(tmp_path, replace(RUN_FACTS, began="2026-02-01T00:00:00"))
    assert in_progress(tmp_path, RUN_FACTS.digest) == newer
    finish(newer)
    assert in_progress(tmp_path, RUN_FACTS.digest) != newer


def test_a_run_that_was_cloned_is_nobody_s_to_continue(tmp_path: Path) -> None:
    folder = create(tmp_path / "here", RUN_FACTS)
    shutil.copytree(tmp_path / "here", tmp_path / "clone", ignore=shutil.ignore_patterns(IN_PROGRESS))
    assert in_progress(tmp_path / "here", RUN_FACTS.digest) == folder
    assert in_progress(tmp_path / "clone", RUN_FACTS.digest) is None
    assert f"results/*/*/{IN_PROGRESS}" in (Path(__file__).parents[1] / ".gitignore").read_text().splitlines()


def test_a_run_that_died_before_it_was_written_is_none(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    (folder / RUN).unlink()  # the marker is made first, so that nothing unfinished is ever held to be finished
    assert in_progress(tmp_path, RUN_FACTS.digest) is None
    assert unfinished(tmp_path) == []


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    create(tmp_path, RUN_FACTS)
    with pytest.raises(Mistake, match="choose another folder with --results"):
        create(tmp_path, RUN_FACTS)


def test_results_below_a_file_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match=r"Cannot write results to .*choose another folder with --results"):
        create(tmp_path / "file", RUN_FACTS)


def test_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"is not a run: it has no run\.json"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "states no schema"),
        ('{"schema": "1"}', "states no schema"),
        ('{"schema": 7}', "has schema 7, newer than 4; update speedmatrix"),
        ('{"schema": 1}', "is damaged: run.json.began is missing"),
    ],
    ids=lambda text: text[:16] or "empty",
)
def test_a_damaged_run_is_a_mistake(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / RUN).write_text(text)
    with pytest.raises(Mistake) as found:
        read_run(tmp_path)
    assert words in str(found.value)


@pytest.mark.parametrize("began", ["x", "2026-01-02T03:04:05"])
def test_a_run_that_began_at_no_moment_is_a_mistake(tmp_path: Path, began: str) -> None:
    folder = create(tmp_path, replace(RUN_FACTS, began=began))
    with pytest.raises(Mistake, match=r"run\.json is damaged: .*; restore it or measure again\."):
        read_run(folder)


def test_a_run_with_a_foreign_field_is_a_mistake(tmp_path: Path) -> None:
    path = create(tmp_path, RUN_FACTS) / RUN
    path.write_text(json.dumps({**json.loads(path.read_text()), "script": "rm"}))
    with pytest.raises(Mistake, match=r"run.json.script is unknown"):
        read_run(path.parent)


def in_another_process(script: str, folder: Path) -> str:
    given = "import sys; from pathlib import Path; from harness.core.mistake import Mistake\n"
    given += "from harness.store import Journal, create\n"
    given += "from tests.test_store import RECORDS, RUN_FACTS\nfolder = Path(sys.argv[1])\n"
    done = subprocess.run(
        [sys.executable, "-c", given + script, str(folder)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_is_a_mistake_and_all_that_was_written_before_is_kept(tmp_path: Path) -> None:
    # A limit on the size of files makes a real write fail half-way, as a full disk does.
    said = in_another_process(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "journal = Journal(folder)\n"
        "for record in RECORDS: journal.append(record)\n"
        "room = (folder / 'measurements.jsonl').stat().st_size + 50\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))\n"
        "for _ in range(2):\n"
        "    try: journal.append(RECORDS[0])\n"
        "    except Mistake as mistake: print(mistake)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "journal.append(RECORDS[1])\n",
        tmp_path,
    )
    lines = said.splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert "File too large" in lines[0]
    assert "what was measured before is kept: make room and give the same command again" in lines[0]
    assert read_records(tmp_path) == [*RECORDS, RECORDS[1]]


def test_a_file_that_was_removed_meanwhile_is_noticed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(RECORDS[0])
    (tmp_path / MEASUREMENTS).unlink()
    with pytest.raises(Mistake, match="was removed while it was written"):
        journal.append(RECORDS[1])
    journal.close()


def test_one_process_alone_measures_into_a_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(Mistake, match="Another process measures into"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_run_goes_on_with_the_data_it_was_begun_with(tmp_path: Path) -> None:
    folder = create(tmp_path / "results", RUN_FACTS)
    hold_to_data(folder, {"leak smoke": tmp_path / "disk"})
    hold_to_data(folder, {"leak smoke": tmp_path / "disk", "spoof smoke": tmp_path / "disk"})
    with pytest.raises(Mistake, match=r"begun with the data of leak smoke in .*disk, which now lie in .*memory"):
        hold_to_data(folder, {"leak smoke": tmp_path / "memory"})
    finish(folder)
    hold_to_data(folder, {"leak smoke": tmp_path / "memory"})
    assert is_finished(folder)


@pytest.mark.parametrize("content", [b'{"leak smo', b"[]", b"\xff", b"null"])
def test_a_damaged_note_of_where_data_lie_is_told_and_left(tmp_path: Path, content: bytes) -> None:
    (tmp_path / IN_PROGRESS).write_bytes(content)
    with pytest.raises(Mistake, match=r"in_progress is damaged; begin anew with --fresh"):
        hold_to_data(tmp_path, {"leak smoke": tmp_path})
    assert (tmp_path / IN_PROGRESS).read_bytes() == content


def test_a_run_that_was_ended_with_something_left_goes_on_with_its_data(tmp_path: Path) -> None:
    folder = create(tmp_path / "results", RUN_FACTS)
    hold_to_data(folder, {"leak smoke": tmp_path / "disk"})
    set_aside(folder)
    assert is_finished(folder)
    for _ in range(2):
        reopen(folder)
        with pytest.raises(Mistake, match="begun with the data of leak smoke"):
            hold_to_data(folder, {"leak smoke": tmp_path / "memory"})
    assert f"results/*/*/{PLACES}" in (Path(__file__).parents[1] / ".gitignore").read_text().splitlines()
    finish(folder)
    reopen(folder)  # of one that was finished nobody knows where its data lay
    hold_to_data(folder, {"leak smoke": tmp_path / "memory"})


def test_what_was_taken_in_is_nobody_s_own_measurement(tmp_path: Path) -> None:
    folder = create(tmp_path, RUN_FACTS)
    assert finished(tmp_path, RUN_FACTS) is None
    finish(folder)
    assert finished(tmp_path, RUN_FACTS) == folder
    (folder / ORIGIN).write_text("{}")
    assert finished(tmp_path, RUN_FACTS) is None


def test_a_full_disk_leaves_no_half_written_run(tmp_path: Path) -> None:
    said = in_another_process(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "try: create(folder, RUN_FACTS)\n"
        "except Mistake as mistake: print(mistake)\n",
        tmp_path,
    )
    assert "File too large" in said
    assert list(tmp_path.rglob(RUN)) == []


def test_two_processes_may_write_the_same_file(tmp_path: Path) -> None:
    path, writers = tmp_path / "facts.json", []
    for number in range(3):
        if not (writer := os.fork()):
            status = 1
            with suppress(OSError):
                for _ in range(100):
                    write_durably(path, bytes([number]) * 10_000)
                status = 0
            os._exit(status)
        writers.append(writer)
    assert [os.waitpid(one, 0)[1] for one in writers] == [0, 0, 0]
    assert path.read_bytes() in [bytes([number]) * 10_000 for number in range(3)]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_may_not_be_written_is_a_mistake(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    as_nobody = "import os\nos.chdir(folder)\nos.geteuid() or os.seteuid(65534)\n"  # root may write anywhere
    said = in_another_process(
        as_nobody + "for deed in (lambda: Journal(Path()), lambda: create(Path(), RUN_FACTS)):\n"
        "    try: deed()\n"
        "    except Mistake as mistake: print(mistake)\n",
        tmp_path,
    )
    tmp_path.chmod(0o755)
    first, second = said.splitlines()
    assert first == "Cannot write measurements.jsonl (Permission denied); make the folder writable."
    assert "Permission denied" in second
    assert "choose another folder with --results" in second
    assert list(tmp_path.iterdir()) == []


def test_the_digest_tells_variables_that_are_set() -> None:
    assert "variables" not in RUN_FACTS.environment.identity  # a run keeps its digest where none is set
    slowed = replace(RUN_FACTS.environment, variables=(("CUDA_LAUNCH_BLOCKING", "1"),))
    assert replace(RUN_FACTS, environment=slowed).digest != RUN_FACTS.digest
