"""Packing: a run as one archive that depends on nothing but its data."""

import io
import json
import zipfile

from harness.intake.contribution import Contribution
from harness.intake.manifest import Manifest, facts_of
from harness.intake.parcel import MANIFEST
from harness.store import MEASUREMENTS, RUN, SCHEMA, record_line, run_text

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest day that zip knows


def packed(contribution: Contribution, removed: int) -> bytes:
    """The bundle: the same bytes for the same data, wherever the same zlib packs them."""
    run, records = contribution.run, contribution.records
    files = {RUN: run_text(run).encode(), MEASUREMENTS: b"".join(map(record_line, records))}
    manifest = Manifest(
        run_schema=SCHEMA,
        version=run.version,
        command=run.command,
        machine=run.environment.machine,
        environment=run.environment.digest,
        records=len(records),
        removed=removed,
        files={name: facts_of(content) for name, content in files.items()},
    )
    return _archive({MANIFEST: (json.dumps(manifest.encoded(), indent=1) + "\n").encode(), **files})


def _archive(files: dict[str, bytes]) -> bytes:
    packed_into = io.BytesIO()
    with zipfile.ZipFile(packed_into, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            archive.writestr(entry, content, compresslevel=9)
    return packed_into.getvalue()
