"""Contributions: a run as it came, checked field by field and against itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from harness.core.former import in_todays_words
from harness.core.measurement import Record
from harness.core.plain import Malformed, decode
from harness.intake.manifest import check_against, check_files, read_manifest, without_schema
from harness.intake.parcel import MANIFEST, Parcel
from harness.intake.refusal import Unfit
from harness.intake.sound_plan import check_run
from harness.intake.sound_records import check_records
from harness.intake.strict_json import parsed
from harness.store import KINDS, LONGEST_LINE, MEASUREMENTS, RUN, SCHEMA, Run

SCHEMAS = range(1, SCHEMA + 1)
MOST_RECORDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A run that the analysis can bear, and the schema in which it came."""

    run: Run
    records: tuple[Record, ...]
    schema: int


def read(parcel: Parcel, now: datetime) -> Contribution:
    """The run in a parcel; raises Unfit with the first thing that is wrong with it."""
    manifest = read_manifest(parcel.files[MANIFEST]) if MANIFEST in parcel.files else None
    if manifest is not None:
        check_files(manifest, parcel.files)
    data = parsed(parcel.files[RUN], RUN)
    run = _decoded(Run, without_schema(data, RUN, SCHEMAS), RUN)
    check_run(run, now)
    records = tuple(_records(parcel.files.get(MEASUREMENTS, b""), data["schema"]))
    check_records(run, records)
    if manifest is not None:
        check_against(manifest, run, len(records))
    todays = replace(run, plan=in_todays_words(run.plan, data["schema"]))
    return Contribution(run=todays, records=records, schema=data["schema"])


def _records(content: bytes, schema: int) -> Iterator[Record]:
    *lines, _cut_short = content.split(b"\n")
    if len(lines) > MOST_RECORDS:
        raise Unfit(f"{MEASUREMENTS} has {len(lines):,} lines, and {MOST_RECORDS:,} records are the most")
    for number, line in enumerate(lines, 1):
        yield _record(line, schema, f"{MEASUREMENTS}, line {number}")


def _record(line: bytes, schema: int, where: str) -> Record:
    if len(line) > LONGEST_LINE:
        raise Unfit(f"{where} is longer than any record")
    data = parsed(line, where)
    body = without_schema(data, where, SCHEMAS)
    if data["schema"] != schema:
        raise Unfit(f"{where} has schema {data['schema']}, and {RUN} has {schema}")
    kind = body.pop("record", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise Unfit(f"{where} is no record: its kind must be one of {', '.join(KINDS)}")
    record: Record = _decoded(KINDS[kind], body, where)
    return record


def _decoded(kind: type[Any], body: dict[str, Any], where: str) -> Any:
    try:
        return decode(kind, body, where)
    except Malformed as malformed:
        raise Unfit(str(malformed)) from malformed
