"""Privacy: free texts of a run without the folders, the user and the host that they may name.

Reasons, traces and settings come from error messages and open files. What helps a reader stays: the place inside a
package, the name of a source or data file. Names of configurations and settings are the harness's own words and are
left alone.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from harness.core.recipe import Value
from harness.core.records import Lost, Ready, Record
from harness.store import Run

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
_LOGIN = re.compile(r"(?<=://)[^\s/@'\"]+@")  # name and password in an address


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
