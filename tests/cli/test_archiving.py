"""Runs that travel in an archive: the same on the next machine, nothing lost, nothing of others, nothing believed."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from harness.cli.campaign import take_in
from harness.cli.campaign_state import read_state
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.exchange import archive as archiving
from harness.exchange.archive import STATE, check_place, own_runs, pack, packed_archive
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    ORIGIN,
    RUN,
    Journal,
    finish,
    folder_of,
    read_records,
    read_run,
    replace_file,
    stamp_of,
)
from tests.analyze.synthetic import ENVIRONMENT
from tests.cli.test_bundling import measured
from tests.cli.test_spending import ONE
from tests.exchange.made import GOOD_RECORDS, GOOD_RUN

HALF = len(GOOD_RECORDS) // 2


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def packed(results: Path, archive: Path) -> Path:
    pack(archive, results, ENVIRONMENT)
    return archive


def test_what_is_packed_is_what_lies_on_the_next_machine(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    machine = measured(ours).parent
    finish(measured(ours, replace(GOOD_RUN, began="2026-01-03T03:04:05+00:00")))
    replace_file(machine / STATE, ONE.encoded, "")
    assert pack(tmp_path / "all.tar.gz", ours, ENVIRONMENT) == []
    assert take_in(tmp_path / "all.tar.gz", theirs) == (ENVIRONMENT.machine,)
    assert contents(theirs) == contents(ours)
    assert sum(name.endswith(IN_PROGRESS) for name in contents(theirs)) == 1
    assert not any(name.endswith(ORIGIN) for name in contents(theirs))


@pytest.mark.parametrize("other", [replace(ENVIRONMENT, cores=3), replace(ENVIRONMENT, packages=(("torch", "9"),))])
def test_runs_of_another_machine_or_environment_stay_in_the_archive(tmp_path: Path, other: Environment) -> None:
    finish(measured(tmp_path / "ours"))
    replace_file(tmp_path / "ours" / ENVIRONMENT.machine / STATE, ONE.encoded, "")
    archive = packed(tmp_path / "ours", tmp_path / "all.tar.gz")
    take_in(archive, tmp_path / "theirs")
    measured(tmp_path / "theirs", replace(GOOD_RUN, environment=other, began="2026-01-03T03:04:05+00:00"))
    assert pack(archive, tmp_path / "theirs", other) == []
    assert ENVIRONMENT.machine in take_in(archive, tmp_path / "third")
    assert contents(tmp_path / "third") == contents(tmp_path / "theirs")


def test_taking_it_in_twice_changes_nothing_and_packing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    measured(tmp_path / "ours")
    archive = packed(tmp_path / "ours", tmp_path / "a.tar.gz")
    take_in(archive, tmp_path / "theirs")
    before = contents(tmp_path / "theirs")
    take_in(archive, tmp_path / "theirs")
    assert contents(tmp_path / "theirs") == before
    again = packed(tmp_path / "theirs", tmp_path / "b.tar.gz")
    assert again.read_bytes() == archive.read_bytes()


def test_a_run_that_lies_under_the_digest_of_an_older_version_is_not_kept_twice(tmp_path: Path) -> None:
    finish(measured(tmp_path / "ours"))
    archive = packed(tmp_path / "ours", tmp_path / "a.tar.gz")
    here = measured(tmp_path / "here", records=GOOD_RECORDS[:HALF])
    older = here.rename(here.with_name(f"{stamp_of(GOOD_RUN)}-01234567"))
    take_in(archive, tmp_path / "here")
    assert list(older.parent.iterdir()) == [older]
    assert tuple(read_records(older)) == GOOD_RECORDS


def test_there_is_nothing_in_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert take_in(tmp_path / "absent.tar.gz", tmp_path / "results") == ()
    assert not (tmp_path / "results").exists()


def test_the_longer_of_two_copies_is_kept(tmp_path: Path) -> None:
    short = packed(measured(tmp_path / "short", records=GOOD_RECORDS[:HALF]).parents[1], tmp_path / "short.tar.gz")
    long = packed(measured(tmp_path / "long").parents[1], tmp_path / "long.tar.gz")
    folder = folder_of(tmp_path / "here", GOOD_RUN)
    for archive in (short, long, short):
        take_in(archive, tmp_path / "here")
    assert tuple(read_records(folder)) == GOOD_RECORDS
    assert (folder / IN_PROGRESS).exists()


def test_a_run_that_was_finished_elsewhere_is_finished(tmp_path: Path) -> None:
    finish(measured(tmp_path / "there"))
    archive = packed(tmp_path / "there", tmp_path / "a.tar.gz")
    folder = measured(tmp_path / "here", records=GOOD_RECORDS[:HALF])
    take_in(archive, tmp_path / "here")
    assert not (folder / IN_PROGRESS).exists()
    assert len(read_records(folder)) == len(GOOD_RECORDS)


def test_copies_that_disagree_are_left_alone(tmp_path: Path) -> None:
    archive = packed(measured(tmp_path / "there").parents[1], tmp_path / "a.tar.gz")
    measured(tmp_path / "here", records=(*GOOD_RECORDS[:2], *GOOD_RECORDS[6:8]))
    before = contents(tmp_path / "here")
    with pytest.raises(Mistake, match=r"and the archive disagree about what was measured there; move one of them\."):
        take_in(archive, tmp_path / "here")
    assert contents(tmp_path / "here") == before


def test_somebody_elses_run_is_not_gone_on_with(tmp_path: Path) -> None:
    archive = packed(measured(tmp_path / "there").parents[1], tmp_path / "a.tar.gz")
    (measured(tmp_path / "here") / ORIGIN).write_text("{}")
    with pytest.raises(Mistake, match="holds another run than the archive has there"):
        take_in(archive, tmp_path / "here")


def test_only_own_real_runs_of_this_environment_are_packed(tmp_path: Path) -> None:
    kept = measured(tmp_path)
    for day, run in enumerate(
        (
            replace(GOOD_RUN, rehearsed=True),
            replace(GOOD_RUN, environment=replace(ENVIRONMENT, driver="other")),
            GOOD_RUN,
        ),
        start=4,
    ):
        folder = measured(tmp_path, replace(run, began=f"2026-01-0{day}T00:00:00+00:00"))
    (folder / ORIGIN).write_text("{}")
    empty = measured(tmp_path, replace(GOOD_RUN, began="2026-01-08T00:00:00+00:00"), ())
    assert (empty / RUN).exists()
    assert list(own_runs(kept.parent, ENVIRONMENT)) == [kept]


def test_a_run_that_would_be_refused_is_left_out_and_told(tmp_path: Path) -> None:
    """It would make the whole archive unreadable."""
    good = measured(tmp_path / "ours")
    bad = measured(tmp_path / "ours", replace(GOOD_RUN, began="2026-01-03T03:04:05+00:00"))
    path = bad / MEASUREMENTS
    path.write_bytes(path.read_bytes().replace(b'"wall_s": ', b'"wall_s": -', 1))
    (told,) = pack(tmp_path / "a.tar.gz", tmp_path / "ours", ENVIRONMENT)
    assert told.startswith(f"{bad} is not packed: {MEASUREMENTS}, line 3: wall_s is -")
    take_in(tmp_path / "a.tar.gz", tmp_path / "theirs")
    assert [one.name for one in (tmp_path / "theirs" / ENVIRONMENT.machine).iterdir()] == [good.name]


def test_a_run_of_an_older_schema_travels_in_todays(tmp_path: Path) -> None:
    folder = measured(tmp_path / "ours")
    for path in (folder / RUN, folder / MEASUREMENTS):
        path.write_bytes(path.read_bytes().replace(b'"schema": 4', b'"schema": 3'))
    assert pack(tmp_path / "a.tar.gz", tmp_path / "ours", ENVIRONMENT) == []
    take_in(tmp_path / "a.tar.gz", tmp_path / "theirs")
    (found,) = own_runs(tmp_path / "theirs" / ENVIRONMENT.machine, ENVIRONMENT)
    assert (read_run(found), read_records(found)) == (read_run(folder), read_records(folder))


def test_two_that_pack_into_one_archive_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, other = tmp_path / "a.tar.gz", replace(ENVIRONMENT, cores=3)
    measured(tmp_path / "ours")
    measured(tmp_path / "theirs", replace(GOOD_RUN, environment=other))
    second = Thread(target=pack, args=(archive, tmp_path / "theirs", other))

    def meanwhile(files: Mapping[str, bytes]) -> bytes:
        if second.ident is None:
            second.start()
            second.join(0.5)  # longer than packing takes
        return packed_archive(files)

    monkeypatch.setattr(archiving, "packed_archive", meanwhile)
    pack(archive, tmp_path / "ours", ENVIRONMENT)
    second.join()
    take_in(archive, tmp_path / "third")
    assert {one.name for one in (tmp_path / "third").iterdir()} == {ENVIRONMENT.machine, other.machine}


def test_a_line_that_was_cut_short_stays_behind(tmp_path: Path) -> None:
    folder = measured(tmp_path / "there")
    with (folder / MEASUREMENTS).open("ab") as file:
        file.write(b'{"schema": 2, "reco')
    take_in(packed(tmp_path / "there", tmp_path / "a.tar.gz"), tmp_path / "here")
    here = folder_of(tmp_path / "here", GOOD_RUN)
    assert tuple(read_records(here)) == GOOD_RECORDS
    journal = Journal(here)
    journal.append(GOOD_RECORDS[-1])
    journal.close()
    assert len(read_records(here)) == len(GOOD_RECORDS) + 1


def test_the_state_that_has_spent_more_is_the_newer(tmp_path: Path) -> None:
    measured(tmp_path / "there")
    state = tmp_path / "there" / ENVIRONMENT.machine / STATE
    replace_file(state, replace(ONE, spent_s=500.0).encoded, "")
    archive = packed(tmp_path / "there", tmp_path / "a.tar.gz")
    here = tmp_path / "here" / ENVIRONMENT.machine / STATE
    for spent_s, wanted in ((400.0, 500.0), (600.0, 600.0)):
        here.parent.mkdir(parents=True, exist_ok=True)
        replace_file(here, replace(ONE, spent_s=spent_s).encoded, "")
        take_in(archive, tmp_path / "here")
        found = read_state(here)
        assert found is not None
        assert found.spent_s == wanted
    replace_file(here, replace(ONE, began="2027-01-01T00:00:00+00:00").encoded, "")
    with pytest.raises(Mistake, match=r"are about two campaigns; move one of them, or choose another --results\."):
        take_in(archive, tmp_path / "here")
    take_in(archive, tmp_path / "here", states=False)


def hostile(name: str, content: bytes = b"{}") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:", format=tarfile.USTAR_FORMAT) as file:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        file.addfile(entry, io.BytesIO(content))
    return gzip.compress(made.getvalue())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no archive", "it is no whole gzip file"),
        (hostile("../../escaped"), r"it has a file '\.\./\.\./escaped'"),
        (hostile(f"h200/20261122T015643-1bef8bea/{RUN}"), f"{RUN} states no schema"),
        (packed_archive({f"h200/20261122T015643-1bef8bea/{RUN}": b"not json"}), f"{RUN} is not JSON"),
        (packed_archive({f"h200/{STATE}": b"[]"}), f"{STATE} in .* is damaged"),
    ],
)
def test_what_no_campaign_has_written_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes, words: str) -> None:
    archive, results = tmp_path / "a.tar.gz", tmp_path / "results"
    archive.write_bytes(content)
    with pytest.raises(Mistake, match=words) as found:
        take_in(archive, results)
    assert len(str(found.value).splitlines()) == 1
    assert not results.exists()
    assert {one.name for one in tmp_path.iterdir()} == {"a.tar.gz"}


def test_a_name_in_an_archive_never_becomes_a_folder(tmp_path: Path) -> None:
    """What lies under a wrong name comes to lie under the right one."""
    folder = measured(tmp_path / "there")
    name = "other-machine/20270101T000000-00000000"
    files = {f"{name}/{one}": (folder / one).read_bytes() for one in (RUN, MEASUREMENTS)}
    (tmp_path / "a.tar.gz").write_bytes(packed_archive(files))
    take_in(tmp_path / "a.tar.gz", tmp_path / "here")
    assert [one.name for one in (tmp_path / "here").iterdir()] == [ENVIRONMENT.machine]
    assert read_run(folder_of(tmp_path / "here", GOOD_RUN)) == GOOD_RUN


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    check_place(tmp_path / "a.tar.gz")
    for place in (tmp_path, tmp_path / "absent" / "a.tar.gz"):
        with pytest.raises(Mistake, match="cannot be written; name a file in a folder that exists and is writable"):
            check_place(place)
