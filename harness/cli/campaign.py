"""`campaign`: the whole matrix of a machine in so many minutes, in sessions that go on where the last one stopped."""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf, isinf
from pathlib import Path
from threading import Event
from time import monotonic
from types import FrameType

from rich import box
from rich.console import Console
from rich.table import Table

from harness.analyze.calibration import DESIGN, ENOUGH, calibrate
from harness.analyze.estimate import Estimate
from harness.api import Until, Watch, measure_into, written
from harness.cli.campaign_state import (
    Meter,
    State,
    against_original,
    check_same,
    extended,
    gone_on_with,
    new_state,
    parsed,
    phases_of,
    prepared_for,
    read_state,
    resolved,
    search_of,
    slower,
)
from harness.cli.measuring import Terminal, tell_unused_gpu
from harness.cli.reading import console, show_claims
from harness.cli.sharing import CLAIMS, publish
from harness.core.mistake import Mistake
from harness.core.plan import SEARCH, WINNER, Block, Request
from harness.exchange.archive import STATE, check_place, keep, opened, own_runs, pack
from harness.plan.campaign import MOST, PAGES_S, Kind, Phase, check_minutes, check_session, measuring_s, quotas
from harness.report.prediction import headline
from harness.report.words import NOTHING, one_line
from harness.results import calibration_beside
from harness.run.data import data_folder, data_root
from harness.run.preparation import (
    REPORT_S,
    Data,
    Place,
    Prepared,
    age_s,
    measuring_alone,
    run_of,
    seconds_of,
    stopping_on_terminate,
)
from harness.search import FIRST, Search, SearchBudget, searched, stacks_in
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    ORIGIN,
    RUN,
    create,
    finish,
    is_finished,
    make_folder,
    read_records,
    read_run,
    replace_file,
    set_aside,
)

GOES_ON, STOPPED = 3, 130
LEAST_S = 15.0  # in less, no two arms start, warm up and are timed
SAVE_S = 5.0  # kept back from a session, in which an arm is ended and the archive is packed
SEARCH_SHARE = 0.7  # of a phase's time; the rest holds the winner against the original


