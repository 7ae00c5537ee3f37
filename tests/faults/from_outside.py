"""Faults from outside: signals to the command, its arms and its sentinel, another campaign, a clock, a budget."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from harness.core.records import Fault, Lost, Window, window_pairs
from harness.run.processes import SHARED, state_of
from harness.store import MEASUREMENTS, read_run
from tests.faults.injected import Injected
from tests.faults.own_doing import only
from tests.faults.stage import Seen, Stage, end
from tests.faults.worlds import clock_that_goes_back, lacks_compiler, lacks_mounts, mounted

ENDLESS = "--replicates 2 --rounds 300 --budget none"
SHORT = "--replicates 2 --rounds 2 --budget none"
ONE = only("set_to_none")
# Whoever runs the tests in the background may have switched these signals off, and children inherit that.
HEARING = ("env", "--default-signal=INT,HUP,TERM")


def assert_whole(stage: Stage) -> None:
    """Every replicate has exactly the pairs of the plan, none of them twice."""
    plan = read_run(stage.run_folder).plan
    windows = [one for one in stage.records if isinstance(one, Window)]
    assert len({(one.arm, one.order) for one in windows}) == len(windows)
    for block in plan.blocks:
        for replicate in range(plan.protocol.replicates):
            mine = [one for one in windows if (one.arm.block, one.arm.replicate) == (block.identity, replicate)]
            attempts = {one.arm.attempt for one in mine}
            counted = sum(
                len(window_pairs((one for one in mine if one.arm.attempt == attempt), 1)) for attempt in attempts
            )
            assert counted == plan.protocol.rounds


def killed_command(stage: Stage) -> Seen:
    """The command is killed and a line cut short; the same command ends what it had begun, and nothing twice."""
    with stage.running(f"{ONE} {SHORT}") as running:
        stage.wait_for(lambda: stage.windows >= 2, running)
        early = stage.records
        end(running, signal.SIGKILL)
        running.wait()
    stage.assert_nothing_is_left()
    before = stage.records
    assert before[: len(early)] == early
    with (stage.run_folder / MEASUREMENTS).open("ab") as file:
        file.write(b'{"schema": 2, "record": "bur')
    again = stage.start(f"{ONE} {SHORT}")
    seen = stage.ended(again, before)
    assert_whole(stage)
    return seen


def killed_with_its_sentinel(stage: Stage) -> Seen:
    """The sentinel is killed; the next one must know of every arm when the command is killed too."""
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(lambda: stage.windows >= 1, running)
        (first,) = stage.sentinels()
        first.kill()
        stage.wait_for(lambda: [one for one in stage.sentinels() if one.pid != first.pid], running)
        time.sleep(0.5)  # the next one has to start before it can hear
        windows = stage.windows
        stage.wait_for(lambda: stage.windows > windows, running)
        assert stage.leaders()
        end(running, signal.SIGKILL)
        return stage.ended(running, stage.records)


def signalled(number: signal.Signals, stage: Stage) -> Seen:
    """The command gets a signal."""
    with stage.running(f"{ONE} {ENDLESS}", within=HEARING) as running:
        stage.wait_for(lambda: stage.windows >= 1, running)
        end(running, number)
        status = running.wait(timeout=30)
        assert status == running.returncode
        return stage.ended(running, stage.records[:1])


def killed_arm(stage: Stage) -> Seen:
    """One arm is killed; it gets another attempt, and the plan is fulfilled."""
    with stage.running(f"{ONE} --replicates 2 --rounds 20 --budget none") as running:
        stage.wait_for(lambda: stage.windows >= 2, running)
        stage.leaders()[0].kill()
        stage.wait_for(lambda: any(isinstance(one, Lost) for one in stage.records), running)
        before = stage.records
        end(running, signal.SIGTERM)
        return stage.ended(running, before)


def killed_server(stage: Stage) -> Seen:
    """Arms that are not forked yet are lost with their server and tried again; those that live do without it."""
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(stage.servers, running)
        assert not stage.leaders()
        stage.servers()[0].kill()
        stage.wait_for(lambda: stage.windows >= 1, running)
        lost = [one for one in stage.records if isinstance(one, Lost)]
        for one in stage.servers():
            one.kill()
        windows = stage.windows
        stage.wait_for(lambda: stage.windows >= windows + 5, running)
        before = stage.records
        assert [one for one in before if isinstance(one, Lost)] == lost
        end(running, signal.SIGTERM)
        return stage.ended(running, before)


def suspended_arm(stage: Stage) -> Seen:
    """What arms are forked from is stopped while it imports, then whichever arm is at work, until it is noticed."""
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(stage.servers, running)
        assert not stage.leaders()
        stage.servers()[0].suspend()
        stage.wait_for(lambda: stage.windows >= 1, running)
        lost = sum(isinstance(one, Lost) for one in stage.records)
        assert lost
        stage.wait_for(
            lambda: _stop(stage) or sum(isinstance(one, Lost) for one in stage.records) > lost,
            running,
        )
        before = stage.records
        end(running, signal.SIGTERM)
        return stage.ended(running, before)


def _stop(stage: Stage) -> None:
    for one in stage.leaders():
        if state_of(one.pid) not in {"T", ""}:
            one.suspend()
            time.sleep(0.6)


def full_disk(stage: Stage) -> Seen:
    """The results' file system is full in the middle of a run; with room again the same command continues."""
    stage.results.mkdir()
    with mounted(stage.results, "256k"):
        ballast = stage.results / "ballast"
        with stage.running(f"{ONE} {ENDLESS}") as running:
            stage.wait_for(lambda: stage.windows >= 2, running)
            before = stage.records
            _fill(ballast)
            running.wait(timeout=60)
            full = stage.ended(running, before)
        ballast.unlink()
        with stage.running(f"{ONE} {ENDLESS}") as again:
            stage.wait_for(lambda: len(stage.records) > len(full.after) + 2, again)
            end(again, signal.SIGTERM)
            assert "Continuing the run" in stage.ended(again).said
        assert stage.records[: len(full.after)] == full.after
        stage.assert_nothing_is_left()
    return full


