"""Placing: a checked run among the results, whole or not at all, in a folder that its content names."""

import json
import re
import secrets
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from harness.core.codec import encode
from harness.core.mistake import Mistake
from harness.core.recipe import Value
from harness.core.records import Lost, Ready, Record
from harness.exchange.bundle import Contribution
from harness.store import (
    ORIGIN,
    RUN,
    Run,
    files_of,
    folder_of,
    read_records,
    read_run,
    stamp_of,
    write_durably,
)

SCHEMA = 1  # of origin.json


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an imported run came from: enough to find the bundle again, and nothing about whoever took it in."""

    imported: str  # UTC, ISO 8601
    contributed: bool = True  # somebody else measured it
    bundled: bool  # it came as a bundle, not as a folder
    sha256: str  # of what came
    run_schema: int  # in which it came


def place(results: Path, contribution: Contribution, origin: Origin) -> tuple[Path, bool]:
    """Writes a run under its machine's name; gives its folder, and whether it is new there.

    Raises Mistake where another lies there, or where nothing can be written.

    What is written is our own encoding of what was read, never the bytes that came. It appears under its name when it
    is complete: a folder is renamed at the end, so that a cut leaves no half run.
    """
    folder = folder_of(results, contribution.run)
    files = files_of(contribution.run, contribution.records)
    if same := _kept_already(folder.parent, stamp_of(contribution.run), files):
        return same, False
    if folder.exists():
        raise Mistake(f"{folder} holds other data under the same name; move it or choose another --results.")
    files[ORIGIN] = (json.dumps({"schema": SCHEMA, **encode(origin)}, indent=1) + "\n").encode()
    write_whole(results, folder, files)
    return folder, True


def _kept_already(machine: Path, stamp: str, files: Mapping[str, bytes]) -> Path | None:
    """A folder that holds the same run, whatever its name: an older version made the digest of other facts."""
    folders = (folder for folder in sorted(machine.glob(f"{stamp}-*")) if (folder / RUN).exists())
    return next((folder for folder in folders if _cleaned(folder) == files), None)


def _cleaned(folder: Path) -> Mapping[str, bytes]:
    """The files of a run as they would be passed on: one that was measured here may still name its folders."""
    cleaner = Cleaner()
    return files_of(clean_run(read_run(folder), cleaner), (clean_record(one, cleaner) for one in read_records(folder)))


def write_whole(results: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Makes a folder with some files in it, which appears when it is complete; raises Mistake where it cannot be."""
    # One level deep: what looks for runs looks two levels deep and never sees it half.
    partial = results / f".incoming-{secrets.token_hex(8)}"
    try:
        partial.mkdir(parents=True)
        for name, content in files.items():
            write_durably(partial / name, content)
        folder.parent.mkdir(exist_ok=True)
        partial.rename(folder)
    except OSError as error:
        raise Mistake(f"Cannot write {folder} ({error.strerror}); choose another folder with --results.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# Privacy: free texts of a run without the folders, the user and the host that they may name.


FOLDER = "FOLDER"  # stands for a place, as it does in a run's command
SHORTEST_NAME = 4  # letters; a shorter one is also a part of other words
# What all machines call somebody or themselves.
NOBODY = frozenset({"root", "user", "users", "home", "ubuntu", "admin", "localhost", "runner", "jovyan", "docker"})

# Places that are the same on every machine and tell nothing about who works there.
_OF_THE_SYSTEM = re.compile(r"/(dev|proc|sys|usr|lib|lib64|bin|sbin)(/|$)")
_PACKAGE = re.compile(r".*/((?:site|dist)-packages/.+)")
_LIBRARY = re.compile(r".*?/(python3\.\d+/.+)")
_OURS = re.compile(r".*/((?:harness|workloads)/.+\.py)")
_FILE = re.compile(
    r"[^/]+\.(py|pyx|so|cc?|cpp|cuh?|h5?|hdf5|jsonl?|npy|npz|tar|zip|toml|wav|flac|jpe?g|png|tiff?|txt|csv|bin|pt)",
    re.IGNORECASE,
)
# A quoted path may hold spaces, a bare one ends at the next. An address of the web is taken first, to be left whole.
# Every repetition is bounded or cannot be entered twice: a stranger's text must not cost more than its length.
_PLACE = re.compile(
    r"(?P<url>\b(?!file:)[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]*)"
    r"|(?P<quote>['\"])(?P<inside>(?:(?:file://)?(?:~[\w.-]*)?/|[A-Za-z]:[\\/])[^\n]*?)(?P=quote)"
    r"|(?P<bare>(?:\bfile://|(?<![\w./~]))(?:(?:~[\w.-]*)?/+(?=[^\s/])|\b[A-Za-z]:\\+)[^\s'\"<>,;:()\[\]{}]*)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)[^\s/'\"]+@")  # name and password in an address


@dataclass(slots=True)
class Cleaner:
    """Cleans texts and counts what was removed from them."""

    private: tuple[str, ...] = ()  # words beside paths: the user's name, the host's
    removed: int = field(default=0)

    def sentence(self, text: str) -> str:
        """A free text as anybody may read it."""
        text = self.value(text)
        for word in self.private:
            text, count = re.subn(rf"(?<!\w){re.escape(word)}(?!\w)", "NAME", text, flags=re.IGNORECASE)
            self.removed += count
        return text

    def value(self, text: str) -> str:
        """A text that may be a word of the harness too, such as a setting: without places, with every name."""
        text, logins = _LOGIN.subn("", text)
        self.removed += logins
        return _PLACE.sub(self._place, text)

    def command(self, command: str) -> str:
        """A command line, cleaned word by word so that it stays one."""
        return shlex.join(self._word(word) for word in shlex.split(command))

    def _word(self, word: str) -> str:
        """`NAME=/a path/with spaces`: what stands behind the last `=` is one thing, as if it were quoted."""
        name, equals, value = word.rpartition("=")
        return name + equals + (self.value(f"'{value}'")[1:-1] if "'" not in value else self.value(value))

    def _place(self, found: re.Match[str]) -> str:
        if found["url"]:
            return found["url"]
        quote = found["quote"] or ""
        path = (found["inside"] or found["bare"]).removeprefix("file://")
        kept = relative(path.replace("\\", "/"))
        self.removed += kept != path
        return f"{quote}{kept}{quote}"


def private_words(words: Iterable[str]) -> tuple[str, ...]:
    """Those words that can be told from ordinary ones, the longest first."""
    found = {word for word in words if len(word) >= SHORTEST_NAME and word.lower() not in NOBODY}
    return tuple(sorted(found, key=lambda word: (-len(word), word)))


def relative(path: str) -> str:
    """A path without what is private in it: inside its package, under the system's folders, or FOLDER/file.py."""
    for telling in (_PACKAGE, _LIBRARY, _OURS):
        if found := telling.fullmatch(path):
            return found[1]
    if _OF_THE_SYSTEM.match(path):
        return path
    name = PurePosixPath(path).name
    return f"{FOLDER}/{name}" if _FILE.fullmatch(name) else FOLDER


def clean_run(run: Run, cleaner: Cleaner) -> Run:
    """The run with its free texts cleaned: the command, reasons of missing results, words about data and contracts."""
    plan = run.plan
    return replace(
        run,
        command=cleaner.command(run.command),
        plan=replace(
            plan,
            no_results=tuple(
                replace(no_result, reason=cleaner.sentence(no_result.reason)) for no_result in plan.no_results
            ),
            data={name: cleaner.sentence(words) for name, words in plan.data.items()},
        ),
    )


def clean_record(record: Record, cleaner: Cleaner) -> Record:
    """The record with its free texts cleaned: settings, sentences, reason and trace."""
    if isinstance(record, Lost):
        return replace(record, reason=cleaner.sentence(record.reason), trace=cleaner.sentence(record.trace))
    if isinstance(record, Ready):
        settings: dict[str, Value] = {
            name: cleaner.value(value) if isinstance(value, str) else value for name, value in record.effective.items()
        }
        return replace(record, effective=settings, inactive=tuple(map(cleaner.sentence, record.inactive)))
    return record
