"""Python's own full passes over all objects: each window bears its share of one, whether it met one or not.

CPython 3.11 to 3.13 looks at every object, for a tenth of a second and more, once a quarter as many have grown old as
the last full pass left (`long_lived_pending` and `long_lived_total` of Modules/gcmodule.c), and more passes over the
young have gone by than `gc.get_threshold()[2]`. That is the same step of every process: the reference, which takes most
steps, would meet it in each replicate, and its treatments in none. How many objects grow old is counted as Python
counts it, so that a window's share of a pass is known without meeting one.
"""

import gc
import os
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from time import perf_counter

OLD_SHARE = 4  # a full pass is due when as many objects have grown old as the last one left, divided by this
NEARLY = 0.9  # of what makes one due: what comes sooner was asked for by the training, whose time it is
MATTERS = 0.005  # of a window: a share that is larger asks how long a pass takes while no other arm is at work


class FullPasses:
    """What this process's collector did, as its callbacks tell. A wave is a pass over the young, some of which stay."""

    def __init__(self) -> None:
        self.left = 0  # objects that the last full pass left
        self.each_s = [0.0]  # of the last one that the harness timed, and of Python's own since then, by what each left
        self.grown = 0  # objects that have grown old, ever
        self.waves = self.waves_fetching = 0.0  # ever, and those that came while a batch was fetched
        self.asked = 0  # full passes that the training asked for since `begin`
        self.own: list[tuple[float, float, bool]] = []  # that Python began: when, for how long, in a fetch
        self.fetching = False  # whether a batch is being fetched
        self._pending = 0  # objects that have grown old since the last full pass
        self._young = 0
        self._began = 0.0
        self._counted = False  # whether enough waves have gone by for a full pass
        self._ours = False
        self._process = 0  # in which it counts
        self._copied = 0  # the process that has had a pass

    def collect(self) -> None:
        """A full pass of the harness's own, which is part of no window."""
        self._ours = True
        gc.collect()
        self._ours = False

    def time(self) -> None:
        """Full passes of the harness's own that show what one takes."""
        if not self._is_usual():
            self.collect()
        began = perf_counter()
        self.collect()
        self.each_s = [(perf_counter() - began) / max(1, self.left)]

    def begin(self) -> None:
        """Counts in this process, if it did not yet, and what its training asks for from here.

        A process that was forked goes on where the other was, as Python does; others begin behind a full pass.
        """
        if self._process != os.getpid():
            self._process = os.getpid()
            if self._told not in gc.callbacks:
                gc.callbacks.append(self._told)
            if not self.left:
                self.time()
        self.asked = 0

    @property
    def cost_s(self) -> float:
        """Of a full pass, by what those so far took for an object."""
        return self.left * fmean(self.each_s)

    def _is_usual(self) -> bool:
        """Whether a pass takes what it usually does: the first of a forked process copies all that it shares."""
        before, self._copied = self._copied, os.getpid()
        return before == self._copied

    @property
    def waves_now(self) -> float:
        """Waves so far, with the part of the next one that has gone by."""
        (young, middle, _), (most_young, most_middle, _) = gc.get_count(), gc.get_threshold()
        return self.waves + (middle + min(1.0, young / max(1, most_young))) / (most_middle + 2)

    def _told(self, phase: str, told: Mapping[str, int]) -> None:
        generation = told["generation"]
        if generation == 0 or self._process != os.getpid():  # a loader worker has inherited it
            return
        if phase == "start":
            self._began = perf_counter()
            self._counted = gc.get_count()[2] > gc.get_threshold()[2]
            if generation == 1:
                self._young = len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
            else:
                self.waves = self.waves_now  # what had gone by of the next one, which begins anew
        elif generation == 1:
            grown = self._young - told["collected"]
            self.grown, self._pending = self.grown + grown, self._pending + grown
            self.waves, self.waves_fetching = self.waves + 1, self.waves_fetching + self.fetching
        else:
            self._passed(perf_counter() - self._began)

    def _passed(self, seconds: float) -> None:
        is_due = self._counted and OLD_SHARE * self._pending >= NEARLY * self.left
        self._pending = 0
        if is_due or self._ours:
            self.left = len(gc.get_objects(generation=2))
        if is_due and not self._ours:
            self.each_s += [seconds / max(1, self.left)] * self._is_usual()
            self.own.append((self._began, perf_counter() - self._began, self.fetching))  # with this look of ours
        elif not self._ours:
            self.asked += 1


PASSES = FullPasses()  # of this process, whose arms share its objects


@dataclass(slots=True)
class Growth:
    """How many objects of one arm grow old in a wave, as its windows so far have shown."""

    grown: int = 0
    waves: float = 0.0
    fetching: float = 0.0  # of the waves, those that came while a batch was fetched
    settled: bool = False  # whether a pass was timed while no other arm was at work


@dataclass(slots=True)
class Share:
    """The passes of one window, from when this is made."""

    growth: Growth
    _grown: int = field(default_factory=lambda: PASSES.grown)
    _waves: float = field(default_factory=lambda: PASSES.waves)
    _fetching: float = field(default_factory=lambda: PASSES.waves_fetching)
    _own: int = field(default_factory=lambda: len(PASSES.own))
    _began: float = field(default_factory=lambda: PASSES.waves_now)

    def fair(self, stamps: list[float], wait_s: float, *, ahead: bool) -> tuple[list[float], float]:
        """The moments between which steps lie, and their waits, with each step's part of the share.

        The passes that were met are taken out; of a device that works `ahead` of its host, which may have hidden some
        of them, no more than a step was too long. Nothing is changed where the training itself asks for full passes:
        they are part of its time, and Python's own are rare.
        """
        passed, each = self._waves_passed()
        if PASSES.asked or not gc.isenabled():
            return stamps, wait_s
        if _share(passed, each) * PASSES.cost_s > MATTERS * (stamps[-1] - stamps[0]) and not self.growth.settled:
            PASSES.time()
            self.growth.settled = True
        share = _share(passed, each)
        times = [later - sooner for sooner, later in pairwise(stamps)]
        least, share_s = min(times), share * PASSES.cost_s
        for began, seconds, fetching in PASSES.own[self._own :]:
            at = bisect_left(stamps, began + seconds) - 1  # the step in which the host went on
            at = max(at, 0) if ahead else at
            if 0 <= at < len(times):
                met_s = max(0.0, min(seconds, times[at] - least * ahead))
                times[at] -= met_s
                wait_s -= met_s * fetching
        wait_s += share_s * self.growth.fetching / max(1.0, self.growth.waves)
        fair = [*accumulate((one + share_s / len(times) for one in times), initial=stamps[0])]
        return fair, max(0.0, min(wait_s, fair[-1] - fair[0]))

    def _waves_passed(self) -> tuple[float, float]:
        """The waves since this was made, and how many objects grow old in one.

        That is told by its own waves, which may come at another moment of a step than those before a full pass did;
        where there was none, by all in this arm.
        """
        growth, grown, waves = self.growth, PASSES.grown - self._grown, PASSES.waves - self._waves
        growth.grown, growth.waves = growth.grown + grown, growth.waves + waves
        growth.fetching += PASSES.waves_fetching - self._fetching
        each = grown / waves if waves >= 1 else growth.grown / max(1.0, growth.waves)
        return max(0.0, PASSES.waves_now - self._began), each


def _share(waves: float, each: float) -> float:
    """Of a full pass, that so many waves bear in each of which so many objects grow old."""
    return waves * min(OLD_SHARE * each / max(1, PASSES.left), 1 / (1 + gc.get_threshold()[2]))
