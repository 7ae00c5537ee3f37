"""Arms as processes, one or several in each, which leads a group, so that loader workers stop and end with it."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import typing
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from harness.core.codec import encode
from harness.core.configuration import Configuration
from harness.core.emulation import Emulation
from harness.core.environment import GPU_CHECK, LAUNCHER, STEMS, library_of
from harness.core.optimization import Timing
from harness.core.own_file import told_to_arms
from harness.core.protocol import LONGEST_SETTLING, Protocol
from harness.core.recipe import Recipe, Value
from harness.core.records import Bounds, Fault
from harness.core.workload import Size
from harness.run.fault import COURSES, LOADING, fault_ended, fault_silent, memory_kills, struck_by_kernel, with_remedy
from harness.run.fork_server import forked
from harness.run.processes import (
    SUSPENDED,
    begin_peaks,
    command_of,
    finding_modules,
    members_of,
    read_accounts,
    read_memory,
    share_of_others,
    state_of,
)
from harness.run.sentinel import Sentinel

# The job: what the launcher tells an arm's process, as plain data over a socket, one JSON object a line.

SHOW_STACK = signal.SIGUSR1  # asks an arm to write into its log where it stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One arm to be built."""

    config: Configuration
    size: Size
    recipe: Recipe
    proof: dict[str, Value]
    timing: Timing
    protocol: Protocol
    data: str  # folder
    device: str
    emulation: Emulation | None = None  # what an emulated device takes for this arm
    seed: int
    other_seeds: bool  # whether it tells how far first losses of other seeds lie apart
    observed: bool = False  # whether its settings were looked at in full in a former replicate
    bounds: Bounds | None = None  # that were probed in a former replicate, and hold
    data_cache: str | None = None  # what became of the data set's cache in a former replicate, empty where it has none
    shared: bool = False  # whether other arms live in its process
    batches: str | None = None  # which of them have loaders that give the same batches: those that say the same here
    workload_path: str | None
    installed: tuple[str, ...] = ()  # modules that the file of that path imports and that may be imported before a fork
    service: str | None  # http://host:port of the server that the workload talks to


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Writes one message."""
    channel.sendall(json.dumps(encode(message)).encode() + b"\n")


# What `tuned_malloc` sets: glibc takes everything from one growing heap and gives nothing back.
THRESHOLDS = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}

DEVICE_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the second before torch 2.9
KERNELS = "TORCHINDUCTOR_CACHE_DIR"
NCCL_LOG = "NCCL_DEBUG_FILE"
MEMORY = {*THRESHOLDS, *DEVICE_ALLOCATOR, "LD_PRELOAD"}
# What changes how ranks talk to each other, and how much they check: the recipe alone says it.
BETWEEN_RANKS = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_GLOO_", "TORCH_DISTRIBUTED_")
INTERFACE = "NCCL_SOCKET_IFNAME"  # without which NCCL may look for its ranks on an interface that leads nowhere

LOOK_S = 0.2  # between two looks at an arm that has not answered
HANGS = 3.0  # times what steps were to take
STACK_S = 1.0  # in which an arm that is silent may say where it stands
HANG_UP_S = 5.0  # between the end of the channel and that of the process
LONGEST_TRACE = 4000  # characters


class BudgetSpent(Exception):
    """The time is up; what was measured is kept."""


class ArmLost(Exception):
    """An arm that gives no more windows."""

    def __init__(self, fault: Fault, reason: str, trace: str = "") -> None:
        """Keeps what becomes a Lost record; the fault decides whether the arm is tried again."""
        super().__init__(reason)
        self.outcome, self.kind, self.reason, self.trace = COURSES[fault].outcome, fault, reason, trace


class LiveArm(typing.Protocol):
    """What an attempt needs of an arm: a process, or an invention for rehearsals."""

    @property
    def begins_beside(self) -> bool:
        """Whether it may begin while others do: a core is enough for it, and nothing that a ratio rests on is timed."""

    def arrive(self) -> None:
        """Waits until the process has imported what it needs, then stands still; raises ArmLost."""

    def begin(self) -> dict[str, Any]:
        """Builds and warms up; gives the fields of Ready; raises ArmLost."""

    def settle(self, steps: int, offset: int) -> int:
        """Steps without a clock, up to step `offset` of an epoch; gives the lead-in that it needs; raises ArmLost."""

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        """Leads in, then times steps from number `start` on, alone; gives the fields of a Window; raises ArmLost."""

    def close(self) -> None:
        """Ends the arm and its workers."""


NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # container images set it, and leave none


def launch_environment(recipe: Recipe, inherited: dict[str, str]) -> dict[str, str]:
    """Environment variables of an arm's process: what is inherited, but for what settles its memory and its ranks."""
    threads = str(recipe.threads)
    return (
        {name: value for name, value in inherited.items() if not _settled(name)}
        | _host_memory(recipe, inherited)
        | (dict.fromkeys(DEVICE_ALLOCATOR, "expandable_segments:True") if recipe.expandable_segments else {})
        | _nccl(recipe)
        | {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            # All cores compile, before anything is timed; compiler processes end with the warm-up.
            "TORCHINDUCTOR_COMPILE_THREADS": str(len(os.sched_getaffinity(0))) if recipe.compile else "1",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": finding_modules(inherited)["PYTHONPATH"],
            **told_to_arms(),
            # What asks for a GPU as it is imported would else set up CUDA in a server, whose forks then have none.
            GPU_CHECK: "1",
            "PWD": str(Path.cwd()),  # where arms run too: a user's data may lie beside it
        }
    )


