"""A campaign on invented times: its sessions, its minutes, what it does when something fails, and where it goes on."""

import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Delays, Effects, RehearsedArm, VirtualClock
from harness.analyze.calibration import DESIGN
from harness.analyze.composition import precisions
from harness.api import SILENT, Until
from harness.cli import campaign as campaigning
from harness.cli import campaign_state
from harness.cli.campaign import (
    LEAST_S,
    Session,
    all_data,
    campaign,
    close,
    finish_here,
    show_campaign,
    take_in,
    writing_s,
)
from harness.cli.campaign_state import (
    Meter,
    State,
    check_same,
    extended,
    gone_on_with,
    new_state,
    parsed,
    phases_of,
    prepared_for,
    read_state,
    resolved,
    slowness,
)
from harness.cli.measuring import Progress
from harness.core.mistake import Mistake
from harness.core.plan import Block, Request
from harness.core.records import Record, Window, window_pairs
from harness.exchange.archive import STATE, pack, read_archive
from harness.measure.surroundings import read_environment
from harness.plan.campaign import MOST, Kind, Phase, measuring_s
from harness.run import preparation
from harness.run.data import data_folder
from harness.run.execution import Campaign, Start
from harness.run.preparation import Data, Place, Prepared
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    RUN,
    Journal,
    finish,
    hold_to_data,
    is_finished,
    read_records,
    read_run,
)
from tests.cli.test_bundling import measured
from tests.exchange.made import GOOD_RECORDS, GOOD_RUN

MINUTES = 30.0
NEVER = float("inf")
ASKED = Request(workloads=("leak", "speaker"), size="quick", device="cpu")
PHASES = cache(phases_of)  # which take seconds to plan, and most tests ask for the same


class Died(BaseException):
    """The machine is gone."""


@dataclass(slots=True)
class Machine:
    """Where campaigns measure on invented times; nothing but arms and files let time pass there."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    begun: list[str] = field(default_factory=list)  # designs and workloads of the plans that were worked on
    dies_at_s: float = NEVER
    refuses: str = ""  # a workload that cannot be measured
    known: list[dict[str, float]] = field(default_factory=list)  # seconds of an arm, as each plan began with them
    written: list[tuple[str, ...]] = field(default_factory=list)  # workloads whose files were written together
    spent_s: float = 0.0  # beside writing
    imports_s: float = Delays().imports_s  # of an arm
    is_paced: bool = False  # whether the cost model is told what workloads say of their steps

    def measure_into(
        self, ready: Prepared, folder: Path, _data: Data, until: Until, _watch: object, arm_s: dict[str, float]
    ) -> None:
        """Runs a plan into its folder, as far as the time allows."""
        self.known.append(dict(arm_s))
        names = "+".join(dict.fromkeys(one.reference.workload for one in ready.plan.blocks))
        self.begun.append(f"{ready.plan.design} {names}")
        if names == self.refuses:
            raise Mistake("Its codec is missing; install it.")
        journal, records, began_s = Journal(folder), read_records(folder), self.clock()
        work = Campaign(
            plan=ready.plan, records=records, start=self.starter(ready, records), append=journal.append,
            watcher=Progress(ready.plan, Console(quiet=True)), clock=self.clock, deadline_s=until.deadline_s,
            plan_ends_s=until.plan_ends_s, precisions=precisions, arm_s=arm_s,
            paces=ready.paces if self.is_paced else {},
        )  # fmt: skip
        try:
            if work.run():
                finish(folder)
        finally:
            self.spent_s += self.clock() - began_s
            journal.close()

    def starter(self, _ready: Prepared, _records: list[Record]) -> Start:
        """What starts the arms of a plan."""
        random = Random(len(self.begun))

        def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
            if self.clock() > self.dies_at_s:
                raise Died
            config = block.reference if position == 0 else block.comparisons[position - 1].treatment
            return RehearsedArm(
                config=config, timing=block.timing, effects=Effects(), clock=self.clock, random=Random(random.random()),
                delays=Delays(imports_s=self.imports_s),
            )  # fmt: skip

        return start

    def write(self, ready: Prepared, data: Path | None, _watch: object) -> Data:
        """Writes the files of a plan's workloads, at 200 seconds for as many as are missing."""
        keys = dict.fromkeys((one.reference.workload, one.reference.size) for one in ready.plan.blocks)
        found = {key: data_folder(data or Path("nowhere"), ready.catalogue.workload(key[0]), key[1]) for key in keys}
        if data is not None and (missing := [key for key, folder in found.items() if not folder.exists()]):
            for key in missing:
                found[key].mkdir(parents=True)
            self.written.append(tuple(sorted(name for name, _ in missing)))
            self.clock.now_s += 200
        return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    there = Machine()
    monkeypatch.setattr(campaigning, "measure_into", there.measure_into)
    monkeypatch.setattr(campaigning, "written", there.write)
    monkeypatch.setattr(campaigning, "phases_of", PHASES)
    monkeypatch.setattr(campaigning, "age_s", lambda: 1.0)  # this process is as old as all tests before it
    return there


