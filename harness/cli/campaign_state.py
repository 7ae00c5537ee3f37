"""Spending: a campaign's account on the disk, which knows its minutes even if the machine dies at any moment."""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Event, RLock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.calibration import DESIGN
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.measuring import TARGET, Place, prepare_data, replace_file
from harness.cli.planning import (
    REPLICATES_ALONE,
    SMALLEST_POOL,
    Prepared,
    Wish,
    pace_of,
    plan_of,
    prepared,
    protocol_named,
    usual_size,
)
from harness.cli.reading import ORIGIN, console
from harness.cli.search import QualityClass, SearchRequest, wish_of
from harness.core.codec import Malformed, decode, encode
from harness.core.configuration import Comparison
from harness.core.environment import Environment, differing, is_one_kind
from harness.core.mistake import Mistake
from harness.core.plan import Block, Plan
from harness.core.records import Record
from harness.exchange.archive import ACCOUNT, LARGEST_ARCHIVE, Packed, packed_archive, read_archive
from harness.exchange.bundle import Contribution, read
from harness.exchange.placing import write_whole
from harness.exchange.validation import Unfit, sentence
from harness.plan import cost
from harness.plan.campaign import MOST, PAGES_S, Kind, Leg, Want, legs, shared_anew
from harness.plan.cost import Pace
from harness.report.campaign import DATA_HEADINGS, HEADINGS, Row, data_rows, left_out, plan_rows, writing_s
from harness.run.data import data_folder, data_root
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    RUN,
    Run,
    finish,
    folder_of,
    read_records,
    read_run,
    record_line,
    run_text,
    stamp_of,
)

SCHEMA = 1
TICK_S = 5.0  # so much is charged ahead: who dies within it has paid for it
LONGEST_S = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a campaign is about; all slices of one ask the same."""

    workloads: tuple[str, ...]
    size: str
    protocol: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """A machine of the same kind on which a campaign went on."""

    since: str  # UTC, ISO 8601
    environment: Environment  # its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of a campaign besides its runs. Seconds of all its slices together."""

    began: str  # UTC, ISO 8601
    version: str  # of the harness
    environment: Environment
    asked: Asked
    minutes: float
    legs: tuple[Leg, ...]
    spent_s: float = 0.0
    data_s: float = 0.0  # for writing the workloads' files, which the minutes do not pay for
    over: tuple[str, ...] = ()  # legs in which nothing is left
    runs: tuple[str, ...] = ()  # folders that its legs have begun or gone on with
    closed: tuple[str, ...] = ()  # those of them that were ended with something left to measure
    done: bool = False
    # Size -> workload -> what an arm was last seen to take: legs and slices learn of each other.
    arm_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata={"since": "0.2.0"})
    # Before the first leg of these kinds what was left has been shared out anew.
    shared_at: tuple[Kind, ...] = field(default=(), metadata={"since": "0.2.0"})
    # Machines after the first; `environment` and every run stay those of the first, since they are of one kind.
    further: tuple[Further, ...] = field(default=(), metadata={"since": "0.3.0"})

    @property
    def measuring_s(self) -> float:
        """How many of its seconds may be measured in; the rest is the pages'."""
        return self.legs[-1].until_s


