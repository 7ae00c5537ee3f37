"""Faults told from their signs: an exception's words, the way a process ended, where one that is silent stands.

Pure functions. The words are those of torch 2.11 and of CUDA 13; a test keeps them as they were seen. What becomes of
an arm is decided here alone: most faults would come again and are final, a few are another's doing and are tried again.
"""

import re
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.mistake import Mistake
from harness.core.records import Fault
from harness.plan.schedule import INTERRUPTED

# Memory kills: how many processes the kernel has ended for want of memory, as it counts them itself.

# Our own control group's count where there is one, else that of the whole host.
CONTROL_GROUP, HOST = Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat")


def memory_kills(places: tuple[Path, ...] = (CONTROL_GROUP, HOST)) -> int:
    """Processes ended so far; only the difference of two readings tells something. 0 where nothing is counted."""
    for path in places:
        lines = path.read_text().splitlines() if path.is_file() else []
        counts = [int(count) for name, _, count in (line.partition(" ") for line in lines) if name == "oom_kill"]
        if counts:
            return counts[0]
    return 0


FINAL, AGAIN = "failed", INTERRUPTED
LONGEST_REASON = 500  # characters; some messages quote whole commands
LONGEST_CHAIN = 10  # causes of causes
SEMAPHORES = "multiprocessing/synchronize.py"  # they lie in /dev/shm, and their error does not say so
CRASHES = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP"})


@dataclass(frozen=True, slots=True)
class Course:
    """What becomes of an arm, why, and what the user can do."""

    outcome: str
    why: str
    remedy: str


COURSES: Mapping[Fault, Course] = {
    Fault.DEVICE_MEMORY: Course(
        FINAL, "it would ask for as much again", "give both arms a smaller --batch, or end what else is on the device"
    ),
    Fault.HOST_MEMORY: Course(
        FINAL, "it would ask for as much again", "give both arms a smaller --batch or fewer workers"
    ),
    Fault.OOM_KILLED: Course(
        AGAIN, "the kernel may have struck another than who took the memory", "end what else takes memory on this host"
    ),
    Fault.SHARED_MEMORY: Course(
        FINAL, "it would need as much again", "make /dev/shm larger (docker run --shm-size=8g) or take fewer workers"
    ),
    Fault.DISK: Course(
        AGAIN,
        "room can be made",
        "make room in $TMPDIR and in $TORCHINDUCTOR_CACHE_DIR, and see that they may be written",
    ),
    Fault.WORKER_DEATH: Course(
        AGAIN, "whoever ended it may be gone", "see dmesg and the scheduler's log for who ends processes here"
    ),
    Fault.LOADER_STALLED: Course(
        FINAL, "waiting again would cost as long", "look for a lock or a server that the data set waits for"
    ),
    Fault.START_TIME_OUT: Course(
        FINAL, "waiting again would cost as long", "see its trace in measurements.jsonl, or try --protocol standard"
    ),
    Fault.COMPILE_TIME_OUT: Course(
        FINAL, "waiting again would cost as long", "give it the longer limit of --protocol standard"
    ),
    Fault.WINDOW_TIME_OUT: Course(
        FINAL, "waiting again would cost as long", "see its trace in measurements.jsonl, or try a smaller --size"
    ),
    Fault.COMPILER: Course(FINAL, "the same code meets the same compiler", "see its trace in measurements.jsonl"),
    Fault.DIVERGED: Course(
        FINAL, "the same seed leads to the same loss", "add gradient_scaling to float16, or lower the learning rate"
    ),
    Fault.DEVICE_LOST: Course(
        AGAIN, "the device is at fault, not the arm", "see nvidia-smi and dmesg, and reset the device or the machine"
    ),
    Fault.DEVICE_ERROR: Course(FINAL, "the same kernel would do it again", "see its trace in measurements.jsonl"),
    Fault.CRASHED: Course(FINAL, "the same code would crash again", "see its trace in measurements.jsonl"),
    Fault.EXITED: Course(FINAL, "the same code would end itself again", "see its trace in measurements.jsonl"),
    Fault.KILLED: Course(
        AGAIN, "whoever ended it may be gone", "see dmesg and the scheduler's log for who ends processes here"
    ),
    Fault.SUSPENDED: Course(
        AGAIN, "whoever stopped it may be gone", "leave the processes of a measurement alone while it runs"
    ),
    Fault.ERROR: Course(FINAL, "the same code would raise it again", "see its trace in measurements.jsonl"),
}

