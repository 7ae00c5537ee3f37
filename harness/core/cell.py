"""Cells: what can be measured, and comparisons: what is measured against what."""

import re
from dataclasses import dataclass

from harness.core.mistake import Mistake
from harness.core.optimization import Timing

_CELL = re.compile(r"(?P<workload>[^@#:]+)(@(?P<size>[a-z0-9_]+))?(#(?P<batch>[1-9][0-9]*))?(:(?P<stack>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Switch:
    """An optimization that is on, at a level if it has levels."""

    name: str
    level: int | str | None = None

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}={self.level}"


def parse_switch(text: str) -> Switch:
    """A switch from `name` or `name=level`; digits become an integer level."""
    name, _, level = text.strip().partition("=")
    return Switch(name=name, level=int(level) if level.isdecimal() else level or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload at one size with one set of optimizations."""

    workload: str
    size: str
    batch: int  # samples per optimizer step
    switches: tuple[Switch, ...] = ()  # sorted by name

    def __str__(self) -> str:
        stack = "+".join(str(switch) for switch in self.switches)
        return f"{self.workload}@{self.size}#{self.batch}" + (f":{stack}" if stack else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequest:
    """A cell as a user wrote it: size and batch may be missing, and the stack may name `as_found`."""

    workload: str
    size: str | None
    batch: int | None
    names: tuple[str, ...]


def parse_cell(text: str) -> CellRequest:
    """A request from `WORKLOAD[@SIZE][#BATCH][:NAME[=LEVEL]+…]`; raises Mistake when it reads otherwise."""
    match = _CELL.fullmatch(text)
    if not match:
        raise Mistake(
            f"'{text}' is not a cell: write WORKLOAD[@SIZE][:NAME[=LEVEL]+NAME…], for example leak:workers=2."
        )
    batch = match["batch"]
    names = tuple(name.strip() for name in (match["stack"] or "").split("+") if name.strip())
    return CellRequest(workload=match["workload"], size=match["size"], batch=int(batch) if batch else None, names=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A cell against its reference: one entry of the matrix."""

    subject: str  # what the matrix calls it: an optimization with its level, `as_found`, `everything`
    treatment: Cell
    reference: Cell
    timing: Timing
    copy: int = 0  # numbers repetitions of one comparison, for A/A