def _fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def removed_folder(stage: Stage) -> Seen:
    """The run's folder is removed while it is written."""
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(lambda: stage.windows >= 1, running)
        shutil.rmtree(stage.results)
        return stage.ended(running)


def two_at_once(stage: Stage) -> Seen:
    """A second campaign begins beside the first; it is refused, and the first goes on undisturbed."""
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(lambda: stage.windows >= 1, running)
        second = stage.start(f"{only('collect_garbage')} {SHORT}")
        seen = stage.ended(second, stage.records[:1])
        windows = stage.windows
        stage.wait_for(lambda: stage.windows > windows, running)
        end(running, signal.SIGTERM)
        running.wait(timeout=30)
        assert f"Process {running.pid} is measuring" in seen.said
        return seen


def clock_back(stage: Stage) -> Seen:
    """The time of day goes back by a day, for the command and its arms, in the middle of a run with a budget."""
    given = clock_that_goes_back(stage.folder)
    assert_it_goes_back(given)
    with stage.running(f"{ONE} --replicates 2 --rounds 2 --budget 90s", given) as running:
        stage.wait_for(lambda: stage.windows >= 1, running)
        before = stage.records
        (stage.folder / "back").touch()
        seen = stage.ended(running, before)
    assert_whole(stage)
    assert all(0 < one.wall_s < 60 for one in stage.records if isinstance(one, Window))
    return seen


def assert_it_goes_back(given: dict[str, str]) -> None:
    """The library does what it is there for."""
    show = [sys.executable, "-c", "import time; print(time.time())"]
    told = subprocess.run(show, env=os.environ | given | {"CLOCK_GOES_BACK": "/"}, capture_output=True, check=True)
    assert time.time() - float(told.stdout) > 80_000


BUDGET_S, LATE_S = 45, 15


def budget_within_a_start(stage: Stage) -> Seen:
    """An arm whose start takes longer than the whole budget: the command ends in time, with words."""
    began = time.monotonic()
    seen = stage.run(f"{ONE} --replicates 2 --rounds 1 --budget {BUDGET_S}s", {"TROUBLE": "baseline:parts:stall"})
    assert time.monotonic() - began < BUDGET_S + LATE_S
    return seen


