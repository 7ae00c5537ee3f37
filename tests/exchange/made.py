"""Made bundles: a run that is sound, and tools to spoil it in one place while everything else stays right."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.records import Record
from harness.exchange.bundle import MANIFEST
from harness.store import MEASUREMENTS, RUN, record_line, run_text
from tests.analyze.synthetic import Noise, comparison, plan, records
from tests.test_store import RUN_FACTS

GOOD_RUN = replace(RUN_FACTS, plan=plan(comparison("workers"), comparison("amp")))
_NOISE = Noise(window=0.01, replicate=0.005, generator=np.random.default_rng(5))
GOOD_RECORDS: tuple[Record, ...] = (*records(0, 1.5, noise=_NOISE), *records(1, 0.9, noise=_NOISE))
RAW_RUN = run_text(GOOD_RUN).encode()
RAW_LINES = tuple(map(record_line, GOOD_RECORDS))
READY, WINDOW = 0, 3  # places of a ready arm and of an attempt's second window among the lines

Data = dict[str, Any]
Change = Callable[[Any], None]


def run_data() -> Data:
    data: Data = json.loads(RAW_RUN)
    return data


def line_data() -> list[Data]:
    return [json.loads(line) for line in RAW_LINES]


def changed_run(change: Change) -> bytes:
    """A bundle whose run was changed in one place."""
    data = run_data()
    change(data)
    return bundled(run=json.dumps(data).encode())


def changed_line(place: int, change: Change) -> bytes:
    """A bundle in which one record was changed."""
    lines = line_data()
    change(lines[place])
    return bundled(lines=lines)


def bundled(run: bytes = RAW_RUN, lines: Iterable[Data | bytes] = RAW_LINES, **manifest: Any) -> bytes:
    """A bundle with true digests of what it holds, whatever that is."""
    text = b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in lines)
    return archived(with_manifest({RUN: run, MEASUREMENTS: text}, **manifest))


def with_manifest(packed: Mapping[str, bytes], **changes: Any) -> dict[str, bytes]:
    environment = GOOD_RUN.environment
    manifest = {
        "schema": 1,
        "run_schema": 3,
        "version": GOOD_RUN.version,
        "command": GOOD_RUN.command,
        "machine": environment.machine,
        "environment": environment.digest,
        "records": len(GOOD_RECORDS),
        "removed": 0,
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in packed.items()
        },
        **changes,
    }
    return {MANIFEST: json.dumps(manifest).encode(), **packed}


def archived(
    files: Mapping[str, bytes],
    further: Iterable[tuple[str | zipfile.ZipInfo, bytes]] = (),
    kind: int = zipfile.ZIP_STORED,
) -> bytes:
    """A zip of files, and of entries that may bear any name."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", kind) as archive:
        for name, content in (*files.items(), *further):
            archive.writestr(name, content)
    return written.getvalue()


GOOD_FILES = with_manifest({RUN: RAW_RUN, MEASUREMENTS: b"".join(RAW_LINES)})
GOOD = archived(GOOD_FILES)