def read_account(path: Path) -> Account | None:
    """The account that is kept there, or None; raises Mistake where it is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    return parsed_account(content, path)


def parsed_account(content: bytes, where: object) -> Account:
    """An account from its text, checked field by field; raises Mistake where it is none."""
    try:
        body: Any = json.loads(content)
        if not isinstance(body, dict) or body.pop("schema", None) != SCHEMA:
            raise Malformed("its schema is not known here")
        account = decode(Account, body, ACCOUNT)
        times = (account.spent_s, account.data_s, account.minutes, *(one.until_s for one in account.legs))
        times += tuple(seconds for size in account.arm_s.values() for seconds in size.values())
        if not account.legs or not all(0 <= one <= LONGEST_S for one in times):
            raise Malformed("its times cannot be")
    except (ValueError, RecursionError) as error:
        raise Mistake(
            f"{where} is damaged ({error}); remove it, and give --fresh to begin another campaign."
        ) from error
    return account


def account_text(account: Account) -> bytes:
    """What `campaign.json` holds."""
    return (json.dumps({"schema": SCHEMA, **encode(account)}, indent=1) + "\n").encode()


class Meter:
    """Counts a slice's seconds on the disk while they pass, always a little ahead of them."""

    def __init__(self, path: Path, account: Account, age_s: float, clock: Callable[[], float] = monotonic) -> None:
        """Takes up an account; `age_s` is for how long this slice has been running already."""
        self._path, self._clock, self._lock = path, clock, RLock()
        self._account = account
        self._began_s = clock() - age_s
        self._paused_s = 0.0
        self._paused_at_s: float | None = None
        self._stopped, self._thread = Event(), Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        """Begins to count."""
        self._write(TICK_S)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes what was spent to the second."""
        self._stopped.set()
        self._thread.join()
        self._write(0.0)

    @property
    def account(self) -> Account:
        """As it stands now."""
        with self._lock:
            data_s = self._account.data_s + self._paused_now_s
            return replace(self._account, spent_s=self.spent_s, data_s=data_s)

    @property
    def spent_s(self) -> float:
        """Seconds that all slices together have spent, this one up to now."""
        with self._lock:
            return self._account.spent_s + self._clock() - self._began_s - self._paused_now_s

    def note(self, **changes: Any) -> None:
        """Changes fields of the account, on the disk too."""
        with self._lock:
            self._account = replace(self._account, **changes)
            self._write(TICK_S)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """While files are written the minutes stand still, and another sum grows."""
        with self._lock:
            self._paused_at_s = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._paused_s, self._paused_at_s = self._paused_now_s, None

    @property
    def _paused_now_s(self) -> float:
        return self._paused_s + (0.0 if self._paused_at_s is None else self._clock() - self._paused_at_s)

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            try:
                self._write(TICK_S)
            except Mistake:
                return  # whoever measures meets the same full disk and says so; the last write raises too

    def _write(self, ahead_s: float) -> None:
        with self._lock:
            account = self.account
            account = replace(account, spent_s=account.spent_s + ahead_s)
            replace_file(self._path, account_text(account), "make room or choose another folder with --results")


# Legs: what each leg of a campaign measures, as plans that the commands for each alone would make too.

# As many times what one comparison takes. A calibration is no condition; a search measures some stacks, then its winner
# in four replicates, and that against the system as it was found.
ATTEMPTS = {Kind.CALIBRATION: 0, Kind.BEST: 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a campaign is about, and where: everything there is, and the machine."""

    asked: Asked
    catalogue: Catalogue
    environment: Environment


def ground_of(asked: Asked, environment: Environment) -> Ground:
    """The ground of what the user named, all workloads and the usual size where none is; raises Mistake."""
    catalogue = read_catalogue()
    names, chosen = asked.workloads or tuple(sorted(catalogue.workloads)), asked.size or usual_size(environment)
    protocol_named(asked.protocol)
    for name in names:
        if chosen not in (sizes := catalogue.workload(name).sizes):
            raise Mistake(f"{name} has no size '{chosen}'; choose one of {', '.join(sizes)}.")
    named = replace(asked, workloads=tuple(dict.fromkeys(names)), size=chosen)
    return Ground(asked=named, catalogue=catalogue, environment=environment)


def wants_of(ground: Ground, bound_s: float, slower: float = 1.0) -> tuple[Want, ...]:
    """What every leg would measure, in the order of the legs; the calibration within a bound where it can be.

    Arms take so many times as long as they are guessed to.
    """
    names = ground.asked.workloads
    calibration = _calibration(ground, bound_s / slower)
    look = _want(Kind.FIRST_LOOK, names, ground)
    wants = (calibration, look, *(_want(kind, (name,), ground) for kind in list(Kind)[2:] for name in names))
    return tuple(replace(one, seconds=slower * one.seconds, least_s=slower * one.least_s) for one in wants)