@dataclass(slots=True, kw_only=True)
class Session:
    """One call: what it measures, where, for how long, and what it has done so far."""

    request: Request  # resolved
    phases: tuple[Phase, ...]
    meter: Meter
    place: Place
    ends_s: float  # on the clock: when measuring must be over; infinite where only the minutes end it
    watch: Watch
    save: Callable[[], None] = lambda: None  # after each phase
    clock: Callable[[], float] = monotonic
    data: Data = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)  # phases that could not be measured, which were told
    has_worked: bool = False  # so that the next session will find more than this one did
    is_writing: bool = False  # files, at this moment

    @property
    def machine(self) -> Path:
        """The folder of the machine's runs."""
        return self.place.results / self.meter.state.environment.machine

    @property
    def left_s(self) -> float:
        """What is left of the session to measure in."""
        return self.ends_s - self.clock()

    @property
    def campaign_left_s(self) -> float:
        """What is left of the campaign until its deadline."""
        return measuring_s(self.meter.state.minutes) - self.meter.spent_s

    def open_phases(self) -> list[Phase]:
        """Phases in which something is left."""
        done = {*self.meter.state.over, *self.failed}
        return [one for one in self.phases if not one.problem and one.name not in done]

    def measure(self) -> bool:
        """Measures every open phase within its quota, then what is left of all; tells whether nothing is to come."""
        if not self._write_data():
            return False
        for phase in self.open_phases():
            # By what arms took meanwhile, and by what earlier phases have left.
            still = slower(self.open_phases(), self.meter.state.arm_s, self.request)
            quota_s = quotas(self.campaign_left_s, still, self.meter.state.phase_s)[phase.name]
            if quota_s < LEAST_S:
                continue
            if self.left_s < LEAST_S:
                return False
            is_cut, before = quota_s >= self.left_s, self._measured_bytes()
            self._measure(phase, quota_s)
            if is_cut and phase in self.open_phases() and self._measured_bytes() > before:
                return False  # it is the next session's turn to go on with it, and not another phase's
        return self._widen()

    def _widen(self) -> bool:
        """Divides the time left among all open phases; if that measures nothing, each in turn gets all of it."""
        shared = True
        while left := [one for one in self.open_phases() if self._is_in_time(one)]:
            before, had_time = self._measured_bytes(), self.left_s > 4 * LEAST_S
            for number, phase in enumerate(left):
                spare_s = self.campaign_left_s
                if spare_s < LEAST_S:
                    return True
                if self.left_s < LEAST_S:
                    return False
                self._measure(phase, spare_s / (len(left) - number) if shared else spare_s)
            if self._measured_bytes() > before or not {*left} <= {*self.open_phases()}:
                shared = True
            elif shared:
                shared = False
            else:
                return had_time  # else the next session has more, and may bring something
        return True

    def _is_in_time(self, phase: Phase) -> bool:
        """Whether what is left may come to something: a part of a calibration decides nothing."""
        return phase.kind is not Kind.CALIBRATION or phase.seconds <= self.campaign_left_s

    def _measured_bytes(self) -> int:
        """Of all measurements: more of them mean that something was measured."""
        return sum(one.stat().st_size for one in self.machine.glob(f"*/{MEASUREMENTS}"))

    def _measure(self, phase: Phase, quota_s: float) -> None:
        began_s, ends_s = self.meter.spent_s, self.clock() + quota_s
        self.watch.say(f"{phase.name}: until minute {(began_s + quota_s) / 60:.1f}")
        measure = {Kind.CALIBRATION: self._calibrate, Kind.BEST: self._best}.get(phase.kind, self._plainly)
        state = self.meter.state
        try:
            if measure(phase, Until(min(self.ends_s, ends_s), ends_s)):
                self.meter.note(over=(*state.over, phase.name))
        except Mistake as mistake:
            self.watch.say(f"{phase.name} is left out: {one_line(str(mistake))}")
            self.failed.add(phase.name)
        finally:
            used_s = state.phase_s.get(phase.name, 0.0) + self.meter.spent_s - began_s
            self.meter.note(phase_s={**state.phase_s, phase.name: used_s})
        self.save()

    def _plainly(self, phase: Phase, until: Until) -> bool:
        ready = prepared_for(phase, self.request)
        return ready is None or is_finished(self._gone_on(ready, until))

    def _calibrate(self, phase: Phase, until: Until) -> bool:
        ready = prepared_for(phase, self.request)
        if ready is None or calibration_beside(self.machine / phase.name, run_of(ready)):
            return True
        folder = self._gone_on(ready, until)
        found = calibrate(ready.plan, read_records(folder))
        self.watch.say(f"{found.sentence}.")
        # Enough copies can tell. What more time buys is narrower intervals, and others wait for it.
        if self.left_s > LEAST_S and len(found.copies) >= ENOUGH and found.levels:
            finish(folder)
        return is_finished(folder)

    def _best(self, phase: Phase, until: Until) -> bool:
        (workload,) = phase.workloads
        ready, first = prepared_for(phase, self.request), search_of(workload, self.request)
        if ready is None:
            return True
        found = searched(
            Search(request=first, ready=ready, possible=stacks_in(first, ready), budget=self._budget(until))
        )
        if isinstance(found, str):
            self.watch.say(f"Nothing was found: {one_line(found)}.")
            return False
        self._note(*(Path(one).name for one in found.runs))
        self.watch.say(headline(found))
        if not found.stack:
            return not found.unfinished
        if not isinstance(found.result, Estimate):
            return False
        # A quotient of two ratios would prove nothing of the winner against the original.
        against = against_original(workload, found.stack, self.request)
        return (against is None or is_finished(self._gone_on(against, until))) and not found.unfinished

    def _budget(self, until: Until) -> SearchBudget:
        """Where a search measures: proposals until half of the time, then the winner; the matrix has had its phase."""
        now_s, ends_s = self.clock(), self.ends_s if until.deadline_s is None else until.deadline_s
        # As if the first share of a longer budget had been spent on the matrix already.
        budget_s = max(0.0, SEARCH_SHARE * (ends_s - now_s)) / (1 - FIRST)
        return SearchBudget(
            results=self.place.results,
            measure=lambda one, folder, moment: self._into(one, folder, Until(moment)),
            clock=self.clock,
            began_s=now_s - FIRST * budget_s,
            budget_s=budget_s,
            fresh=False,
            tell=self.watch.say,
        )

    def _gone_on(self, ready: Prepared, until: Until) -> Path:
        """The folder of a plan's run, an earlier one of our own or a new one, measured as far as the time allows."""
        run = run_of(ready)
        before = sorted(self.machine.glob(f"*-{run.digest}/{RUN}"), key=lambda path: path.parent.name)
        ours = [path.parent for path in before if not (path.parent / ORIGIN).exists()]
        folder = ours[-1] if ours else create(self.place.results, run)
        self._note(folder.name)
        if not is_finished(folder):
            self._into(ready, folder, until)
        return folder

    def _into(self, ready: Prepared, folder: Path, until: Until) -> None:
        keys = {(block.reference.workload, block.reference.size) for block in ready.plan.blocks}
        if not keys <= self.data.keys():
            self.data |= written(ready, self.place.data, self.watch)  # says why there are none
        known, size = self.meter.state.arm_s, ready.plan.blocks[0].reference.size
        arm_s, self.has_worked = dict(known.get(size, {})), True
        try:
            measure_into(ready, folder, self.data, until, self.watch, arm_s)
        finally:
            self.meter.note(arm_s={**known, size: arm_s})

    def _note(self, *names: str) -> None:
        self.meter.note(runs=tuple(dict.fromkeys((*self.meter.state.runs, *names))))

    def _write_data(self) -> bool:
        """Brings all files to hand, those that are missing written while the minutes stand still.

        Tells whether all were; those that do not fit into the session are left to the next one, except for the first.
        """
        ready = all_data(self.phases, self.request)
        if ready is None:
            return True
        blocks, root = list(ready.plan.blocks), self.place.data
        missing = missing_bytes(ready, root, blocks)
        fitting = _fitting(ready, root, blocks, self.left_s) or blocks[:1]
        alone = replace(ready, plan=replace(ready.plan, blocks=tuple(fitting)))
        self.is_writing = bool(missing)
        try:
            with self.meter.pausing():
                self.data |= written(alone, root, self.watch)
        except Mistake as mistake:
            self.watch.say(one_line(str(mistake)))  # and the phases that need the files will say so again
        self.is_writing = False
        self.has_worked = bool(missing)
        return len(fitting) == len(blocks)


