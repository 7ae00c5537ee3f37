"""The worker: the process of an arm, or of several. It builds, warms up, and times windows when it is asked to.

python -m harness.run.worker CONTROL   the root that arms are forked from; CONTROL is an inherited socket
python -m harness.run.worker           trains for `learn`: reads its job from its input, writes a line a step
"""

import faulthandler
import json
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.codec import decode, encode
from harness.core.environment import GPU_CHECK
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.records import Fault
from harness.core.workload import ADDRESS, Goal, Learned, Ranged, Timeline, Traced, Trained
from harness.measure.collector import PASSES
from harness.run.arm import KERNELS, SHOW_STACK, Job, launch_environment, own_kernels, send
from harness.run.fault import fault_raised, raised, reason_for, with_remedy
from harness.run.fork_server import OWN, serve_forks
from harness.run.processes import command_of, share_folder
from harness.run.ranks import SHARE, RankLost, Ranks
from harness.run.sentinel import Sentinel

if TYPE_CHECKING:
    from harness.measure.residents import Residents
    from harness.measure.session import Task


def serve(channel: socket.socket, rank: int = 0) -> None:
    """Answers the launcher until it hangs up, or until an arm's failure leaves no arm that could go on.

    Another rank of an arm serves that arm's process in the same way.
    """
    os.environ.pop(GPU_CHECK, None)  # every update looks for a GPU, which then takes fifty times as long without one
    share_folder()
    house = _House(channel, rank)
    with suppress(BrokenPipeError, ConnectionResetError):  # the launcher is gone
        for message in _messages(channel):
            answer = house.answer(message)
            send(channel, answer)
            if answer.get("ends"):
                return


# Faults after which no arm of a process can go on, whoever was at fault.
SPOILING = frozenset({Fault.DEVICE_ERROR, Fault.DEVICE_LOST})


@dataclass(slots=True)
class _House:
    """The arms of this process: their jobs, and once torch is needed what they live in."""

    channel: socket.socket
    rank: int = 0
    ranks: Ranks | None = None  # the others, where this is rank 0 of several
    jobs: dict[int, Job] = field(default_factory=dict)
    residents: "Residents | None" = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """What an arm has to say to what it is asked; a failure is an answer too, and the last one of that arm."""
        number = message["arm"]
        try:
            if self.ranks:
                self.ranks.tell(message)
            fields = self._done(number, message)
            if self.ranks:
                self.ranks.hear()
            return {"say": "done", "fields": fields}
        except Exception as error:  # noqa: BLE001  whatever goes wrong in an arm is its outcome, with words and trace
            lost = self._lost(error)
        job = self.jobs.get(number)
        stays = job is not None and job.shared and lost["kind"] not in SPOILING
        try:
            if stays and self.residents:
                self.residents.free(number)
        except Exception:  # noqa: BLE001  a process that cannot free an arm serves no other
            stays = False
        return lost | {"ends": not stays}

    def _lost(self, error: Exception) -> dict[str, Any]:
        """What is said of a failure; of one in a collective, what became of the rank that it waited for."""
        trace, words = traceback.format_exc()[-4000:], _words_for(error)
        if self.ranks and not isinstance(error, RankLost) and words["kind"] == Fault.WINDOW_TIME_OUT:
            error = self.ranks.explain() or error
        if isinstance(error, RankLost):
            return told_of(error) | ({} if error.trace else {"trace": trace})
        return {"say": "lost", **words, "trace": trace}

    def _done(self, number: int, message: dict[str, Any]) -> dict[str, Any]:
        if "job" in message:
            job = decode(Job, message["job"], "job")
            if job.recipe.ranks > 1:
                self._join(job, message)
            return self._admitted(number, job)
        assert self.residents is not None  # noqa: S101  the job comes first
        if "begin" in message:
            job = self.jobs[number]
            how = {name: getattr(job, name) for name in ("other_seeds", "observed", "bounds", "data_cache")}
            return self.residents.begin(number, job.timing, job.protocol, job.proof, **how)
        if "settle" in message:
            return {"lead": self.residents.settle(number, **message["settle"])}
        if "burst" in message:
            return self.residents.window(number, **message["burst"])
        self.residents.free(number)
        return {}

    def _join(self, job: Job, message: dict[str, Any]) -> None:
        """Becomes one of several ranks; rank 0 forks the others first, while it has no threads of its own."""
        limit_s = SHARE * job.protocol.window_limit_s
        if self.rank == 0:
            self.ranks = Ranks(limit_s, self._say_lost)
            self.ranks.begin(job.recipe.ranks, self._serve_as)
        from harness.measure.ranks import join, store_for

        store = store_for(message.get("port", 0), limit_s, serving=self.rank == 0)
        if self.ranks:
            self.ranks.tell(message | {"port": store.port})
        join(store, self.rank, job.recipe.ranks, job.device, limit_s)

    def _serve_as(self, rank: int, channel: socket.socket) -> None:
        self.channel.close()  # the launcher's
        serve(channel, rank)

    def _say_lost(self, lost: RankLost) -> None:
        """In a thread, while rank 0 waits in a collective that does not end."""
        with suppress(BrokenPipeError, ConnectionResetError, OSError):
            send(self.channel, told_of(lost) | {"ends": True})
        os._exit(1)

    def _admitted(self, number: int, job: Job) -> dict[str, Any]:
        """Imports what the server did not know of; the launcher waits for all before one is built."""
        self.jobs[number] = job
        if job.service:
            os.environ[ADDRESS] = job.service
        task = task_of(job, self.rank)
        from harness.measure.residents import Residents

        self.residents = self.residents or Residents()
        self.residents.admit(number, task, job.batches)
        return {}