def slowness(arm_s: Mapping[str, Mapping[str, float]], ground: Ground) -> float:
    """How many times as long as guessed the arms took that were seen (size -> workload -> seconds); 1 without any."""
    known, protocol = ground.catalogue.workloads, protocol_named(ground.asked.protocol)
    measured_s = {(size, name): seconds for size, found in arm_s.items() for name, seconds in found.items()}
    guessed_s = {
        (size, name): cost.arm_s(protocol, _pace(name, size, ground))
        for size, name in measured_s
        if name in known and size in known[name].sizes  # an account may be a stranger's
    }
    return cost.slowness(measured_s, guessed_s) or 1.0


def prepared_for(kind: Kind, workloads: tuple[str, ...], ground: Ground) -> Prepared | None:
    """The plan of a leg on this machine; None where nothing is left to ask. Raises Mistake for what cannot be."""
    if kind is Kind.CALIBRATION:
        return _prepared(replace(_wish(ground, workloads, DESIGN), size=_calibration_size(ground), target=TARGET))
    if kind is Kind.FIRST_LOOK:
        return _prepared(_wish(ground, workloads, "combined"))
    if kind is Kind.CLAIMS:
        return _open_claims(workloads, ground)
    return _prepared(search_of(workloads[0], ground))


def search_of(workload: str, ground: Ground) -> Wish:
    """The wish with which a search for the fastest stack begins: its matrix is the campaign's."""
    wish = _wish(ground, (workload,), "matrix")
    return wish_of(SearchRequest(wish=wish, quality=QualityClass.CLOSE))


def against_as_found(workload: str, stack: Iterable[object], ground: Ground) -> Prepared | None:
    """The plan that holds a stack against the system as it was found; None where that had nothing switched on."""
    if not ground.catalogue.original(ground.catalogue.workload(workload), ground.environment):
        return None
    wish = _wish(ground, (workload,), "alone")
    return prepared(replace(wish, stack="+".join(map(str, stack)), reference="original"))


def _pace(name: str, size: str, ground: Ground) -> Pace:
    return pace_of(ground.catalogue.workload(name), size, ground.environment.device)


@cache  # a matrix takes a while to plan, and three legs begin with it
def _prepared(wish: Wish) -> Prepared:
    return prepared(wish)


def _wish(ground: Ground, workloads: tuple[str, ...], design: str) -> Wish:
    asked = ground.asked
    return Wish(
        workloads=workloads, size=asked.size, batch=None, design=design, only=(), stack=None, reference="baseline",
        probe=None, protocol=asked.protocol, replicates=None, rounds=None, seed=asked.seed,
        device=ground.environment.device, own=None, environment=ground.environment,
    )  # fmt: skip


def _open_claims(workloads: tuple[str, ...], ground: Ground) -> Prepared | None:
    """The ledger's questions that neither the first look nor the matrix asks."""
    known = {_question(one) for one in _asked_before(workloads, ground)}
    ready = _prepared(_wish(ground, workloads, "claims"))
    still = [one for one in ready.plan.comparisons if _question(one) not in known]
    if not still:
        return None
    return replace(ready, plan=_without_others(ready.plan, still, ground.catalogue))


def _asked_before(workloads: tuple[str, ...], ground: Ground) -> Iterator[Comparison]:
    for kind in (Kind.FIRST_LOOK, Kind.MATRIX):
        try:
            found = prepared_for(kind, workloads, ground)
        except Mistake:  # then that leg is left out with these words, and asks nothing
            continue
        yield from found.plan.comparisons if found else ()


def _question(one: Comparison) -> tuple[object, ...]:
    return one.treatment, one.reference, one.timing


def _without_others(plan: Plan, still: list[Comparison], catalogue: Catalogue) -> Plan:
    few = len(still) < SMALLEST_POOL
    protocol = replace(plan.protocol, replicates=REPLICATES_ALONE) if few else plan.protocol
    return replace(plan_of(plan.design, still, replace(plan, protocol=protocol), catalogue), no_results=plan.no_results)


