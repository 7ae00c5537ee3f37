"""A campaign's phases as requests, and its state on the disk beside the runs: what was asked, and the seconds used."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from threading import Event, RLock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

from harness import __version__
from harness.analyze.calibration import DESIGN
from harness.analyze.composition import precisions
from harness.catalogue import read_catalogue
from harness.cli.measuring import shown_command
from harness.core.catalogue import Catalogue
from harness.core.codec import Malformed, decode, encode
from harness.core.configuration import Comparison
from harness.core.environment import Environment, differing, is_one_kind
from harness.core.mistake import Mistake
from harness.core.plan import STAGES, Request
from harness.core.protocol import REPLICATES_ALONE
from harness.exchange.archive import NAME_OF_RUN, STATE
from harness.plan import cost
from harness.plan.campaign import MOST, Kind, Phase
from harness.plan.planning import (
    CALIBRATION_TARGET,
    PROCESS,
    SMALLEST_POOL,
    USUAL_SIZE,
    pace_of,
    plan_of,
    protocol_named,
    short_steps,
)
from harness.plan.schedule import is_complete
from harness.results import read_whole, thresholds_of
from harness.run.preparation import Prepared, environment_of, prepared
from harness.search import QualityClass, request_of
from harness.store import reopen, replace_file

# Phases: what each measures, as plans that the commands for each alone would make too.

# As many times what one comparison takes. A calibration is no condition; a search measures some stacks, then its winner
# in four replicates, and that against the original.
ATTEMPTS = {Kind.CALIBRATION: 0, Kind.BEST: 6}


@cache
def _catalogue() -> Catalogue:
    return read_catalogue()


def resolved(request: Request) -> Request:
    """The request of a campaign with its workloads, its size and the environment; raises Mistake for what is none."""
    environment, known = environment_of(request), _catalogue()
    names, size = request.workloads or tuple(sorted(known.workloads)), request.size or USUAL_SIZE
    protocol_named(request.protocol)
    for name in names:
        if size not in (sizes := known.workload(name).sizes):
            raise Mistake(f"{name} has no size '{size}'; choose one of {', '.join(sizes)}.")
    return replace(
        request, workloads=tuple(dict.fromkeys(names)), size=size, device=environment.device, environment=environment
    )


def phases_of(request: Request, minutes: float) -> tuple[Phase, ...]:
    """Every phase in order; the calibration on as many workloads as its part of the minutes allows, if on any."""
    names = request.workloads
    others = (_phase(kind, (name,), request) for kind in list(Kind)[2:] for name in names)
    return (
        _phase(Kind.FIRST_LOOK, names, request),
        _calibration(request, MOST[Kind.CALIBRATION] * 60 * minutes),
        *others,
    )


def slower(phases: Iterable[Phase], arm_s: Mapping[str, Mapping[str, float]], request: Request) -> tuple[Phase, ...]:
    """The phases with their needs, by what arms were seen to take (size -> workload -> seconds) in place of guesses."""
    times = slowness(arm_s, request)
    return tuple(replace(one, seconds=times * one.seconds, least_s=times * one.least_s) for one in phases)


def slowness(arm_s: Mapping[str, Mapping[str, float]], request: Request) -> float:
    """How many times as long as guessed the arms took that were seen; 1 without any."""
    known, protocol = _catalogue().workloads, protocol_named(request.protocol)
    measured_s = {(size, name): seconds for size, found in arm_s.items() for name, seconds in found.items()}
    guessed_s = {
        (size, name): cost.arm_s(protocol, pace_of(known[name], size, request.device))
        for size, name in measured_s
        if name in known and size in known[name].sizes  # a state may be a stranger's
    }
    return cost.slowness(measured_s, guessed_s) or 1.0


def prepared_for(phase: Phase, request: Request) -> Prepared | None:
    """The plan of a phase; None where nothing is left to ask. Raises Mistake for what cannot be."""
    if phase.kind is Kind.CLAIMS:
        return _open_claims(phase.workloads, request)
    if phase.kind in {Kind.MATRIX, Kind.BEST}:
        return _prepared(search_of(phase.workloads[0], request))
    mine = replace(request, workloads=phase.workloads, design=STAGES)
    if phase.kind is Kind.CALIBRATION:
        # What every interval rests on comes from arms that nobody is beside.
        mine = replace(
            mine, design=DESIGN, size=_calibration_size(request), target=CALIBRATION_TARGET, isolation=PROCESS
        )
    return _prepared(mine)


def search_of(workload: str, request: Request) -> Request:
    """The request with which a search for the fastest stack begins: its matrix is the campaign's."""
    return request_of(replace(request, workloads=(workload,), design="matrix"), QualityClass.CLOSE)