def _serve_forks(control: socket.socket) -> None:
    """A root, and in processes that were forked from it the servers of workloads and their arms."""
    # The first optimizer imports the compiler anyway, and that takes as long as torch itself.
    for module in ("torch._dynamo", "harness.measure.residents"):
        import_module(module)
    child = serve_forks(control)
    if child and child.workload is not None:
        _import_workload(child.workload)
        PASSES.begin()  # behind a full pass, which none of its arms needs to have
        child = serve_forks(child.channel)
    if child:
        serve(child.channel)


def _import_workload(name: str) -> None:
    """Imports what every arm of a workload needs; what cannot be imported is told by the arm that misses it.

    A user's own file is not imported, since it may start threads that a fork would leave behind, but installed modules
    that it was seen to import without starting any.
    """
    from harness.catalogue import read_catalogue

    own, *installed = name.split(",")
    with suppress(Exception):
        catalogue = read_catalogue(None, ledger=False)
        if own != OWN:
            catalogue.workload(name).parts()
    for module in ("harness.api", "harness.own.job", *installed) if own == OWN else ():
        with suppress(Exception):
            import_module(module)


def task_of(job: Job, rank: int = 0) -> "Task":
    """All that decides how the arm's session is built; imports torch."""
    from harness.catalogue import read_catalogue
    from harness.measure.devices import device_named
    from harness.measure.session import Task

    # Among several ranks each has a GPU of its own; a CPU is everybody's.
    device = f"cuda:{rank}" if job.device == "cuda" and job.recipe.ranks > 1 else job.device
    catalogue = read_catalogue(Path(job.workload_path) if job.workload_path else None, ledger=False)
    workload = catalogue.workload(job.config.workload)
    return Task(
        parts=workload.parts(),
        size=job.size if job.size.draw is None else replace(job.size, draw=job.seed),
        recipe=job.recipe,
        data=Path(job.data),
        device=device_named(device, job.emulation),
        seed=job.seed,
        endless=job.timing is not job.timing.EPOCH,
        shared=job.shared,
    )


def told_of(lost: RankLost) -> dict[str, Any]:
    """What an arm says of a rank that it lost."""
    return {"say": "lost", "kind": lost.fault, "reason": with_remedy(lost.fault, lost.reason), "trace": lost.trace}


def _words_for(error: Exception) -> dict[str, str]:
    """The kind and the reason of a failure; a mistake has its remedy in its own sentence."""
    fault, reason = fault_raised(raised(error)), reason_for(error)
    return {"kind": fault, "reason": reason if isinstance(error, Mistake) else with_remedy(fault, reason)}


def _messages(channel: socket.socket) -> Iterator[dict[str, Any]]:
    with channel.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


# `learn`, `trace` and `timeline`: a model trained from its first weights in a process of its own, as every arm has one.


@dataclass(frozen=True, slots=True)
class Assigned:
    """How many steps, and what they are for: a lesson, or where they spend their time."""

    steps: int
    trace: str | None = None  # the file for what a profiler sees
    over_s: float | None = None  # how long they are watched, with a clock and no profiler
    goal: Goal | None = None  # at which they end
    rates: tuple[float, float] | None = None  # from which learning rate to which they go
    scheduled: bool = False  # by the system's own schedule of the learning rate
    before: Trained | None = None  # what came of them with evaluations: they are taken again for their seconds alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A job, and what is to be learned of it."""

    job: Job
    slow: Recipe  # how the real system evaluates
    assigned: Assigned


