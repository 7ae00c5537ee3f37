"""Faults of an arm's own: in its step, in its loader, in its compiler. The others are measured all the same."""

import stat
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from harness.core.records import Fault, Lost, Window
from harness.store import read_run
from tests.faults.injected import Injected
from tests.faults.stage import Seen, Stage
from tests.faults.worlds import control_group, lacks_control_group, lacks_mounts, with_small_shared_memory

BRIEF = "--replicates 2 --rounds 1 --budget none"
IN_STEP = {
    "set_to_none": "nan",
    "foreach_optimizer": "raise",
    "preallocated_loss_history": "exit",
    "garbage_collector_off": "segfault",
    "finite_check": "address_space",
}
IN_LOADER = {"workers=1": "kill", "workers=2": "segfault", "workers=4": "raise"}
HONEST = "growing_loss_history"  # as quick as its reference, so that its windows are as short


def only(*names: str) -> str:
    """The words that measure these optimizations alone."""
    return "run " + " ".join(f"--only {name}" for name in names)


@cache
def _steps(base: Path) -> tuple[Stage, Seen]:
    """One campaign in which five arms fail in their steps, each in another way, and one does not."""
    stage = shared(base, "steps")
    planted = ",".join(f"{carrier}:step:{deed}" for carrier, deed in IN_STEP.items())
    return stage, stage.run(f"{only(*IN_STEP, HONEST)} {BRIEF}", {"TROUBLE": planted})


@cache
def _loaders(base: Path) -> tuple[Stage, Seen]:
    """One campaign in which loader workers end: one by somebody else's hand, once, and two of their own."""
    stage = shared(base, "loaders")
    once = stage.folder / "once"
    once.mkdir()
    planted = ",".join(f"{carrier}:item:{deed}" for carrier, deed in IN_LOADER.items())
    return stage, stage.run(f"{only(*IN_LOADER)} {BRIEF}", {"TROUBLE": planted, "TROUBLE_ONCE": str(once)})


def shared(base: Path, name: str) -> Stage:
    """A stage that several faults share."""
    return Stage(folder=Path(tempfile.mkdtemp(prefix=f"campaign-{name}-", dir=base)), data=base / "data")


def in_step(carrier: str, stage: Stage) -> Seen:
    """What became of one of the five; the honest arm must have been measured beside it, in both replicates."""
    found, seen = _steps(stage.data.parent)
    found.assert_nothing_is_left()
    assert len(replicates_of(found, HONEST)) == 2
    return _of(found, seen, carrier)


def crashed_step(stage: Stage) -> Seen:
    """The same, of the one that crashes; where it stood is in its record."""
    seen = in_step("garbage_collector_off", stage)
    assert "in read_nothing" in seen.lost[0].trace
    return seen


def in_loader(carrier: str, stage: Stage) -> Seen:
    """What became of the arm with so many workers."""
    found, seen = _loaders(stage.data.parent)
    found.assert_nothing_is_left()
    return _of(found, seen, carrier)


def killed_worker(stage: Stage) -> Seen:
    """The same, of the one that is tried again: in the end it is measured in both replicates."""
    seen = in_loader("workers=1", stage)
    found, _ = _loaders(stage.data.parent)
    assert len(replicates_of(found, "workers=1")) == 2
    return seen


def replicates_of(stage: Stage, label: str) -> set[int]:
    """The replicates in which a treatment was timed."""
    return {one.arm.replicate for one in stage.records if isinstance(one, Window) and _label(stage, one) == label}


def _label(stage: Stage, record: Window | Lost) -> str:
    blocks = {block.identity: block for block in read_run(stage.run_folder).plan.blocks}
    position = record.arm.position
    return blocks[record.arm.block].comparisons[position - 1].label if position else "the reference"


def _of(stage: Stage, seen: Seen, carrier: str) -> Seen:
    """What was seen of one arm alone."""
    own = tuple(one for one in seen.after if isinstance(one, Lost) and _label(stage, one) == carrier)
    assert own, f"{carrier} was not lost"
    return replace(seen, said="\n".join(one.reason for one in own), before=(), after=own)


def small_shared_memory(stage: Stage) -> Seen:
    """A loader whose batches find no room in /dev/shm."""
    return stage.run(f"{only('workers=1')} {BRIEF}", within=with_small_shared_memory("112k"))


def killed_by_kernel(stage: Stage) -> Seen:
    """An arm that takes more than its control group holds: the kernel ends it, and it is tried again."""
    once = stage.folder / "once"
    once.mkdir()
    with control_group(stage.mark, 200 << 20) as group:
        given = {"TROUBLE": "set_to_none:step:control_group", "TROUBLE_ONCE": str(once), "TROUBLE_GROUP": str(group)}
        seen = stage.run(f"{only('set_to_none')} {BRIEF}", given)
    assert len(replicates_of(stage, "set_to_none")) == 2
    return seen


def compiler(stage: Stage, does: str) -> dict[str, str]:
    """A C++ compiler that does something else, and no kernels that were compiled before."""
    path = stage.folder / "compiler"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"CXX": str(path), "TORCHINDUCTOR_CACHE_DIR": str(stage.folder / "kernels"), "TROUBLE": ""}


def failing_compiler(stage: Stage) -> Seen:
    """A compiler that refuses everything."""
    return stage.run(f"{only('compile=default')} {BRIEF}", compiler(stage, "echo 'no luck' >&2; exit 1"))