@pytest.fixture(scope="module")
def both() -> Request:
    """A campaign of two workloads."""
    return resolved(ASKED)


@pytest.fixture(scope="module")
def single() -> Request:
    """A campaign of one workload."""
    return resolved(replace(ASKED, workloads=("leak",)))


def kept(results: Path, request: Request) -> State:
    assert request.environment
    found = read_state(results / request.environment.machine / STATE)
    assert found is not None
    return found


@dataclass(slots=True, kw_only=True)
class Trip:
    """A campaign on a machine, session after session."""

    there: Machine
    results: Path
    request: Request
    minutes: float = MINUTES
    data: Path | None = None
    phases: Sequence[Phase] = ()
    failed: set[str] = field(default_factory=set)

    def session(self, session_s: float = NEVER, state: State | None = None) -> bool:
        """Measures one; tells whether nothing more is to come, and closes the runs if so."""
        assert self.request.environment
        path = self.results / self.request.environment.machine / STATE
        path.parent.mkdir(parents=True, exist_ok=True)
        state = state or read_state(path) or new_state(self.request, self.minutes)
        with Meter(path, state, age_s=0.0, clock=self.there.clock) as meter:
            now = Session(
                request=self.request, phases=tuple(self.phases) or PHASES(self.request, self.minutes), meter=meter,
                place=Place(results=self.results, data=self.data), ends_s=self.there.clock() + session_s, watch=SILENT,
                clock=self.there.clock,
            )  # fmt: skip
            over = now.measure()
            if over:
                close(now.machine, now.meter.state)
            self.failed = now.failed
            return over

    @property
    def runs(self) -> list[Path]:
        """The folders of all runs."""
        return sorted(path.parent for path in self.results.glob(f"*/*/{RUN}"))

    def assert_nothing_twice(self) -> None:
        """One run for each plan, and no window of it twice."""
        digests = Counter(one.name.rpartition("-")[2] for one in self.runs)
        assert set(digests.values()) == {1}
        for folder in self.runs:
            windows = [one for one in read_records(folder) if isinstance(one, Window)]
            assert len({(one.arm, one.order) for one in windows}) == len(windows)
            plan = read_run(folder).plan
            rounds = {block.identity: block.rounds or plan.protocol.rounds for block in plan.blocks}
            attempts = defaultdict[tuple[str, int, int], list[Window]](list)
            for one in windows:
                attempts[one.arm.block, one.arm.replicate, one.arm.attempt].append(one)
            counted = Counter(
                (block, replicate, position)
                for (block, replicate, _), same in attempts.items()
                for position in {one.arm.position for one in same} - {0}
                for _ in window_pairs(same, position)
            )
            assert all(count <= rounds[block] for (block, _, _), count in counted.items())

    def assert_closed(self) -> None:
        """Nothing that says something is left unpublished."""
        unfinished = [one for one in self.runs if (one / IN_PROGRESS).exists() and read_records(one)]
        assert all(read_run(one).plan.design == "calibration" for one in unfinished)


