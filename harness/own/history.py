"""The user's file as it was at a commit: its whole tree in a folder of its own, from which arms import it."""

import filecmp
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from harness.core.mistake import Mistake
from harness.core.own_file import (
    NOW,
    ORIGIN,
    Address,
    NoJob,
    content,
    looked_at_since,
    needs_of,
    note_needs,
    opened_elsewhere,
    parse_address,
    tell_arms,
    unpacked,
)
from harness.core.recipe import Recipe
from harness.core.workload import Workload
from harness.own.facts import Facts, differing, facts_text, read_facts, refused, together
from harness.own.inference import settings_of_process
from harness.own.job import SIZES, digest_of, facts_of, own_folder
from harness.own.parts import check_own
from harness.run.processes import finding_modules
from harness.store import make_folder, replace_file

SHOWN = 12  # digits of a commit in a folder's name
SUBMODULE = "160000 "  # what git lists of one begins so
_LOOK = """
import json, sys
from pathlib import Path
from harness.catalogue import read_workload
from harness.core.mistake import Mistake
from harness.core.own_file import NoJob, look_anew, noting
from harness.own.history import told_of
look_anew(float(sys.argv[2]))
try:
    with noting() as needs:
        told = told_of(sys.argv[1], read_workload(Path(sys.argv[1])))
    told["opened"] = sorted(needs.files)
except Mistake as mistake:
    told = {"mistake": str(mistake), "no_job": isinstance(mistake, NoJob)}
print(json.dumps(told))
"""


def since(where: Address, revision: str) -> tuple[Address, Address]:
    """A job's file as it was at a commit, which knows where it is now, and as it is now; raises Mistake.

    One that the commit does not hold is taken as it is now, with the code of then beside it.
    """
    file = where.path.resolve()
    if not file.is_file():
        raise Mistake(f"There is no file {where.path}; give the path of a Python file that makes a job.")
    top = Path(_git(file.parent, "rev-parse", "--show-toplevel").decode().strip())
    commit = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    place = hashlib.sha256(str(top).encode()).hexdigest()[:8]  # several clones may have the commit
    folder = own_folder() / f"tree-{commit[:SHOWN]}-{place}"
    within = file.relative_to(top)
    if not folder.is_dir():
        _unpack_into(folder, top, commit)
    if not _git(top, "ls-tree", commit, "--", str(within)):
        _take(file, folder, within)
    then = folder / within
    if not then.is_file():
        raise Mistake(f"There was no {file.name} in that place at {revision}; name a commit that has the file.")
    _link_data(folder, top)
    now = Address(file, where.names)
    return Address(then, where.names, str(now)), now


def _take(file: Path, folder: Path, within: Path) -> None:
    """Writes a file of the working tree into an unpacked tree, in no folder that is only linked there."""
    for one in reversed(within.parents):
        if (folder / one).is_symlink():
            (folder / one).unlink()
    make_folder((folder / within).parent, ANOTHER)
    replace_file(folder / within, content(file), ANOTHER)


CODE = (".py", ".pyc", ".pyd", ".so")  # of now, which may not be imported beside that of a commit


def _link_data(folder: Path, top: Path) -> None:
    """Links what lies in a working tree and not in git into the tree of a commit, so that both versions read the same.

    Untracked folders come before ignored files, of which they may hold some.
    """
    tree, others = folder.resolve(), ("ls-files", "-z", "--others", "--directory", "--exclude-standard")
    for words in (others, (*others, "--ignored")):
        for name in filter(None, _git(top, *words).split(b"\0")):
            _link(top / os.fsdecode(name), tree / os.fsdecode(name), tree)


def _link(place: Path, there: Path, tree: Path) -> None:
    """Links a file or a folder where nothing is there yet; of a folder that is there, what it lacks."""
    with suppress(OSError):  # of somebody else's; the version that needs it tells what it misses
        code, real = place.suffix in CODE or place.name == "__pycache__", os.path.realpath(place)
        if code or (place / "pyvenv.cfg").exists() or tree.is_relative_to(real) or os.path.realpath(there) == real:
            return
        if there.is_dir() and not there.is_symlink() and place.is_dir():
            for one in place.iterdir():
                _link(one, there / one.name, tree)
        elif not os.path.lexists(there):
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(place)


def _git(folder: Path, *words: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise Mistake("There is no git on this machine; install it, or compare two jobs of one file.") from None
    if done.returncode:
        said = next(
            iter(done.stderr.decode(errors="replace").splitlines()), f"no {words[-1].partition('^')[0]} is known"
        )
        raise Mistake(f"git says of {folder}: {said}; name a commit of the repository that holds the file.")
    return done.stdout


ANOTHER = "make room there, or set SPEEDMATRIX_DATA to a folder that can be written"


def _unpack_into(folder: Path, top: Path, commit: str) -> None:
    """Puts a commit's tree into a folder, which has its name only when it is whole; raises Mistake."""
    replace_file(folder.with_name(f"{folder.name}{ORIGIN}"), str(top).encode(), ANOTHER)
    begun = folder.with_name(f"{folder.name}.begun-{secrets.token_hex(4)}").absolute()  # others may unpack it too
    try:
        _unpack(top, commit, begun)
        begun.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # no other was faster
            raise Mistake(
                f"Cannot unpack the commit into {folder.parent} ({error.strerror or error}); {ANOTHER}."
            ) from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)