def _want(kind: Kind, workloads: tuple[str, ...], ground: Ground) -> Want:
    """What a leg would measure, or the words for why it cannot."""
    try:
        ready = prepared_for(kind, workloads, ground)
    except Mistake as mistake:
        reason = str(mistake).rstrip(".")
        return Want(kind=kind, workloads=workloads, comparisons=0, seconds=0.0, problem=reason)
    if ready is None:
        words = "the matrix asks all that is claimed"
        return Want(kind=kind, workloads=workloads, comparisons=0, seconds=0.0, problem=words)
    count, firsts_s = len(ready.plan.comparisons), cost.first_ratios_s(ready.plan, ready.paces)
    return Want(
        kind=kind,
        workloads=workloads,
        comparisons=0 if kind is Kind.BEST else count,
        seconds=math.inf if kind is Kind.BEST else cost.seconds_for(ready.plan, ready.paces),
        least_s=ATTEMPTS.get(kind, 1) * sum(firsts_s.values()),
    )


def _calibration(ground: Ground, bound_s: float) -> Want:
    """The calibration on as many workloads with short steps as the bound allows, and on one at least."""
    names = _short_steps(ground)
    if not names:
        words = f"every workload's step is slow at size {_calibration_size(ground)}"
        return Want(kind=Kind.CALIBRATION, workloads=(), comparisons=0, seconds=0.0, problem=words)
    found = [_want(Kind.CALIBRATION, names[:count], ground) for count in range(1, len(names) + 1)]
    return next((one for one in reversed(found) if not one.problem and one.seconds <= bound_s), found[0])


def _short_steps(ground: Ground) -> tuple[str, ...]:
    """Workloads that show many pairs in little time, the shortest steps first; others than asked if need be."""
    protocol, size = protocol_named(ground.asked.protocol), _calibration_size(ground)
    sizes = {name: one.sizes[size] for name, one in ground.catalogue.workloads.items() if size in one.sizes}
    known = sorted((one.step_s or cost.USUAL.step_s, name) for name, one in sizes.items())
    short = [(step_s, name) for step_s, name in known if not protocol.is_slow(step_s)]
    asked = [name for _, name in short if name in ground.asked.workloads]
    return tuple(asked or [name for _, name in short[:1]])


def _calibration_size(ground: Ground) -> str:
    """A step of the real size loads a whole real batch; what a machine can tell is the same at a smaller one."""
    return "quick" if ground.asked.size == "standard" else ground.asked.size


# Reopening: the account that a slice goes on with, unless it is of another campaign or of another environment.


def new_account(minutes: float, legs: tuple[Leg, ...], ground: Ground) -> Account:
    """The account of a campaign that begins now."""
    return Account(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        environment=ground.environment,
        asked=ground.asked,
        minutes=minutes,
        legs=legs,
    )


def extended(account: Account, minutes: float, legs: tuple[Leg, ...], machine: Path) -> Account:
    """The same campaign in other minutes: runs that were ended with something left to measure are open again."""
    for name in account.closed:
        if (machine / name).is_dir():
            (machine / name / IN_PROGRESS).touch()
    return replace(account, minutes=minutes, legs=legs, closed=(), done=False)


def check_same(account: Account, ground: Ground, path: Path) -> None:
    """Raises Mistake with what differs where a campaign was asked otherwise, or was of another environment."""
    if account.asked != ground.asked:
        words = "; ".join(_asked_otherwise(account.asked, ground.asked))
        raise Mistake(f"{path} is of a campaign that was asked otherwise ({words}); ask the same, or give --fresh.")
    changed: list[str] = []
    if not is_one_kind(account.environment, ground.environment):
        for name, before, after in differing(account.environment, ground.environment):
            changed.append(f"{name} {_shown(before)}, now {_shown(after)}")
    if account.version != __version__:
        changed.append(f"speedmatrix {account.version}, now {__version__}")
    if changed:
        raise Mistake(
            f"{path} is of another environment ({'; '.join(changed)}), and a campaign has one; restore it, or give "
            "--fresh to begin another: no run is lost."
        )


