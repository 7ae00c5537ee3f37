"""`campaign`: the whole matrix of a machine in so many minutes, in slices that go on where the last one stopped."""

import signal
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import monotonic

from rich.console import Console

from harness.cli.alarm import ringing_after
from harness.cli.apportioning import apportioned, legs_of, print_plan
from harness.cli.archiving import check_place, own_runs, pack, take_in
from harness.cli.claiming import show_claims
from harness.cli.closing import closable
from harness.cli.legs import Ground, ground_of, slowness
from harness.cli.measuring import REPORT_S, age_s, seconds_of, stopping_on_terminate
from harness.cli.publishing import CLAIMS, publish
from harness.cli.reopening import check_same, extended, gone_on_with, new_account
from harness.cli.slices import Slice
from harness.cli.spending import Account, Asked, Meter, read_account
from harness.cli.stocking import Stock
from harness.core.mistake import Mistake
from harness.intake.archive import ACCOUNT
from harness.measure.surroundings import read_environment
from harness.plan.campaign import PAGES_S, check_slice
from harness.report.campaign import ended, goes_on, spent
from harness.run.lock import measuring_alone
from harness.store import finish

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
