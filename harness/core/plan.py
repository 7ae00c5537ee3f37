"""The plan: which comparisons are made, in which blocks and order; data that can be replayed."""

from dataclasses import dataclass, field, replace

from harness.core.cell import Cell, Comparison, Switch
from harness.core.optimization import Numerics, Promise, Timing
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


# What plans of former schemas mean in today's words; the files themselves are never edited.

OWN_MALLOC = 4  # the schema since which arms run under the C library's own thresholds unless they say otherwise
TUNED = "tuned_malloc"
_OF_MALLOC = frozenset({"allocator", TUNED})
_TUNED = Switch(name=TUNED)


def is_or_was_plain(cell: Cell) -> bool:
    """Whether everything is off that was off in some version's plain."""
    return all(one.name == TUNED for one in cell.switches)


def in_todays_words(plan: Plan, schema: int) -> Plan:
    """The plan of a run of that schema, with `tuned_malloc` in every arm that was measured under those thresholds.

    Up to schema 3 all arms were but those of `glibc_malloc` and `allocator`; their reference was called plain.
    """
    if schema >= OWN_MALLOC:
        return plan
    blocks = tuple(map(_block, plan.blocks))
    used = {one.name for block in blocks for arm in _arms(block) for one in arm.switches}
    promises = {name: promise for name, promise in plan.promises.items() if name != "glibc_malloc"}
    if _TUNED.name in used:
        promises[_TUNED.name] = Promise(numerics=Numerics.EXACT, proof=("malloc",), pointless_where={})
    return replace(plan, blocks=blocks, names={}, promises=promises)


def _arms(block: Block) -> tuple[Cell, ...]:
    return (block.reference, *(one.treatment for one in block.comparisons))


def _block(block: Block) -> Block:
    comparisons = tuple(map(_comparison, block.comparisons))
    return replace(block, reference=_cell(block.reference), comparisons=comparisons)


def _comparison(one: Comparison) -> Comparison:
    subject = "plain" if one.subject == "glibc_malloc" else one.subject
    return replace(one, subject=subject, treatment=_cell(one.treatment), reference=_cell(one.reference))


def _cell(cell: Cell) -> Cell:
    switches = {one for one in cell.switches if one.name != "glibc_malloc"}
    if len(switches) == len(cell.switches) and not any(one.name in _OF_MALLOC for one in switches):
        switches.add(_TUNED)
    return replace(cell, switches=tuple(sorted(switches)))
