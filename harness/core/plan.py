"""The plan: which comparisons are made, in which blocks and order; data that can be replayed."""

from dataclasses import dataclass, field

from harness.core.cell import Cell, Comparison
from harness.core.optimization import Timing
from harness.core.promise import Promise
from harness.core.protocol import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A comparison that is not made, and the words that stand in its place."""

    workload: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A reference and the treatments that are alive beside it, all timed on the same thing."""

    identity: str
    reference: Cell
    timing: Timing
    comparisons: tuple[Comparison, ...]
    rounds: int | None = field(default=None, metadata={"since": "0.2.0"})  # where they are not the protocol's
    # Positions of the comparisons that some claim of the ledger tests: where time is short, they come first.
    claimed: tuple[int, ...] = field(default=(), metadata={"since": "0.2.0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Blocks in the order in which they run, and the comparisons that cannot be made here."""

    design: str
    seed: int
    protocol: Protocol
    blocks: tuple[Block, ...]
    holes: tuple[Hole, ...]
    names: dict[str, str]  # of cells that have one, by their text: `plain`, `as_found`
    promises: dict[str, Promise]  # of every optimization that a cell switches on
    # What the real data of a workload are; those that are not named have the suite's own.
    data: dict[str, str] = field(default_factory=dict, metadata={"since": "0.2.0"})

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons, in the order of their blocks."""
        return tuple(comparison for block in self.blocks for comparison in block.comparisons)
