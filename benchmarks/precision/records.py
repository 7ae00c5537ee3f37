"""What was found, one JSON object a line: appended as it comes, so that a run can be stopped and continued."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from harness.core.mistake import Mistake

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One tool's answer to one pair in one repetition, or why it gave none."""

    condition: str  # what else was at work on the machine, in words
    given_s: float
    truth: float  # of the speedup
    tool: str
    repetition: int
    used_s: float
    settings: dict[str, float]
    version: str  # of the tool
    machine: str
    environment: str  # its digest
    began: str  # UTC, ISO 8601
    ratio: float | None
    low: float | None
    high: float | None
    changed: bool | None  # None where the tool withheld its answer or failed
    method: str
    failure: str | None

    @property
    def turn(self) -> tuple[str, float, str, int, float, str]:
        """What is measured once: condition, seconds, environment, repetition, truth and tool."""
        return self.condition, self.given_s, self.environment, self.repetition, self.truth, self.tool


def read(path: Path) -> list[Record]:
    """All records of a file, none if there is no such file; raises Mistake with the line that is damaged."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_record(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def append(path: Path, record: Record) -> None:
    """Writes one record, on the disk when this returns; raises Mistake where that cannot be."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"schema": SCHEMA, **asdict(record)}, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); choose another file with --records.") from error


def answered(records: Iterable[Record]) -> list[Record]:
    """Those with a ratio."""
    return [one for one in records if one.failure is None]


def _record(line: str, where: str) -> Record:
    try:
        body: dict[str, Any] = json.loads(line)
        if body.pop("schema") != SCHEMA or set(body) != {one.name for one in fields(Record)}:
            raise ValueError("it has other fields")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Mistake(f"{where} is no record of this script ({error}); take the line out.") from error
    return Record(**body)
