"""Who is told what a measurement does."""

from collections.abc import Mapping

from harness.core.plan import Block
from harness.core.records import Record


class Watcher:
    """Is told what happens, to show it; this one shows nothing."""

    def attempt_begins(self, block: Block, replicate: int, rounds: Mapping[int, int]) -> None:
        """A block's processes start."""

    def arm_begins(self, block: Block, position: int) -> None:
        """An arm is built and warmed up."""

    def recorded(self, block: Block, record: Record) -> None:
        """A record is safe on the disk."""