def gone_on_with(account: Account, environment: Environment) -> Account:
    """The account with this machine noted where it is not the one that came before."""
    latest = account.further[-1].environment if account.further else account.environment
    if not any(differing(latest, environment)):
        return account
    now = Further(since=datetime.now(UTC).isoformat(timespec="seconds"), environment=environment)
    return replace(account, further=(*account.further, now))


def _asked_otherwise(was: Asked, now: Asked) -> Iterator[str]:
    for name in (one.name for one in fields(was)):
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            yield f"{name} {_shown(before)}, now {_shown(after)}"


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Stocking: the workloads' files in a slice of a campaign, written when they are first needed and if there is time.

Data = dict[tuple[str, str], Path]  # by workload and size


class SliceOver(Exception):
    """What comes next does not fit into what is left of the slice."""


@dataclass(slots=True, kw_only=True)
class Stock:
    """The files that this slice has at hand. Those that it found were held against their checksums once."""

    results: Path
    data: Path | None
    meter: Meter
    console: Console
    writing: bool = False  # at this moment
    has_written: bool = False
    _folders: Data = field(default_factory=dict)

    def of(self, ready: Prepared, left_s: float) -> Data:
        """The folders of a plan's data; raises SliceOver where some are missing and would take too long to write."""
        blocks = {(one.reference.workload, one.reference.size): one for one in ready.plan.blocks}
        unknown = [one for key, one in blocks.items() if key not in self._folders]
        fitting = _fitting(ready, self.data, unknown, left_s)
        if fitting:
            self._take(ready, fitting)
        if len(fitting) < len(unknown):
            raise SliceOver
        return {key: self._folders[key] for key in blocks}

    def _take(self, ready: Prepared, blocks: Sequence[Block]) -> None:
        """Brings the files of some blocks to hand, those that are missing written together."""
        missing = missing_bytes(ready, self.data, blocks)
        place = Place(results=self.results, data=self.data, budget="none", fresh=False)
        alone = replace(ready, plan=replace(ready.plan, blocks=tuple(blocks)))
        self.writing = True  # still so when a slice's alarm breaks it off: whoever asks then wants to know
        with self.meter.pausing():
            self._folders |= prepare_data(alone, place, self.console)
        self.writing = False
        self.has_written = self.has_written or bool(missing)


def _fitting(ready: Prepared, data: Path | None, blocks: Sequence[Block], left_s: float) -> Sequence[Block]:
    """The first of the blocks, as many as have their files written within the time."""
    for count in range(len(blocks), 0, -1):
        missing = missing_bytes(ready, data, blocks[:count])
        if not missing or writing_s(sum(missing.values()), ready.environment.cores) <= left_s:
            return blocks[:count]
    return ()


def missing_bytes(ready: Prepared, data: Path | None, blocks: Iterable[Block] | None = None) -> dict[str, int]:
    """Bytes of a plan's files that are still to be written, by `WORKLOAD, size SIZE`."""
    root, found = data_root(data), dict[str, int]()
    for block in ready.plan.blocks if blocks is None else blocks:
        name, size = block.reference.workload, block.reference.size
        workload = ready.catalogue.workload(name)
        if not data_folder(root, workload, size).exists():
            found[f"{name}, size {size}"] = workload.sizes[size].data_bytes
    return found


# Apportioning: what every leg of a campaign wants, what it gets, and the table that says so before anything runs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A leg's wish and its share; None where it is left out."""

    want: Want
    leg: Leg | None


def apportioned(minutes: float, ground: Ground, slower: float = 1.0) -> tuple[Shared, ...]:
    """The legs of so many minutes on this machine, whose arms take so many times as long as they are guessed to.

    Raises Mistake where the minutes are too few.
    """
    wants = wants_of(ground, MOST[Kind.CALIBRATION] * 60 * minutes, slower)
    found = {(one.kind, one.workloads): one for one in legs(minutes, wants)}
    return tuple(Shared(want=one, leg=None if one.problem else found[one.kind, one.workloads]) for one in wants)


