"""Room: how many arms the memory of host and device still holds, told by what those before them took."""

from collections.abc import Callable
from dataclasses import dataclass

Bytes = tuple[int, ...]  # of each kind of memory: the host's, then the device's where there is one

GROWTH = 1.2  # an arm may come to take so many times what it took when it was warm


class NoRoom(Exception):
    """Memory does not hold a reference and one treatment at once."""


@dataclass(slots=True, kw_only=True)
class Room:
    """Free memory, watched while arms begin one after another."""

    free: Callable[[], Bytes]
    largest: Bytes = ()  # what the largest arm so far took, by kind
    before: Bytes = ()

    def begins(self) -> None:
        """An arm is about to begin."""
        self.before = self.free()

    def begun(self) -> None:
        """It is warm now."""
        taken = tuple(before - after for before, after in zip(self.before, self.free(), strict=True))
        self.largest = tuple(map(max, taken, self.largest or taken))

    def fits(self, arms: int) -> bool:
        """Whether so many more arms fit, if each takes what the largest so far took; nothing is known of the first."""
        if not self.largest:
            return True
        return all(
            arms * GROWTH * taken <= left for taken, left in zip(self.largest, self.free(), strict=True) if taken > 0
        )
