"""Replacing: a file that is written beside itself and then renamed, so that nobody ever reads half of it."""

from pathlib import Path

from harness.core.mistake import Mistake


def replace_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file whole or not at all; raises Mistake with the remedy where that cannot be."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); {remedy}.") from error
    finally:
        if partial.is_file():
            partial.unlink()