@pytest.mark.thorough
def test_sessions_go_on_until_all_minutes_are_used(tmp_path: Path, machine: Machine, both: Request) -> None:
    trip, over, lengths = Trip(there=machine, results=tmp_path, request=both), False, list[float]()
    while not over:
        began_s = machine.clock()
        over = trip.session(540.0)
        lengths.append(machine.clock() - began_s)
        assert len(lengths) < 12
    assert max(lengths) < 540 + 15  # a window and a start may outlast the end that real arms are held to
    spent_s = kept(tmp_path, both).spent_s
    assert spent_s == pytest.approx(machine.clock())
    assert measuring_s(MINUTES) - 4 * LEAST_S < spent_s < measuring_s(MINUTES) + 15
    assert len(lengths) >= 3
    designs = list(dict.fromkeys(machine.begun))
    assert designs[0] == "stages leak+speaker"
    assert [one for one in designs if not one.startswith("calibration")][1:3] == ["matrix leak", "matrix speaker"]
    assert {"claims leak", "claims speaker"} <= set(designs)
    trip.assert_nothing_twice()
    trip.assert_closed()


def test_every_workload_has_something_before_any_is_widened(tmp_path: Path, machine: Machine, both: Request) -> None:
    trip = Trip(there=machine, results=tmp_path, request=both)
    trip.session(600.0)
    assert machine.begun[0] == "stages leak+speaker"
    (folder,) = [one for one in trip.runs if read_run(one).plan.design == "stages"]
    blocks = {block.identity: block.reference.workload for block in read_run(folder).plan.blocks}
    assert {blocks[one.arm.block] for one in read_records(folder)} == set(ASKED.workloads)


@pytest.mark.thorough
def test_a_machine_that_dies_again_and_again_converges(tmp_path: Path, machine: Machine, single: Request) -> None:
    trip, random, deaths, over = Trip(there=machine, results=tmp_path, request=single), Random(1), 0, False
    while not over:
        machine.dies_at_s = machine.clock() + random.uniform(100, 300)
        try:
            over = trip.session()
        except Died:
            deaths += 1
        assert deaths < 60
    assert deaths > 5
    assert kept(tmp_path, single).spent_s < measuring_s(MINUTES) + 15
    trip.assert_nothing_twice()
    assert {read_run(one).plan.design for one in trip.runs} >= {"stages", "matrix"}


@pytest.mark.thorough
def test_a_search_ends_with_a_winner_that_is_held_against_the_original(
    tmp_path: Path, machine: Machine, single: Request
) -> None:
    trip = Trip(there=machine, results=tmp_path, request=single, minutes=40.0)
    assert trip.session()
    assert {"winner leak", "alone leak"} <= set(machine.begun)
    found = [one for one in trip.runs if read_run(one).plan.design == "alone"]
    assert found
    for folder in found:  # where time is left, a later search may have another winner
        (comparison,) = read_run(folder).plan.comparisons
        assert read_run(folder).plan.names[str(comparison.reference)] == "original"
    trip.assert_nothing_twice()


def test_the_next_machine_goes_on_from_the_archive(tmp_path: Path, machine: Machine, single: Request) -> None:
    archive, spent_s = tmp_path / "a.tar.gz", 0.0
    trip = Trip(there=machine, results=tmp_path / "first", request=single)
    assert single.environment
    for number in range(3):
        assert not trip.session(400.0)
        there = {one.name: len(read_records(one)) for one in trip.runs if read_records(one)}
        assert pack(archive, trip.results, single.environment) == []
        shutil.rmtree(trip.results)
        trip.results = tmp_path / f"machine-{number}"
        take_in(archive, trip.results)
        assert kept(trip.results, single).spent_s > spent_s
        spent_s = kept(trip.results, single).spent_s
        assert {one.name: len(read_records(one)) for one in trip.runs} == there
    trip.assert_nothing_twice()


