"""Invented runs with the advice that follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.analyze.advice import Advice, Item, WorkloadAdvice, advise
from harness.analyze.calibration import Calibration
from harness.analyze.collection import StoredRun
from harness.analyze.evidence import gather
from harness.analyze.matrix import build_matrix
from harness.analyze.verdict import Thresholds
from harness.core.configuration import Comparison
from harness.core.optimization import Numerics, Optimization, Stage, Timing
from harness.core.plan import NoResult
from harness.core.records import Ready, Record, Window
from tests.analyze.synthetic import ENVIRONMENT, config, plan, records
from tests.core.invented import optimization, workload

PAGE = "What it does.\n\nWhere it pays.\n\n    {name}.option(\n        on=True)\n\nMore words."
ALL: tuple[Optimization, ...] = (
    optimization("workers", {"workers": 2}),
    optimization("pin_memory", {"pin_memory": True}),
    optimization("amp", {"autocast": "bfloat16"}, stage=Stage.DEVICE, numerics=Numerics.CLOSE),
    optimization("chunk_cache", {"reader": "cached"}, workload="leak", excludes={"pin_memory": "they quarrel"}),
    optimization("augment", {"in_memory_data": True}, numerics=Numerics.DIFFERENT),
)
KNOWN = {one.name: replace(one, page=PAGE.format(name=one.name)) for one in ALL}
WORKLOADS = {"leak": workload("leak", original=())}


@dataclass(frozen=True, kw_only=True)
class Made:
    """One comparison with an exact ratio, and what its treatment showed."""

    on: tuple[str, ...]
    ratio: float
    over: tuple[str, ...] = ()
    timing: Timing = Timing.STEP
    start: dict[str, Any] = field(default_factory=dict)
    slow_s: float = 0.0  # what it adds to building
    host: float = 1.0  # times the memory
    wait: float | None = None  # share of the time in which its steps wait for batches
    shared: bool = False  # in a process that others had warmed

    @property
    def comparison(self) -> Comparison:
        label = "+".join(one for one in self.on if one not in self.over) or f"without {'+'.join(self.over)}"
        return Comparison(label=label, treatment=config(*self.on), reference=config(*self.over), timing=self.timing)


def told(index: int, made: Made) -> list[Record]:
    """Its records."""
    found = [_changed(one, made) for one in records(index, made.ratio, timing=made.timing, **made.start)]
    return [replace(one, arm=replace(one.arm, shared=made.shared)) for one in found]


def _changed(record: Record, made: Made) -> Record:
    if record.arm.position == 0:
        return record
    if isinstance(record, Ready):
        return replace(record, build_s=record.build_s + made.slow_s)
    if not isinstance(record, Window):
        return record
    wait_s = record.wait_s if made.wait is None else made.wait * record.wall_s
    count = int(record.host_bytes * made.host)
    return replace(record, host_bytes=count, host_peak_bytes=count, wait_s=wait_s)


def coarse(margin: float) -> Calibration:
    """The calibration of a machine that found no delay below a margin."""
    return Calibration(copies=(), levels=(), thresholds=Thresholds(margin=margin))


def advised(
    *made: Made,
    no_results: Sequence[NoResult] = (),
    known: Mapping[str, Optimization] = KNOWN,
    extra: Sequence[Record] = (),
    calibration: Calibration | None = None,
) -> Advice:
    """The advice of one invented run."""
    whole = plan(*(one.comparison for one in made), no_results=tuple(no_results))
    found = [record for index, one in enumerate(made) for record in told(index, one)] + list(extra)
    kept = StoredRun(
        name="20261121T100000-0a1b2c3d",
        began="2026-11-21T10:00:00+00:00",
        command="speedmatrix run leak",
        version="0.2.0",
        matrix=build_matrix(whole, found, ENVIRONMENT, calibration),
    )
    return advise(kept, tuple(gather(whole, found)), known, WORKLOADS)


def advice_on(*made: Made, margin: float | None = None) -> WorkloadAdvice:
    """The advice about the one workload of an invented run, on a machine with such a margin if one is named."""
    return advised(*made, calibration=None if margin is None else coarse(margin)).workloads[0]


def item(found: WorkloadAdvice, name: str) -> Item:
    """The advice about one option."""
    return next(one for one in found.items if str(one.option) == name)