# By what an exception says, the first that fits. Torch says of shared memory, too, that no space is left on a device.
SAID: tuple[tuple[Fault, str], ...] = (
    (Fault.DEVICE_MEMORY, r"CUDA out of memory|CUDA(?: driver)? error: out of memory|CUDNN_STATUS_ALLOC_FAILED"),
    (Fault.DEVICE_MEMORY, r"CUBLAS_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"),
    (Fault.SHARED_MEMORY, r"is killed by signal: Bus error|insufficient shared memory|out of shared memory"),
    (
        Fault.SHARED_MEMORY,
        r"unable to allocate shared memory|unable to \w+ (?:to )?(?:shared memory object|file) </torch_",
    ),
    # cuDNN's words when no kernel finds the memory that it works in
    (Fault.DEVICE_MEMORY, r"unable to find an engine to execute this computation"),
    (Fault.SHARED_MEMORY, r"unable to mmap \d+ bytes from file </torch_"),
    (Fault.HOST_MEMORY, r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|Cannot allocate memory"),
    (Fault.HOST_MEMORY, r"std::bad_alloc"),
    (Fault.DISK, r"No space left on device|Disk quota exceeded|Read-only file system"),
    (Fault.CRASHED, r"DataLoader worker .* is killed by signal: (?:Segmentation fault|Aborted|Illegal|Floating)"),
    (Fault.EXITED, r"DataLoader worker .* exited unexpectedly with exit code"),
    (Fault.WORKER_DEATH, r"DataLoader worker .*(?:is killed by signal|exited unexpectedly)"),
    (
        Fault.DEVICE_LOST,
        r"CUDA(?: driver)? error: (?:uncorrectable|no CUDA-capable device|CUDA-capable device\(s\) is/are busy)",
    ),
    (Fault.DEVICE_LOST, r"CUDA(?: driver)? error: (?:unknown error|system not yet initialized|.*a hardware error)"),
    (Fault.DEVICE_LOST, r"No CUDA GPUs are available|CUDA unknown error|GPU is lost"),
    (Fault.WINDOW_TIME_OUT, r"Timed out waiting \d+ms for|Connection (?:closed|reset) by peer|gloo|NCCL error"),
    (Fault.WINDOW_TIME_OUT, r"Application timeout caused pair closure"),  # gloo, once another one has timed out
    (Fault.DEVICE_ERROR, r"CUDA(?: driver)? error: |CUBLAS_STATUS_|CUDNN_STATUS_|cuDNN error: |cuFFT error: "),
)
# By what an exception is, where its words tell nothing.
KINDS: tuple[tuple[Fault, str], ...] = (
    (Fault.DEVICE_MEMORY, r"torch(?:\.\w+)*\.OutOfMemoryError"),
    (Fault.HOST_MEMORY, r"builtins\.MemoryError"),
    (Fault.DIVERGED, r"harness\.measure\.loop\.Diverged"),
    (Fault.COMPILER, r"torch\._(?:dynamo|inductor|functorch)\..*|triton\..*"),
)
# Files of torch that are on the stack while something is compiled; what runs compiled code is in others. A slow import
# has them there too, as modules.
COMPILING = re.compile(
    r'torch/(?:_dynamo/convert_frame|_inductor/(?:graph|scheduler|codecache|cpp_builder))\.py"'
    r", line \d+ in (?!<module>)"
)
LOADING = re.compile(r'torch/utils/data/dataloader\.py", line \d+ in (?!<module>)')


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as data: what it is, from its class upwards, its words with those of its causes, and its place."""

    kinds: tuple[str, ...]
    words: str
    place: str = ""  # the file that raised it


def raised(error: BaseException) -> Raised:
    """The signs of an exception and of what caused it."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and len(chain) < LONGEST_CHAIN:
        chain.append(cause)
    frames = traceback.extract_tb(chain[-1].__traceback__)
    return Raised(
        kinds=tuple(f"{kind.__module__}.{kind.__qualname__}" for one in chain for kind in type(one).__mro__),
        words="\n".join(map(str, chain)),
        place=frames[-1].filename if frames else "",
    )


def fault_raised(signs: Raised) -> Fault:
    """The fault of an exception."""
    said = next((fault for fault, pattern in SAID if re.search(pattern, signs.words)), None)
    if said is Fault.DISK and signs.place.endswith(SEMAPHORES):
        return Fault.SHARED_MEMORY
    if said is not None:
        return said
    kinds = (fault for fault, pattern in KINDS if any(re.fullmatch(pattern, one) for one in signs.kinds))
    return next(kinds, Fault.ERROR)


def fault_ended(status: int | None, oom_kills: int) -> tuple[Fault, str]:
    """The fault of a process that ended with a status, and how to say it; `oom_kills` is how many the kernel made."""
    if status is None:
        return Fault.EXITED, "its process hung up without ending"
    if status >= 0:
        return Fault.EXITED, f"its process ended with status {status}"
    name = {one.value: one.name for one in signal.Signals}.get(-status, f"signal {-status}")
    if name == "SIGKILL" and oom_kills > 0:
        return Fault.OOM_KILLED, "out of memory: ended by the kernel (SIGKILL)"
    return Fault.CRASHED if name in CRASHES else Fault.KILLED, f"ended by {name}"


def fault_silent(usual: Fault, waited_s: float, stack: str, log: str) -> tuple[Fault, str]:
    """The fault of an arm that gave no answer, told by where it stood, and how to say it."""
    if LOADING.search(stack) and fault_raised(Raised((), log)) is Fault.SHARED_MEMORY:
        return Fault.SHARED_MEMORY, f"the loader lost a batch in /dev/shm and gave none for {waited_s:.0f} s"
    if COMPILING.search(stack):
        return Fault.COMPILE_TIME_OUT, f"it was still compiling after {waited_s:.0f} s"
    if LOADING.search(stack):
        return Fault.LOADER_STALLED, f"the loader gave no batch; nothing was heard for {waited_s:.0f} s"
    what = "its start" if usual is Fault.START_TIME_OUT else "a window"
    return usual, f"{what} had not ended after {waited_s:.0f} s"


def struck_by_kernel(fault: Fault, words: str, oom_kills: int) -> bool:
    """Whether a loader worker that was killed was struck by the kernel, for want of memory."""
    return fault is Fault.WORKER_DEATH and "signal: Killed" in words and oom_kills > 0


HELPERS = {" in DataLoader worker process": "in a loader worker", " in pin memory thread": "in the pinning thread"}


def reason_for(error: BaseException) -> str:
    """A failure in one line of words, those of a loader worker instead of where they were caught."""
    if isinstance(error, Mistake):
        return str(error)
    if error.__cause__ is not None and "exited unexpectedly" in str(error):
        return reason_for(error.__cause__)  # which knows the signal
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    name, words = type(error).__name__, lines[0]
    helper = next((one for one in HELPERS if one in words), None)
    if helper and len(lines) > 1:
        name, words = HELPERS[helper], lines[-1]
    elif words.endswith(":") and len(lines) > 1:
        words = f"{words} {lines[1]}"
    memory = fault_raised(raised(error)) in {Fault.DEVICE_MEMORY, Fault.HOST_MEMORY}
    if memory and lines == ["no message"]:
        words = "no more host memory"
    return f"{'out of memory' if memory else name}: {words}"[:LONGEST_REASON]


def with_remedy(fault: Fault, words: str) -> str:
    """The reason as it is recorded: what happened, then what to do about it."""
    return f"{words.rstrip('. ')}; {COURSES[fault].remedy}"
