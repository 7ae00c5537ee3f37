"""The schedule: comparisons into blocks, blocks into an order, and the order of windows within an attempt."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random

from harness.core.configuration import Comparison, Configuration
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import Lost, Precision, Precisions, Record, Window, alone, window_pairs

# What is still to be measured: a pure function of the plan and the records, so that any run can be continued.

INTERRUPTED = "interrupted"
Kept = Mapping[tuple[str, int], list[Record]]  # by block and replicate; nothing where nothing was recorded


def by_replicate(records: Iterable[Record]) -> defaultdict[tuple[str, int], list[Record]]:
    """Records by block and replicate, so that what is left of one is told without a look at all the others."""
    found: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[record.arm.block, record.arm.replicate].append(record)
    return found


def outstanding(block: Block, replicate: int, records: Iterable[Record], protocol: Protocol) -> dict[int, int]:
    """Rounds that each treatment still needs in one replicate; what failed needs none."""
    mine = [one for one in records if one.arm.block == block.identity and one.arm.replicate == replicate]
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
    place = (lost.arm.block, lost.arm.replicate, lost.arm.position)
    before = [
        one
        for one in records
        if isinstance(one, Lost) and (one.arm.block, one.arm.replicate, one.arm.position) == place
    ]
    if lost.outcome != INTERRUPTED or len(before) + 1 < protocol.attempts:
        return lost
    words, *remedy = lost.reason.rsplit("; ", 1)
    return replace(lost, outcome="failed", reason="; ".join([f"{words}, {len(before) + 1} times", *remedy]))


def next_attempt(block: Block, replicate: int, records: Iterable[Record]) -> int:
    """The number of the attempt that comes after all recorded ones."""
    attempts = [
        one.arm.attempt for one in records if one.arm.block == block.identity and one.arm.replicate == replicate
    ]
    return max(attempts, default=-1) + 1


def pairs_of(position: int, records: Iterable[Record]) -> int:
    """Pairs that a treatment has in the records of one replicate."""
    windows = [one for one in records if isinstance(one, Window)]
    attempts = {one.arm.attempt for one in windows}
    bracketed = sum(
        len(window_pairs((one for one in windows if one.arm.attempt == attempt), position)) for attempt in attempts
    )
    # Where memory did not hold both at once, they were timed one after the other.
    return bracketed + min(len(alone(windows, position)), len(alone(windows, 0)))


def leads_seen(replicates: Iterable[Sequence[Record]]) -> dict[int, int]:
    """By position: the fewest untimed steps before windows of the first of a block's replicates that has any."""
    leads: dict[int, int] = {}
    for records in replicates:
        least: dict[int, int] = {}
        for one in records:
            if isinstance(one, Window) and one.lead_steps is not None:
                least[one.arm.position] = min(one.lead_steps, least.get(one.arm.position, one.lead_steps))
        leads = least | leads
    return leads


# Looks: who gets further replicates, by how widely it is known and never by what it came to.
#
# After so many replicates as the protocol plans to look at, a comparison whose interval is too wide gets as
# many as the next look wants. Each is a fresh process of both arms: more windows of the same process would not be
# independent (docs/decisions/width-stopping.md).

MORE_IF_OUTLYING = 2  # replicates, whatever the width, for one that disagrees with itself more than its neighbours do


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """One replicate that a block gets beyond those that all have."""

    block: Block
    replicate: int
    positions: tuple[int, ...]  # of the treatments that need it, the most urgent first


def further(plan: Plan, kept: Kept, precisions: Precisions) -> tuple[Further, ...]:
    """All replicates that the present looks ask for, the most urgent first: what claims test, then by width."""
    found = [one for block in plan.blocks for one in _of_block(block, plan.protocol, kept, precisions)]
    return tuple(sorted(found, key=lambda one: _urgency(one.block, one.positions[0], precisions)))