def against_original(workload: str, stack: Iterable[object], request: Request) -> Prepared | None:
    """The plan that holds a stack against the original; None where that had nothing switched on."""
    known = _catalogue()
    if request.environment is None or not known.original(known.workload(workload), request.environment):
        return None
    words = "+".join(map(str, stack))
    return _prepared(replace(request, workloads=(workload,), design="alone", stack=words, reference="original"))


@cache  # a matrix takes a while to plan, and three phases begin with it
def _prepared(request: Request) -> Prepared:
    return prepared(request, shown_command(sys.argv[1:]))


def _open_claims(workloads: tuple[str, ...], request: Request) -> Prepared | None:
    """The ledger's questions that neither the first look nor the matrix asks."""
    known = {_question(one) for one in _asked_before(workloads, request)}
    ready = _prepared(replace(request, workloads=workloads, design="claims"))
    still = [one for one in ready.plan.comparisons if _question(one) not in known]
    if not still:
        return None
    protocol = ready.plan.protocol
    if len(still) < SMALLEST_POOL:
        protocol = replace(protocol, replicates=REPLICATES_ALONE)
    plan = plan_of(ready.plan.design, still, replace(ready.plan, protocol=protocol), ready.catalogue, ready.environment)
    return replace(ready, plan=replace(plan, no_results=ready.plan.no_results))


def _asked_before(workloads: tuple[str, ...], request: Request) -> Iterator[Comparison]:
    for kind in (Kind.FIRST_LOOK, Kind.MATRIX):
        try:
            found = prepared_for(Phase(kind=kind, workloads=workloads), request)
        except Mistake:  # then that phase is left out with these words, and asks nothing
            continue
        yield from found.plan.comparisons if found else ()


def _question(one: Comparison) -> tuple[object, ...]:
    return one.treatment, one.reference, one.timing


def _phase(kind: Kind, workloads: tuple[str, ...], request: Request) -> Phase:
    """A phase with what it would take, or the words for why it cannot be."""
    phase = Phase(kind=kind, workloads=workloads)
    try:
        ready = prepared_for(phase, request)
    except Mistake as mistake:
        return replace(phase, problem=str(mistake).rstrip("."))
    if ready is None:
        return replace(phase, problem="the matrix asks all that is claimed")
    is_search, firsts_s = kind is Kind.BEST, cost.first_ratios_s(ready.plan, ready.paces)
    return replace(
        phase,
        comparisons=0 if is_search else len(ready.plan.comparisons),
        seconds=math.inf if is_search else cost.seconds_for(ready.plan, ready.paces),
        least_s=ATTEMPTS.get(kind, 1) * sum(firsts_s.values()),
    )


def _calibration(request: Request, bound_s: float) -> Phase:
    """The calibration on as many workloads with short steps as the bound allows, and on one at least."""
    short = short_steps(_catalogue(), _calibration_size(request), protocol_named(request.protocol))
    names = tuple(one for one in short if one in request.workloads) or short[:1]  # if need be another than asked
    if not names:
        words = f"every workload's step is slow at size {_calibration_size(request)}"
        return Phase(kind=Kind.CALIBRATION, workloads=(), problem=words)
    found = [_phase(Kind.CALIBRATION, names[:count], request) for count in range(1, len(names) + 1)]
    return next((one for one in reversed(found) if not one.problem and one.seconds <= bound_s), found[0])


def _calibration_size(request: Request) -> str:
    """A step of the real size loads a whole real batch; what a machine can tell is the same at a smaller one."""
    return "quick" if request.size == "standard" else str(request.size)


# The state: what is known of a campaign besides its runs, on the disk even if the machine dies at any moment.

SCHEMA = 2  # 1, of 0.3.0 and earlier, kept the phases' deadlines
TICK_S = 5.0  # so much is charged ahead: who dies within it has paid for it
LONGEST_S = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """A machine of the same kind on which a campaign went on."""

    since: str  # UTC, ISO 8601
    environment: Environment  # its own


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known of a campaign besides its runs. Seconds of all its sessions together."""

    began: str  # UTC, ISO 8601
    version: str  # of the harness
    environment: Environment
    words: tuple[str, ...]  # that ask for it; all sessions give the same
    minutes: float
    spent_s: float = 0.0
    phase_s: Mapping[str, float] = field(default_factory=dict)  # phase -> seconds of those
    over: tuple[str, ...] = ()  # phases in which nothing is left
    runs: tuple[str, ...] = ()  # folders that it has begun or gone on with
    done: bool = False
    # Size -> workload -> what an arm was last seen to take: phases and sessions learn of each other.
    arm_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # Machines after the first; `environment` and every run stay those of the first, since they are of one kind.
    further: tuple[Further, ...] = ()

    @property
    def encoded(self) -> bytes:
        """What `campaign.json` holds."""
        return (json.dumps({"schema": SCHEMA, **encode(self)}, indent=1) + "\n").encode()


def new_state(request: Request, minutes: float) -> State:
    """The state of a campaign that begins now; the request is resolved."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    environment = environment_of(request)
    return State(began=began, version=__version__, environment=environment, words=request.words, minutes=minutes)


