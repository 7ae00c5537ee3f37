"""Room: how many arms the memory of host and device still holds, told by what those before them took."""

from collections.abc import Callable
from dataclasses import dataclass

Bytes = tuple[int, ...]  # of each kind of memory: the host's, then the device's where there is one

GROWTH = 1.2  # an arm may come to take so many times what it took when it was warm
# The same of a device where batches differ in shape: its allocator keeps blocks for each. A traced patches3d went up
# to four times.
VARYING_GROWTH = 5.0


class NoRoom(Exception):
    """Memory does not hold a reference and one treatment at once."""


@dataclass(slots=True, kw_only=True)
class Room:
    """Free memory, watched while arms begin one after another."""

    free: Callable[[], Bytes]
    largest: Bytes = ()  # what the largest arm so far took, by kind
    before: Bytes = ()
    begun_arms: int = 0
    varying_shapes: bool = False  # of the batches of at least one of them

    def begins(self) -> None:
        """An arm is about to begin."""
        self.before = self.free()

    def begun(self, *, varying_shapes: bool = False) -> None:
        """It is warm now."""
        self.begun_arms += 1
        self.varying_shapes |= varying_shapes
        taken = tuple(before - after for before, after in zip(self.before, self.free(), strict=True))
        self.largest = tuple(map(max, taken, self.largest or taken))

    def fits(self, arms: int) -> bool:
        """Whether so many more arms fit, if each takes what the largest so far took; nothing is known of the first.

        On a device with varying shapes, those that have begun must still have room to grow as well.
        """
        if not self.largest:
            return True
        of_device = arms * GROWTH
        if self.varying_shapes:
            of_device = arms * VARYING_GROWTH + self.begun_arms * (VARYING_GROWTH - 1)
        kinds = zip(self.largest, self.free(), (arms * GROWTH, of_device), strict=False)
        return all(times * taken <= left for taken, left, times in kinds if taken > 0)
