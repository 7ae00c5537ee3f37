"""Services: servers that arms talk to, such as an object store, started on loopback for as long as they are needed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core.recipe import Recipe

ADDRESS = "SPEEDMATRIX_SERVICE"  # the environment variable in which an arm finds http://host:port


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A server over a workload's data folder."""

    title: str
    missing: Callable[[], str | None]  # why it cannot start here and the remedy, or None where it can
    command: Callable[[Path, int], tuple[str, ...]]  # data folder and port -> the command that serves until it is ended
    wanted: Callable[[Recipe], bool]  # whether an arm with this recipe talks to it