def replicates_wanted(begun: int, precision: Precision | None, protocol: Protocol, *, complete: bool) -> int:
    """Replicates that a comparison is to have in all.

    `begun` counts those in which it was timed, `complete` says that nothing of them is left. What was begun between two
    looks goes on to the later one. What has no estimate failed or proved nothing, and gets no more.
    """
    count = max(begun, protocol.replicates)
    if protocol.target is None or precision is None:
        return count
    look = protocol.look_from(count)
    if look > begun or not complete:
        return look
    if precision.outlying and look < protocol.replicates + MORE_IF_OUTLYING:
        return protocol.look_from(look + MORE_IF_OUTLYING)
    return protocol.look_from(look + 1) if precision.half_width > protocol.target else look


def _of_block(block: Block, protocol: Protocol, kept: Kept, precisions: Precisions) -> Iterator[Further]:
    records = [kept.get((block.identity, replicate), []) for replicate in range(protocol.most_replicates)]
    left = [outstanding(block, replicate, found, protocol) for replicate, found in enumerate(records)]
    missing: dict[int, list[int]] = {}  # replicate -> treatments that need it
    for position in range(1, len(block.comparisons) + 1):
        begun = max((one for one, found in enumerate(records, 1) if _was_timed(position, found)), default=0)
        complete = not any(position in one for one in left[:begun])
        wanted = replicates_wanted(begun, precisions.get((block.identity, position)), protocol, complete=complete)
        for replicate in range(protocol.replicates, wanted):
            if position in left[replicate]:
                missing.setdefault(replicate, []).append(position)
    for replicate, positions in sorted(missing.items()):
        urgent = sorted(positions, key=lambda position: _urgency(block, position, precisions))
        yield Further(block=block, replicate=replicate, positions=tuple(urgent))


def _was_timed(position: int, records: Iterable[Record]) -> bool:
    return any(isinstance(one, Window) and one.arm.position == position for one in records)


def _urgency(block: Block, position: int, precisions: Precisions) -> tuple[bool, float]:
    """Less is more urgent. The target is the same for all, so that the widest is the farthest from it."""
    precision = precisions.get((block.identity, position))
    return position not in block.claimed, -(precision.half_width if precision else math.inf)


PER_WINDOW_PAIR = 2  # treatments between two visits of the reference


def blocks(comparisons: Iterable[Comparison], treatments: int) -> tuple[Block, ...]:
    """Comparisons with one reference and timing together, a few at a time; workloads take turns."""
    grouped: dict[tuple[Configuration, Timing], list[Comparison]] = {}
    for comparison in comparisons:
        grouped.setdefault((comparison.reference, comparison.timing), []).append(comparison)
    by_workload: dict[str, list[tuple[Comparison, ...]]] = {}
    for group in grouped.values():
        for first in range(0, len(group), treatments):
            chunk = tuple(group[first : first + treatments])
            by_workload.setdefault(chunk[0].reference.workload, []).append(chunk)
    turns = [chunk for turn in zip_longest(*by_workload.values()) for chunk in turn if chunk]
    return tuple(
        Block(identity=f"b{number:02d}", reference=chunk[0].reference, timing=chunk[0].timing, comparisons=chunk)
        for number, chunk in enumerate(turns)
    )


def order_of_windows(rounds: Mapping[int, int], random: Random) -> tuple[int, ...]:
    """Positions in the order in which they run: every treatment stands between two visits of the reference (0).

    `rounds` says how many windows each treatment still needs. Treatments change their order in every round, so that
    none always follows the same other.
    """
    left = dict(rounds)
    order = [0]
    while any(left.values()):
        present = [position for position, count in left.items() if count]
        random.shuffle(present)
        for first in range(0, len(present), PER_WINDOW_PAIR):
            order += [*present[first : first + PER_WINDOW_PAIR], 0]
        left = {position: max(0, count - 1) for position, count in left.items()}
    return tuple(order)
