"""The device beside a ratio: who else was on it, and what held its clock down, in the bursts of either arm."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.core.measurement import Burst
from harness.core.throttling import POWER_CAP, SLOWDOWNS

# Choices, with no series of measurements behind them yet (docs/decisions/gpu-facts.md).
COMPANY = 0.1  # share of the bursts beside another process, beyond which no verdict is given
UNLIKE = 0.1  # by which the shares of slowed bursts may differ between the arms
APART = 0.05  # by which the arms' mean clocks may differ without a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """One number of each arm."""

    treatment: float
    reference: float

    @property
    def apart(self) -> float:
        """How far they lie from each other."""
        return abs(self.treatment - self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What its driver told in the bursts of two arms; shares are of the bursts in which it told anything."""

    looked: int  # bursts of both arms in which it is known who was there
    shared: int  # those in which a process was there that is none of ours
    slowed: Both | None  # share of bursts in which heat or a fault held the clock down
    capped: Both | None  # share of bursts in which the limit of its power did
    clock_mhz: Both | None  # mean, of the multiprocessors when a burst had ended

    @property
    def unrest(self) -> str | None:
        """Why no verdict can be given, in words; None where one can.

        The limit of its power is no reason: what a switch draws is its own doing, and so is a clock that falls for it.
        """
        if self.shared > COMPANY * self.looked:
            return self._company
        return self._heat if self._is_unlike else None

    def remarks(self) -> Iterator[str]:
        """What a reader should know, whether or not it forbids a verdict."""
        if self.shared:
            yield self._company
        if self._was_slowed:
            yield self._heat
        if self.clock_mhz is not None and self._clocks_differ:
            yield self._clocks(self.clock_mhz)

    @property
    def _company(self) -> str:
        return f"another process was on the device in {self.shared} of {self.looked} bursts"

    @property
    def _heat(self) -> str:
        return f"heat or a fault held the device's clock down{_in_shares(self.slowed)}"

    def _clocks(self, found: Both) -> str:
        words = f"the device's clock was {found.treatment:,.0f} MHz, in the reference {found.reference:,.0f} MHz"
        if self.capped is None or max(self.capped.treatment, self.capped.reference) == 0:
            return words
        return f"{words}; its power limit held it down{_in_shares(self.capped)}"

    @property
    def _clocks_differ(self) -> bool:
        found = self.clock_mhz
        return found is not None and found.apart > APART * max(found.treatment, found.reference)

    @property
    def _is_unlike(self) -> bool:
        """Whether the arms were not slowed alike, by how often or by how much."""
        apart = self.slowed is not None and self.slowed.apart > UNLIKE
        return self._was_slowed and (apart or self._clocks_differ)

    @property
    def _was_slowed(self) -> bool:
        return self.slowed is not None and max(self.slowed.treatment, self.slowed.reference) > 0


def device_of(bursts: Iterable[Burst], position: int) -> Device | None:
    """The device in the bursts of the arm at `position` and of its reference; None where no driver told of it."""
    bursts = tuple(bursts)
    ours, theirs = ([burst for burst in bursts if burst.arm.position == one] for one in (position, 0))
    known = [one.strangers for one in (*ours, *theirs) if one.strangers is not None]
    found = Device(
        looked=len(known),
        shared=sum(one > 0 for one in known),
        slowed=_both(ours, theirs, _is_slowed),
        capped=_both(ours, theirs, _is_capped),
        clock_mhz=_both(ours, theirs, _clock_mhz),
    )
    told = found.looked or found.slowed is not None or found.clock_mhz is not None
    return found if told else None


def _both(ours: Sequence[Burst], theirs: Sequence[Burst], seen: Callable[[Burst], float | None]) -> Both | None:
    """The means of what is known; None where nothing is known of one of the arms."""
    first, second = ([value for one in side if (value := seen(one)) is not None] for side in (ours, theirs))
    return Both(treatment=fmean(first), reference=fmean(second)) if first and second else None


def _is_slowed(burst: Burst) -> float | None:
    return None if burst.throttled is None else float(not SLOWDOWNS.isdisjoint(burst.throttled))


def _is_capped(burst: Burst) -> float | None:
    return None if burst.throttled is None else float(POWER_CAP in burst.throttled)


def _clock_mhz(burst: Burst) -> float | None:
    return burst.clock_mhz


def _in_shares(found: Both | None) -> str:
    if found is None:
        return ""
    ours, theirs = 100 * found.treatment, 100 * found.reference
    return f" in {ours:.0f} % of the bursts and in {theirs:.0f} % of the reference's"