Given = Learned | Ranged | Timeline | Traced | Trained
_LESSONS: dict[str, Any] = {
    "learned": Learned, "ranged": Ranged, "timeline": Timeline, "traced": Traced, "trained": Trained,
}  # fmt: skip


class Untrained(Mistake):
    """A training that failed by itself, which is an outcome too; of other mistakes the sentence has the remedy."""


def give(assignment: Assignment, sentinel: Sentinel, show: Callable[[int, float], None]) -> Given:
    """Has it done in a fresh process; gives what came of it; raises Mistake with the reason when it fails.

    That is Untrained unless what was asked for cannot be. What a start towards a goal compiles, no other had compiled.
    """
    environment = launch_environment(assignment.job.recipe, dict(os.environ))
    if assignment.job.service:
        environment[ADDRESS] = assignment.job.service
    with (
        (own_kernels(assignment.job.recipe) if assignment.assigned.goal else None) or nullcontext() as kernels,
        tempfile.TemporaryFile(mode="w+", errors="replace") as log,
        subprocess.Popen(
            command_of("harness.run.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment | ({KERNELS: kernels} if kernels else {}),
            cwd=environment["PWD"],
            start_new_session=True,
        ) as process,
    ):
        sentinel.add(process.pid)
        learned = _follow(process, assignment, show)
        process.wait()
        sentinel.remove(process.pid)
        if learned is None:
            log.seek(0)
            last = (log.read().strip().splitlines() or [f"its process ended with status {process.returncode}"])[-1]
            raise Untrained(f"{assignment.job.config} could not be trained: {last}.")
        return learned


def _follow(
    process: "subprocess.Popen[str]", assignment: Assignment, show: Callable[[int, float], None]
) -> Given | None:
    assert process.stdin and process.stdout  # noqa: S101, PT018  both are pipes
    process.stdin.write(json.dumps(encode(assignment)))
    process.stdin.close()
    for line in process.stdout:
        said = json.loads(line)
        for name in _LESSONS.keys() & said:
            given: Given = decode(_LESSONS[name], said[name], name)
            return given
        if "lost" in said:
            kind = Mistake if said["mistake"] else Untrained
            raise kind(f"{assignment.job.config} could not be trained: {said['lost']}.")
        show(said["step"], float(said["loss"]))
    return None


def _serve_lesson() -> None:
    from harness.measure.lessons import learn, range_test, train_again, train_until
    from harness.measure.traces import timeline, trace

    os.environ.pop(GPU_CHECK, None)
    assignment = decode(Assignment, json.loads(sys.stdin.read()), "assignment")
    job, assigned = assignment.job, assignment.assigned
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not come between the lines

    def say(**words: object) -> None:
        channel.write(json.dumps(encode(words)) + "\n")
        channel.flush()

    def show(step: int, loss: float) -> None:
        say(step=step, loss=loss)

    try:
        task, steps = task_of(job), assigned.steps
        if assigned.trace:
            say(traced=trace(task, job.proof, steps, assigned.trace))
        elif assigned.over_s:
            say(timeline=timeline(task, job.proof, assigned.over_s))
        elif assigned.before:
            say(trained=train_again(task, steps, assigned.before, show, scheduled=assigned.scheduled))
        elif assigned.goal:
            say(trained=train_until(task, job.proof, steps, assigned.goal, show, scheduled=assigned.scheduled))
        elif assigned.rates:
            say(ranged=range_test(task, job.proof, steps, assigned.rates, show))
        else:
            say(learned=learn(task, assignment.slow, job.proof, steps, show, scheduled=assigned.scheduled))
    except Exception as error:  # noqa: BLE001  whatever goes wrong is the outcome, with words
        say(lost=reason_for(error), mistake=isinstance(error, Mistake))


if __name__ == "__main__":
    faulthandler.enable(all_threads=False)  # a crash leaves its stack in the log
    faulthandler.register(SHOW_STACK, all_threads=False)  # works where Python itself hangs
    if len(sys.argv) > 1:
        _serve_forks(socket.socket(fileno=int(sys.argv[1])))
    else:
        _serve_lesson()
