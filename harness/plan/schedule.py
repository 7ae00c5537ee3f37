"""The schedule: comparisons into blocks, blocks into an order, and the order of windows within an attempt."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from random import Random

from harness.core.configuration import Comparison, Configuration
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import (
    TIMED_OUT,
    Lost,
    Place,
    Precision,
    Precisions,
    Record,
    Window,
    in_turn,
    is_apart,
    window_pairs,
)

# What is still to be measured: a pure function of the plan and the records, so that any run can be continued.

INTERRUPTED = "interrupted"
Kept = Mapping[tuple[str, int], list[Record]]  # by block and replicate; nothing where nothing was recorded


def by_replicate(records: Iterable[Record]) -> defaultdict[tuple[str, int], list[Record]]:
    """Records by block and replicate, so that what is left of one is told without a look at all the others."""
    found: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[record.arm.block, record.arm.replicate].append(record)
    for block in {block for block, _ in found}:
        forget_what_was_shared(block, found)
    return found


def forget_what_was_shared(block: str, kept: Kept) -> None:
    """Takes away windows that treatments had in a shared process before they were given one of their own."""
    of_block = [records for (identity, _), records in kept.items() if identity == block]
    known = [record for records in of_block for record in records]
    if any(one.arm.shared for one in known):
        alone = {one for one in {record.arm.position for record in known} if is_apart(one, known)}
        for records in of_block:
            records[:] = [one for one in records if not (_is_of_shared(one) and one.arm.position in alone)]


def _is_of_shared(record: Record) -> bool:
    return isinstance(record, Window) and record.arm.shared and record.arm.position > 0


def outstanding(
    block: Block, replicate: int, records: Iterable[Record], protocol: Protocol, over: Collection[Place] = ()
) -> dict[int, int]:
    """Rounds that each treatment still needs in one replicate; what failed, here or as one of those `over`, none."""
    mine = [one for one in records if one.arm.block == block.identity and one.arm.replicate == replicate]
    ended = {*failures(mine), *over}
    if (block.identity, 0) in ended:
        return {}
    left = {}
    for position in range(1, len(block.comparisons) + 1):
        missing = (block.rounds or protocol.rounds) - pairs_of(position, mine)
        if missing > 0 and (block.identity, position) not in ended:
            left[position] = missing
    return left


def failures(records: Iterable[Record]) -> set[Place]:
    """The arms, by block and position, that failed or were skipped in any replicate: no ratio comes of them.

    What was only interrupted is tried again.
    """
    lost = (one for one in records if isinstance(one, Lost) and one.outcome != INTERRUPTED)
    return {(one.arm.block, one.arm.position) for one in lost}


def settled(lost: Lost, records: Iterable[Record], protocol: Protocol) -> Lost:
    """The same loss, as a failure if the arm was interrupted too often before in this replicate.

    A time-out is an interruption, and no failure, of an arm that has given windows in another one.
    """
    same = [one for one in records if (one.arm.block, one.arm.position) == (lost.arm.block, lost.arm.position)]
    before = [one for one in same if isinstance(one, Lost) and one.arm.replicate == lost.arm.replicate]
    timed_elsewhere = any(isinstance(one, Window) and one.arm.replicate != lost.arm.replicate for one in same)
    if lost.kind in TIMED_OUT and timed_elsewhere:
        lost = replace(lost, outcome=INTERRUPTED)
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
    return bracketed + sum(min(map(len, both)) for both in in_turn(windows, position))


def leads_seen(replicates: Iterable[Sequence[Record]]) -> dict[int, int]:
    """By position: the untimed steps that windows needed in the first of a block's replicates that has any.

    Beyond them one more is taken by chance: where a replicate has one window of an arm, it may be in the only one.
    """
    leads: dict[int, int] = {}
    for records in replicates:
        least: dict[int, int] = {}
        for one in records:
            if isinstance(one, Window) and one.lead_steps is not None:
                needed = one.lead_steps - one.extra_steps
                least[one.arm.position] = min(needed, least.get(one.arm.position, needed))
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
    protocol = replace(protocol, replicates=block.replicates_in(protocol))
    records = [kept.get((block.identity, replicate), []) for replicate in range(block.most_replicates_in(protocol))]
    over = failures(one for found in records for one in found)  # no ratio comes of them
    left = [outstanding(block, replicate, found, protocol, over) for replicate, found in enumerate(records)]
    missing: dict[int, list[int]] = {}  # replicate -> treatments that need it
    for position in range(1, len(block.comparisons) + 1):
        begun = max((one for one, found in enumerate(records, 1) if _was_timed(position, found)), default=0)
        complete = not any(position in one for one in left[:begun])
        wanted = replicates_wanted(begun, precisions.get((block.identity, position)), protocol, complete=complete)
        for replicate in range(block.replicates_in(protocol), wanted):
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


def is_complete(plan: Plan, records: Iterable[Record], known: Callable[[Plan, Sequence[Record]], Precisions]) -> bool:
    """Whether nothing of a plan is left to measure; `known` tells the precisions, if there are looks."""
    records = tuple(records)
    kept, over = by_replicate(records), failures(records)
    for block in plan.blocks:
        for replicate in range(block.replicates_in(plan.protocol)):
            if outstanding(block, replicate, kept.get((block.identity, replicate), []), plan.protocol, over):
                return False
    return plan.protocol.target is None or not further(plan, kept, known(plan, records))


PER_WINDOW_PAIR = 2  # treatments between two visits of the reference


def in_their_own(_comparison: Comparison) -> bool:
    """Every arm has a process for itself."""
    return False


def blocks(
    comparisons: Iterable[Comparison],
    treatments: int,
    shares: Callable[[Comparison], bool] = in_their_own,
    split: Callable[[Sequence[Comparison]], Iterable[Sequence[Comparison]]] = lambda group: (group,),
    *,
    in_order: bool = False,
) -> tuple[Block, ...]:
    """Comparisons with one reference and timing together, a few at a time; workloads take turns.

    `shares` tells of a comparison whether its arms may live in the process of others; those that may are together, and
    come before those that may not and cost more. `split` divides those that would share a block into parts that get one
    each. `in_order` keeps those together alone that follow each other, where a design has put first what must come
    first.
    """
    grouped: dict[tuple[int, bool, Configuration, Timing], list[Comparison]] = {}
    runs = groupby(comparisons, key=lambda one: (one.reference, one.timing))
    for number, (kind, run) in enumerate(runs):
        for comparison in run:
            place = number if in_order else 0, not shares(comparison)
            grouped.setdefault((*place, *kind), []).append(comparison)
    by_workload: dict[str, list[tuple[bool, tuple[Comparison, ...]]]] = {}
    for (_, isolated, reference, _), group in sorted(grouped.items(), key=lambda one: one[0][:2]):
        for first in range(0, len(group), treatments):
            for chunk in split(group[first : first + treatments]):
                by_workload.setdefault(reference.workload, []).append((not isolated, tuple(chunk)))
    turns = [chunk for turn in zip_longest(*by_workload.values()) for chunk in turn if chunk]
    return tuple(
        Block(
            identity=f"b{number:02d}",
            reference=chunk[0].reference,
            timing=chunk[0].timing,
            comparisons=chunk,
            shared=shared,
        )
        for number, (shared, chunk) in enumerate(turns)
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
