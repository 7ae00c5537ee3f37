"""Progress on the terminal: what is being measured, what is left, and the ratios as they form."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from harness.core.bracket import brackets
from harness.core.measurement import Burst, Lost, Record
from harness.core.plan import Block, Plan
from harness.plan.outstanding import outstanding


@contextmanager
def preparing(what: str, console: Console) -> Iterator[Callable[[float], None]]:
    """A bar that appears once something is written; call it with the share that is done."""
    with bars.Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=1.0, visible=False)
        yield lambda share: progress.update(task, completed=share, visible=True)


def _columns() -> tuple[bars.ProgressColumn, ...]:
    return bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn()


class Progress:
    """Watches a campaign; on a terminal as a bar with the present ratios, elsewhere as a line for each life."""

    def __init__(self, plan: Plan, console: Console, records: Sequence[Record] = ()) -> None:
        """Starts from what is recorded already; `records` may go on growing."""
        self._plan, self._console, self._records = plan, console, records
        self._further: dict[tuple[str, int], set[int]] = defaultdict(set)  # treatments of restarts beyond the first
        self._bar = bars.Progress(*_columns(), bars.MofNCompleteColumn(), console=console)
        self._task = self._bar.add_task("measuring", total=self._bursts_wanted())
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

    def life_begins(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        """Says which block starts, and with whom."""
        subjects = ", ".join(block.comparisons[position - 1].subject for position in rounds)
        if restart >= self._plan.protocol.restarts:
            self._further[block.identity, restart] |= set(rounds)
        text = f"{block.reference.workload}, {block.timing}, restart {restart + 1}: {subjects}"
        if self._console.is_terminal:
            self._bar.update(self._task, description=block.reference.workload)
            self._line = Text(text)
        else:
            self._console.print(f"{text} ({self._to_go(block, restart)})", highlight=False, soft_wrap=True)

    def arm_begins(self, block: Block, position: int) -> None:
        """Says which arm warms up."""
        subject = "the reference" if position == 0 else block.comparisons[position - 1].subject
        self._line = Text(f"warming up {subject}")

    def recorded(self, block: Block, record: Record) -> None:
        """Takes a window into the ratios, or shows what was lost."""
        if isinstance(record, Lost):
            position = record.arm.position
            subject = "the reference" if position == 0 else block.comparisons[position - 1].subject
            told = f"{block.reference.workload}, {subject}: {record.reason}"  # foreign words, which are no markup
            self._console.print(told, highlight=False, markup=False)
        if isinstance(record, Burst) and self._console.is_terminal:
            wanted = self._bursts_wanted()
            self._bar.update(self._task, total=wanted, completed=wanted - self._bursts_left())
            self._line = Text("  ".join(self._ratios(block)))

    def _to_go(self, block: Block, restart: int) -> str:
        if (block.identity, restart) in self._further:
            return "to narrow their intervals"
        restarts = range(self._plan.protocol.restarts)
        return f"{sum(bool(self._left(one, r)) for one in self._plan.blocks for r in restarts)} to go"

    def _picture(self) -> Group:
        return Group(self._bar, self._line)

    def _ratios(self, block: Block) -> Iterator[str]:
        lives: dict[tuple[int, int], list[Burst]] = defaultdict(list)
        for one in self._records:
            if isinstance(one, Burst) and one.arm.block == block.identity:
                lives[one.arm.restart, one.arm.life].append(one)
        for position, comparison in enumerate(block.comparisons, start=1):
            found = [bracket for bursts in lives.values() for bracket in brackets(bursts, position)]
            logs = [math.log(one.treatment.rate * 2 / (one.before.rate + one.after.rate)) for one in found]
            if logs:
                yield f"{comparison.subject} {math.exp(sum(logs) / len(logs)):.2f}x"

    def _left(self, block: Block, restart: int) -> dict[int, int]:
        return outstanding(block, restart, self._records, self._plan.protocol)

    def _bursts_left(self) -> int:
        restarts = range(self._plan.protocol.restarts)
        left = sum(sum(self._left(block, restart).values()) for block in self._plan.blocks for restart in restarts)
        blocks = {block.identity: block for block in self._plan.blocks}
        for (block, restart), positions in self._further.items():
            left += sum(count for one, count in self._left(blocks[block], restart).items() if one in positions)
        return left

    def _bursts_wanted(self) -> int:
        protocol = self._plan.protocol
        rounds = {block.identity: block.rounds or protocol.rounds for block in self._plan.blocks}
        further = sum(len(positions) * rounds[block] for (block, _), positions in self._further.items())
        return further + protocol.restarts * sum(
            len(block.comparisons) * rounds[block.identity] for block in self._plan.blocks
        )
