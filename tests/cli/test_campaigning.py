"""A campaign on invented times: its slices, its minutes, what it does when something fails, and where it goes on."""

import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from harness.analyze.estimate import precisions
from harness.cli import campaign as campaigning
from harness.cli import campaign as slices
from harness.cli.campaign import LEAST_S, Slice, Wanted, Where, campaign, finish_here, show_campaign
from harness.cli.campaign_state import (
    Account,
    Asked,
    Data,
    Ground,
    Meter,
    SliceOver,
    Stock,
    account_text,
    apportioned,
    check_same,
    extended,
    gone_on_with,
    ground_of,
    legs_of,
    new_account,
    pack,
    parsed_account,
    prepared_for,
    read_account,
    slowness,
    take_in,
)
from harness.cli.planning import Prepared, pace_of, protocol_named
from harness.cli.progress import Progress
from harness.core.mistake import Mistake
from harness.core.plan import Block
from harness.core.records import Window, window_pairs
from harness.exchange.archive import ACCOUNT
from harness.measure.surroundings import read_environment
from harness.plan.campaign import PAGES_S, Kind, Leg
from harness.plan.cost import arm_s
from harness.run.execution import Campaign
from harness.run.rehearsal import Delays, Effects, RehearsedArm, VirtualClock
from harness.store import IN_PROGRESS, RUN, Journal, finish, read_records, read_run

ASKED = Asked(workloads=("leak", "speaker"), size="quick", protocol="brief", seed=0)
MINUTES = 30.0


class Died(BaseException):
    """The machine is gone."""


