"""The manifest of a bundle: what it holds, with digests, so that a damaged copy is known before it is read."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.plain import Malformed, decode, encode
from harness.intake.parcel import MANIFEST
from harness.intake.refusal import Unfit
from harness.intake.strict_json import parsed
from harness.store import Run

FORMAT = 1  # of bundle.json; the run's own schema is told inside
FORMATS = range(1, FORMAT + 1)
UPDATE = "update speedmatrix to read it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file of a bundle."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `bundle.json` says."""

    run_schema: int
    version: str  # of the harness that measured
    command: str
    machine: str  # for whoever looks into the archive, like the next: rules for both have changed between versions
    environment: str  # its digest
    records: int
    removed: int  # places in texts that told a folder, a user or a host
    files: dict[str, FileFacts]

    def encoded(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"schema": FORMAT, **encode(self)}


def facts_of(content: bytes) -> FileFacts:
    """Length and digest of a file."""
    return FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def read_manifest(content: bytes) -> Manifest:
    """The manifest; raises Unfit where it is none, damaged, or from a future version."""
    data = parsed(content, MANIFEST)
    body = without_schema(data, MANIFEST, FORMATS)
    try:
        return decode(Manifest, body, MANIFEST)
    except Malformed as malformed:
        raise Unfit(str(malformed)) from malformed


def without_schema(data: Any, where: str, known: range) -> dict[str, Any]:
    """The fields beside a schema number that this version can read; raises Unfit for any other number."""
    number = data.get("schema") if isinstance(data, dict) else None
    if type(number) is not int or number < known[0]:
        raise Unfit(f"{where} states no schema that ever was")
    if number > known[-1]:
        raise Unfit(f"{where} has schema {number}, newer than {known[-1]}", UPDATE)
    return {name: value for name, value in data.items() if name != "schema"}


def check_files(manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Raises Unfit for a file that is not as it was packed."""
    for name in sorted(manifest.files.keys() ^ (files.keys() - {MANIFEST})):
        raise Unfit(f"{MANIFEST} and the files beside it disagree about '{name}'")
    for name, facts in manifest.files.items():
        if facts_of(files[name]) != facts:
            raise Unfit(f"{name} has changed since it was packed: its SHA-256 is not the one in {MANIFEST}")


def check_against(manifest: Manifest, run: Run, records: int) -> None:
    """Raises Unfit where a manifest tells another story than the run beside it."""
    told = (manifest.version, manifest.command, manifest.records)
    true = (run.version, run.command, records)
    for name, ours, theirs in zip(("version", "command", "records"), told, true, strict=True):
        if ours != theirs:
            raise Unfit(f"{MANIFEST} says {name} '{ours}', and the run itself '{theirs}'")
