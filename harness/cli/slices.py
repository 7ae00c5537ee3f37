"""Slices: one call of a campaign, which measures leg after leg until its own time or the campaign's is up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic

from rich.console import Console

from harness.analyze.calibrating import calibrate
from harness.analyze.calibration import ENOUGH
from harness.analyze.estimate import Estimate
from harness.analyze.study import Stack
from harness.cli.apportioning import apportioned_anew
from harness.cli.candidates import ground_in
from harness.cli.closing import closable
from harness.cli.legs import Ground, against_as_found, prepared_for, search_of, slowness
from harness.cli.measuring import campaign_into, run_of
from harness.cli.planning import Prepared
from harness.cli.searching import FIRST, searched
from harness.cli.shelf import ORIGIN, calibration_beside
from harness.cli.spending import Meter
from harness.cli.staging import Bench, Quest
from harness.cli.stocking import Data, SliceOver, Stock
from harness.core.mistake import Mistake
from harness.plan.campaign import Kind, Leg
from harness.report.winner import headline
from harness.report.words import one_line
from harness.store import IN_PROGRESS, MEASUREMENTS, RUN, create, finish, read_records

LEAST_S = 15.0  # in less, no two arms start, warm up and are timed
SEARCH = 0.7  # of a leg's time; the rest holds the winner against the system as it was found


@dataclass(slots=True, kw_only=True)
class Slice:
    """One call: where it measures, for how long, and what it has done so far."""

    ground: Ground
    meter: Meter
    stock: Stock
    ends_s: float  # on the clock: when measuring must be over; infinite where only the minutes end it
    save: Callable[[], None]  # after each leg
    console: Console
    clock: Callable[[], float] = monotonic
    failed: set[str] = field(default_factory=set)  # legs that could not be measured, which were told
    has_measured: bool = False

    @property
    def machine(self) -> Path:
        """The folder of the machine's runs."""
        return self.stock.results / self.ground.environment.machine

    @property
    def left_s(self) -> float:
        """What is left of the slice to measure in."""
        return self.ends_s - self.clock()

    @property
    def has_worked(self) -> bool:
        """Whether the next slice will find more than this one did."""
        return self.has_measured or self.stock.has_written

    def all_legs(self) -> bool:
        """Measures what is left of every leg within its share, then of all; tells whether nothing more is to come."""
        try:
            self._in_turn()
            return self._widen()
        except SliceOver:
            return False

    def open_legs(self) -> list[Leg]:
        """Legs in which something is left."""
        account = self.meter.account
        return [one for one in account.legs if one.name not in account.over and one.name not in self.failed]

    def close(self) -> None:
        """Ends the campaign's runs with what they have."""
        account = self.meter.account
        ended = list(closable(self.machine, account.runs))
        self.meter.note(closed=tuple(dict.fromkeys((*account.closed, *(one.name for one in ended)))))
        for folder in ended:
            finish(folder)

    def tell(self, words: str) -> None:
        """A line for whoever watches."""
        self.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def _in_turn(self) -> None:
        began_with = self._written_bytes()
        for name in [one.name for one in self.open_legs()]:
            leg = self._as_shared(name)
            if leg.until_s - self.meter.spent_s < LEAST_S:
                continue
            is_cut = self._moment(leg.until_s) == self.ends_s
            self._leg(leg, leg.until_s)
            if is_cut and name in {one.name for one in self.open_legs()} and self._written_bytes() > began_with:
                raise SliceOver  # before its mark: it is the next slice's turn to go on with it, and not another leg's

    def _as_shared(self, name: str) -> Leg:
        """A leg whose turn it is, with its mark; before the first of a kind what is left is shared out anew, once."""
        account = self.meter.account
        leg = next(one for one in account.legs if one.name == name)
        if leg is account.legs[0] or leg.kind in account.shared_at:
            return leg
        anew = apportioned_anew(account, leg, self.meter.spent_s, self.ground)
        self.meter.note(legs=anew, shared_at=(*account.shared_at, leg.kind))
        if account.arm_s and not account.shared_at:
            times = slowness(account.arm_s, self.ground)
            self.tell(f"Arms take {times:.1f} times as long as guessed: the rest of the time is shared out by that.")
        return next(one for one in anew if one.name == name)

    def _widen(self) -> bool:
        """Shares out what is left among all that is open; where that brings nothing, one after another has all."""
        end_s = self.meter.account.measuring_s
        shared = True
        while left := self.open_legs():
            before, had_time = self._written_bytes(), self.left_s > 4 * LEAST_S
            for number, leg in enumerate(left):
                spare_s = end_s - self.meter.spent_s
                if spare_s < LEAST_S:
                    return True
                self._leg(leg, self.meter.spent_s + (spare_s / (len(left) - number) if shared else spare_s))
            if self._written_bytes() > before or len(self.open_legs()) < len(left):
                shared = True
            elif shared:
                shared = False
            else:
                return had_time  # else the next slice has more, and may bring something
        return True

    def _written_bytes(self) -> int:
        """Of all measurements: more of them mean that something was measured."""
        return sum(one.stat().st_size for one in self.machine.glob(f"*/{MEASUREMENTS}"))

    def _leg(self, leg: Leg, until_s: float) -> None:
        if self.left_s < LEAST_S:
            raise SliceOver
        self.tell(f"{leg.name}: until minute {until_s / 60:.1f}")
        measure = {Kind.CALIBRATION: self._calibrate, Kind.BEST: self._best}.get(leg.kind, self._plainly)
        try:
            over = measure(leg, until_s)
        except Mistake as mistake:
            self.tell(f"{leg.name} is left out: {one_line(str(mistake))}")
            self.failed.add(leg.name)
            return
        if over:
            self.meter.note(over=(*self.meter.account.over, leg.name))
        self.save()

    def _plainly(self, leg: Leg, until_s: float) -> bool:
        ready = prepared_for(leg.kind, leg.workloads, self.ground)
        return ready is None or self._is_over(self._gone_on(ready, until_s))

    def _calibrate(self, leg: Leg, until_s: float) -> bool:
        ready = prepared_for(leg.kind, leg.workloads, self.ground)
        if ready is None or calibration_beside(self.machine / leg.name, run_of(ready)):
            return True
        folder = self._gone_on(ready, until_s)
        found = calibrate(ready.plan, read_records(folder))
        self.tell(f"{found.sentence}.")
        # Enough copies can tell. What more time buys is narrower intervals, and others wait for it.
        if self.left_s > LEAST_S and len(found.copies) >= ENOUGH and found.levels:
            finish(folder)
        return self._is_over(folder)

    def _best(self, leg: Leg, until_s: float) -> bool:
        (workload,) = leg.workloads
        ready, wish = prepared_for(leg.kind, leg.workloads, self.ground), search_of(workload, self.ground)
        if ready is None:
            return True
        quest = Quest(wish=wish, ready=ready, ground=ground_in(wish, ready), bench=self._bench(until_s))
        found = searched(quest)
        if isinstance(found, str):
            self.tell(f"Nothing was found: {one_line(found)}.")
            return False
        self._note(*(Path(one).name for one in found.runs))
        self.tell(headline(found))
        if not found.stack:
            return not found.unfinished
        if not isinstance(found.result, Estimate):
            return False
        return self._over_as_found(workload, found.stack, until_s) and not found.unfinished

    def _bench(self, until_s: float) -> Bench:
        """Where a search measures: proposals until half of the time, then the winner; the matrix has had its leg."""
        now_s = self.clock()
        time_s = max(0.0, SEARCH * (self._moment(until_s) - now_s))
        # As if the first share of a longer budget had been spent on the matrix already.
        budget_s = time_s / (1 - FIRST)
        return Bench(
            results=self.stock.results,
            measure=lambda one, folder, until: self._into(one, folder, self._data_of(one), until),
            clock=self.clock,
            began_s=now_s - FIRST * budget_s,
            budget_s=budget_s,
            fresh=False,
            tell=self.tell,
        )

    def _over_as_found(self, workload: str, stack: Stack, until_s: float) -> bool:
        """Holds the winner against the system as it was found: a quotient of two ratios would prove nothing."""
        ready = against_as_found(workload, stack, self.ground)
        return ready is None or self._is_over(self._gone_on(ready, until_s))

    def _gone_on(self, ready: Prepared, until_s: float) -> Path:
        """The folder of a plan's run, measured as far as the time allows."""
        folder = self._folder(ready)
        if (folder / IN_PROGRESS).exists():
            data = self._data_of(ready)  # while it is written, the campaign's own time stands still
            self._into(ready, folder, data, self._moment(until_s), self._mark(until_s))
        return folder

    def _data_of(self, ready: Prepared) -> Data:
        return self.stock.of(ready, self.left_s if self.has_worked else inf)

    def _into(
        self, ready: Prepared, folder: Path, data: Data, until: float | None, plan_ends_s: float | None = None
    ) -> None:
        self.has_measured = True
        known, size = self.meter.account.arm_s, ready.plan.blocks[0].reference.size
        arm_s = dict(known.get(size, {}))
        try:
            campaign_into(ready, folder, data, until, arm_s, plan_ends_s)
        finally:
            self.meter.note(arm_s={**known, size: arm_s})

    def _moment(self, until_s: float) -> float:
        """When a mark of the campaign's time is reached, or the slice ends, on the clock."""
        return min(self.ends_s, self._mark(until_s))

    def _mark(self, until_s: float) -> float:
        """When a mark of the campaign's time is reached, on the clock, if slices follow each other at once."""
        return self.clock() + until_s - self.meter.spent_s

    def _is_over(self, folder: Path) -> bool:
        return not (folder / IN_PROGRESS).exists() and folder.name not in self.meter.account.closed

    def _folder(self, ready: Prepared) -> Path:
        """The folder of a plan's run: the one that is there, whoever began it here, or a new one."""
        run = run_of(ready)
        before = sorted(self.machine.glob(f"*-{run.digest}/{RUN}"), key=lambda path: path.parent.name)
        ours = [path.parent for path in before if not (path.parent / ORIGIN).exists()]
        folder = ours[-1] if ours else create(self.stock.results, run)
        self._note(folder.name)
        return folder

    def _note(self, *names: str) -> None:
        self.meter.note(runs=tuple(dict.fromkeys((*self.meter.account.runs, *names))))
