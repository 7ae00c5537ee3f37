"""What is still to be measured: a pure function of the plan and the records, so that any run can be continued."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.core.bracket import alone, brackets
from harness.core.measurement import Burst, Lost, Record
from harness.core.plan import Block
from harness.core.protocol import Protocol

INTERRUPTED = "interrupted"
Kept = Mapping[tuple[str, int], list[Record]]  # by block and restart; nothing where nothing was recorded


def by_restart(records: Iterable[Record]) -> defaultdict[tuple[str, int], list[Record]]:
    """Records by block and restart, so that what is left of one is told without a look at all the others."""
    found: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[record.arm.block, record.arm.restart].append(record)
    return found


def outstanding(block: Block, restart: int, records: Iterable[Record], protocol: Protocol) -> dict[int, int]:
    """Rounds that each treatment still needs in one restart; what failed needs none."""
    mine = [one for one in records if one.arm.block == block.identity and one.arm.restart == restart]
    over = {position for position in range(len(block.comparisons) + 1) if given_up(position, mine)}
    if 0 in over:
        return {}
    left = {}
    for position in range(1, len(block.comparisons) + 1):
        if position not in over and (missing := (block.rounds or protocol.rounds) - pairs_of(position, mine)) > 0:
            left[position] = missing
    return left


def given_up(position: int, records: Iterable[Record]) -> bool:
    """Whether an arm failed or was skipped; what was only interrupted is tried again."""
    return any(isinstance(one, Lost) and one.arm.position == position and one.outcome != INTERRUPTED for one in records)


def settled(lost: Lost, records: Iterable[Record], protocol: Protocol) -> Lost:
    """The same loss, as a failure if the arm was interrupted too often before."""
    place = (lost.arm.block, lost.arm.restart, lost.arm.position)
    before = [
        one for one in records if isinstance(one, Lost) and (one.arm.block, one.arm.restart, one.arm.position) == place
    ]
    if lost.outcome != INTERRUPTED or len(before) + 1 < protocol.lives:
        return lost
    words, *remedy = lost.reason.rsplit("; ", 1)
    return replace(lost, outcome="failed", reason="; ".join([f"{words}, {len(before) + 1} times", *remedy]))


def next_life(block: Block, restart: int, records: Iterable[Record]) -> int:
    """The number of the life that comes after all recorded ones."""
    lives = [one.arm.life for one in records if one.arm.block == block.identity and one.arm.restart == restart]
    return max(lives, default=-1) + 1


def pairs_of(position: int, records: Iterable[Record]) -> int:
    """Pairs that a treatment has in the records of one restart."""
    bursts = [one for one in records if isinstance(one, Burst)]
    lives = {one.arm.life for one in bursts}
    bracketed = sum(len(brackets((one for one in bursts if one.arm.life == life), position)) for life in lives)
    # Where memory did not hold both at once, they were timed one after the other.
    return bracketed + min(len(alone(bursts, position)), len(alone(bursts, 0)))