def close(machine: Path, state: State | None) -> None:
    """Finishes the runs of a campaign that say something, so that they are published; their plans name what is missing.

    A calibration does not end: with fewer copies than can tell, nothing may rest on it.

    Later runs of a search are known by their design, since a search that was killed has named none of them; what was
    begun before the campaign is somebody's own search, which goes on.
    """
    for path in sorted(machine.glob(f"*/{IN_PROGRESS}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not (folder / RUN).exists() or not read_records(folder):
            continue
        run = read_run(folder)
        design, is_later = run.plan.design, state is None or run.began >= state.began
        searched = design in {SEARCH, WINNER} and is_later
        if design != DESIGN and (searched or (state and folder.name in state.runs)):
            set_aside(folder)


def all_data(phases: Sequence[Phase], request: Request) -> Prepared | None:
    """A block for every workload and size that some phase needs; the calibration and the first look need them all."""
    plans = [prepared_for(one, request) for one in phases if one.kind in MOST and not one.problem]
    found = [one for one in plans if one is not None]
    blocks = {(block.reference.workload, block.reference.size): block for one in found for block in one.plan.blocks}
    return replace(found[0], plan=replace(found[0].plan, blocks=tuple(blocks.values()))) if found else None


def missing_bytes(ready: Prepared, data: Path | None, blocks: Sequence[Block]) -> dict[str, int]:
    """Bytes of the files that are still to be written for some blocks, by `WORKLOAD, size SIZE`."""
    found = {}
    for name, size in dict.fromkeys((block.reference.workload, block.reference.size) for block in blocks):
        workload = ready.catalogue.workload(name)
        if not data_folder(data_root(data), workload, size).exists():
            found[f"{name}, size {size}"] = workload.sizes[size].data_bytes
    return found


def _fitting(ready: Prepared, data: Path | None, blocks: Sequence[Block], left_s: float) -> Sequence[Block]:
    """The first of the blocks, as many as have their files written within the time."""
    for count in range(len(blocks), 0, -1):
        missing = missing_bytes(ready, data, blocks[:count])
        if not missing or writing_s(sum(missing.values()), ready.environment.cores) <= left_s:
            return blocks[:count]
    return ()


@contextmanager
def ringing_after(seconds: float) -> Iterator[Event]:
    """After so many seconds everything is broken off as by Ctrl-C; never if they are infinite.

    What it gives is set then: the session was ended by its own clock and not from outside.
    """
    alarm = Event()

    def ring(_number: int, _frame: FrameType | None) -> None:
        alarm.set()
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


# The commands. The budget of the place is that of one session.


def show_campaign(request: Request, minutes: float, place: Place) -> int:
    """Prints the phases and what each gets; writes nothing."""
    request = resolved(request)
    _print_plan(request, minutes, phases_of(request, minutes), place)
    return 0


def campaign(request: Request, minutes: float, place: Place, archive: Path | None = None) -> int:
    """Measures one session; 0 when all is done, 1 when nothing was measured, 3 when it is to go on, 130 if stopped.

    Raises Mistake for what cannot be, and where a state or an archive is of another campaign or environment.
    """
    began_s, session_s = monotonic() - age_s(), seconds_of(place.budget)
    check_session(session_s)
    if archive:
        check_place(archive)
    tell_unused_gpu(request.device)
    try:
        with measuring_alone(), stopping_on_terminate():
            request = resolved(request)
            if archive:
                take_in(archive, place.results, states=not place.fresh)
            state, phases = _begun(request, minutes, place)
            request = replace(request, environment=state.environment)
            if state.done:
                return _told_end(state, place.results, phases)
            ends_s = began_s + (inf if session_s is None else session_s)
            return _one_session(replace(place, budget="none"), archive, (request, state, phases), (began_s, ends_s))
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped; what was measured is kept, and the same command continues.")
        return STOPPED


def finish_here(archive: Path, results: Path) -> int:
    """Takes an archive in, ends its campaigns with what they have and publishes; measures nothing."""
    machines = take_in(archive, results)
    if not machines:
        raise Mistake(f"{archive} holds no campaign; name the file that ./speedmatrix campaign --archive has written.")
    for machine in machines:
        close(results / machine, read_state(results / machine / STATE))
    _publish(results)
    return 0


def take_in(archive: Path, results: Path, *, states: bool = True) -> tuple[str, ...]:
    """Takes the runs of an archive in, and its campaigns' states unless others are to begin; gives the machines."""
    runs, kept = opened(archive)
    told = {name: parsed(content, f"{STATE} in {archive}") for name, content in kept.items()}
    for contribution, is_unfinished in runs:
        keep(results, contribution, is_unfinished=is_unfinished)
    for machine, state in told.items() if states else ():
        _keep_state(results / machine / STATE, state, archive)
    if runs:
        told_runs = f"Taken in from {archive}: {len(runs)} runs"
        Console().print(told_runs, highlight=False, markup=False, soft_wrap=True)
    return tuple(told)


def _keep_state(path: Path, state: State, archive: Path) -> None:
    """Of two states of one campaign the one that has spent more is the newer."""
    here = read_state(path)
    if here is not None and (here.words, here.began) != (state.words, state.began):
        raise Mistake(f"{path} and {archive} are about two campaigns; move one of them, or choose another --results.")
    if here is None or state.spent_s > here.spent_s:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, state.encoded, "choose another folder with --results")


def _begun(request: Request, minutes: float, place: Place) -> tuple[State, tuple[Phase, ...]]:
    """The state to go on with, that of the last session or a new one, and the campaign's phases."""
    fresh = new_state(request, minutes)
    machine = place.results / fresh.environment.machine
    found = None if place.fresh else read_state(machine / STATE)
    if found is not None:
        check_same(found, request, machine / STATE)
        found = gone_on_with(found, fresh.environment)
        request = replace(request, environment=found.environment)
    phases = phases_of(request, minutes)
    if found is not None and found.minutes == minutes:
        Console().print(f"Going on with the campaign: {spent(found.spent_s, minutes)}", highlight=False)
        return found, phases
    _print_plan(request, minutes, slower(phases, found.arm_s if found else {}, request), place)
    if found is not None:
        return extended(found, minutes, machine), phases
    make_folder(machine, "choose another folder with --results")
    return fresh, phases


def _one_session(
    place: Place, archive: Path | None, campaign: tuple[Request, State, tuple[Phase, ...]], span_s: tuple[float, float]
) -> int:
    """Measures, closes and publishes as far as the session reaches; then the archive is packed, however it ended."""
    (request, state, phases), (began_s, ends_s) = campaign, span_s

    def save(*, at_last: bool = False) -> None:
        if at_last:  # a scheduler that has asked once waits some seconds
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if archive:
            for words in pack(archive, place.results, state.environment):
                Console(stderr=True).print(words, highlight=False, markup=False, soft_wrap=True)

    with ExitStack() as closing:
        closing.callback(save, at_last=True)  # when the state is written for good
        machine = place.results / state.environment.machine
        ours = list(own_runs(machine, state.environment)) if archive else []
        if archive and ours and (not archive.exists() or not all(map(is_finished, ours))):  # more minutes reopen some
            save()  # to check many runs takes longer than what is kept back for the end
        path = machine / STATE
        meter = closing.enter_context(Meter(path, state, monotonic() - began_s))
        alarm = closing.enter_context(ringing_after(ends_s - SAVE_S - monotonic()))
        now = Session(
            request=request, phases=phases, meter=meter, place=place, ends_s=ends_s - SAVE_S - REPORT_S,
            watch=Terminal(Console()), save=save,
        )  # fmt: skip
        try:
            return _worked(now)
        except KeyboardInterrupt:
            if not alarm.is_set():
                raise
            if not now.has_worked or now.is_writing:
                what = (
                    "The workloads' files take" if now.is_writing else "Closing the runs and writing their pages takes"
                )
                raise Mistake(f"{what} longer than a slice; give a longer --slice, or leave it out once.") from None
            now.watch.say(goes_on(meter.spent_s, meter.state.minutes))
            return GOES_ON


def _worked(now: Session) -> int:
    is_over_now = now.measure()
    if is_over_now:
        close(now.machine, now.meter.state)
    if not is_over_now or (now.has_worked and now.left_s < PAGES_S):
        now.watch.say(goes_on(now.meter.spent_s, now.meter.state.minutes))
        return GOES_ON
    if any(map(is_finished, own_runs(now.machine, now.meter.state.environment))):
        _publish(now.place.results)
    now.meter.note(done=True)
    return _told_end(now.meter.state, now.place.results, now.phases)


def _publish(results: Path) -> None:
    """The findings on claims first: the pages link to them."""
    show_claims((), "markdown", (results / CLAIMS, results), None)
    publish(results, check=False)


def _told_end(state: State, results: Path, phases: Sequence[Phase]) -> int:
    where, machine = Console(highlight=False), results / state.environment.machine
    still = [one.name for one in phases if not one.problem and one.name not in state.over]
    for sentence in ended(state.spent_s, state.minutes, still):
        where.print(sentence, markup=False, soft_wrap=True)
    where.print(f"Pages: {results / 'README.md'} and {machine / 'README.md'}", markup=False, soft_wrap=True)
    return 0 if any(own_runs(machine, state.environment)) else 1


def _print_plan(request: Request, minutes: float, phases: Sequence[Phase], place: Place) -> None:
    """The phases with their quotas, what is left out and why, and the files that have to be written first."""
    check_minutes(minutes, phases)
    where, able = console(), [one for one in phases if not one.problem]
    rows = plan_rows(able, quotas(measuring_s(minutes), able), minutes)
    _print(where, f"A campaign of {minutes:g} minutes", HEADINGS, rows)
    for words in left_out(phases):
        where.print(words, markup=False, highlight=False)
    ready = all_data(phases, request)
    if ready and (missing := missing_bytes(ready, place.data, ready.plan.blocks)):
        title = "To be written first, once: the minutes do not count it, a slice does"
        _print(where, title, DATA_HEADINGS, data_rows(missing, ready.environment.cores))


def _print(where: Console, title: str, headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    where.print(title, highlight=False)
    where.print(table)


# A campaign in words: its plan before it runs, and what became of it.

HEADINGS = "phase", "workloads", "ratios", "would take", "quota", "ends at"
LEFT_OVER = "what others leave"
DATA_HEADINGS = "workload", "files", "written in about"
WRITTEN_BYTES_S = 13e6  # by each core: two shared ones write 0.8 GB in half a minute


def plan_rows(phases: Iterable[Phase], quotas: Mapping[str, float], minutes: float) -> Iterator[tuple[str, ...]]:
    """The table under HEADINGS of the phases that are measured, the pages last."""
    ends_s = 0.0
    for one in phases:
        quota_s = quotas[one.name]
        ends_s += quota_s
        count = str(one.comparisons) if one.comparisons else NOTHING
        gets = taking(quota_s) if quota_s >= 0.5 else LEFT_OVER
        yield str(one.kind), ", ".join(one.workloads), count, taking(one.seconds), gets, f"minute {ends_s / 60:.1f}"
    yield "pages", NOTHING, NOTHING, NOTHING, taking(60 * minutes - ends_s), f"minute {minutes:.1f}"


def left_out(phases: Iterable[Phase]) -> Iterator[str]:
    """A sentence for each phase that is not measured."""
    for one in phases:
        if one.problem:
            yield f"{' '.join((str(one.kind), *one.workloads))}: {one_line(one.problem)}."


def data_rows(missing: Mapping[str, int], cores: int) -> Iterator[tuple[str, ...]]:
    """The table under DATA_HEADINGS for files that are not there yet, in bytes by workload and size."""
    for name, count in missing.items():
        yield name, f"{count / 1e9:.2f} GB", taking(writing_s(count, cores))


def writing_s(count: int, cores: int) -> float:
    """About how long so many bytes of a workload's files take to write, in which all cores have a part."""
    return count / (WRITTEN_BYTES_S * cores)


def taking(seconds: float) -> str:
    """A time of the plan: `40 s`, `7.5 min`, or words where a search decides."""
    if isinf(seconds):
        return "as long as it finds"
    return f"{seconds:.0f} s" if seconds < 99.5 else f"{seconds / 60:.1f} min"


def spent(spent_s: float, minutes: float) -> str:
    """How far it has come: `4.2 of 30 minutes spent`."""
    return f"{spent_s / 60:.1f} of {minutes:g} minutes spent"


def goes_on(spent_s: float, minutes: float) -> str:
    """What a session says that did not see the end."""
    return f"{spent(spent_s, minutes)}; the same command continues."


def ended(spent_s: float, minutes: float, still: Sequence[str]) -> Iterator[str]:
    """What the last session says."""
    yield f"{spent(spent_s, minutes)}; the campaign is over."
    if still:
        named = ", ".join(still)
        yield (
            f"Not all was reached in {named}: what is missing is named on the pages, and the same command with more "
            "--minutes goes on with it."
        )
