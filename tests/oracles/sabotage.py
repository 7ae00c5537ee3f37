"""Protections taken away, one at a time: what an oracle is worth shows where the old way of measuring fails it."""

import os
import signal
import time
from typing import Any

VARIABLE = "SPEEDMATRIX_SABOTAGE"  # environment variable of an arm: which protection is taken away


def sabotaged(name: str) -> None:
    """Takes one protection from the process that is about to become an arm; an empty name takes none."""
    if name:
        KNOWN[name]()


def _without_freezing() -> None:
    """Loader workers go on while the arm keeps its books, which took 35 ms in version 0.2."""
    from harness.measure.feed import Feed
    from harness.measure.trial import Trial

    taken = Trial._window

    def slow(self: Any, *given: Any) -> Any:
        fields = taken(self, *given)
        time.sleep(BOOKS_S)
        return fields

    Feed.freeze = _nothing  # type: ignore[method-assign,assignment]
    Trial._window = slow  # type: ignore[method-assign,assignment]


def _without_lead_in() -> None:
    """Windows begin with the first step after a resumption."""
    from harness.measure.trial import Trial

    Trial._lead_in = lambda *_: (time.perf_counter(),) * 2  # type: ignore[method-assign]


def _without_own_samples() -> None:
    """Windows begin wherever the arm happens to be in its epoch."""
    from harness.measure.feed import Order

    Order.go_to = _nothing  # type: ignore[method-assign,assignment]


def _with_the_last_evaluation() -> None:
    """Between epochs all is done that an evaluation does when training ends."""
    from harness.measure import evaluation

    evaluation.patched = lambda recipe, _between: recipe


def _waking_all() -> None:
    """An arm that goes on wakes the loader workers of all arms of its process."""
    from harness.measure.feed import Feed

    Feed.thaw = lambda _: os.killpg(os.getpgrp(), signal.SIGCONT)  # type: ignore[method-assign]


def _without_settings() -> None:
    """An arm takes its turn in a shared process with whatever settings another one has left."""
    from harness.measure.residents import Resident

    Resident.sit = _nothing  # type: ignore[method-assign,assignment]


def _nothing(*_: object) -> float:
    return 0.0


BOOKS_S = 0.035
KNOWN = {
    "no freezing": _without_freezing,
    "no lead-in": _without_lead_in,
    "no common samples": _without_own_samples,
    "the last evaluation in every epoch": _with_the_last_evaluation,
    "neighbours' workers wake up too": _waking_all,
    "settings as a neighbour left them": _without_settings,
}