def silent(stage: Stage, name: str, given: dict[str, str]) -> Seen:
    """An arm that gives no answer; once its limit has ended it, nothing is left to measure, and the command ends."""
    return stage.run(f"{only(name)} {BRIEF}", given | {"HURRIED_START_S": "25"})


def silent_compiler(stage: Stage) -> Seen:
    """A compiler that never ends."""
    return silent(stage, "compile=default", compiler(stage, "sleep 3600"))


def silent_start(stage: Stage) -> Seen:
    """A model that is never built."""
    return silent(stage, "set_to_none", {"TROUBLE": "set_to_none:parts:stall"})


def silent_loader(stage: Stage) -> Seen:
    """A loader worker that never delivers."""
    return silent(stage, "workers=1", {"TROUBLE": "workers=1:item:stall"})


def silent_window(stage: Stage) -> Seen:
    """A step that never ends, long after the start."""
    now = stage.folder / "now"
    given = {"TROUBLE": "set_to_none:step:stall", "TROUBLE_WHEN": str(now)}
    with stage.running(f"{only('set_to_none')} --replicates 2 --rounds 200 --budget none", given) as running:
        stage.wait_for(lambda: stage.windows >= 2, running)
        now.touch()
        return stage.ended(running, stage.records)


OWN_DOING = (
    Injected(
        name="the loss becomes NaN",
        how="the model's output is NaN in every step",
        act=partial(in_step, "set_to_none"),
        kind=Fault.DIVERGED,
        says="no longer a finite number; add gradient_scaling",
        status=0,
    ),
    Injected(
        name="a step raises an exception",
        how="the model raises one whose words look like markup of a terminal",
        act=partial(in_step, "foreach_optimizer"),
        kind=Fault.ERROR,
        says=r"ValueError: \[/red\] no such shape \[bold\]; see its trace",
        status=0,
    ),
    Injected(
        name="an arm ends itself",
        how="`os._exit(3)` in a step",
        act=partial(in_step, "preallocated_loss_history"),
        kind=Fault.EXITED,
        says="its process ended with status 3",
        status=0,
    ),
    Injected(
        name="an arm crashes",
        how="a read of address 0 in a step",
        act=crashed_step,
        kind=Fault.CRASHED,
        says="ended by SIGSEGV",
        status=0,
    ),
    Injected(
        name="host memory is refused",
        how="RLIMIT_AS a little above what the arm has, then 1 GB more in a step",
        act=partial(in_step, "finite_check"),
        kind=Fault.HOST_MEMORY,
        says="out of memory: .*; give both arms a smaller --batch",
        status=0,
    ),
    Injected(
        name="the kernel's OOM killer ends an arm",
        how="a control group of 200 MB that the arm joins and outgrows",
        act=killed_by_kernel,
        kind=Fault.OOM_KILLED,
        says="out of memory: ended by the kernel",
        status=0,
        then="it is tried again and measured",
        alone=True,
        lacks=lacks_control_group,
    ),
    Injected(
        name="a loader worker is killed",
        how="SIGKILL to a worker, once",
        act=killed_worker,
        kind=Fault.WORKER_DEATH,
        says=r"DataLoader worker \(pid\(?s?\)? \d+\) (is killed by signal: Killed|exited unexpectedly)",
        status=0,
        then="it is tried again and measured",
    ),
    Injected(
        name="a loader worker crashes",
        how="a read of address 0 while an item is fetched",
        act=partial(in_loader, "workers=2"),
        kind=Fault.CRASHED,
        says="is killed by signal: Segmentation fault",
        status=0,
    ),
    Injected(
        name="a loader worker raises an exception",
        how="the data set raises one while an item is fetched",
        act=partial(in_loader, "workers=4"),
        kind=Fault.ERROR,
        says=r"in a loader worker: ValueError: \[/red\] no such shape",
        status=0,
    ),
    Injected(
        name="shared memory is too small",
        how="a tmpfs of 112 kB on /dev/shm, a loader worker and batches of 128 kB",
        act=small_shared_memory,
        kind=Fault.SHARED_MEMORY,
        says="make /dev/shm larger",
        status=1,
        lacks=lacks_mounts,
    ),
    Injected(
        name="the compiler fails",
        how="a C++ compiler that refuses everything",
        act=failing_compiler,
        kind=Fault.COMPILER,
        says=r"No working C\+\+ compiler found.*; see its trace",
        status=1,
    ),
    Injected(
        name="the compiler never ends",
        how="a C++ compiler that sleeps",
        act=silent_compiler,
        kind=Fault.COMPILE_TIME_OUT,
        says=r"it was still compiling after \d+ s",
        status=1,
    ),
    Injected(
        name="a start never ends",
        how="the model's construction sleeps",
        act=silent_start,
        kind=Fault.START_TIME_OUT,
        says=r"its start had not ended after \d+ s",
        status=1,
    ),
    Injected(
        name="a loader never delivers",
        how="a loader worker sleeps while it fetches an item",
        act=silent_loader,
        kind=Fault.LOADER_STALLED,
        says=r"the loader gave no batch; nothing was heard for \d+ s",
        status=1,
    ),
    Injected(
        name="a window never ends",
        how="a step sleeps, after the arm was timed before",
        act=silent_window,
        kind=Fault.WINDOW_TIME_OUT,
        says=r"a window had not ended after 5 s",
        status=1,
    ),
)