def legs_of(shared: Iterable[Shared]) -> tuple[Leg, ...]:
    """Those that are measured."""
    return tuple(one.leg for one in shared if one.leg is not None)


def apportioned_anew(account: Account, first: Leg, spent_s: float, ground: Ground) -> tuple[Leg, ...]:
    """All legs of a campaign, from one of them on with other marks: what is left, by what arms take here.

    A leg that nobody would plan here keeps no share: an account may come from a stranger's archive.
    """
    begun = account.legs.index(first)
    later = account.legs[begun:]
    before = (replace(one, until_s=min(one.until_s, spent_s)) for one in account.legs[:begun])  # had their turn
    wants = {(one.kind, one.workloads): one for one in wants_of(ground, 0.0, slowness(account.arm_s, ground))}
    open_here = [one for one in later if one.name not in account.over and (one.kind, one.workloads) in wants]
    if not open_here:
        return account.legs
    without = [replace(one, share_s=0.0, until_s=spent_s) for one in later if one not in open_here]
    still = [wants[one.kind, one.workloads] for one in open_here]
    return *before, *without, *shared_anew(still, spent_s, account.measuring_s)


def print_plan(minutes: float, shared: Sequence[Shared], ground: Ground, data: Path | None) -> None:
    """The legs with their shares, what is left out and why, and the files that have to be written first."""
    rows, where = [_row(one) for one in shared], console()
    _print(where, f"A campaign of {minutes:g} minutes", HEADINGS, plan_rows(rows, PAGES_S, minutes))
    for words in left_out(rows):
        where.print(words, markup=False, highlight=False)
    if missing := _missing(legs_of(shared), ground, data):
        title = "To be written first, once: the minutes do not count it, a slice does"
        _print(where, title, DATA_HEADINGS, data_rows(missing, ground.environment.cores))


def _row(one: Shared) -> Row:
    want, leg = one.want, one.leg
    return Row(
        name=str(want.kind),
        workloads=want.workloads,
        comparisons=want.comparisons,
        wanted_s=want.seconds,
        share_s=leg.share_s if leg else None,
        until_s=leg.until_s if leg else None,
        problem=want.problem,
    )


