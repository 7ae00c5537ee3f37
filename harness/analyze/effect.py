"""Effects: what one switch does to a stack, whichever way round the two were compared."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.analyze.attribution import Gain, combined, gain
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Row
from harness.analyze.profile import Profile
from harness.analyze.throughput import LEARNS_ALIKE
from harness.analyze.verdict import Verdict, verdict
from harness.core.cell import Cell, Switch
from harness.core.optimization import Timing

WHOLE = frozenset({Timing.STEP, Timing.EPOCH, Timing.EVALUATION})  # what a user waits for, rather than a part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A stack with one switch against the same stack without it."""

    switch: Switch
    gain: Gain  # with it over without it
    verdict: Verdict
    estimate: Estimate  # as measured
    row: Row
    turned: bool  # measured as the stack without it over the stack with it

    @property
    def below(self) -> Cell:
        """The stack without it."""
        return self.row.comparison.treatment if self.turned else self.row.comparison.reference

    @property
    def above(self) -> Cell:
        """The stack with it."""
        return self.row.comparison.reference if self.turned else self.row.comparison.treatment

    @property
    def without_it(self) -> Profile | None:
        """What the stack without it showed."""
        return self.row.treatment if self.turned else self.row.reference

    @property
    def with_it(self) -> Profile | None:
        """What the stack with it showed."""
        return self.row.reference if self.turned else self.row.treatment

    @property
    def timing(self) -> Timing:
        """What was timed."""
        return self.row.comparison.timing

    @property
    def instead_of(self) -> tuple[Switch, ...]:
        """What the stack without it has in its place."""
        return tuple(one for one in self.below.switches if one not in self.above.switches)

    @property
    def learns_alike(self) -> bool:
        """Whether its losses, and its score where that is timed, were seen to agree with the reference's."""
        return learns_alike(self.row)


def learns_alike(row: Row) -> bool:
    """Whether quality was judged and found the same or close."""
    return row.quality is not None and row.quality.status in LEARNS_ALIKE


def effects(rows: Iterable[Row]) -> tuple[Effect, ...]:
    """The effect of every row whose two cells differ by one switch; loader and compute alone are no whole."""
    found = (_effect(row) for row in rows if row.comparison.timing in WHOLE)
    return tuple(one for one in found if one is not None)


def _effect(row: Row) -> Effect | None:
    estimate, comparison = row.estimate, row.comparison
    if estimate is None:
        return None
    added = [one for one in comparison.treatment.switches if one not in comparison.reference.switches]
    taken = [one for one in comparison.reference.switches if one not in comparison.treatment.switches]
    if len(added) == 1:
        return Effect(
            switch=added[0], gain=gain(estimate), verdict=estimate.verdict, estimate=estimate, row=row, turned=False
        )
    if added or len(taken) != 1:
        return None
    back = combined((-1.0, gain(estimate)))
    word = Verdict.UNDECIDED if estimate.disturbed else verdict(back.low, back.high, estimate.terms.margin)
    return Effect(switch=taken[0], gain=back, verdict=word, estimate=estimate, row=row, turned=True)
