"""Grouping: what shares a key put together, and ratios of sums by key."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
One = TypeVar("One")


def together(pairs: Iterable[tuple[Key, One]]) -> dict[Key, list[One]]:
    """What shares a key, such as the words for it, in the order in which the keys come."""
    found: dict[Key, list[One]] = defaultdict(list)
    for key, one in pairs:
        found[key].append(one)
    return dict(found)


def ratios_of_sums(parts: Iterable[tuple[Key, float, float]]) -> dict[Key, float]:
    """For each key the sum of the first numbers over the sum of the second ones."""
    sums: dict[Key, tuple[float, float]] = {}
    for key, over, under in parts:
        above, below = sums.get(key, (0, 0))
        sums[key] = above + over, below + under
    return {key: above / below for key, (above, below) in sums.items()}
