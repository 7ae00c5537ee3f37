"""What `import` writes: whole or nothing, in its own folder, in our own words, and never over anything."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.matrix import Matrix
from harness.cli import main
from harness.cli.sharing import take_in
from harness.core.codec import decode
from harness.core.mistake import Mistake
from harness.core.plan import Plan
from harness.core.records import Lost
from harness.exchange import placing
from harness.exchange.validation import check_run
from harness.plan.designs import DESIGNS
from harness.results import finished, read_kept
from harness.store import IN_PROGRESS, MEASUREMENTS, ORIGIN, RUN, Journal, create, folder_of, read_records, read_run
from tests.analyze.synthetic import arm
from tests.exchange.made import (
    GOOD,
    GOOD_RECORDS,
    GOOD_RUN,
    RAW_LINES,
    RAW_RUN,
    bundled,
    changed_run,
    line_data,
    run_data,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "run.zip"
    path.write_bytes(GOOD)
    return path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def measured(results: Path, **changes: Any) -> Path:
    """A run as the harness itself writes one."""
    folder = create(results, replace(GOOD_RUN, **changes))
    journal = Journal(folder)
    for record in GOOD_RECORDS:
        journal.append(record)
    journal.close()
    return folder


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_bundle_becomes_a_run_like_any_other(bundle: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert take_in(bundle, results) == 0
    folder = folder_of(results, GOOD_RUN)
    assert sorted(everything_in(results)) == [
        str((folder / name).relative_to(results)) for name in (MEASUREMENTS, ORIGIN, RUN)
    ]
    assert read_run(folder) == GOOD_RUN
    assert tuple(read_records(folder)) == GOOD_RECORDS
    assert finished(results) == [folder]
    assert read_kept(folder).matrix.looked_at == 2
    said = capsys.readouterr().out
    assert (
        f"Taken in as {folder}: {len(GOOD_RECORDS)} records from Example | 9000, 2 of 2 configurations with a ratio."
        in said
    )
    assert "checked for sense, not for truth" in said


def test_its_origin_is_noted_without_a_place(bundle: Path, results: Path) -> None:
    take_in(bundle, results)
    folder = folder_of(results, GOOD_RUN)
    origin = json.loads((folder / ORIGIN).read_text())
    assert (origin["schema"], origin["contributed"], origin["bundled"], origin["run_schema"]) == (1, True, True, 4)
    assert origin["sha256"] == hashlib.sha256(GOOD).hexdigest()
    assert origin["imported"].endswith("+00:00")
    assert str(bundle.parent) not in (folder / ORIGIN).read_text()
    assert not (measured(results.with_name("own")) / ORIGIN).exists()


def test_what_is_kept_is_our_encoding_and_not_their_bytes(tmp_path: Path, results: Path) -> None:
    shuffled = json.dumps(dict(reversed(run_data().items())), indent=7).encode()
    lines = [
        json.dumps(dict(reversed(line.items()))).replace('"arm', '"\\u0061rm').encode() + b" \n" for line in line_data()
    ]
    path = tmp_path / "odd.zip"
    path.write_bytes(bundled(run=shuffled, lines=lines))
    take_in(path, results)
    folder = folder_of(results, GOOD_RUN)
    assert (folder / RUN).read_bytes() == RAW_RUN
    assert (folder / MEASUREMENTS).read_bytes() == b"".join(RAW_LINES)


def test_the_same_run_is_there_already(bundle: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_in(bundle, results)
    before = everything_in(results)
    capsys.readouterr()
    assert take_in(bundle, results) == 0
    assert "holds this very run already; nothing was written." in capsys.readouterr().out
    assert everything_in(results) == before


def test_a_run_that_was_measured_here_comes_back_without_a_copy(bundle: Path, results: Path) -> None:
    """Whatever its folder is called: an older version made the digest of other facts."""
    folder = measured(results)
    older = folder.rename(folder.with_name(folder.name[:-8] + "00000000"))
    take_in(bundle, results)
    assert [path.parent for path in results.glob("*/*/run.json")] == [older]


def test_other_data_under_the_same_name_are_refused(bundle: Path, tmp_path: Path, results: Path) -> None:
    take_in(bundle, results)
    before = everything_in(results)
    other = tmp_path / "other.zip"
    other.write_bytes(bundled(lines=RAW_LINES[:5], records=5))
    with pytest.raises(Mistake, match=r"holds other data under the same name; move it or choose another --results\."):
        take_in(other, results)
    assert everything_in(results) == before


def test_a_folder_is_taken_in_too(tmp_path: Path, results: Path) -> None:
    folder = measured(tmp_path / "theirs")
    (folder / "notes.txt").write_text("not part of a run")
    assert (folder / IN_PROGRESS).exists()
    with (folder / MEASUREMENTS).open("ab") as file:
        file.write(b'{"schema": 2, "rec')  # a crash
    take_in(folder, results)
    kept = folder_of(results, GOOD_RUN)
    assert sorted(path.name for path in kept.iterdir()) == [MEASUREMENTS, ORIGIN, RUN]
    assert tuple(read_records(kept)) == GOOD_RECORDS
    assert not json.loads((kept / ORIGIN).read_text())["bundled"]


def test_private_places_are_taken_out(tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = create(tmp_path / "theirs", GOOD_RUN)
    journal = Journal(folder)
    journal.append(Lost(arm=arm(), outcome="failed", reason="no /home/bob/x.h5", trace='File "/home/bob/y.py"'))
    journal.close()
    take_in(folder, results)
    assert "2 private places were taken out of its texts." in capsys.readouterr().out
    assert b"bob" not in b"".join(everything_in(results).values())


Spoil = Callable[[Path], Path]


def _linked(folder: Path) -> Path:
    (folder / RUN).rename(folder.parent / "elsewhere.json")
    (folder / RUN).symlink_to(folder.parent / "elsewhere.json")
    return folder


def _dangling(folder: Path) -> Path:
    (folder / MEASUREMENTS).unlink()
    (folder / MEASUREMENTS).symlink_to("/nowhere")
    return folder


def _pipe(folder: Path) -> Path:
    (folder / MEASUREMENTS).unlink()
    os.mkfifo(folder / MEASUREMENTS)
    return folder


def _pipe_for_a_bundle(folder: Path) -> Path:
    os.mkfifo(folder.parent / "run.zip")
    return folder.parent / "run.zip"


def _large(folder: Path) -> Path:
    with (folder / RUN).open("wb") as file:
        file.truncate(9 << 20)
    return folder


def _edited(folder: Path) -> Path:
    shutil.unpack_archive(folder.parents[2] / "good.zip", folder)
    (folder / MEASUREMENTS).write_bytes(b"".join(RAW_LINES[:-1]))
    return folder


SPOILT: dict[str, tuple[Spoil, str]] = {
    "a folder of folders": (lambda folder: folder.parent, "it has no run.json; name the folder of one run"),
    "no such path": (lambda folder: folder / "absent", "there is no such file or folder; check the path"),
    "a link in a folder": (_linked, "run.json is a link; give the file itself"),
    "a link to nowhere": (_dangling, "measurements.jsonl is a link"),
    "a pipe in a folder": (_pipe, "measurements.jsonl is no regular file"),
    "a pipe for a bundle": (_pipe_for_a_bundle, "run.zip is no regular file"),
    "an endless device": (lambda _: Path("/dev/zero"), "zero is no regular file"),
    "a file of nine mebibytes": (_large, "run.json is larger than 8 MiB"),
    "a bundle unpacked and edited": (_edited, "measurements.jsonl has changed since it was packed"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_folders_are_looked_at_as_closely(name: str, tmp_path: Path, results: Path) -> None:
    spoil, words = SPOILT[name]
    (tmp_path / "good.zip").write_bytes(GOOD)
    source = spoil(measured(tmp_path / "theirs"))
    with pytest.raises(Mistake) as found:
        take_in(source, results)
    assert words in str(found.value)
    assert not results.exists()


def test_nothing_is_seen_of_a_run_before_it_is_whole(
    bundle: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    write = placing.write_durably

    def watched(path: Path, content: bytes) -> None:
        write(path, content)
        seen.append(list(results.glob("*/*/run.json")))

    monkeypatch.setattr(placing, "write_durably", watched)
    take_in(bundle, results)
    assert seen == [[], [], []]
    assert len(list(results.glob("*/*/run.json"))) == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_import_leaves_nothing(
    error: BaseException, bundle: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        if path.name == MEASUREMENTS:
            raise error

    monkeypatch.setattr(placing, "write_durably", broken)
    with pytest.raises((Mistake, KeyboardInterrupt)):
        take_in(bundle, results)
    assert list(results.iterdir()) == []


def test_a_killed_import_leaves_no_run(bundle: Path, results: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from harness.cli.sharing import take_in\n"
        "from harness.exchange import placing\nwrite = placing.write_durably\n"
        "def deadly(path, content):\n    write(path, content)\n    path.name == 'measurements.jsonl' and os._exit(9)\n"
        "placing.write_durably = deadly\ntake_in(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, bundle, results], cwd=ROOT, check=False)
    assert done.returncode == 9
    assert list(results.glob("*/*/run.json")) == []
    assert finished(results) == []
    take_in(bundle, results)
    assert len(finished(results)) == 1


def test_a_run_that_no_report_bears_is_not_kept(bundle: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_matrix: Matrix) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("harness.cli.sharing.matrix_to_json", broken)
    with pytest.raises(ZeroDivisionError):
        take_in(bundle, results)
    assert not results.exists()


def test_results_that_cannot_be_written_are_a_mistake(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match=r"Cannot write .*choose another folder with --results"):
        take_in(bundle, tmp_path / "file")


@pytest.mark.parametrize("word", ["name", "../../x", "/etc/x"])
def test_the_archive_s_own_name_does_not_matter(word: str, tmp_path: Path, results: Path) -> None:
    path = tmp_path / f"{word.replace('/', '_')}.zip"
    path.write_bytes(changed_run(lambda data: data["plan"].update(design=word)))
    take_in(path, results)
    (folder,) = finished(results)
    assert folder.parent.parent == results


NAMED = {"factorial": ["--only", "set_to_none", "--only", "workers=2"]}  # a design that crosses few


@pytest.mark.parametrize("design", DESIGNS)
def test_the_plans_of_every_design_can_be_taken_in(
    design: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A design that calls its comparisons by new names would make runs that nobody could pass on."""
    words = ["plan", "leak", "--design", design, *NAMED.get(design, ()), "--device", "cpu", "--json"]
    monkeypatch.setattr(sys, "argv", ["speedmatrix", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    plan = decode(Plan, json.loads(capsys.readouterr().out)["plan"])
    assert plan.comparisons
    check_run(replace(GOOD_RUN, plan=plan), datetime.now(UTC))