def read_state(path: Path) -> State | None:
    """The state that is kept there, or None; raises Mistake where it is damaged."""
    try:
        return parsed(path.read_bytes(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}); check its permissions.") from error


def parsed(content: bytes, where: object) -> State:
    """A state from its text, checked field by field; raises Mistake where it is none."""
    try:
        body: Any = json.loads(content)
        if not isinstance(body, dict) or body.pop("schema", None) != SCHEMA:
            raise Malformed("its schema is not this version's")
        state = decode(State, body, STATE)
        times = (state.spent_s, state.minutes, *state.phase_s.values())
        times += tuple(seconds for size in state.arm_s.values() for seconds in size.values())
        if not all(0 <= one <= LONGEST_S for one in times):
            raise Malformed("its times cannot be")
        if not all(re.fullmatch(NAME_OF_RUN, one) for one in state.runs):  # they become paths
            raise Malformed("it has a name of a run that no run has")
    except (ValueError, RecursionError) as error:
        raise Mistake(
            f"{where} is damaged ({error}); remove it, and give --fresh to begin another campaign."
        ) from error
    return state


def check_same(state: State, request: Request, path: Path) -> None:
    """Raises Mistake with what differs where a campaign was asked otherwise, or was of another environment."""
    if state.words != request.words:
        raise Mistake(
            f"{path} is of a campaign that was asked otherwise ({' '.join(state.words[1:])}, now "
            f"{' '.join(request.words[1:])}); ask the same, or give --fresh."
        )
    here, changed = environment_of(request), list[str]()
    if not is_one_kind(state.environment, here):
        for name, *facts in differing(state.environment, here):
            before, after = ("missing" if one is None else str(one) for one in facts)
            changed.append(f"{name} {before}, now {after}")
    if state.version != __version__:
        changed.append(f"speedmatrix {state.version}, now {__version__}")
    if changed:
        raise Mistake(
            f"{path} is of another environment ({'; '.join(changed)}), and a campaign has one; restore it, or give "
            "--fresh to begin another: no run is lost."
        )


def gone_on_with(state: State, environment: Environment) -> State:
    """The state with this machine noted where it is not the one that came before."""
    latest = state.further[-1].environment if state.further else state.environment
    if not any(differing(latest, environment)):
        return state
    now = Further(since=datetime.now(UTC).isoformat(timespec="seconds"), environment=environment)
    return replace(state, further=(*state.further, now))


def extended(state: State, minutes: float, machine: Path) -> State:
    """The same campaign in other minutes: what was ended with something left to measure is open again."""
    left = [one for one in (machine / name for name in state.runs) if one.is_dir() and _has_left(one)]
    for folder in left:
        reopen(folder)
    over = () if left else state.over  # a phase that has nothing left says so again at once
    return replace(state, minutes=minutes, done=False, over=over)


def _has_left(folder: Path) -> bool:
    """Whether something of a run is left to measure; a calibration counts as complete."""
    with read_whole(folder) as (run, records):
        known = partial(precisions, thresholds=thresholds_of(folder))
        return run.plan.design != DESIGN and not is_complete(run.plan, records, known)


class Meter:
    """Counts a session's seconds on the disk while they pass, always a little ahead of them."""

    def __init__(self, path: Path, state: State, age_s: float, clock: Callable[[], float] = monotonic) -> None:
        """Takes up a state; `age_s` is for how long this session has been running already."""
        self._path, self._clock, self._lock = path, clock, RLock()
        self._state, self._began_s = state, clock() - age_s
        self._stopped, self._thread = Event(), Thread(target=self._tick, daemon=True)
        self._paused_at_s: float | None = None

    def __enter__(self) -> Self:
        self._write(TICK_S)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._write(0.0)

    @property
    def state(self) -> State:
        """As it stands now."""
        with self._lock:
            return replace(self._state, spent_s=self.spent_s)

    @property
    def spent_s(self) -> float:
        """Seconds that all sessions together have spent, this one up to now."""
        with self._lock:
            now_s = self._clock() if self._paused_at_s is None else self._paused_at_s
            return self._state.spent_s + now_s - self._began_s

    def note(self, **changes: Any) -> None:
        """Changes fields of the state, on the disk too."""
        with self._lock:
            self._state = replace(self._state, **changes)
            self._write(TICK_S)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """While files are written the minutes stand still."""
        with self._lock:
            self._paused_at_s = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._began_s += self._clock() - self._paused_at_s
                self._paused_at_s = None

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            try:
                self._write(TICK_S)
            except Mistake:
                return  # whoever measures meets the same full disk and says so; the last write raises too

    def _write(self, ahead_s: float) -> None:
        with self._lock:
            state = replace(self._state, spent_s=self.spent_s + ahead_s)
            replace_file(self._path, state.encoded, "make room or choose another folder with --results")
