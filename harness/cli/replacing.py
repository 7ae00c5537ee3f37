"""Replacing: a file that is written beside itself and then renamed, so that nobody ever reads half of it."""

import errno
import os
from pathlib import Path

from harness.core.mistake import Mistake


def replace_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file whole or not at all, down to the disk; raises Mistake with the remedy where that cannot be."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _keep_name(path.parent)
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); {remedy}.") from error
    finally:
        if partial.is_file():
            partial.unlink()


def _keep_name(folder: Path) -> None:
    """The new name is safe only when the folder that holds it is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # of a file system that keeps no folders
            raise
    finally:
        os.close(descriptor)