def named_segments(stage: Stage) -> Seen:
    """Batches lie in /dev/shm under names, and the command is killed: the sentinel alone is left to remove them."""
    before = set(SHARED.glob("torch_*"))
    with stage.running(f"{only('sharing_strategy=file_system')} {ENDLESS}") as running:
        stage.wait_for(lambda: stage.windows >= 2, running)
        stage.wait_for(lambda: set(SHARED.glob("torch_*")) - before, running)
        stage.processes()
        end(running, signal.SIGKILL)
        return stage.ended(running, stage.records[:2])


KEPT = "Stopped; what was measured is kept, and the same command continues"
FROM_OUTSIDE = (
    Injected(
        name="the command is killed",
        how="`kill -9`, and a line of its records cut short",
        act=killed_command,
        says="Continuing the run",
        status=0,
        then="the same command continues to exactly the planned configurations",
    ),
    Injected(
        name="the command and its sentinel are killed",
        how="`kill -9` of the sentinel, a moment later of the command",
        act=killed_with_its_sentinel,
        says="Measuring into",
        status=-signal.SIGKILL,
        then="another sentinel has taken over and ends all arms",
    ),
    Injected(
        name="a scheduler ends the command",
        how="SIGTERM",
        act=partial(signalled, signal.SIGTERM),
        says=KEPT,
        status=130,
    ),
    Injected(name="Ctrl-C", how="SIGINT", act=partial(signalled, signal.SIGINT), says=KEPT, status=130),
    Injected(
        name="the terminal is closed",
        how="SIGHUP, which ends the command at once",
        act=partial(signalled, signal.SIGHUP),
        says="Measuring into",
        status=-signal.SIGHUP,
        then="the sentinel ends all arms; the same command continues",
    ),
    Injected(
        name="an arm is killed",
        how="SIGKILL to an arm",
        act=killed_arm,
        kind=Fault.KILLED,
        says="ended by SIGKILL; see dmesg",
        status=130,
        then="it gets another attempt",
    ),
    Injected(
        name="the process that arms are forked from is killed",
        how="SIGKILL to it while it imports, and to the next one when its arms are at work",
        act=killed_server,
        kind=Fault.KILLED,
        says="ended by SIGKILL; see dmesg",
        status=130,
        then="arms that were not forked yet get another attempt; the others go on",
    ),
    Injected(
        name="an arm is suspended",
        how="SIGSTOP to what arms are forked from, then to the arm that is at work",
        act=suspended_arm,
        kind=Fault.SUSPENDED,
        says="somebody else suspended it",
        status=130,
        then="it gets another attempt",
    ),
    Injected(
        name="the disk fills up",
        how="results on a tmpfs of 256 kB that is filled in the middle of a run",
        act=full_disk,
        says="No space left on device.*what was measured before is kept",
        status=2,
        then="with room again the same command continues",
        lacks=lacks_mounts,
    ),
    Injected(
        name="the results are removed",
        how="the run's folder is removed while it is written",
        act=removed_folder,
        says="was removed while it was written",
        status=2,
    ),
    Injected(
        name="two campaigns at once",
        how="a second command while the first one measures",
        act=two_at_once,
        says=r"Process \d+ is measuring on this machine .*wait for it, or stop it with: kill \d+",
        status=2,
        then="the first goes on",
    ),
    Injected(
        name="the clock goes back",
        how="a library before libc that tells processes yesterday's time, in the middle of a run with a budget",
        act=clock_back,
        says="Measuring into",
        status=0,
        then="times, budget and plan are kept",
        lacks=lacks_compiler,
    ),
    Injected(
        name="a start longer than the budget",
        how=f"an arm that is never built, and `--budget {BUDGET_S}s`",
        act=budget_within_a_start,
        says=r"Nothing was timed: .*Give it more \(--budget",
        status=1,
        then=f"the command ends within {BUDGET_S + LATE_S} s",
    ),
    Injected(
        name="named segments in shared memory",
        how="`sharing_strategy=file_system`, then `kill -9` of the command",
        act=named_segments,
        says="Measuring into",
        status=-signal.SIGKILL,
        then="no segment is left in /dev/shm",
    ),
)
