"""What is still to be measured: a pure function of the plan and the records, so that any run can be continued."""

from collections.abc import Iterable

from harness.core.bracket import brackets
from harness.core.measurement import Burst, Lost, Record
from harness.core.plan import Block
from harness.core.protocol import Protocol

LIVES = 3  # an arm that is killed from outside so often is given up


def outstanding(block: Block, restart: int, records: Iterable[Record], protocol: Protocol) -> dict[int, int]:
    """Rounds that each treatment still needs in one restart; what failed needs none."""
    mine = [one for one in records if one.arm.block == block.identity and one.arm.restart == restart]
    over = {position for position in range(len(block.comparisons) + 1) if given_up(position, mine)}
    if 0 in over:
        return {}
    left = {}
    for position in range(1, len(block.comparisons) + 1):
        if position not in over and (missing := protocol.rounds - _measured(mine, position)) > 0:
            left[position] = missing
    return left


def given_up(position: int, records: Iterable[Record]) -> bool:
    """Whether an arm failed, was skipped, or was killed too often."""
    losses = [one for one in records if isinstance(one, Lost) and one.arm.position == position]
    return any(one.outcome != "interrupted" for one in losses) or len(losses) >= LIVES


def next_life(block: Block, restart: int, records: Iterable[Record]) -> int:
    """The number of the life that comes after all recorded ones."""
    lives = [one.arm.life for one in records if one.arm.block == block.identity and one.arm.restart == restart]
    return max(lives, default=-1) + 1


def _measured(records: list[Record], position: int) -> int:
    bursts = [one for one in records if isinstance(one, Burst)]
    lives = {one.arm.life for one in bursts}
    return sum(len(brackets((one for one in bursts if one.arm.life == life), position)) for life in lives)