def _settled(name: str) -> bool:
    """Whether a variable is the recipe's to set, or one for which every spawned worker compiles all that it imports."""
    return name in MEMORY or name == NO_BYTECODE or (name.startswith(BETWEEN_RANKS) and name != INTERFACE)


def own_kernels(recipe: Recipe) -> tempfile.TemporaryDirectory[str] | None:
    """A folder for the kernels that a process compiles: each start shows what compiling takes, not the first alone.

    None where nothing is compiled, and where whoever started the harness names a folder for all.
    """
    if recipe.compile is None or KERNELS in os.environ:
        return None
    return tempfile.TemporaryDirectory(prefix="speedmatrix-kernels-", ignore_cleanup_errors=True)


def _host_memory(recipe: Recipe, inherited: dict[str, str]) -> dict[str, str]:
    """What puts the recipe's allocator in place of whatever the harness itself was started with."""
    preloaded = [one for one in re.split("[ :]+", inherited.get("LD_PRELOAD", "")) if one and not _is_allocator(one)]
    if recipe.malloc in STEMS and (library := library_of(recipe.malloc)):
        preloaded.append(library)
    preload = {"LD_PRELOAD": ":".join(preloaded)} if preloaded else {}
    return preload | (THRESHOLDS if recipe.malloc == "tuned" else {})


