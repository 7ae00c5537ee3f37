"""`campaign`: the whole matrix of a machine in so many minutes, in slices that go on where the last one stopped."""

import signal
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf, isinf
from pathlib import Path
from time import monotonic
from types import FrameType

from rich.console import Console

from harness.analyze.calibration import DESIGN, ENOUGH, calibrate
from harness.analyze.estimate import Estimate
from harness.analyze.search.stage_model import Stack
from harness.analyze.search.winner import SEARCH, WINNER
from harness.cli.campaign_state import (
    Account,
    Asked,
    Data,
    Ground,
    Meter,
    SliceOver,
    Stock,
    against_as_found,
    apportioned,
    apportioned_anew,
    check_place,
    check_same,
    extended,
    gone_on_with,
    ground_of,
    legs_of,
    new_account,
    own_runs,
    pack,
    prepared_for,
    print_plan,
    read_account,
    search_of,
    slowness,
    take_in,
)
from harness.cli.measuring import REPORT_S, age_s, campaign_into, run_of, seconds_of, stopping_on_terminate
from harness.cli.planning import Prepared
from harness.cli.reading import ORIGIN, calibration_beside, show_claims
from harness.cli.search import FIRST, Search, SearchBudget, searched, stacks_in
from harness.cli.sharing import CLAIMS, publish
from harness.core.mistake import Mistake
from harness.exchange.archive import ACCOUNT
from harness.measure.surroundings import read_environment
from harness.plan.campaign import PAGES_S, Kind, Leg, check_slice
from harness.report.campaign import ended, goes_on, spent
from harness.report.prediction import headline
from harness.report.words import one_line
from harness.run.lock import measuring_alone
from harness.store import IN_PROGRESS, MEASUREMENTS, RUN, create, finish, read_records, read_run

# Closing: a campaign's runs end with what they have, so that they are published; missing results say what is missing.


