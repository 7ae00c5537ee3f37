"""`data write` writes the workloads' files; `data check` tells whether they weigh and cost what real ones do."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter

from rich.console import Console
from rich.table import Table

from harness.catalogue import read_catalogue
from harness.cli.measuring import stopping_on_terminate
from harness.cli.progress import preparing_all
from harness.core.mistake import Mistake
from harness.core.workload import Workload
from harness.core.yardstick import Yardstick
from harness.run.lock import measuring_alone
from harness.run.manifest import noted_bytes
from harness.run.prepare import ONE_THREAD, Files, data_root, ensure_all

TOLERANCE = 0.2  # of bytes and of costs, either way
TURNS, LONG_ENOUGH_S, TOO_LONG_S = 5, 1.0, 25.0  # work and its like take turns so often and so long, or too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A yardstick held against our files."""

    yardstick: Yardstick
    work_s: float  # for one whole real unit
    like_s: float | None

    @property
    def bytes_ratio(self) -> float:
        """Ours over the real system's, or over the share of them that a smaller size stands for."""
        return self.yardstick.mean_bytes / (self.yardstick.scale * self.yardstick.target_bytes)

    @property
    def cost_ratio(self) -> float | None:
        """Ours over a neutral file's of the real type and size."""
        return self.work_s / self.like_s if self.like_s else None

    @property
    def fits(self) -> bool:
        """Whether bytes and cost lie within the tolerance."""
        return all(abs(one - 1) <= TOLERANCE for one in (self.bytes_ratio, self.cost_ratio) if one is not None)


def write(names: tuple[str, ...], size: str, data: Path | None) -> int:
    """Writes what is missing and verifies the rest, then tells bytes and seconds; 130 when it was stopped."""
    chosen, console = _chosen(names, size), Console(highlight=False)
    began_s = monotonic()
    try:
        with measuring_alone(), stopping_on_terminate():
            found = _files(chosen, size, data, console)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was complete is kept, and the same command writes the rest.\n")
        return 130
    lengths = [noted_bytes(one.folder) for one in found]
    table = Table("workload", "MB", "seconds", title=f"Files at size {size}", title_justify="left")
    for workload, files, length in zip(chosen, found, lengths, strict=True):
        taken = "was there" if files.written_s is None else f"{files.written_s:.0f}"
        table.add_row(workload.name, f"{length / 1e6:,.0f}", taken)
    table.add_section()
    table.add_row("all", f"{sum(lengths) / 1e6:,.0f}", f"{monotonic() - began_s:.0f}")
    console.print(table)
    return 0


def check(names: tuple[str, ...], size: str, data: Path | None) -> int:
    """Writes what is missing, verifies the rest, weighs all; gives 1 when something does not fit, else 0."""
    os.environ |= ONE_THREAD
    chosen, console = _chosen(names, size), Console(highlight=False)
    found = []
    with measuring_alone(), stopping_on_terminate():
        for workload, files in zip(chosen, _files(chosen, size, data, console), strict=True):
            weighed = list(weigh(workload, files.folder, size))
            found += weighed
            _print(workload, size, weighed, console)
    if not all(one.fits for one in found):
        console.print(f"Not everything lies within {TOLERANCE:.0%}; on a busy machine, try again.")
        return 1
    return 0


def _chosen(names: tuple[str, ...], size: str) -> list[Workload]:
    catalogue = read_catalogue()
    chosen = [catalogue.workload(name) for name in dict.fromkeys(names) or sorted(catalogue.workloads)]
    for workload in chosen:
        if size not in workload.sizes:
            raise Mistake(f"{workload.name} has no size '{size}'; choose one of {', '.join(workload.sizes)}.")
    return chosen


def _files(chosen: list[Workload], size: str, data: Path | None, console: Console) -> list[Files]:
    with preparing_all([f"{one.name}: writing its files" for one in chosen], console) as show:
        return ensure_all(data_root(data), [(one, size) for one in chosen], show)


def weigh(workload: Workload, folder: Path, size: str) -> Iterator[Weighed]:
    """Every yardstick of a workload, its work and its like in turns so that both see the same machine."""
    for yardstick in workload.parts().yardsticks(folder, workload.sizes[size]):
        work: list[float] = []
        like: list[float] = []
        _seconds(yardstick.work)  # brings code and files into memory
        began = perf_counter()
        while (spent_s := perf_counter() - began) < LONG_ENOUGH_S or (len(work) < TURNS and spent_s < TOO_LONG_S):
            work.append(_seconds(yardstick.work))
            if yardstick.like:
                like.append(_seconds(yardstick.like))
        units = yardstick.units
        work_s = median(work) / units / yardstick.scale
        yield Weighed(yardstick=yardstick, work_s=work_s, like_s=median(like) / units if like else None)


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def _print(workload: Workload, size: str, weighed: list[Weighed], console: Console) -> None:
    if not weighed:
        console.print(f"{workload.name}@{size}: whole; no real files are known to hold it against.")
        return
    table = Table(
        *("what", "bytes", "real", "ratio", "ms", "neutral file, ms", "ratio", "published, ms", "fits"),
        title=f"{workload.name}@{size} against the real system's files",
        title_justify="left",
    )
    for one in weighed:
        cost = (_ms(one.work_s), _ms(one.like_s), _times(one.cost_ratio))
        published = one.yardstick.published_ms
        table.add_row(
            one.yardstick.what,
            f"{one.yardstick.mean_bytes:,.0f}",
            f"{one.yardstick.scale * one.yardstick.target_bytes:,.0f}",
            _times(one.bytes_ratio),
            *cost,
            "—" if published is None else f"{published:,.4g}",
            "yes" if one.fits else "[red]no[/red]",
        )
    console.print(table)


def _ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{1000 * seconds:,.3g}"


def _times(ratio: float | None) -> str:
    return "—" if ratio is None else f"{ratio:.2f}"
