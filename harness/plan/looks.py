"""Looks: who gets further restarts, by how widely it is known and never by what it came to.

After so many restarts as the protocol plans to look at, a comparison whose interval is wider than the target gets as
many as the next look wants. Each is a fresh process of both arms: more bursts of the same process would not be
independent (docs/decisions/width-stopping.md).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.core.measurement import Burst, Record
from harness.core.plan import Block, Plan
from harness.core.precision import Precision, Precisions
from harness.core.protocol import Protocol
from harness.plan.outstanding import Kept, outstanding

MORE_IF_OUTLYING = 2  # restarts, whatever the width, for one that disagrees with itself more than its neighbours do


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """One restart that a block gets beyond those that all have."""

    block: Block
    restart: int
    positions: tuple[int, ...]  # of the treatments that need it, the most urgent first


def further(plan: Plan, kept: Kept, precisions: Precisions) -> tuple[Further, ...]:
    """All restarts that the present looks ask for, the most urgent first: what claims test, then by width."""
    found = [one for block in plan.blocks for one in _of_block(block, plan.protocol, kept, precisions)]
    return tuple(sorted(found, key=lambda one: _urgency(one.block, one.positions[0], precisions)))


def restarts_wanted(begun: int, precision: Precision | None, protocol: Protocol, *, complete: bool) -> int:
    """Restarts that a comparison is to have in all.

    `begun` counts those in which it was timed, `complete` says that nothing of them is left. What was begun between two
    looks goes on to the later one. What has no estimate failed or proved nothing, and gets no more.
    """
    count = max(begun, protocol.restarts)
    if protocol.target is None or precision is None:
        return count
    look = protocol.look_from(count)
    if look > begun or not complete:
        return look
    if precision.outlying and look < protocol.restarts + MORE_IF_OUTLYING:
        return protocol.look_from(look + MORE_IF_OUTLYING)
    return protocol.look_from(look + 1) if precision.half_width > protocol.target else look


def _of_block(block: Block, protocol: Protocol, kept: Kept, precisions: Precisions) -> Iterator[Further]:
    records = [kept.get((block.identity, restart), []) for restart in range(protocol.most_restarts)]
    left = [outstanding(block, restart, found, protocol) for restart, found in enumerate(records)]
    missing: dict[int, list[int]] = {}  # restart -> treatments that need it
    for position in range(1, len(block.comparisons) + 1):
        begun = max((one for one, found in enumerate(records, 1) if _was_timed(position, found)), default=0)
        complete = not any(position in one for one in left[:begun])
        wanted = restarts_wanted(begun, precisions.get((block.identity, position)), protocol, complete=complete)
        for restart in range(protocol.restarts, wanted):
            if position in left[restart]:
                missing.setdefault(restart, []).append(position)
    for restart, positions in sorted(missing.items()):
        urgent = sorted(positions, key=lambda position: _urgency(block, position, precisions))
        yield Further(block=block, restart=restart, positions=tuple(urgent))


def _was_timed(position: int, records: Iterable[Record]) -> bool:
    return any(isinstance(one, Burst) and one.arm.position == position for one in records)


def _urgency(block: Block, position: int, precisions: Precisions) -> tuple[bool, float]:
    """Less is more urgent. The target is the same for all, so that the widest is the farthest from it."""
    precision = precisions.get((block.identity, position))
    return position not in block.claimed, -(precision.half_width if precision else math.inf)