def closable(machine: Path, runs: Container[str]) -> Iterator[Path]:
    """Unfinished runs that say something when they are cut short, among those of the campaign.

    A calibration does not: with fewer copies than can tell, nothing may rest on it. Later runs of a search are known
    by their design, since a search that was killed has named none of them.
    """
    for path in sorted(machine.glob(f"*/{IN_PROGRESS}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not _holds_anything(folder / MEASUREMENTS):
            continue
        design = read_run(folder).plan.design
        if design != DESIGN and (folder.name in runs or design in {SEARCH, WINNER}):
            yield folder


def _holds_anything(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


# Slices: one call of a campaign, which measures leg after leg until its own time or the campaign's is up.

LEAST_S = 15.0  # in less, no two arms start, warm up and are timed
SEARCH_SHARE = 0.7  # of a leg's time; the rest holds the winner against the system as it was found


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
        search = Search(wish=wish, ready=ready, possible=stacks_in(wish, ready), budget=self._budget(until_s))
        found = searched(search)
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

    def _budget(self, until_s: float) -> SearchBudget:
        """Where a search measures: proposals until half of the time, then the winner; the matrix has had its leg."""
        now_s = self.clock()
        time_s = max(0.0, SEARCH_SHARE * (self._moment(until_s) - now_s))
        # As if the first share of a longer budget had been spent on the matrix already.
        budget_s = time_s / (1 - FIRST)
        return SearchBudget(
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


# The alarm: a slice's own clock, which ends it whatever an arm is doing.


@dataclass(slots=True)
class Alarm:
    """Whether a slice was ended by its own clock and not from outside."""

    rung: bool = False


@contextmanager
def ringing_after(seconds: float) -> Iterator[Alarm]:
    """After so many seconds everything is broken off as by Ctrl-C; never if they are infinite."""
    alarm = Alarm()

    def ring(_number: int, _frame: FrameType | None) -> None:
        alarm.rung = True
        raise KeyboardInterrupt

    if isinf(seconds):
        yield alarm
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield alarm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


GOES_ON, STOPPED = 3, 130
SAVE_S = 5.0  # kept back from a slice, in which an arm is ended and the archive is packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user wants measured, and in how much time."""

    asked: Asked  # no workloads and no size stand for all and the usual one
    device: str
    minutes: float
    slice: str  # 9m, or none

    @property
    def slice_s(self) -> float:
        """Seconds of one slice, infinite where there is one alone; raises Mistake for what is no time or too short."""
        seconds = seconds_of(self.slice)
        check_slice(seconds)
        return inf if seconds is None else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where runs, data and the archive lie."""

    results: Path
    data: Path | None
    archive: Path | None
    fresh: bool


def show_campaign(wanted: Wanted, where: Where) -> int:
    """Prints the legs and what each gets; writes nothing."""
    ground = ground_of(wanted.asked, read_environment(wanted.device))
    print_plan(wanted.minutes, apportioned(wanted.minutes, ground), ground, where.data)
    return 0


def campaign(wanted: Wanted, where: Where) -> int:
    """Measures one slice; 0 when all is done, 1 when nothing could be measured, 3 when it is to go on, 130 if stopped.

    Raises Mistake for what cannot be, and where an account or an archive is of another campaign or environment.
    """
    began_s, slice_s = monotonic() - age_s(), wanted.slice_s
    if where.archive:
        check_place(where.archive)
    try:
        with measuring_alone(), stopping_on_terminate():
            ground = ground_of(wanted.asked, read_environment(wanted.device))
            if where.archive:
                _take_in(where.archive, where)
            account = _account(wanted, where, ground)
            ground = replace(ground, environment=account.environment)
            if account.done:
                return _told_end(account, where, ground)
            return _one_slice(account, where, ground, (began_s, began_s + slice_s))
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped; what was measured is kept, and the same command continues.")
        return STOPPED


def finish_here(archive: Path, where: Where) -> int:
    """Takes an archive in, ends its campaigns with what they have and publishes; measures nothing."""
    taken = take_in(archive, where.results)
    if not taken.machines:
        raise Mistake(f"{archive} holds no campaign; name the file that ./speedmatrix campaign --archive has written.")
    for machine in taken.machines:
        account = read_account(where.results / machine / ACCOUNT)
        for folder in closable(where.results / machine, account.runs if account else ()):
            finish(folder)
    _publish(where)
    return 0


def _take_in(archive: Path, where: Where) -> None:
    taken = take_in(archive, where.results, accounts=not where.fresh)
    if taken.runs:
        Console().print(f"Taken in from {archive}: {taken.runs} runs", highlight=False, markup=False, soft_wrap=True)


def _account(wanted: Wanted, where: Where, ground: Ground) -> Account:
    """The account to go on with: that of the last slice, planned anew where the minutes are others, or a new one."""
    machine = where.results / ground.environment.machine
    found = None if where.fresh else read_account(machine / ACCOUNT)
    if found is not None:
        check_same(found, ground, machine / ACCOUNT)
        found = gone_on_with(found, ground.environment)
        ground = replace(ground, environment=found.environment)
        if found.minutes == wanted.minutes:
            Console().print(f"Going on with the campaign: {spent(found.spent_s, found.minutes)}", highlight=False)
            return found
    shared = apportioned(wanted.minutes, ground, slowness(found.arm_s, ground) if found else 1.0)
    print_plan(wanted.minutes, shared, ground, where.data)
    if found is not None:
        return extended(found, wanted.minutes, legs_of(shared), machine)
    try:
        machine.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Cannot make {machine} ({error.strerror}); choose another folder with --results.") from error
    return new_account(wanted.minutes, legs_of(shared), ground)


def _one_slice(account: Account, where: Where, ground: Ground, span_s: tuple[float, float]) -> int:
    """Measures, closes and publishes as far as the slice reaches; then the archive is packed, however it ended."""
    began_s, ends_s = span_s
    path = where.results / ground.environment.machine / ACCOUNT
    with ExitStack() as closing:
        closing.callback(_save_at_last, where, ground)  # when the account is written for good
        meter = closing.enter_context(Meter(path, account, monotonic() - began_s))
        console = Console()
        alarm = closing.enter_context(ringing_after(ends_s - SAVE_S - monotonic()))
        now = Slice(
            ground=ground,
            meter=meter,
            stock=Stock(results=where.results, data=where.data, meter=meter, console=console),
            ends_s=ends_s - SAVE_S - REPORT_S,
            save=lambda: _save(where, ground),
            console=console,
        )
        try:
            return _worked(now, where)
        except KeyboardInterrupt:
            if not alarm.rung:
                raise
            return _cut_short(now)


def _worked(now: Slice, where: Where) -> int:
    over = now.all_legs()
    if over:
        now.close()
    if not over or (now.has_worked and now.left_s < PAGES_S):
        now.tell(goes_on(now.meter.spent_s, now.meter.account.minutes))
        return GOES_ON
    if any(own_runs(now.machine, now.ground.environment)):
        _publish(where)
    now.meter.note(done=True)
    return _told_end(now.meter.account, where, now.ground)


def _cut_short(now: Slice) -> int:
    """What is said of a slice whose own clock ended it; raises Mistake where the next would not come further."""
    if not now.has_worked:
        what = "The workloads' files take" if now.stock.writing else "Closing the runs and writing their pages takes"
        raise Mistake(f"{what} longer than a slice; give a longer --slice, or leave it out once.")
    now.tell(goes_on(now.meter.spent_s, now.meter.account.minutes))
    return GOES_ON


def _publish(where: Where) -> None:
    """The findings on claims first: the pages link to them."""
    show_claims((), "markdown", (where.results / CLAIMS, where.results), None)
    publish(where.results, check=False)


def _told_end(account: Account, where: Where, ground: Ground) -> int:
    console, machine = Console(highlight=False), where.results / ground.environment.machine
    still = [one.name for one in account.legs if one.name not in account.over]
    for sentence in ended(account.spent_s, account.minutes, still):
        console.print(sentence, markup=False, soft_wrap=True)
    pages = f"Pages: {where.results / 'README.md'} and {machine / 'README.md'}"
    console.print(pages, markup=False, soft_wrap=True)
    return 0 if any(own_runs(machine, ground.environment)) else 1


def _save(where: Where, ground: Ground) -> None:
    if where.archive:
        pack(where.archive, where.results, ground.environment)


def _save_at_last(where: Where, ground: Ground) -> None:
    """Packs without being stopped: a scheduler that has asked once waits some seconds."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _save(where, ground)