def _unpack(top: Path, commit: str, folder: Path) -> None:
    """A commit's tree with those of its submodules, of which git packs empty folders; raises Mistake."""
    _extract(_git(top, "archive", commit), folder)
    for entry in _git(top, "ls-tree", "-r", "-z", commit).decode().split("\0"):
        about, _, name = entry.partition("\t")
        if about.startswith(SUBMODULE):
            pinned = about.split()[-1]
            try:
                _git(top / name, "cat-file", "-e", f"{pinned}^{{commit}}")
            except Mistake:
                raise Mistake(
                    f"The commit has the submodule {name} at {pinned[:SHOWN]}, which is not in {top / name}; "
                    f"check it out (git submodule update --init {name}) and git fetch there, or name another commit."
                ) from None
            _unpack(top / name, pinned, folder / name)


def _extract(archive: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        for one in tree.getmembers():  # of what git packs, links alone may lead elsewhere
            target = os.path.normpath(folder / Path(one.name).parent / one.linkname)
            if one.issym() and not Path(target).is_relative_to(folder):
                raise Mistake(
                    f"The commit cannot be unpacked: {one.name} is a link to {one.linkname}, outside of the "
                    "repository; name a commit that has no such link."
                )
        filtering: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        tree.extractall(folder, **filtering)  # noqa: S202  links are checked above


def check_alike(then: Address, now: Address, revision: str, *, batch: bool = True) -> None:
    """Looks at both in processes of their own, so that neither finds the other's modules; raises Mistake.

    Both must say the same of whatever every arm is given alike, of the `batch` too unless the user gives one.
    """
    try:
        old = seen(replace(then, version=""))
    except NoJob as mistake:
        told, *_ = str(mistake).rpartition("; ")
        raise Mistake(
            f"At {revision}: {told}. Put the job into a file of its own that imports the training: it is then taken "
            "for both versions."
        ) from None
    except Mistake as mistake:
        raise Mistake(f"At {revision}: {mistake}") from None
    new = seen(replace(now, version=NOW))
    _check_opened(then, revision, old.opened)
    if batch and old.facts.batch != new.facts.batch:
        raise Mistake(
            f"{now.path.name} takes batches of {new.facts.batch} now and took {old.facts.batch} at {revision}; "
            "add --batch to time both with the same."
        )
    whole = together(old.facts, new.facts, each_its_own=True).whole_batches
    ours, theirs = (one.facts.says | one.process for one in (old, new))
    if names := differing(ours, theirs, without=("batch", *(("__getitems__",) if whole else ()))):
        raise Mistake(f"{refused(f'{now.path.name} of now, against {revision},', names, ours, theirs)}.")


def _check_opened(then: Address, revision: str, opened: Iterable[str]) -> None:
    """Raises Mistake where the old version reads a file of the working tree that git held otherwise at the commit.

    Both arms work in one folder, and both would read what lies there now.
    """
    file = then.path.resolve()
    found = unpacked(file)
    assert found is not None  # noqa: S101  it was unpacked by `since`
    tree, top = found
    for place in map(Path, opened_elsewhere(file, opened)):
        was = tree / place.relative_to(top)
        if place.is_file() and not filecmp.cmp(was, place, shallow=False):
            beside = os.path.relpath(was, file.parent)
            raise Mistake(
                f"{then.path.name} at {revision} opens {place.relative_to(top)} in the working tree, where it is not "
                "what it was at that commit, so that both versions would read the same; name a commit that opens it "
                f"by the file's own place (Path(__file__).parent / {beside!r}), or give it its content of then, to "
                "compare the code alone."
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a job in a process of its own gave."""

    facts: Facts
    process: dict[str, str]  # what importing its file set for the whole process
    opened: tuple[str, ...]  # files that were read meanwhile, and when the facts that are kept were seen


def seen(address: Address) -> Seen:
    """Looks at a job in a process of its own; raises Mistake for what cannot be looked at."""
    command = [sys.executable, "-P", "-c", _LOOK, str(address), str(looked_at_since())]
    done = subprocess.run(command, env=finding_modules(os.environ), capture_output=True, text=True, check=False)
    try:
        told = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Mistake(f"{address.path} cannot be looked at ({last}); put it right.") from None
    if "mistake" in told:
        raise (NoJob if told["no_job"] else Mistake)(told["mistake"])
    note_needs(address.path, told["files"])
    tell_arms(address, told["digest"])
    facts = read_facts(told["facts"])
    return Seen(facts, told["process"], (*told["opened"], *facts.opened))


def told_of(where: str, workload: Workload) -> dict[str, Any]:
    """What `seen` asks of the process that it starts; raises Mistake where modules are those of another version."""
    file, process = parse_address(where).path.resolve(), settings_of_process()
    _build(workload)
    check_own(file)
    needs = needs_of(file)
    return {
        "facts": facts_text(facts_of(workload)), "process": process, "digest": digest_of(workload),
        "files": sorted(needs.files),
    }  # fmt: skip


def _build(workload: Workload) -> None:
    """Reads an item and builds a model, as arms do, for what they open; what they fail at is told elsewhere."""
    parts, size = workload.parts(), workload.sizes[SIZES[0]]
    with suppress(Exception):
        parts.dataset(Path(), size, Recipe())[0]
    with suppress(Exception):
        parts.model(size, Recipe())