@dataclass(slots=True)
class Machine:
    """Where campaigns measure on invented times; nothing but arms lets time pass there."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    begun: list[str] = field(default_factory=list)  # designs and workloads of the plans that were worked on
    dies_at_s: float = float("inf")
    refuses: str = ""  # a workload that cannot be measured
    known: list[dict[str, float]] = field(default_factory=list)  # seconds of an arm, as each plan began with them
    attempts: list[int] = field(default_factory=list)  # that each plan began
    imports_s: float = Delays().imports_s  # of an arm

    def campaign_into(
        self, ready: Prepared, folder: Path, _data: Data, deadline_s: float | None, arm_s: dict[str, float],
        plan_ends_s: float | None = None,
    ) -> None:  # fmt: skip
        """Runs a plan into its folder, as far as the time allows."""
        self.known.append(dict(arm_s))
        names = "+".join(dict.fromkeys(one.reference.workload for one in ready.plan.blocks))
        self.begun.append(f"{ready.plan.design} {names}")
        if names == self.refuses:
            raise Mistake("Its codec is missing; install it.")
        journal, random = Journal(folder), Random(len(self.begun))

        def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
            if self.clock() > self.dies_at_s:
                raise Died
            config = block.reference if position == 0 else block.comparisons[position - 1].treatment
            return RehearsedArm(
                config=config, timing=block.timing, effects=Effects(), clock=self.clock, random=Random(random.random()),
                delays=Delays(imports_s=self.imports_s),
            )  # fmt: skip

        work = Campaign(
            plan=ready.plan, records=read_records(folder), start=start, append=journal.append,
            watcher=Progress(ready.plan, Console(quiet=True)), clock=self.clock, deadline_s=deadline_s,
            plan_ends_s=plan_ends_s, precisions=precisions, arm_s=arm_s,
        )  # fmt: skip
        try:
            if work.run():
                finish(folder)
        finally:
            self.attempts.append(work.attempts)
            journal.close()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    there = Machine()
    monkeypatch.setattr(slices, "campaign_into", there.campaign_into)
    monkeypatch.setattr(Stock, "of", lambda *_: {})
    return there


@pytest.fixture(scope="module")
def ground() -> Ground:
    return ground_of(ASKED, read_environment("cpu"))


@pytest.fixture(scope="module")
def fresh(ground: Ground) -> Account:
    """The account of a campaign that has not begun."""
    return account_of(MINUTES, ground)


@pytest.fixture(scope="module")
def single() -> Ground:
    """A campaign of one workload."""
    return ground_of(replace(ASKED, workloads=("leak",)), read_environment("cpu"))


def account_of(minutes: float, ground: Ground) -> Account:
    """The account of a campaign that has not begun."""
    return new_account(minutes, legs_of(apportioned(minutes, ground)), ground)


@pytest.fixture(scope="module")
def brief(ground: Ground) -> Account:
    """The same with less time."""
    return account_of(15.0, ground)


def one_slice(there: Machine, results: Path, ground: Ground, account: Account, slice_s: float = 540.0) -> bool:
    """Measures one slice; tells whether nothing more is to come, and closes the runs if so."""
    path = results / ground.environment.machine / ACCOUNT
    path.parent.mkdir(parents=True, exist_ok=True)
    console = Console(quiet=True)
    with Meter(path, account, age_s=0.0, clock=there.clock) as meter:
        now = Slice(
            ground=ground, meter=meter, stock=Stock(results=results, data=None, meter=meter, console=console),
            ends_s=there.clock() + slice_s, save=lambda: None, console=console, clock=there.clock,
        )  # fmt: skip
        over = now.all_legs()
        if over:
            now.close()
        return over


def kept(results: Path, ground: Ground) -> Account:
    found = read_account(results / ground.environment.machine / ACCOUNT)
    assert found is not None
    return found


def runs_in(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/*/{RUN}"))


def assert_nothing_twice(results: Path) -> None:
    """One run for each plan, and no window of it twice."""
    digests = Counter(one.name.rpartition("-")[2] for one in runs_in(results))
    assert set(digests.values()) == {1}
    for folder in runs_in(results):
        windows = [one for one in read_records(folder) if isinstance(one, Window)]  # one beside a cut is made again
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


def assert_closed(results: Path) -> None:
    """Nothing that says something is left unpublished."""
    unfinished = [one for one in runs_in(results) if (one / IN_PROGRESS).exists() and read_records(one)]
    assert all(read_run(one).plan.design == "calibration" for one in unfinished)


@pytest.mark.thorough
def test_slices_go_on_until_all_minutes_are_used(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account
) -> None:
    account, over, ends = fresh, False, list[float]()
    while not over:
        began_s = machine.clock()
        over = one_slice(machine, tmp_path, ground, account)
        account = kept(tmp_path, ground)
        ends.append(machine.clock() - began_s)
        assert len(ends) < 12
    assert max(ends) < 540 + 15  # a window and a start may outlast the end that real arms are held to
    assert account.spent_s == pytest.approx(machine.clock())
    assert account.spent_s < 60 * MINUTES - PAGES_S + 15
    assert len(ends) >= 3
    designs = list(dict.fromkeys(machine.begun))
    assert designs[:4] == ["calibration leak", "combined leak+speaker", "matrix leak", "matrix speaker"]
    assert {"claims leak", "claims speaker"} <= set(designs)
    assert_nothing_twice(tmp_path)
    assert_closed(tmp_path)


def test_every_workload_has_something_before_any_is_widened(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account
) -> None:
    one_slice(machine, tmp_path, ground, fresh, slice_s=1000.0)
    first = machine.begun.index("combined leak+speaker")
    assert not any(one.startswith("matrix") for one in machine.begun[:first])
    (folder,) = [one for one in runs_in(tmp_path) if read_run(one).plan.design == "combined"]
    blocks = {block.identity: block.reference.workload for block in read_run(folder).plan.blocks}
    assert {blocks[one.arm.block] for one in read_records(folder)} == set(ASKED.workloads)


@pytest.mark.thorough
def test_a_machine_that_dies_again_and_again_converges(tmp_path: Path, machine: Machine, single: Ground) -> None:
    account, random, deaths, over = account_of(MINUTES, single), Random(1), 0, False
    while not over:
        machine.dies_at_s = machine.clock() + random.uniform(100, 300)
        try:
            over = one_slice(machine, tmp_path, single, account, slice_s=float("inf"))
        except Died:
            deaths += 1
        account = kept(tmp_path, single)
        assert deaths < 60
    assert deaths > 5
    assert account.spent_s < 60 * MINUTES - PAGES_S + 15
    assert_nothing_twice(tmp_path)
    assert {read_run(one).plan.design for one in runs_in(tmp_path)} >= {"combined", "matrix", "claims"}


@pytest.mark.thorough
def test_a_search_ends_with_a_winner_that_is_held_against_the_system_as_it_was(
    tmp_path: Path, machine: Machine, single: Ground
) -> None:
    assert one_slice(machine, tmp_path, single, account_of(40.0, single), slice_s=float("inf"))
    assert {"winner leak", "alone leak"} <= set(machine.begun)
    (folder,) = [one for one in runs_in(tmp_path) if read_run(one).plan.design == "alone"]
    (comparison,) = read_run(folder).plan.comparisons
    assert read_run(folder).plan.names[str(comparison.reference)] == "original"
    assert_nothing_twice(tmp_path)


def test_the_next_machine_goes_on_from_the_archive(tmp_path: Path, machine: Machine, single: Ground) -> None:
    here, archive, spent_s = tmp_path / "first", tmp_path / "a.tar.gz", 0.0
    account = account_of(MINUTES, single)
    for number in range(3):
        assert not one_slice(machine, here, single, account, slice_s=400.0)
        assert pack(archive, here, single.environment) == len([one for one in runs_in(here) if read_records(one)])
        before = {one.name: len(read_records(one)) for one in runs_in(here) if read_records(one)}
        shutil.rmtree(here)
        here = tmp_path / f"machine-{number}"
        take_in(archive, here)
        account = kept(here, single)
        assert account.spent_s > spent_s
        spent_s = account.spent_s
        assert {one.name: len(read_records(one)) for one in runs_in(here)} == before
    assert_nothing_twice(here)


@pytest.mark.thorough
def test_what_fails_is_told_and_the_others_go_on(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    machine.refuses = "speaker"
    one_slice(machine, tmp_path, ground, brief, slice_s=float("inf"))
    refused = Counter(one for one in machine.begun if one.endswith(" speaker"))
    # A search begins with the matrix, if it begins: the one of leak may use all that those of speaker have left.
    assert set(refused) == {"matrix speaker", "claims speaker"}
    assert max(refused.values()) <= 2
    assert "claims leak" in machine.begun[machine.begun.index("matrix speaker") :]
    measured = {block.reference.workload for one in runs_in(tmp_path) for block in read_run(one).plan.blocks}
    assert "leak" in measured
    assert [one for one in kept(tmp_path, ground).over if one.endswith("speaker")] == []


@pytest.mark.thorough
def test_a_leg_knows_what_arms_took_in_those_before_it(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    one_slice(machine, tmp_path, ground, brief, slice_s=float("inf"))
    assert machine.known[0] == {}
    matrix = machine.begun.index("matrix speaker")
    assert set(machine.known[matrix]) == {"leak", "speaker"}
    assert all(seconds > 0 for seconds in machine.known[matrix].values())


def test_a_slice_knows_what_arms_took_in_those_before_it(tmp_path: Path, machine: Machine, single: Ground) -> None:
    one_slice(machine, tmp_path, single, account_of(15.0, single), slice_s=120.0)
    left, before = kept(tmp_path, single), len(machine.known)
    assert left.arm_s["quick"]["leak"] > 0
    one_slice(machine, tmp_path, single, left)
    assert machine.known[before] == left.arm_s["quick"]


def matrices_of(account: Account) -> tuple[Leg, Leg, float]:
    """The legs of both matrices, and the share of the second."""
    leak, speaker = (one for one in account.legs if one.kind is Kind.MATRIX)
    return leak, speaker, speaker.until_s - leak.until_s


def test_a_share_that_is_known_to_be_too_thin_falls_to_the_next(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    leak, speaker, share_s = matrices_of(brief)
    account = replace(
        brief, legs=(leak, speaker), spent_s=leak.until_s - share_s,
        arm_s={"quick": dict.fromkeys(ground.asked.workloads, share_s / 3)},  # the least of a comparison is four arms
    )  # fmt: skip
    one_slice(machine, tmp_path, ground, account, slice_s=float("inf"))
    assert machine.begun[:2] == ["matrix leak", "matrix speaker"]
    assert machine.attempts[0] == 0 < machine.attempts[1]


@pytest.mark.thorough
def test_where_equal_shares_of_what_is_left_are_too_thin_one_leg_has_all_of_it(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    leak, speaker, left_s = matrices_of(brief)
    account = replace(
        brief, legs=(leak, speaker), spent_s=leak.until_s,
        arm_s={"quick": {"leak": left_s / 5, "speaker": left_s}},
    )  # fmt: skip
    one_slice(machine, tmp_path, ground, account, slice_s=float("inf"))
    assert machine.begun[:4] == ["matrix speaker", "matrix leak", "matrix speaker", "matrix leak"]
    assert machine.attempts[:3] == [0, 0, 0]
    assert machine.attempts[3] > 0


@pytest.mark.thorough
def test_when_arms_are_known_to_be_slow_the_first_look_still_has_something_of_every_workload(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    machine.imports_s = 30.0
    one_slice(machine, tmp_path, ground, brief, slice_s=float("inf"))
    (folder,) = [one for one in runs_in(tmp_path) if read_run(one).plan.design == "combined"]
    plan, records = read_run(folder).plan, read_records(folder)
    for workload in ASKED.workloads:
        of_it = {block.identity for block in plan.blocks if block.reference.workload == workload}
        attempts = {one.arm.replicate for one in records if isinstance(one, Window) and one.arm.block in of_it}
        assert len(attempts) == plan.protocol.replicates, workload
    assert machine.begun.index("combined leak+speaker") == 1
    account = kept(tmp_path, ground)
    assert account.shared_at[0] is Kind.FIRST_LOOK
    assert [one.name for one in account.legs] == [one.name for one in brief.legs]
    assert account.measuring_s == pytest.approx(brief.measuring_s)
    marks = [one.until_s for one in account.legs]
    assert marks == sorted(marks)
    assert account.legs[1].share_s > 1.5 * brief.legs[1].share_s


@pytest.mark.thorough
def test_before_each_kind_of_leg_the_time_is_shared_out_anew_but_once(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account
) -> None:
    slices_s, account, seen = 0.0, fresh, list[tuple[tuple[Kind, ...], tuple[float, ...]]]()
    while slices_s < fresh.measuring_s:
        machine.imports_s += 1.0
        one_slice(machine, tmp_path, ground, account, slice_s=100.0)
        slices_s, account = slices_s + 100.0, kept(tmp_path, ground)
        seen.append((account.shared_at, tuple(one.until_s for one in account.legs)))
    for (kinds, marks), (later_kinds, later_marks) in pairwise(seen):
        assert later_kinds[: len(kinds)] == kinds
        assert (kinds == later_kinds) == (marks == later_marks)
    assert len(set(account.shared_at)) == len(account.shared_at) >= 3


def test_a_leg_that_a_slice_cuts_off_goes_on_in_the_next_before_any_other(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account
) -> None:
    account, cut = replace(fresh, over=("calibration",)), 0
    while account.spent_s < fresh.legs[2].until_s:
        one_slice(machine, tmp_path, ground, account, slice_s=60.0)
        account = kept(tmp_path, ground)
        look = next(one for one in account.legs if one.kind is Kind.FIRST_LOOK)
        if look.name in account.over or account.spent_s > look.until_s - LEAST_S:
            break
        assert not any(one.startswith("matrix") for one in machine.begun)
        cut += 1
    assert cut >= 2
    designs = {read_run(one).plan.design for one in runs_in(tmp_path) if read_records(one)}
    assert "combined" in designs


@pytest.mark.thorough
def test_a_leg_of_a_strangers_account_that_nobody_would_plan_is_left_out(
    tmp_path: Path, machine: Machine, ground: Ground, brief: Account
) -> None:
    strange = Leg(kind=Kind.MATRIX, workloads=("nobody's",), share_s=60.0, until_s=brief.measuring_s)
    for legs in ((*brief.legs, strange), (brief.legs[0], strange)):
        account = replace(brief, legs=legs, over=("calibration",))
        assert one_slice(machine, tmp_path / str(len(legs)), ground, account, slice_s=float("inf"))
        assert kept(tmp_path / str(len(legs)), ground).measuring_s == pytest.approx(brief.measuring_s)


@pytest.mark.thorough
def test_what_was_measured_before_leaves_its_time_to_all_that_follow(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account
) -> None:
    begun = replace(fresh, over=("calibration", "first look"))
    one_slice(machine, tmp_path, ground, begun, slice_s=float("inf"))
    (leak, speaker) = (one.share_s for one in kept(tmp_path, ground).legs if one.kind is Kind.MATRIX)
    assert leak == pytest.approx(speaker)
    assert leak > 1.2 * next(one.share_s for one in fresh.legs if one.kind is Kind.MATRIX)


def test_arms_of_no_known_workload_or_size_say_nothing_of_slowness(ground: Ground) -> None:
    strange = {"quick": {"a stranger's": 1e6}, "huge": {"leak": 1e6}, "smoke": {"leak": 0.0}}
    assert slowness(strange, ground) == 1.0
    pace = pace_of(ground.catalogue.workload("leak"), "quick", "cpu")
    guess_s = arm_s(protocol_named("brief"), pace)
    assert slowness(strange | {"quick": {"leak": 3 * guess_s}}, ground) == pytest.approx(3.0)


def test_arms_of_another_size_tell_nothing(tmp_path: Path, machine: Machine, single: Ground) -> None:
    account = replace(account_of(15.0, single), arm_s={"standard": {"leak": 1e5}})
    one_slice(machine, tmp_path, single, account)
    assert machine.known[0] == {}
    assert kept(tmp_path, single).arm_s["standard"] == {"leak": 1e5}


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e9])
def test_an_account_with_impossible_seconds_is_refused(fresh: Account, seconds: float) -> None:
    damaged = account_text(replace(fresh, arm_s={"quick": {"leak": seconds}}))
    with pytest.raises(Mistake, match="its times cannot be"):
        parsed_account(damaged, "campaign.json")


@pytest.mark.thorough
def test_more_minutes_open_what_was_closed(tmp_path: Path, machine: Machine, single: Ground) -> None:
    assert one_slice(machine, tmp_path, single, account_of(6.0, single), slice_s=float("inf"))
    account, there = kept(tmp_path, single), tmp_path / single.environment.machine
    assert account.closed
    records = {name: len(read_records(there / name)) for name in account.closed}
    more = extended(account, MINUTES, legs_of(apportioned(MINUTES, single)), there)
    assert (more.closed, more.done, more.spent_s) == ((), False, account.spent_s)
    assert all((there / name / IN_PROGRESS).exists() for name in account.closed)
    one_slice(machine, tmp_path, single, more, slice_s=900.0)
    assert any(len(read_records(there / name)) > count for name, count in records.items())
    assert_nothing_twice(tmp_path)


def test_a_machine_that_is_calibrated_is_not_calibrated_again(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "calibration_beside", lambda *_: "known")
    one_slice(machine, tmp_path, ground, fresh)
    assert machine.begun[0] == "combined leak+speaker"
    assert "calibration" in kept(tmp_path, ground).over


def test_a_calibration_that_can_tell_ends_with_its_share(tmp_path: Path, machine: Machine, single: Ground) -> None:
    one_slice(machine, tmp_path, single, account_of(50.0, single), slice_s=900.0)
    (folder,) = [one for one in runs_in(tmp_path) if read_run(one).plan.design == "calibration"]
    assert not (folder / IN_PROGRESS).exists()
    assert "calibration" in kept(tmp_path, single).over


def test_files_that_do_not_fit_into_the_slice_end_it(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*_: object) -> Data:
        raise SliceOver

    monkeypatch.setattr(Stock, "of", over)
    assert not one_slice(machine, tmp_path, ground, fresh)
    assert machine.begun == []


def test_claims_ask_only_what_the_matrix_does_not(ground: Ground) -> None:
    found = {
        kind: {(one.treatment, one.reference, one.timing) for one in ready.plan.comparisons}
        for kind in (Kind.FIRST_LOOK, Kind.MATRIX, Kind.CLAIMS)
        if (ready := prepared_for(kind, ("leak",), ground))
    }
    assert found[Kind.CLAIMS]
    assert not found[Kind.CLAIMS] & (found[Kind.MATRIX] | found[Kind.FIRST_LOOK])


def test_a_calibration_is_of_a_size_whose_steps_are_short(ground: Ground) -> None:
    real = replace(ground, asked=replace(ASKED, size="standard"))
    ready = prepared_for(Kind.CALIBRATION, ("leak",), real)
    assert ready is not None
    assert {block.reference.size for block in ready.plan.blocks} == {"quick"}


def test_another_question_or_environment_is_refused_with_what_differs(ground: Ground, fresh: Account) -> None:
    where = Path("results/h200") / ACCOUNT
    check_same(fresh, ground, where)
    asked = replace(ground, asked=replace(ASKED, workloads=("leak",), seed=3))
    with pytest.raises(Mistake, match=r"asked otherwise \(workloads leak\+speaker, now leak; seed 0, now 3\)"):
        check_same(fresh, asked, where)
    other = replace(fresh, environment=replace(fresh.environment, driver="580.1", packages=(("torch", "1.0"),)))
    with pytest.raises(Mistake, match=r"another environment \(driver 580\.1, now missing; .*torch 1\.0, now .*--fresh"):
        check_same(other, ground, where)
    with pytest.raises(Mistake, match=r"another environment \(speedmatrix 0\.0\.1, now "):
        check_same(replace(fresh, version="0.0.1"), ground, where)


@pytest.mark.thorough
def test_another_box_of_the_same_kind_goes_on_with_the_runs_and_is_noted(
    tmp_path: Path, machine: Machine, single: Ground
) -> None:
    first = replace(single.environment, device="cuda", accelerator="NVIDIA H200", driver="580.159.03")
    box = replace(first, driver="580.159.04", memory_bytes=round(1.01 * first.memory_bytes))
    there, path = replace(single, environment=first), tmp_path / first.machine / ACCOUNT
    account = account_of(MINUTES, there)
    one_slice(machine, tmp_path, there, account, slice_s=300.0)
    begun = runs_in(tmp_path)
    check_same(kept(tmp_path, there), replace(there, environment=box), path)
    now = gone_on_with(kept(tmp_path, there), box)
    assert now.environment == first
    assert [one.environment for one in now.further] == [box]
    assert gone_on_with(now, box) == now  # the same box once more
    assert parsed_account(account_text(now), "here") == now
    one_slice(machine, tmp_path, replace(there, environment=now.environment), now)
    assert begun
    assert set(begun) <= set(runs_in(tmp_path))
    assert_nothing_twice(tmp_path)
    assert {read_run(one).environment for one in runs_in(tmp_path)} == {first}
    with pytest.raises(Mistake, match="another environment"):
        check_same(now, replace(there, environment=replace(box, cores=3)), path)


def test_the_command_measures_on_another_box_of_the_same_kind(
    tmp_path: Path, machine: Machine, single: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(single.environment, device="cuda", accelerator="NVIDIA H200", driver="580.159.03")
    seen = list[Ground]()
    monkeypatch.setattr(Slice, "all_legs", lambda self: seen.append(self.ground) is not None)
    for driver in ("580.159.03", "580.159.04"):
        monkeypatch.setattr(campaigning, "read_environment", lambda _, it=driver: replace(first, driver=it))
        assert campaign(wanted(slice_="9m", asked=single.asked), where(tmp_path)) == 3
    assert [one.environment for one in seen] == [first, first]
    found = read_account(tmp_path / "results" / first.machine / ACCOUNT)
    assert found is not None
    assert [one.environment.driver for one in found.further] == ["580.159.04"]


@pytest.fixture(autouse=True)
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command begins with its process; this one is as old as all tests before it."""
    monkeypatch.setattr(campaigning, "age_s", lambda: 1.0)