def test_an_archive_loses_nothing_to_a_machine_that_is_behind(
    tmp_path: Path, machine: Machine, single: Request
) -> None:
    archive, behind = tmp_path / "a.tar.gz", tmp_path / "behind"
    trip = Trip(there=machine, results=tmp_path / "first", request=single)
    trip.session(400.0)
    assert single.environment
    assert pack(archive, trip.results, single.environment) == []
    whole = read_archive(archive.read_bytes())
    shutil.copytree(trip.results, behind)
    path = next(one for one in sorted(behind.glob(f"*/*/{MEASUREMENTS}")) if one.read_text())
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    assert pack(archive, behind, single.environment) == []
    assert read_archive(archive.read_bytes()) == whole
    path.write_text("".join((*lines[: len(lines) // 2], lines[-1])))
    (told,) = pack(archive, behind, single.environment)
    assert "the archive holds another course of it" in told
    assert read_archive(archive.read_bytes()) == whole


@pytest.mark.thorough
def test_what_fails_is_told_and_the_others_go_on(tmp_path: Path, machine: Machine, both: Request) -> None:
    machine.refuses = "speaker"
    trip = Trip(there=machine, results=tmp_path, request=both, minutes=15.0)
    trip.session()
    refused = Counter(one for one in machine.begun if one.endswith(" speaker"))
    assert {"matrix speaker", "claims speaker"} <= set(refused)
    assert max(refused.values()) <= 2
    assert {"matrix speaker", "claims speaker"} <= trip.failed
    assert "claims leak" in machine.begun[machine.begun.index("matrix speaker") :]
    assert not [one for one in kept(tmp_path, both).over if one.endswith("speaker")]


def test_a_workload_whose_files_cannot_be_read_costs_no_other_its_campaign(
    monkeypatch: pytest.MonkeyPatch, both: Request
) -> None:
    """Its own phases say why before anything is written; the first look goes on with the others."""
    reason = "soundfile is not installed; pip install soundfile"
    monkeypatch.setattr(preparation, "unread", lambda one, _: reason if one.name == "speaker" else None)
    asked = replace(both, seed=both.seed + 1)  # plans of the same request are remembered
    phases = phases_of(asked, MINUTES)
    first = next(one for one in phases if one.kind is Kind.FIRST_LOOK)
    look, files = prepared_for(first, asked), all_data(phases, asked)
    assert not first.problem
    assert look is not None
    assert files is not None
    assert {one.reference.workload for one in look.plan.comparisons} == {"leak"}
    assert {one.reason for one in look.plan.no_results if one.workload == "speaker"} == {reason}
    assert {block.reference.workload for block in files.plan.blocks} == {"leak"}
    told = {one.kind: one.workloads for one in phases if one.problem and reason in one.problem}
    assert told == dict.fromkeys((Kind.MATRIX, Kind.CLAIMS, Kind.BEST), ("speaker",))


def test_a_session_knows_what_arms_took_in_those_before_it(tmp_path: Path, machine: Machine, single: Request) -> None:
    trip = Trip(there=machine, results=tmp_path, request=single, minutes=15.0)
    trip.session(120.0)
    left, before = kept(tmp_path, single), len(machine.known)
    assert machine.known[0] == {}
    assert left.arm_s["quick"]["leak"] > 0
    trip.session(540.0)
    assert machine.known[before] == left.arm_s["quick"]


def test_arms_of_no_known_workload_or_size_say_nothing_of_slowness(both: Request) -> None:
    strange = {"quick": {"a stranger's": 1e6}, "huge": {"leak": 1e6}, "smoke": {"leak": 0.0}}
    assert slowness(strange, both) == 1.0
    guess = slowness(strange | {"quick": {"leak": 3.0}}, both)
    assert slowness(strange | {"quick": {"leak": 9.0}}, both) == pytest.approx(3 * guess)


@pytest.mark.thorough
def test_slow_arms_leave_something_for_every_workload(tmp_path: Path, machine: Machine, both: Request) -> None:
    machine.imports_s = 4 * Delays().imports_s
    trip = Trip(there=machine, results=tmp_path, request=both)
    assert trip.session()
    (folder,) = [one for one in trip.runs if read_run(one).plan.design == "stages"]
    blocks = {block.identity: block.reference.workload for block in read_run(folder).plan.blocks}
    assert {blocks[one.arm.block] for one in read_records(folder)} == set(ASKED.workloads)
    assert kept(tmp_path, both).spent_s < measuring_s(MINUTES) + 60


def test_a_phase_that_a_session_cuts_off_is_the_next_ones_turn(tmp_path: Path, machine: Machine, both: Request) -> None:
    trip = Trip(there=machine, results=tmp_path, request=both)
    assert not trip.session(90.0)
    (begun,) = set(machine.begun)
    assert begun == "stages leak+speaker"
    assert not trip.session(90.0)
    assert machine.begun[1] == begun


def test_a_phase_is_charged_for_what_it_takes(tmp_path: Path, machine: Machine, both: Request) -> None:
    trip = Trip(there=machine, results=tmp_path, request=both)
    trip.session(900.0)
    state = kept(tmp_path, both)
    assert sum(state.phase_s.values()) == pytest.approx(state.spent_s, rel=0.01)
    assert state.phase_s["first look"] < MOST[Kind.FIRST_LOOK] * measuring_s(MINUTES) + 30


@pytest.mark.thorough
def test_more_minutes_open_what_was_closed(tmp_path: Path, machine: Machine, single: Request) -> None:
    trip = Trip(there=machine, results=tmp_path, request=single, minutes=6.0)
    assert trip.session()
    trip.assert_closed()
    state, records = kept(tmp_path, single), {one.name: len(read_records(one)) for one in trip.runs}
    assert single.environment
    more = extended(replace(state, done=True), MINUTES, tmp_path / single.environment.machine)
    assert (more.minutes, more.done, more.spent_s) == (MINUTES, False, state.spent_s)
    assert any((one / IN_PROGRESS).exists() for one in trip.runs)
    trip.minutes = MINUTES
    trip.session(900.0, more)
    assert any(len(read_records(one)) > records.get(one.name, 0) for one in trip.runs)
    trip.assert_nothing_twice()


def test_more_minutes_open_only_what_has_something_left_and_know_its_data(tmp_path: Path, single: Request) -> None:
    whole = measured(tmp_path)
    half = measured(tmp_path, replace(GOOD_RUN, began="2026-01-03T03:04:05+00:00"), GOOD_RECORDS[:-1])
    hold_to_data(half, {"leak quick": tmp_path / "disk"})
    state = replace(new_state(single, MINUTES), runs=(whole.name, half.name), done=True)
    finish(whole)
    close(whole.parent, state)
    assert [is_finished(one) for one in (whole, half)] == [True, True]
    extended(state, 2 * MINUTES, whole.parent)
    assert [is_finished(one) for one in (whole, half)] == [True, False]
    with pytest.raises(Mistake, match="begun with the data of leak quick"):
        hold_to_data(half, {"leak quick": tmp_path / "memory"})


def test_a_machine_that_is_calibrated_is_not_calibrated_again(
    tmp_path: Path, machine: Machine, single: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigning, "calibration_beside", lambda *_: "known")
    Trip(there=machine, results=tmp_path, request=single).session((MOST[Kind.FIRST_LOOK] + 0.1) * 60 * MINUTES)
    assert "matrix leak" in machine.begun
    assert not any(one.startswith("calibration") for one in machine.begun)


def test_a_calibration_that_can_tell_ends_with_its_quota(
    tmp_path: Path, machine: Machine, single: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_state, "CALIBRATION_TARGET", "0.1%")  # out of reach
    first, calibration, *others = phases_of(single, 50.0)
    roomy = replace(calibration, seconds=0.24 * measuring_s(50.0))  # enough copies, however long a step
    trip = Trip(there=machine, results=tmp_path, request=single, minutes=50.0, phases=(roomy, first, *others))
    trip.session(1200.0)
    (folder,) = [one for one in trip.runs if read_run(one).plan.design == "calibration"]
    assert not (folder / IN_PROGRESS).exists()
    assert "calibration" in kept(tmp_path, single).over


def test_files_are_written_once_and_the_minutes_do_not_pay(tmp_path: Path, machine: Machine, both: Request) -> None:
    trip = Trip(there=machine, results=tmp_path / "results", request=both, data=tmp_path / "data")
    trip.session(600.0)
    assert machine.written == [("leak", "speaker")]
    assert kept(trip.results, both).spent_s == pytest.approx(machine.spent_s)
    trip.session(300.0)
    assert len(machine.written) == 1
    assert kept(trip.results, both).spent_s == pytest.approx(machine.spent_s)


def test_files_that_do_not_fit_into_a_session_are_the_next_ones(
    tmp_path: Path, machine: Machine, both: Request
) -> None:
    trip = Trip(there=machine, results=tmp_path / "results", request=both, data=tmp_path / "data")
    assert both.environment
    assert not trip.session(0.5 * writing_s(300_000_000, both.environment.cores))
    assert [len(names) for names in machine.written] == [1]
    assert machine.begun == []
    trip.session(600.0)
    assert [len(names) for names in machine.written] == [1, 1]
    assert machine.begun


def test_claims_ask_only_what_the_matrix_does_not(both: Request) -> None:
    found = {
        kind: {(one.treatment, one.reference, one.timing) for one in ready.plan.comparisons}
        for kind in (Kind.FIRST_LOOK, Kind.MATRIX, Kind.CLAIMS)
        if (ready := prepared_for(Phase(kind=kind, workloads=("leak",)), both))
    }
    assert found[Kind.CLAIMS]
    assert not found[Kind.CLAIMS] & (found[Kind.MATRIX] | found[Kind.FIRST_LOOK])


def test_a_calibration_is_of_a_size_whose_steps_are_short() -> None:
    real = resolved(replace(ASKED, size="standard"))
    ready = prepared_for(Phase(kind=Kind.CALIBRATION, workloads=("leak",)), real)
    assert ready is not None
    assert {block.reference.size for block in ready.plan.blocks} == {"quick"}


def test_another_request_or_environment_is_refused_with_what_differs(both: Request) -> None:
    state, where = new_state(both, MINUTES), Path("results/h200") / STATE
    check_same(state, both, where)
    words = r"asked otherwise \(leak speaker --size quick --device cpu, now leak --size quick --seed 3 --device cpu\)"
    with pytest.raises(Mistake, match=words):
        check_same(state, replace(both, workloads=("leak",), seed=3), where)
    other = replace(state, environment=replace(state.environment, driver="580.1", packages=(("torch", "1.0"),)))
    with pytest.raises(Mistake, match=r"another environment \(driver 580\.1, now missing; .*torch 1\.0, now .*--fresh"):
        check_same(other, both, where)
    with pytest.raises(Mistake, match=r"another environment \(speedmatrix 0\.0\.1, now "):
        check_same(replace(state, version="0.0.1"), both, where)


def test_another_box_of_the_same_kind_goes_on_with_the_runs_and_is_noted(
    tmp_path: Path, machine: Machine, single: Request
) -> None:
    first = replace(read_environment("cpu"), device="cuda", accelerator="NVIDIA H200", driver="580.159.03")
    box = replace(first, driver="580.159.04", memory_bytes=round(1.01 * first.memory_bytes))
    there = replace(single, device="cuda", environment=first)
    trip = Trip(there=machine, results=tmp_path, request=there)
    trip.session(120.0)
    begun, state = trip.runs, kept(tmp_path, there)
    check_same(state, replace(there, environment=box), tmp_path)
    now = gone_on_with(state, box)
    assert (now.environment, [one.environment for one in now.further]) == (first, [box])
    assert gone_on_with(now, box) == now  # the same box once more
    assert parsed(now.encoded, "here") == now
    trip.session(120.0, now)
    assert set(begun) <= set(trip.runs)
    assert {read_run(one).environment for one in trip.runs} == {first}
    trip.assert_nothing_twice()
    with pytest.raises(Mistake, match="another environment"):
        check_same(now, replace(there, environment=replace(box, cores=3)), tmp_path)


# The command.


def place(tmp_path: Path, session: str = "none", *, fresh: bool = False) -> Place:
    return Place(results=tmp_path / "results", data=tmp_path / "data", budget=session, fresh=fresh)


def test_the_plan_is_shown_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_campaign(ASKED, MINUTES, place(tmp_path)) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in ("A campaign of 30 minutes", "calibration", "first look", "matrix", "pages", "To be written first"):
        assert words in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "minutes", "session", "words"),
    [
        ({}, 0.5, "none", "--minutes 0.5 is too short for two workloads; give"),
        ({"workloads": ("nope",)}, MINUTES, "none", "There is no workload 'nope'"),
        ({"size": "nope"}, MINUTES, "none", "leak has no size 'nope'"),
        ({"protocol": "nope"}, MINUTES, "none", "There is no protocol 'nope'"),
        ({}, MINUTES, "soon", "'soon' is not a time"),
        ({}, MINUTES, "10s", "A slice of 10 s is too short"),
    ],
)
def test_what_cannot_be_is_refused(
    changed: dict[str, object], minutes: float, session: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(Mistake, match=words):
        campaign(replace(ASKED, **changed), minutes, place(tmp_path, session))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was published."""
    done = list[str]()
    monkeypatch.setattr(campaigning, "publish", lambda *_, **__: done.append("pages"))
    monkeypatch.setattr(campaigning, "show_claims", lambda *_: done.append("claims"))
    return done


def test_the_command_ends_and_packs_and_goes_on_with_more_minutes(
    tmp_path: Path,
    machine: Machine,
    pages: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = list[State]()
    monkeypatch.setattr(Session, "measure", lambda self: sessions.append(self.meter.state) is None)
    archive = tmp_path / "a.tar.gz"
    assert campaign(ASKED, MINUTES, place(tmp_path), archive) == 1  # nothing was measured
    assert pages == []  # so that there is nothing to publish
    assert archive.exists()
    assert "of 30 minutes spent; the campaign is over." in capsys.readouterr().out
    assert campaign(ASKED, MINUTES, place(tmp_path), archive) == 1
    assert len(sessions) == 1  # it was over
    campaign(ASKED, 40.0, place(tmp_path), archive)
    assert sessions[1].minutes == 40.0
    assert sessions[1].began == sessions[0].began
    campaign(ASKED, 40.0, place(tmp_path, fresh=True), archive)
    assert len(sessions) == 3
    assert sessions[2].spent_s < 10


def test_pages_wait_for_a_run_that_is_finished(
    tmp_path: Path, machine: Machine, pages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(now: Session) -> bool:
        plan = replace(GOOD_RUN.plan, design=DESIGN)  # which does not end with its campaign
        run = replace(GOOD_RUN, plan=plan, environment=now.meter.state.environment)
        return measured(now.place.results, run).exists()

    monkeypatch.setattr(Session, "measure", measure)
    assert campaign(ASKED, MINUTES, place(tmp_path)) == 0
    assert pages == []


def test_a_session_that_sees_no_end_says_so(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "measure", lambda _: False)
    archive = tmp_path / "a.tar.gz"
    assert campaign(ASKED, MINUTES, place(tmp_path, "9m"), archive) == 3
    assert "of 30 minutes spent; the same command continues." in capsys.readouterr().out
    assert archive.exists()


@pytest.mark.parametrize(("worked", "writing"), [(True, False), (False, False), (False, True)])
def test_its_own_clock_ends_a_session(
    worked: bool, writing: bool, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(now: Session) -> bool:
        now.has_worked, now.is_writing = worked, writing
        signal.raise_signal(signal.SIGALRM)
        raise AssertionError

    monkeypatch.setattr(Session, "measure", measure)
    if worked:
        assert campaign(ASKED, MINUTES, place(tmp_path, "9m")) == 3
        return
    with pytest.raises(
        Mistake, match="files take longer than a slice" if writing else "Closing the runs .* takes longer"
    ):
        campaign(ASKED, MINUTES, place(tmp_path, "9m"))


def test_stopped_from_outside_it_packs_too(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(_: Session) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "measure", stopped)
    assert campaign(ASKED, MINUTES, place(tmp_path), tmp_path / "a.tar.gz") == 130
    assert "Stopped; what was measured is kept" in capsys.readouterr().err
    assert (tmp_path / "a.tar.gz").exists()


def test_an_archive_is_ended_and_published_where_nothing_is_measured(
    tmp_path: Path, machine: Machine, both: Request, pages: list[str]
) -> None:
    trip = Trip(there=machine, results=tmp_path / "there", request=both)
    trip.session(900.0)
    archive = tmp_path / "a.tar.gz"
    assert both.environment
    pack(archive, trip.results, both.environment)
    assert finish_here(archive, tmp_path / "results") == 0
    assert pages == ["claims", "pages"]
    trip.results = tmp_path / "results"
    trip.assert_closed()
    with pytest.raises(Mistake, match=r"holds no campaign; name the file that"):
        finish_here(tmp_path / "absent.tar.gz", tmp_path / "results")
