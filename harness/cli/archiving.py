"""Archiving: the runs of a machine packed into a file that survives it, and taken in again on the next one.

What is taken in was measured by whoever hands the file on, so it counts as measured here; it is checked like anybody's.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.replacing import replace_file
from harness.cli.shelf import ORIGIN
from harness.cli.spending import Account, account_text, parsed_account, read_account
from harness.core.environment import Environment
from harness.core.measurement import Record
from harness.core.mistake import Mistake
from harness.intake.archive import ACCOUNT, LARGEST_ARCHIVE, Packed, packed_archive, read_archive
from harness.intake.contribution import Contribution, read
from harness.intake.placing import write_whole
from harness.intake.refusal import Unfit, sentence
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    RUN,
    Run,
    finish,
    folder_of,
    read_records,
    read_run,
    record_line,
    run_text,
    stamp_of,
)

ANOTHER = "restore the file, or name another with --archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """What came out of an archive: how many runs, and the machines whose campaigns it goes on with."""

    runs: int
    machines: tuple[str, ...]


def check_place(archive: Path) -> None:
    """Raises Mistake where an archive could not be written at the end, before anything is measured for it."""
    folder = archive.absolute().parent
    if archive.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Mistake(f"{archive} cannot be written; name a file in a folder that exists and is writable.")


def take_in(archive: Path, results: Path, *, accounts: bool = True) -> TakenIn:
    """Keeps the runs of an archive among the results, and its campaigns' accounts unless another is to begin.

    There is nothing in a file that does not exist yet. Raises Mistake for one that no campaign has written.
    """
    if not archive.exists():
        return TakenIn(runs=0, machines=())
    now = datetime.now(UTC)
    try:
        found = read_archive(_content(archive))
        runs = [(read(one.parcel, now), one) for one in found.runs]
    except Unfit as unfit:
        raise Mistake(sentence(f"{archive} is not taken in", unfit, ANOTHER)) from unfit
    told = {name: parsed_account(content, f"{ACCOUNT} in {archive}") for name, content in found.accounts.items()}
    for contribution, one in runs:
        _keep(results, contribution, one)
    if accounts:
        for machine, account in told.items():
            _keep_account(results / machine / ACCOUNT, account, archive)
    return TakenIn(runs=len(runs), machines=tuple(told))


def pack(archive: Path, results: Path, environment: Environment) -> int:
    """Writes the runs of one environment and their account, whole or not at all; gives how many runs."""
    machine = results / environment.machine
    folders = list(own_runs(machine, environment))
    files = {name: content for folder in folders for name, content in _files(folder)}
    account = read_account(machine / ACCOUNT)
    if account is not None:
        files[f"{machine.name}/{ACCOUNT}"] = account_text(account)
    try:
        content = packed_archive(files)
    except Unfit as unfit:
        raise Mistake(sentence(f"{archive} is not written", unfit, f"take {machine} itself along")) from unfit
    replace_file(archive, content, "make room, or name another file with --archive")
    return len(folders)


def own_runs(machine: Path, environment: Environment) -> Iterator[Path]:
    """The folders of runs of real times that were measured in this very environment and hold something."""
    for path in sorted(machine.glob(f"*/{RUN}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not (folder / MEASUREMENTS).exists():
            continue
        run = read_run(folder)
        if not run.rehearsed and run.environment.digest == environment.digest and read_records(folder):
            yield folder


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """A run's files by their names in an archive, written anew so that a line that was cut short stays behind."""
    name = f"{folder.parent.name}/{folder.name}"
    yield f"{name}/{RUN}", (folder / RUN).read_bytes()
    yield f"{name}/{MEASUREMENTS}", _lines(read_records(folder))
    if (folder / IN_PROGRESS).exists():
        yield f"{name}/{IN_PROGRESS}", b""


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(map(record_line, records))


def _content(archive: Path) -> bytes:
    try:
        with archive.open("rb") as file:
            return file.read(LARGEST_ARCHIVE + 1)
    except OSError as error:
        raise Mistake(f"{archive} cannot be read ({error.strerror}); {ANOTHER}.") from error


def _keep(results: Path, contribution: Contribution, packed: Packed) -> None:
    """Puts a run where it belongs; of two copies of one run the longer is kept, which must begin like the other."""
    folder, records = _home(results, contribution.run), contribution.records
    if not folder.exists():
        marker = {IN_PROGRESS: b""} if packed.unfinished else {}
        lines = {RUN: run_text(contribution.run).encode(), MEASUREMENTS: _lines(records)}
        write_whole(results, folder, {**lines, **marker})
        return
    if (folder / ORIGIN).exists() or read_run(folder) != contribution.run:
        raise Mistake(f"{folder} holds another run than the archive has there; move it, or choose another --results.")
    here = read_records(folder)
    shorter = min(len(here), len(records))
    if _lines(here[:shorter]) != _lines(records[:shorter]):  # as text: what is no number equals nothing
        raise Mistake(f"{folder} and the archive disagree about what was measured there; move one of them.")
    if len(records) > len(here):
        replace_file(folder / MEASUREMENTS, _lines(records), "choose another folder with --results")
    if len(records) >= len(here) and not packed.unfinished:
        finish(folder)


def _home(results: Path, run: Run) -> Path:
    """Where a run belongs: where it lies already, even if its digest was another when a version knew fewer facts."""
    usual = folder_of(results, run)
    older = (path.parent for path in usual.parent.glob(f"{stamp_of(run)}-*/{RUN}"))
    return usual if usual.exists() else next((one for one in older if read_run(one) == run), usual)


def _keep_account(path: Path, account: Account, archive: Path) -> None:
    """Of two accounts of one campaign the one that has spent more is the newer."""
    here = read_account(path)
    if here is not None and (here.asked, here.began) != (account.asked, account.began):
        raise Mistake(f"{path} and {archive} are about two campaigns; move one of them, or choose another --results.")
    if here is None or account.spent_s > here.spent_s:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, account_text(account), "choose another folder with --results")