def wanted(minutes: float = 30.0, slice_: str = "none", asked: Asked = ASKED) -> Wanted:
    return Wanted(asked=asked, device="cpu", minutes=minutes, slice=slice_)


def where(tmp_path: Path, archive: Path | None = None, *, fresh: bool = False) -> Where:
    return Where(results=tmp_path / "results", data=tmp_path / "data", archive=archive, fresh=fresh)


def test_the_plan_is_shown_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_campaign(wanted(), where(tmp_path)) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in ("A campaign of 30 minutes", "calibration", "first look", "matrix", "pages", "To be written first"):
        assert words in out
    assert list(tmp_path.iterdir()) == []


def test_wishes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    refused = [
        (wanted(1.0), "--minutes 1 is too short for two workloads; give"),
        (wanted(asked=replace(ASKED, workloads=("nope",))), "There is no workload 'nope'"),
        (wanted(asked=replace(ASKED, size="nope")), "leak has no size 'nope'"),
        (wanted(asked=replace(ASKED, protocol="nope")), "There is no protocol 'nope'"),
        (wanted(slice_="soon"), "'soon' is not a time"),
        (wanted(slice_="10s"), "A slice of 10 s is too short"),
    ]
    for one, words in refused:
        with pytest.raises(Mistake, match=words):
            campaign(one, where(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_command_ends_publishes_and_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = list[str]()
    monkeypatch.setattr(campaigning, "publish", lambda *_, **__: done.append("pages"))
    monkeypatch.setattr(campaigning, "show_claims", lambda *_: done.append("claims"))
    monkeypatch.setattr(Slice, "all_legs", lambda _: done.append("legs") is None)
    archive = tmp_path / "a.tar.gz"
    assert campaign(wanted(), where(tmp_path, archive)) == 1  # nothing was measured
    assert done == ["legs"]  # so that there is nothing to publish
    assert archive.exists()
    assert "of 30 minutes spent; the campaign is over." in capsys.readouterr().out
    assert campaign(wanted(), where(tmp_path, archive)) == 1
    assert done == ["legs"]  # it was over
    campaign(wanted(40.0), where(tmp_path, archive))
    assert done.count("legs") == 2
    campaign(wanted(40.0), where(tmp_path, archive, fresh=True))
    assert done.count("legs") == 3


def test_a_slice_that_sees_no_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Slice, "all_legs", lambda _: False)
    archive = tmp_path / "a.tar.gz"
    assert campaign(wanted(slice_="9m"), where(tmp_path, archive)) == 3
    assert "of 30 minutes spent; the same command continues." in capsys.readouterr().out
    assert archive.exists()


def test_stopped_from_outside_it_packs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(_: Slice) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Slice, "all_legs", stopped)
    assert campaign(wanted(), where(tmp_path, tmp_path / "a.tar.gz")) == 130
    assert "Stopped; what was measured is kept" in capsys.readouterr().err
    assert (tmp_path / "a.tar.gz").exists()


def test_an_archive_is_ended_and_published_where_nothing_is_measured(
    tmp_path: Path, machine: Machine, ground: Ground, fresh: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_slice(machine, tmp_path / "there", ground, fresh, slice_s=900.0)
    archive, done = tmp_path / "a.tar.gz", list[str]()
    pack(archive, tmp_path / "there", ground.environment)
    monkeypatch.setattr(campaigning, "publish", lambda *_, **__: done.append("pages"))
    monkeypatch.setattr(campaigning, "show_claims", lambda *_: done.append("claims"))
    assert finish_here(archive, where(tmp_path, archive)) == 0
    assert done == ["claims", "pages"]
    assert_closed(tmp_path / "results")
    with pytest.raises(Mistake, match=r"holds no campaign; name the file that"):
        finish_here(tmp_path / "absent.tar.gz", where(tmp_path))
