"""The cache of prepared volumes that each loader process has for itself."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from workloads.patches3d.preparation import Load, Volume, Work


class VolumeCache:
    """Keeps the volumes that were asked for last; a copy for another process begins empty."""

    def __init__(self, load: Load, capacity: int) -> None:
        """Keeps at most `capacity` volumes, made by `load`."""
        self.load = load
        self.capacity = capacity
        self.kept: OrderedDict[str, Volume] = OrderedDict()
        self.work = Work()
        self.hits = 0

    def __getitem__(self, identifier: str) -> Volume:
        if identifier in self.kept:
            self.hits += 1
            self.kept.move_to_end(identifier)
            return self.kept[identifier]
        while len(self.kept) >= self.capacity:  # room is made first: two volumes beyond the limit would not fit
            self.kept.popitem(last=False)
        self.kept[identifier] = self.load(identifier, self.work)
        return self.kept[identifier]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Volumes and open maps stay in the process that made them."""
        return VolumeCache, (self.load, self.capacity)
