"""What the loader shows: live workers, how they started, where its batches lay."""

from harness.core.recipe import Value
from harness.measure.feed import Feed


def of_feed(feed: Feed, *, pinned: bool, non_blocking: bool) -> dict[str, Value]:
    """What the loader shows, and whether its first batch lay in pinned memory."""
    starts, ever = len(feed.worker_pids), frozenset().union(*feed.worker_pids)
    return {
        "workers": feed.live_workers,
        "prefetch_factor": getattr(feed.iterator, "_prefetch_factor", None) if feed.live_workers else None,
        # The same processes served several epochs; after one epoch only the loader's own word can be had.
        "persistent_workers": len(ever) == feed.live_workers > 0 if starts > 1 else feed.loader.persistent_workers,
        "start_method": getattr(feed.loader.multiprocessing_context, "get_start_method", _no_method)(),
        "pinned_batches": pinned,
        "overlapping_copies": pinned and non_blocking,
    }


def _no_method() -> None:
    """Without workers nothing is started."""
