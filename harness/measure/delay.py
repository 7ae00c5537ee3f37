"""Added delays: pauses of known length in every step of an arm, by which a machine shows what it can find.

A pause of the host is spun on its clock, since sleeping wakes late; a pause of the device is a kernel that counts
cycles. Every pause adds its whole length to a step that waits for both: the recipe refuses what would hide it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import ParamSpec, TypeVar

from torch import Tensor

from harness.core.configuration import DELAY_S
from harness.core.recipe import Recipe, Value
from harness.measure.devices import Device, recorded, timed

Given = ParamSpec("Given")
Result = TypeVar("Result")

TRIAL_CYCLES, TRIALS = 20_000_000, 5  # about 10 ms each, long beside what starts a kernel
TOLERANCE = 0.05  # by which a pause may differ from what was asked for
WATCHED = 20  # steps, at most, in which pauses are looked at


def _no_pause() -> None:
    """Until a step was timed, nobody knows how long a share of it is."""


@dataclass(slots=True, kw_only=True)
class Delay:
    """The pause that a recipe asks for; it has no length until `begin`."""

    place: str  # loader, host or device
    share: float  # of a step
    device: Device
    seconds: float = 0.0
    cycles: int = 0  # of a pause of the device
    pause: Callable[[], object] = _no_pause

    def begin(self, step_s: float) -> None:
        """Fixes the length, for good, as a share of a step that takes so long."""
        self.seconds = self.share * step_s
        if self.place == "device":
            self._sleep_for(self.seconds * cycles_per_s(self.device))
        else:
            self.pause = partial(spin, self.seconds)

    def correct(self, step: Callable[[], object]) -> None:
        """Gives a pause of the device its length at the clock that steps leave it, not that of an idle one."""
        if self.place == "device" and (found := self.lengths(step, TRIALS)):
            self._sleep_for(self.cycles * self.seconds / median(found))

    def _sleep_for(self, cycles: float) -> None:
        self.cycles = max(1, round(cycles))
        self.pause = partial(self.device.sleep, self.cycles)

    def record(self, _value: Tensor) -> None:
        """Pauses when the step's loss has been recorded, as a habit."""
        self.pause()

    def before(self, fetch: Callable[[], Result]) -> Callable[[], Result]:
        """The fetch, after a pause."""

        def fetch_later() -> Result:
            self.pause()
            return fetch()

        return fetch_later

    def after(self, update: Callable[Given, Result]) -> Callable[Given, Result]:
        """The update with a pause queued behind it, which whoever reads the loss waits for."""

        def update_and_pause(*given: Given.args, **named: Given.kwargs) -> Result:
            result = update(*given, **named)
            self.pause()
            return result

        return update_and_pause

    def lengths(self, step: Callable[[], object], steps: int) -> tuple[float, ...]:
        """Seconds of every pause in so many steps, by the clock of the device that paused."""
        seen: list[Callable[[], float]] = []
        pause = self.pause
        if self.place == "device":
            self.pause = lambda: seen.append(_between_events(self.device, pause))
        else:
            self.pause = lambda: seen.append(_between_times(pause))
        for _ in range(steps):
            step()
        self.pause = pause
        self.device.synchronize()
        return tuple(length() for length in seen)


def delay_of(recipe: Recipe, device: Device) -> Delay | None:
    """The delay that a recipe asks for, if it asks for any."""
    if recipe.added_delay is None:
        return None
    return Delay(place=recipe.added_delay, share=recipe.delay_percent / 100, device=device)


def begun(delay: Delay, step: Callable[[], object], steps: int) -> dict[str, Value]:
    """Times so many steps without the delay, gives it its length, and tells how long it then was found to be."""
    delay.begin(timed(step, steps, delay.device) / steps)
    delay.correct(step)
    watched = min(steps, WATCHED)
    found = sorted(delay.lengths(step, watched))
    # A neighbour that takes the core for a moment makes some pauses longer, whatever was asked for.
    quiet_s = found[len(found) // 4] if found else 0.0
    as_asked = len(found) == watched and abs(quiet_s / delay.seconds - 1) <= TOLERANCE
    return {"added_delay": delay.place if as_asked else None, DELAY_S: median(found) if found else 0.0}


def spin(seconds: float) -> None:
    """Keeps the host busy for so long."""
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


def cycles_per_s(device: Device) -> float:
    """Cycles that a pause of the device counts in a second at the clock of this moment."""
    device.sleep(TRIAL_CYCLES)  # an idle device clocks low
    seen = [_between_events(device, partial(device.sleep, TRIAL_CYCLES)) for _ in range(TRIALS)]
    device.synchronize()
    return TRIAL_CYCLES / median(length() for length in seen)


def _between_times(pause: Callable[[], object]) -> Callable[[], float]:
    began = perf_counter()
    pause()
    seconds = perf_counter() - began
    return lambda: seconds


def _between_events(device: Device, pause: Callable[[], object]) -> Callable[[], float]:
    before = recorded(device)
    pause()
    after = recorded(device)
    return lambda: before.elapsed_time(after) / 1e3