def _nccl(recipe: Recipe) -> dict[str, str]:
    """What the recipe tells NCCL, and that NCCL is to say in its log what it was told."""
    told = {"NCCL_ALGO": recipe.nccl_algorithm, "NCCL_PROTO": recipe.nccl_protocol}
    chosen = {name: value for name, value in told.items() if value is not None}
    return chosen | {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ENV"} if chosen else {}


def _is_allocator(library: str) -> bool:
    return any(stem in Path(library).name for stem in STEMS)


LIBRARIES_LIMIT_S = 60.0  # in which two gigabytes are read from a slow disk


@cache
def read_libraries(device: str) -> str:
    """Has a process use a GPU once: else the first arm waits for CUDA's libraries from the disk, as no other does.

    Gives what it said where it failed, else nothing. That decides nothing: arms try for themselves.
    """
    if device != "cuda":
        return ""
    try:
        done = subprocess.run(
            command_of("harness.measure.cuda"),
            env=finding_modules(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=LIBRARIES_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"status {done.returncode}")[-LONGEST_TRACE:] if done.returncode else ""


class Bereft(Exception):
    """An arm whose process ended by another arm's doing."""


class Host:
    """A process that one arm lives in or several do, suspended whenever none of them is asked for anything."""

    def __init__(self, job: Job, sentinel: Sentinel, deadline_s: float = inf) -> None:
        """Starts the process, which imports while others may be starting too; nothing is waited for beyond a moment.

        That moment is one of the monotonic clock; every ask that would outlast it raises BudgetSpent.
        """
        self._sentinel, self._deadline_s = sentinel, deadline_s
        self._channel, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self._memory_kills = memory_kills()
        self._kernels = own_kernels(job.recipe)
        environment = launch_environment(job.recipe, dict(os.environ)) | {LAUNCHER: str(os.getpid())}
        if self._kernels:
            environment[KERNELS] = self._kernels.name
        self._logs = tempfile.TemporaryDirectory(prefix="speedmatrix-nccl-") if "NCCL_DEBUG" in environment else None
        if self._logs:
            environment[NCCL_LOG] = f"{self._logs.name}/%p.log"  # NCCL writes a process's number for %p
        with theirs:
            imported = job.installed if job.workload_path else job.config.workload
            self.process = forked(theirs, self._log.fileno(), environment, job.seed, imported)
        self._pending, self._asked, self._watched = b"", False, False
        self.ended = False
        self.arms = 0  # that live in it
        self.numbers = count()  # of the arms that it is given

    def send(self, message: dict[str, Any]) -> None:
        """Asks for something without waiting for the answer."""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended already; whoever waits for it is told why
            send(self._channel, message)
            self._asked = True

    def ask(self, message: dict[str, Any], limit_s: float, late: Fault) -> dict[str, Any]:
        """Resumes it, asks for something, and pauses it again; raises ArmLost, and Bereft where it ended before."""
        if self.ended:
            raise Bereft
        try:
            # The process alone: it lets the loader workers of an arm go on when that takes steps, and not before.
            os.kill(self.process.pid, signal.SIGCONT)
            send(self._channel, message)
        except (BrokenPipeError, ConnectionResetError, ProcessLookupError):
            raise self._lost() from None
        self._asked = True
        return self.answer(limit_s, late)

    def answer(self, limit_s: float, late: Fault) -> dict[str, Any]:
        """The answer to what it was asked; raises ArmLost, after which it has ended or waits for what comes next."""
        answer = json.loads(self._receive(limit_s, late))
        self._asked = False
        if answer["say"] == "lost" and answer["ends"]:
            lost = self._told(Fault(answer["kind"]), answer["reason"], answer["trace"])
            self.end()
            raise lost
        self._pause()
        if not self._watched:
            self._sentinel.add(self.process.group)
            self._watched = True
        if answer["say"] == "lost":
            raise self._told(Fault(answer["kind"]), answer["reason"], answer["trace"])
        fields: dict[str, Any] = answer["fields"]
        return fields

    def leave(self, number: int, limit_s: float) -> None:
        """Frees one of several arms; the process ends where that cannot be, or where an arm was broken off."""
        self.arms -= 1
        if self._asked:
            self.end()
        with suppress(ArmLost, Bereft, BudgetSpent):
            self.ask({"arm": number, "free": True}, limit_s, Fault.WINDOW_TIME_OUT)

    def end(self) -> None:
        """Kills the group, suspended or not, and waits for it."""
        if self.ended:
            return
        self.ended = True
        self._channel.close()
        group = self.process.pid
        self.process.end()
        self._sentinel.remove(group)
        self._log.close()
        if self._kernels:
            self._kernels.cleanup()

    def _receive(self, limit_s: float, late: Fault) -> bytes:
        until = monotonic() + limit_s
        self._channel.settimeout(LOOK_S)
        while b"\n" not in self._pending:
            try:
                received = self._channel.recv(1 << 16)
            except TimeoutError:
                if self.process.poll() is None:
                    self._go_on_waiting(until, limit_s, late)
                    continue
                received = b""  # a loader worker may still hold the other end
            except ConnectionResetError:
                received = b""
            if not received:
                raise self._lost()
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _go_on_waiting(self, until: float, limit_s: float, late: Fault) -> None:
        """Refuses to wait for an arm whose time is up, or that somebody else has suspended."""
        if monotonic() > self._deadline_s:
            raise BudgetSpent
        stopped, is_late = state_of(self.process.pid) == SUSPENDED, monotonic() > until
        stack = self._stack() if is_late and not stopped else ""
        # Where several arms live, the workers of all but one are stopped by us, and so are those that nobody waits for.
        if stopped or (self.arms < 2 and LOADING.search(stack) and self._has_a_stopped_worker()):
            words = "somebody else suspended it (SIGSTOP)"
            raise self._ended(Fault.SUSPENDED, words)
        if is_late:
            raise self._ended(*fault_silent(late, limit_s, stack, self._log_tail()))

    def _has_a_stopped_worker(self) -> bool:
        return any(state_of(one) == SUSPENDED for one in members_of(frozenset({self.process.pid})))

    def _stack(self) -> str:
        """Where the arm stands, which it writes into its log when it is asked to; empty if it cannot."""
        before = self._log_bytes()
        os.kill(self.process.pid, SHOW_STACK)
        until = monotonic() + STACK_S
        while self._log_bytes() == before and monotonic() < until:
            sleep(0.05)
        sleep(0.05)  # for the rest of it
        return self._log_from(before)

    def _told(self, fault: Fault, reason: str, trace: str) -> ArmLost:
        """What the arm itself says of its end, but for what only the kernel knows."""
        if struck_by_kernel(fault, reason, memory_kills() - self._memory_kills):
            words = "out of memory: the kernel ended a loader worker (SIGKILL)"
            return ArmLost(Fault.OOM_KILLED, with_remedy(Fault.OOM_KILLED, words), trace)
        return ArmLost(fault, reason, trace)

    def _lost(self) -> ArmLost:
        try:
            status = self.process.wait(timeout=HANG_UP_S)
        except subprocess.TimeoutExpired:
            status = None
        return self._ended(*fault_ended(status, memory_kills() - self._memory_kills))

    def _ended(self, fault: Fault, words: str) -> ArmLost:
        """What is said of an arm that brought its process to an end, after which there is no other in it."""
        lost = ArmLost(fault, with_remedy(fault, words), self._log_tail())
        self.end()
        return lost

    def _log_bytes(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def _log_tail(self) -> str:
        """The end of its output, read without moving the place at which it writes on."""
        return self._log_from(max(0, self._log_bytes() - 4 * LONGEST_TRACE))[-LONGEST_TRACE:]

    def _log_from(self, place: int) -> str:
        return os.pread(self._log.fileno(), self._log_bytes() - place, place).decode(errors="replace")

    def _pause(self) -> None:
        try:
            os.killpg(self.process.group, signal.SIGSTOP)
        except ProcessLookupError:
            raise self._lost() from None


class ProcessArm:
    """One configuration alive in a fresh process, which it has for itself or shares."""

    def __init__(self, job: Job, sentinel: Sentinel, deadline_s: float = inf, host: Host | None = None) -> None:
        """Starts a process unless there is one that is shared; nothing is waited for beyond a moment."""
        self._job, self._left = job, False
        self._host = host or Host(job, sentinel, deadline_s)
        self._host.arms += 1
        self._number = next(self._host.numbers)
        if not job.shared:  # it may have to import what its server does not know
            self._host.send({"arm": self._number, "job": job})

    @property
    def begins_beside(self) -> bool:
        """Whether one core is enough for its start, and no upper bound, steady state or delay is told from a clock."""
        job, recipe = self._job, self._job.recipe
        alone = job.device != "cpu" or job.protocol.settle_s > 0 or recipe.threads != 1
        is_loader = job.timing is Timing.LOADER
        alone |= recipe.workers > 0 and (job.bounds is None or is_loader)
        # Whoever looks for a cache again: others have workers by then, but for those of loaders alone.
        alone |= recipe.workers == 0 and job.observed and job.data_cache is None and not is_loader
        alone |= recipe.compile is not None  # how long that takes is a figure of its own
        alone |= recipe.ranks > 1 or recipe.page_cache == "cold"  # whose files one would fill while another drops them
        return not alone and not job.shared and recipe.added_delay is None

    def arrive(self) -> None:
        """Waits for the imports, then suspends the group."""
        if self._job.shared:
            self._ask({"job": self._job}, self._job.protocol.start_limit_s, Fault.START_TIME_OUT)
        else:
            self._host.answer(self._job.protocol.start_limit_s, Fault.START_TIME_OUT)

    def begin(self) -> dict[str, Any]:
        """Builds and warms up, then stands still."""
        ready = self._ask({"begin": True}, self._job.protocol.start_limit_s, Fault.START_TIME_OUT)
        self._step_s, self._cycle_steps = ready["step_s"], ready["cycle_steps"] or 1
        return ready

    def _limit_s(self, steps: int) -> float:
        """Seconds after which so many steps hang: they may be slow and many, where loader workers finish in groups.

        An arm that times whole epochs, or reads from storage, goes to the end of one.
        """
        if self._job.timing is Timing.EPOCH or self._job.recipe.page_cache == "cold":
            steps += self._cycle_steps
        return max(self._job.protocol.window_limit_s, HANGS * steps * float(self._step_s))

    def settle(self, steps: int, offset: int) -> int:
        """Resumes the arm for some steps that no clock counts and pauses it again."""
        message = {"settle": {"steps": steps, "offset": offset}}
        most = LONGEST_SETTLING * steps + self._job.recipe.prefetched_batches
        lead: int = self._ask(message, self._limit_s(most), Fault.WINDOW_TIME_OUT)["lead"]
        return lead

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        """Resumes the arm for one window and pauses it again; its memory is read when it stands still."""
        process = self._host.process.pid
        begun = not self._job.shared and begin_peaks(process)
        before, message = read_accounts(), {"burst": {"lead": lead, "steps": steps, "start": start}}
        fields = self._ask(message, self._limit_s(lead + steps), Fault.WINDOW_TIME_OUT)
        others = share_of_others(before, read_accounts())
        memory = {"host_bytes": None} if self._job.shared else read_memory(process, begun=begun)
        return fields | {"others": others} | memory

    def close(self) -> None:
        """Ends its process; one that is shared goes on without it."""
        if self._left:
            return
        self._left = True
        if self._job.shared:
            self._host.leave(self._number, self._job.protocol.window_limit_s)
        else:
            self._host.end()

    def _ask(self, message: dict[str, Any], limit_s: float, late: Fault) -> dict[str, Any]:
        return self._host.ask({"arm": self._number, **message}, limit_s, late)


IDLE_HOSTS = 4  # that stay though no arm lives in them: of each workload that is measured, in each of its replicates


@dataclass(slots=True, kw_only=True)
class Hosts:
    """The processes that arms share: one for a workload in each replicate, which stays for the blocks that follow."""

    sentinel: Sentinel
    deadline_s: float = inf
    _kept: dict[tuple[object, ...], Host] = field(default_factory=dict)  # the one that was in use last at the end

    def of(self, job: Job) -> Host:
        """The process of a job's replicate, a new one where there is none that lives."""
        key = job.config.workload, job.workload_path, job.device, job.seed
        host = self._kept.pop(key, None)
        if host is None or host.ended:
            idle = [one for one, other in self._kept.items() if not other.arms]
            for least in idle[: max(0, len(idle) + 1 - IDLE_HOSTS)]:
                self._kept.pop(least).end()
            host = Host(job, self.sentinel, self.deadline_s)
        self._kept[key] = host
        return host

    def end(self) -> None:
        """Ends them all."""
        for host in self._kept.values():
            host.end()
        self._kept.clear()
