"""Stocking: the workloads' files in a slice of a campaign, written when they are first needed and if there is time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from harness.cli.measuring import Place, prepare_data
from harness.cli.planning import Prepared
from harness.cli.spending import Meter
from harness.core.plan import Block
from harness.report.campaign import writing_s
from harness.run.prepare import data_root, folder_of

Data = dict[tuple[str, str], Path]  # by workload and size


class SliceOver(Exception):
    """What comes next does not fit into what is left of the slice."""


@dataclass(slots=True, kw_only=True)
class Stock:
    """The files that this slice has at hand. Those that it found were held against their checksums once."""

    results: Path
    data: Path | None
    meter: Meter
    console: Console
    writing: bool = False  # at this moment
    has_written: bool = False
    _folders: Data = field(default_factory=dict)

    def of(self, ready: Prepared, left_s: float) -> Data:
        """The folders of a plan's data; raises SliceOver where some are missing and would take too long to write."""
        blocks = {(one.reference.workload, one.reference.size): one for one in ready.plan.blocks}
        unknown = [one for key, one in blocks.items() if key not in self._folders]
        fitting = _fitting(ready, self.data, unknown, left_s)
        if fitting:
            self._take(ready, fitting)
        if len(fitting) < len(unknown):
            raise SliceOver
        return {key: self._folders[key] for key in blocks}

    def _take(self, ready: Prepared, blocks: Sequence[Block]) -> None:
        """Brings the files of some blocks to hand, those that are missing written together."""
        missing = missing_bytes(ready, self.data, blocks)
        place = Place(results=self.results, data=self.data, budget="none", fresh=False)
        alone = replace(ready, plan=replace(ready.plan, blocks=tuple(blocks)))
        self.writing = True  # still so when a slice's alarm breaks it off: whoever asks then wants to know
        with self.meter.pausing():
            self._folders |= prepare_data(alone, place, self.console)
        self.writing = False
        self.has_written = self.has_written or bool(missing)


def _fitting(ready: Prepared, data: Path | None, blocks: Sequence[Block], left_s: float) -> Sequence[Block]:
    """The first of the blocks, as many as have their files written within the time."""
    for count in range(len(blocks), 0, -1):
        missing = missing_bytes(ready, data, blocks[:count])
        if not missing or writing_s(sum(missing.values()), ready.environment.cores) <= left_s:
            return blocks[:count]
    return ()


def missing_bytes(ready: Prepared, data: Path | None, blocks: Iterable[Block] | None = None) -> dict[str, int]:
    """Bytes of a plan's files that are still to be written, by `WORKLOAD, size SIZE`."""
    root, found = data_root(data), dict[str, int]()
    for block in ready.plan.blocks if blocks is None else blocks:
        name, size = block.reference.workload, block.reference.size
        workload = ready.catalogue.workload(name)
        if not folder_of(root, workload, size).exists():
            found[f"{name}, size {size}"] = workload.sizes[size].data_bytes
    return found
