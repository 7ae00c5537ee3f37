"""`bundle`: packs a run to be passed on, with nothing in it about who measured or where."""

import getpass
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.importing import cleaned
from harness.cli.replacing import replace_file
from harness.core.mistake import Mistake
from harness.intake.contribution import read
from harness.intake.packing import packed
from harness.intake.parcel import MANIFEST, Parcel, unpacked
from harness.intake.privacy import Cleaner, private_words
from harness.intake.refusal import Unfit, sentence
from harness.store import folder_of

SUFFIX = ".speedmatrix.zip"
MEASURE_AGAIN = "restore it or measure again"


def pack(run: Path, output: Path | None) -> int:
    """Writes the bundle of a run, checked as an import checks it; raises Mistake for what cannot be passed on."""
    try:
        parcel = _own(run)
        contribution, removed = cleaned(read(parcel, datetime.now(UTC)), Cleaner(private_words(_names())))
    except Unfit as unfit:
        raise Mistake(sentence(f"{run} is not bundled", unfit, MEASURE_AGAIN)) from unfit
    kept = folder_of(Path(), contribution.run)
    path = output or Path(f"{kept.parent.name}-{kept.name}{SUFFIX}")
    content = packed(contribution, removed)
    replace_file(path, content, "choose another path for --output")
    sys.stdout.write(
        f"{path} holds {len(contribution.records):,} records in {len(content):,} bytes; {removed} places, users and "
        f"hosts were taken out of its texts. Whoever gets it: ./speedmatrix import {path.name}\n"
    )
    return 0


def _own(run: Path) -> Parcel:
    if not run.is_dir():
        raise Unfit("it is not the folder of a run", "name one that ./speedmatrix run has made")
    parcel = unpacked(run)
    # Digests of an earlier bundle say nothing of the one that is made now.
    files = {name: content for name, content in parcel.files.items() if name != MANIFEST}
    return Parcel(files=files, digest=parcel.digest, bundled=False)


def _names() -> list[str]:
    """The user and the host, as error messages may name them."""
    host = platform.node()
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user is known to this system
        user = ""
    return [user, Path.home().name, host, host.partition(".")[0]]
