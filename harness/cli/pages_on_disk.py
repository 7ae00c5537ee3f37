"""Generated pages on disk: written, or held against what would be written now."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.mistake import Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What a command writes below a folder, and how its own files are told from those of others."""

    texts: Mapping[str, str]  # by path below the folder
    output: Path
    patterns: tuple[str, ...] = ("*.md",)  # where its files lie
    mark: str  # how they begin
    command: str  # that writes them
    called: str = "pages"
    remedy: str = "choose another folder with --output"


def stale(pages: Pages) -> Iterator[str]:
    """What is wrong with the files that lie there, a sentence for each."""
    for name, text in pages.texts.items():
        path = pages.output / name
        if not path.exists():
            yield f"{path} is missing"
        elif path.read_bytes() != text.encode():
            yield f"{path} is not what would be written now"
    yield from (f"{path} is about nothing that exists" for path in _orphans(pages))


def _orphans(pages: Pages) -> list[Path]:
    """Files that were written for what is no longer there; files that are not ours are left alone."""
    ours = {pages.output / name for name in pages.texts}
    found = (path for pattern in pages.patterns for path in sorted(pages.output.glob(pattern)) if path not in ours)
    return [path for path in found if _begins_with(path, pages.mark)]


def _begins_with(path: Path, mark: str) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark.encode())) == mark.encode()


def check(pages: Pages) -> int:
    """Tells the first file that is not as it would be written now; 1 if there is one, else 0."""
    found = list(stale(pages))
    if not found:
        sys.stdout.write(f"All {len(pages.texts)} {pages.called} in {pages.output} are as they would be written now.\n")
        return 0
    others = f" ({len(found) - 1} others too)" if len(found) > 1 else ""
    sys.stderr.write(f"{found[0]}{others}; {pages.command} writes it anew.\n")
    return 1


def write(pages: Pages) -> None:
    """Writes all files and removes those about nothing that exists; raises Mistake where that cannot be."""
    try:
        for name, text in pages.texts.items():
            path = pages.output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        for orphan in _orphans(pages):
            orphan.unlink()
    except OSError as error:
        raise Mistake(f"Cannot write to {pages.output} ({error.strerror}); {pages.remedy}.") from error
    sys.stdout.write(f"{len(pages.texts)} {pages.called} are in {pages.output}.\n")
