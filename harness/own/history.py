"""The user's file as it was at a commit: its whole tree in a folder of its own, from which arms import it."""

import json
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from harness.core.mistake import Mistake
from harness.core.own_file import Address
from harness.own.job import own_folder

SHOWN = 12  # digits of a commit in a folder's name
_BATCH = """
import json, sys
from pathlib import Path
from harness.catalogue import read_workload
from harness.core.mistake import Mistake
try:
    workload = read_workload(Path(sys.argv[1]))
    print(json.dumps({"batch": workload.sizes["quick"].batch}))
except Mistake as mistake:
    print(json.dumps({"mistake": str(mistake)}))
"""


def since(where: Address, revision: str) -> tuple[Address, Address]:
    """A job's file as it was at a commit, which knows where it is now, and as it is now; raises Mistake."""
    file = where.path.resolve()
    if not file.is_file():
        raise Mistake(f"There is no file {where.path}; give the path of a Python file that makes a job.")
    top = Path(_git(file.parent, "rev-parse", "--show-toplevel").decode().strip())
    commit = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    folder = own_folder() / f"commit-{commit[:SHOWN]}"
    then = folder / file.relative_to(top)
    if not folder.is_dir():
        _extract(_git(top, "archive", commit), folder)
    if not then.is_file():
        raise Mistake(f"There was no {file.name} in that place at {revision}; name a commit that has the file.")
    now = Address(file, where.names)
    return Address(then, where.names, str(now)), now


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


def _extract(archive: bytes, folder: Path) -> None:
    """Into a folder that has its name only when it is whole."""
    begun = folder.with_name(f"{folder.name}.begun")
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        tree.extractall(begun, filter="data")
    begun.rename(folder)


def check_alike(then: Address, now: Address, revision: str) -> None:
    """Looks at both in processes of their own, so that neither finds the other's modules; raises Mistake."""
    batches = [_seen(then), _seen(now)]
    if batches[0] != batches[1]:
        raise Mistake(
            f"{now.path.name} takes batches of {batches[1]} now and took {batches[0]} at {revision}; "
            "add --batch to time both with the same."
        )


def _seen(address: Address) -> int:
    done = subprocess.run([sys.executable, "-c", _BATCH, str(address)], capture_output=True, text=True, check=False)
    try:
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Mistake(f"{address.path} cannot be looked at ({last}); put it right.") from None
    if "mistake" in said:
        raise Mistake(said["mistake"])
    return int(said["batch"])
