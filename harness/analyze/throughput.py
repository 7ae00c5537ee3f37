"""Throughputs: samples a second in several places, as shares of what their devices can do and as what they cost.

Machines cannot take turns, so a quotient of two throughputs is unpaired: it has a range and never a verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.analyze.collection import Entry, Question
from harness.analyze.costs import Prices
from harness.analyze.limits import Known
from harness.analyze.matrix import Row
from harness.analyze.places import Place, exactly
from harness.analyze.profile import Profile
from harness.analyze.quality import Agreement
from harness.analyze.verdict import Verdict
from harness.core.optimization import Timing

TRAINS = {Timing.STEP, Timing.EPOCH}
LEARNS_ALIKE = {Agreement.SAME_BITS, Agreement.CLOSE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """A throughput over another place's, with the least and the most that single restarts give."""

    letter: str  # of the other place
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Samples a second of one stack in one place; the range is that of its restarts."""

    name: str
    rate: float
    low: float
    high: float
    share: float | str  # of the device's limit, or why none can be told
    cost: float | None  # of a million samples
    against: Quotient | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What one place gives: with the reference, and with the fastest stack that surely pays and learns alike."""

    letter: str
    reference: Speed
    best: Speed | None

    @property
    def fastest(self) -> Speed:
        """The best stack, or the reference where none surely pays."""
        return self.best or self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A place with what is needed to judge its throughputs of one question."""

    place: Place
    question: Question
    known: Known
    prices: Prices

    def throughput(self) -> Throughput | None:
        """Of the newest run that has the question's reference; None where it gave no burst."""
        entries = [one for one in self.place.entries if _has_reference(one, self.question)]
        newest = max(entries, key=lambda one: one.kept.began, default=None)
        if newest is None or newest.table.profile is None:
            return None
        name, best = newest.table.name, _best(entries) if self.question.timing in TRAINS else None
        return Throughput(
            letter=self.place.letter,
            reference=self._speed(name, newest.table.profile, name),
            best=self._speed(best.subject, best.treatment, name) if best and best.treatment else None,
        )

    def _speed(self, stack: str, profile: Profile, reference: str) -> Speed:
        return Speed(
            name=stack,
            rate=profile.rate,
            low=min(profile.restart_rates),
            high=max(profile.restart_rates),
            share=self._share(profile.rate, reference),
            cost=self.prices.cost(profile.rate, self.place.environment.machine),
        )

    def _share(self, rate: float, reference: str) -> float | str:
        if self.question.timing not in TRAINS:
            return "a share of the limit is told of training alone"
        if self.question.reference.switches and reference != "as_found":  # another model may be among them
            return f"the work of a sample was counted for the plain training, not for {reference}"
        if self.question.data:  # of other classes, or of another shape
            return "the work of a sample was counted on the suite's own data"
        return self.known.share(rate, self.question.reference, self.place.environment)


def throughputs(places: Sequence[Place], question: Question, known: Known, prices: Prices) -> tuple[Throughput, ...]:
    """One for each place that has timed the reference of a question; the first is what the others are held against."""
    benches = (_Bench(place=place, question=question, known=known, prices=prices) for place in places)
    found = [one for one in (bench.throughput() for bench in benches) if one is not None]
    return tuple(_beside(one, found[0]) for one in found)


def _beside(one: Throughput, first: Throughput) -> Throughput:
    if one is first:
        return one
    best = replace(one.best, against=_quotient(one.best, first.fastest, first.letter)) if one.best else None
    reference = replace(one.reference, against=_quotient(one.reference, first.reference, first.letter))
    return replace(one, reference=reference, best=best)


def _quotient(ours: Speed, theirs: Speed, letter: str) -> Quotient:
    return Quotient(
        letter=letter, ratio=ours.rate / theirs.rate, low=ours.low / theirs.high, high=ours.high / theirs.low
    )


def _has_reference(entry: Entry, question: Question) -> bool:
    theirs = exactly(entry)
    return (theirs.reference, theirs.timing, theirs.data) == (question.reference, question.timing, question.data)


def _best(entries: Sequence[Entry]) -> Row | None:
    """By the lower bound, so that of many stacks not the luckiest wins."""
    sure = [row for row in (entry.row for entry in entries) if _pays(row)]
    return max(sure, key=lambda row: row.estimate.low if row.estimate else 0.0, default=None)


def _pays(row: Row) -> bool:
    learns_alike = row.quality is not None and row.quality.status in LEARNS_ALIKE
    return learns_alike and row.estimate is not None and row.estimate.verdict is Verdict.FASTER
