"""The schedule: comparisons into blocks, blocks into an order, and the order of bursts within a life."""

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from random import Random

from harness.core.cell import Cell, Comparison
from harness.core.optimization import Timing
from harness.core.plan import Block

PER_BRACKET = 2  # treatments between two visits of the reference


def blocks(comparisons: Iterable[Comparison], treatments: int) -> tuple[Block, ...]:
    """Comparisons with one reference and timing together, a few at a time; workloads take turns."""
    grouped: dict[tuple[Cell, Timing], list[Comparison]] = {}
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


def order_of_bursts(rounds: Mapping[int, int], random: Random) -> tuple[int, ...]:
    """Positions in the order in which they run: every treatment stands between two visits of the reference (0).

    `rounds` says how many bursts each treatment still needs. Treatments change their order in every round, so that
    none always follows the same other.
    """
    left = dict(rounds)
    order = [0]
    while any(left.values()):
        present = [position for position, count in left.items() if count]
        random.shuffle(present)
        for first in range(0, len(present), PER_BRACKET):
            order += [*present[first : first + PER_BRACKET], 0]
        left = {position: max(0, count - 1) for position, count in left.items()}
    return tuple(order)