def _print(where: Console, title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    first, *others = headings
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    where.print(title, highlight=False)
    where.print(table)


def _missing(measured: Iterable[Leg], ground: Ground, data: Path | None) -> dict[str, int]:
    """The calibration and the first look need the files of all the others."""
    found: dict[str, int] = {}
    for leg in measured:
        ready = prepared_for(leg.kind, leg.workloads, ground) if leg.kind in MOST else None
        found |= missing_bytes(ready, data) if ready else {}
    return found


# Archiving: the runs of a machine packed into a file that survives it, and taken in again on the next one.
#
# What is taken in was measured by whoever hands the file on, so it counts as measured here; it is checked like
# anybody's.

ANOTHER = "restore the file, or name another with --archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """What came out of an archive: how many runs, and the machines whose campaigns it goes on with."""

    runs: int
    machines: tuple[str, ...]


def check_place(archive: Path) -> None:
    """Raises Mistake where an archive could not be written at the end, before anything is measured for it."""
    folder = archive.absolute().parent
    if archive.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Mistake(f"{archive} cannot be written; name a file in a folder that exists and is writable.")


def take_in(archive: Path, results: Path, *, accounts: bool = True) -> TakenIn:
    """Keeps the runs of an archive among the results, and its campaigns' accounts unless another is to begin.

    There is nothing in a file that does not exist yet. Raises Mistake for one that no campaign has written.
    """
    if not archive.exists():
        return TakenIn(runs=0, machines=())
    now = datetime.now(UTC)
    try:
        found = read_archive(_content(archive))
        runs = [(read(one.parcel, now), one) for one in found.runs]
    except Unfit as unfit:
        raise Mistake(sentence(f"{archive} is not taken in", unfit, ANOTHER)) from unfit
    told = {name: parsed_account(content, f"{ACCOUNT} in {archive}") for name, content in found.accounts.items()}
    for contribution, one in runs:
        _keep(results, contribution, one)
    if accounts:
        for machine, account in told.items():
            _keep_account(results / machine / ACCOUNT, account, archive)
    return TakenIn(runs=len(runs), machines=tuple(told))


def pack(archive: Path, results: Path, environment: Environment) -> int:
    """Writes the runs of one environment and their account, whole or not at all; gives how many runs."""
    machine = results / environment.machine
    folders = list(own_runs(machine, environment))
    files = {name: content for folder in folders for name, content in _files(folder)}
    account = read_account(machine / ACCOUNT)
    if account is not None:
        files[f"{machine.name}/{ACCOUNT}"] = account_text(account)
    try:
        content = packed_archive(files)
    except Unfit as unfit:
        raise Mistake(sentence(f"{archive} is not written", unfit, f"take {machine} itself along")) from unfit
    replace_file(archive, content, "make room, or name another file with --archive")
    return len(folders)


def own_runs(machine: Path, environment: Environment) -> Iterator[Path]:
    """The folders of runs of real times that were measured in this very environment and hold something."""
    for path in sorted(machine.glob(f"*/{RUN}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not (folder / MEASUREMENTS).exists():
            continue
        run = read_run(folder)
        if not run.rehearsed and run.environment.digest == environment.digest and read_records(folder):
            yield folder


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """A run's files by their names in an archive, written anew so that a line that was cut short stays behind."""
    name = f"{folder.parent.name}/{folder.name}"
    yield f"{name}/{RUN}", (folder / RUN).read_bytes()
    yield f"{name}/{MEASUREMENTS}", _lines(read_records(folder))
    if (folder / IN_PROGRESS).exists():
        yield f"{name}/{IN_PROGRESS}", b""


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(map(record_line, records))


def _content(archive: Path) -> bytes:
    try:
        with archive.open("rb") as file:
            return file.read(LARGEST_ARCHIVE + 1)
    except OSError as error:
        raise Mistake(f"{archive} cannot be read ({error.strerror}); {ANOTHER}.") from error


def _keep(results: Path, contribution: Contribution, packed: Packed) -> None:
    """Puts a run where it belongs; of two copies of one run the longer is kept, which must begin like the other."""
    folder, records = _home(results, contribution.run), contribution.records
    if not folder.exists():
        marker = {IN_PROGRESS: b""} if packed.unfinished else {}
        lines = {RUN: run_text(contribution.run).encode(), MEASUREMENTS: _lines(records)}
        write_whole(results, folder, {**lines, **marker})
        return
    if (folder / ORIGIN).exists() or read_run(folder) != contribution.run:
        raise Mistake(f"{folder} holds another run than the archive has there; move it, or choose another --results.")
    here = read_records(folder)
    shorter = min(len(here), len(records))
    if _lines(here[:shorter]) != _lines(records[:shorter]):  # as text: what is no number equals nothing
        raise Mistake(f"{folder} and the archive disagree about what was measured there; move one of them.")
    if len(records) > len(here):
        replace_file(folder / MEASUREMENTS, _lines(records), "choose another folder with --results")
    if len(records) >= len(here) and not packed.unfinished:
        finish(folder)


def _home(results: Path, run: Run) -> Path:
    """Where a run belongs: where it lies already, even if its digest was another when a version knew fewer facts."""
    usual = folder_of(results, run)
    older = (path.parent for path in usual.parent.glob(f"{stamp_of(run)}-*/{RUN}"))
    return usual if usual.exists() else next((one for one in older if read_run(one) == run), usual)


def _keep_account(path: Path, account: Account, archive: Path) -> None:
    """Of two accounts of one campaign the one that has spent more is the newer."""
    here = read_account(path)
    if here is not None and (here.asked, here.began) != (account.asked, account.began):
        raise Mistake(f"{path} and {archive} are about two campaigns; move one of them, or choose another --results.")
    if here is None or account.spent_s > here.spent_s:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, account_text(account), "choose another folder with --results")
