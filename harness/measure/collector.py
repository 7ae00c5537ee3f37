"""Python's own full passes over all objects: each window bears its share of one, whether it met one or not.

CPython 3.11 to 3.13 looks at every object, for a tenth of a second and more, once a quarter as many have grown old as
the last full pass left (`long_lived_pending` and `long_lived_total` of Modules/gcmodule.c). That is the same step of
every process: the reference, which takes most steps, would meet it in each replicate, and its treatments in none. How
many objects grow old is counted as Python counts it, so that a window's share of a pass is known without meeting one.
A full pass also waits for more passes over the young than the threshold says (`gc.get_threshold()[2]`).
"""

import gc
import os
from collections.abc import Mapping
from time import perf_counter

OLD_SHARE = 4  # a full pass is due when as many objects have grown old as the last one left, divided by this
NEARLY = 0.9  # of what makes one due: what comes sooner was asked for by the training, whose time it is


class FullPasses:
    """What this process's collector did, as its callbacks tell."""

    def __init__(self) -> None:
        self.left = 0  # objects that the last full pass left
        self.cost_s = 0.0  # of the last one that Python began by itself; before there was one, of the last of ours
        self.grown = self.waves = 0  # objects that have grown old, and in how many passes over the young, ever
        self.asked = 0  # full passes that the training asked for since `begin`
        self.own: list[tuple[float, float]] = []  # that Python began by itself: when, and for how many seconds
        self._pending = 0  # objects that have grown old since the last full pass
        self._young = 0
        self._began = self._spent_s = 0.0
        self._ours = False
        self._process = 0

    def collect(self) -> None:
        """A full pass of the harness's own, which is part of no window."""
        self._ours, began = True, perf_counter()
        gc.collect()
        self._ours, self._spent_s = False, perf_counter() - began

    def begin(self) -> None:
        """Counts from here, right behind a pass of ours."""
        if self._process != os.getpid():
            self._process = os.getpid()
            gc.callbacks.append(self._told)
        self.left, self.cost_s = len(gc.get_objects(generation=2)), self._spent_s
        self.asked = self._pending = 0

    def _told(self, phase: str, told: Mapping[str, int]) -> None:
        generation, starts = told["generation"], phase == "start"
        if generation == 0 or self._process != os.getpid():  # a loader worker has inherited it
            return
        if starts:
            self._young = len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
            self._began = perf_counter()
        elif generation == 1:
            grown = self._young - told["collected"]
            self.grown, self._pending, self.waves = self.grown + grown, self._pending + grown, self.waves + 1
        else:
            self._passed(perf_counter() - self._began)

    def _passed(self, seconds: float) -> None:
        is_due = OLD_SHARE * self._pending >= NEARLY * self.left
        self._pending = 0
        if self._ours or is_due:
            self.left = len(gc.get_objects(generation=2))
        if self._ours:
            return
        if is_due:
            self.own.append((self._began, seconds))
            self.cost_s = seconds
        else:
            self.asked += 1


PASSES = FullPasses()  # of this process, whose arms share its objects


class Share:
    """The passes of one window, or of one batch, from when it is made until `owed_s` is asked."""

    def __init__(self) -> None:
        self._grown, self._waves, self._own = PASSES.grown, PASSES.waves, len(PASSES.own)

    def owed_s(self, until: float, part: float = 1.0) -> float:
        """Seconds to add to what ends at a moment and is such a part of it: its share, less the passes met so far.

        Nothing where the training itself asks for full passes: they are part of its time, and Python's own are rare.
        """
        if PASSES.asked:
            return 0.0
        met_s = sum(seconds for began, seconds in PASSES.own[self._own :] if began < until)
        grown, waves = PASSES.grown - self._grown, PASSES.waves - self._waves
        share = min(grown * OLD_SHARE / max(1, PASSES.left), waves / (1 + gc.get_threshold()[2]))
        return part * share * PASSES.cost_s - met_s
