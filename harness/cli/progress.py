"""Progress on the terminal: what is being measured, what is left, and the ratios as they form."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from harness.analyze.estimate import Estimate, results, so_far
from harness.analyze.evidence import gather
from harness.analyze.pairing import pair
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.records import Lost, Record, Window
from harness.plan.schedule import outstanding
from harness.report.words import duration, factor, ratio


class Terminal:
    """Shows on a console how a measurement goes: files that are written, replicates and ratios."""

    def __init__(self, console: Console) -> None:
        """Shows nothing yet."""
        self._console = console

    def say(self, sentence: str) -> None:
        """A line by itself."""
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def writing(self, names: Sequence[str]) -> AbstractContextManager[Callable[[int, float], None]]:
        """A bar for each of the workloads whose files are written."""
        return preparing_all([f"{name}: writing its files" for name in names], self._console)

    def measuring(
        self, plan: Plan, records: Sequence[Record], left_s: Callable[[], float], thresholds: Thresholds
    ) -> "Progress":
        """A bar with the present ratios, or a line for each replicate."""
        return Progress(plan, self._console, records, left_s, thresholds)


@contextmanager
def preparing(what: str, console: Console) -> Iterator[Callable[[float], None]]:
    """A bar that appears once something is written; call it with the share that is done."""
    with preparing_all([what], console) as show:
        yield partial(show, 0)


@contextmanager
def preparing_all(whats: Sequence[str], console: Console) -> Iterator[Callable[[int, float], None]]:
    """A bar for each, which appears once it has begun; call it, from any thread, with a place and the share done."""
    with bars.Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = [progress.add_task(what, total=1.0, visible=False, start=False) for what in whats]

        def show(place: int, share: float) -> None:
            progress.start_task(tasks[place])  # counts its time from the first call
            progress.update(tasks[place], completed=share, visible=True)

        yield show


def _columns() -> tuple[bars.ProgressColumn, ...]:
    return bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn()


class Progress:
    """Watches a campaign; on a terminal as a bar with the present ratios, elsewhere as a line for each replicate."""

    def __init__(
        self,
        plan: Plan,
        console: Console,
        records: Sequence[Record] = (),
        left_s: Callable[[], float] | None = None,
        thresholds: Thresholds = UNCALIBRATED,
    ) -> None:
        """Starts from `records`, which may go on growing; `left_s` tells for how long it is going to go on."""
        self._plan, self._console, self._records = plan, console, records
        self._left_s, self._thresholds, self._began_s = left_s, thresholds, monotonic()
        self._kept: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
        self._sorted = 0  # records that are among those
        self._now: dict[int, int] = {}  # rounds that the treatments of this life still need
        self._bar = bars.Progress(*_columns(), bars.TextColumn("{task.fields[left]}"), console=console)
        self._task = self._bar.add_task("starting", total=None, left="")
        self._line = Text()
        self._live = Live(console=console, transient=True, refresh_per_second=4, get_renderable=self._picture)

    def __enter__(self) -> Self:
        """Shows it."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clears it away."""
        self._live.stop()

    def attempt_begins(self, block: Block, replicate: int, rounds: Mapping[int, int]) -> None:
        """Takes note of which treatments start, and shows it on a terminal."""
        self._now = dict(rounds) or self._now
        labels = ", ".join(block.comparisons[position - 1].label for position in rounds)
        self._line = Text(f"{self._place(block, replicate)}: {labels}")
        self._move()

    def arm_begins(self, block: Block, position: int) -> None:
        """Says which arm warms up."""
        self._line = Text(f"{block.reference.workload}: warming up {_label(block, position)}")

    def recorded(self, block: Block, record: Record) -> None:
        """Takes a window into the ratios, or shows what was lost."""
        if self._console.quiet:
            return
        if isinstance(record, Lost):
            told = f"{block.reference.workload}, {_label(block, record.arm.position)}: {record.reason}"
            self._console.print(told, highlight=False, markup=False)  # foreign words
        if isinstance(record, Window) and self._console.is_terminal:
            self._line = Text("  ".join(filter(None, self._so_far(block))))
            self._move()
        if isinstance(record, Window) and self._now and not self._now.keys() & self._left(block, record.arm.replicate):
            told = f"{self._place(block, record.arm.replicate)}: {', '.join(self._ratios(block))} ({self._to_go})"
            self._now = {}
            self._console.print(told, highlight=False, markup=False, soft_wrap=True)

    def _place(self, block: Block, replicate: int) -> str:
        count = self._plan.protocol.replicates
        place = f"replicate {replicate + 1} of {count}" if replicate < count else f"further replicate {replicate + 1}"
        timing = "" if block.timing is Timing.STEP else f" {block.timing}"
        return f"{block.reference.workload}{timing}, {place}"

    def _move(self) -> None:
        """The bar shows time: what was spent and what is left of the budget, or of what is expected."""
        spent_s, left_s = monotonic() - self._began_s, self._left_s() if self._left_s else math.inf
        total_s = spent_s + left_s if math.isfinite(left_s) else None
        self._bar.update(self._task, description="measuring", total=total_s, completed=spent_s, left=self._to_go)

    @property
    def _to_go(self) -> str:
        """How many replicates are done of those that all comparisons get, and how long it goes on."""
        replicates, blocks = range(self._plan.protocol.replicates), self._plan.blocks
        left = sum(len(self._left(block, replicate)) for block in blocks for replicate in replicates)
        if not left and self._plan.protocol.target is None:
            return "none to go"
        left_s = self._left_s() if self._left_s else math.inf
        time = f", {duration(round(left_s))} left" if math.isfinite(left_s) else ""
        return (f"{left} replicates to go" if left else "narrowing intervals") + time

    def _picture(self) -> Group:
        return Group(self._bar, self._line)

    def _ratios(self, block: Block) -> Iterator[str]:
        """The present ratio of every comparison of a block, with its interval as soon as it has one."""
        places = [
            (one.identity, position) for one in self._plan.blocks for position, _ in enumerate(one.comparisons, 1)
        ]
        found = results(list(gather(self._plan, self._records)), self._plan.protocol, self._thresholds)
        known = {place: one for place, one in zip(places, found, strict=True) if isinstance(one, Estimate)}
        for position, text in enumerate(self._so_far(block), 1):
            if estimate := known.get((block.identity, position)):
                yield f"{block.comparisons[position - 1].label} {ratio(estimate)}"
            elif text:
                yield text

    def _so_far(self, block: Block) -> Iterator[str]:
        """The ratio of what was timed of every comparison, with what its windows alone tell; empty without a pair."""
        mine = [one for one in self._records if isinstance(one, Window) and one.arm.block == block.identity]
        for position, comparison in enumerate(block.comparisons, 1):
            found = so_far(pair(mine, position))
            off = f" ±{100 * (found[1] - 1):.0f} %" if found and math.isfinite(found[1]) else ""
            yield f"{comparison.label} {factor(found[0])}x{off} so far" if found else ""

    def _left(self, block: Block, replicate: int) -> dict[int, int]:
        for record in self._records[self._sorted :]:
            self._kept[record.arm.block, record.arm.replicate].append(record)
        self._sorted = len(self._records)
        return outstanding(block, replicate, self._kept[block.identity, replicate], self._plan.protocol)


def _label(block: Block, position: int) -> str:
    return "the reference" if position == 0 else block.comparisons[position - 1].label
