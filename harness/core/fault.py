"""Faults: what ended an arm, as a word that a table can be sorted by; the sentence stands beside it."""

from enum import StrEnum


class Fault(StrEnum):
    """What ended an arm before all its bursts were taken."""

    DEVICE_MEMORY = "device_memory"  # the device had none left
    HOST_MEMORY = "host_memory"  # an allocation was refused
    OOM_KILLED = "oom_killed"  # the kernel ended a process because the host had none left
    SHARED_MEMORY = "shared_memory"  # /dev/shm is too small for the batches that travel through it
    DISK = "disk"  # the arm could not write what it needs, such as compiled kernels
    WORKER_DEATH = "worker_death"  # a loader worker ended, and nothing tells by whose doing
    LOADER_STALLED = "loader_stalled"  # no worker delivered a batch in time
    START_TIME_OUT = "start_time_out"
    COMPILE_TIME_OUT = "compile_time_out"
    BURST_TIME_OUT = "burst_time_out"
    COMPILER = "compiler"  # torch.compile gave up
    DIVERGED = "diverged"  # the loss is no finite number
    DEVICE_LOST = "device_lost"  # the device answers nobody any more
    DEVICE_ERROR = "device_error"  # a kernel of this arm did what it must not
    CRASHED = "crashed"  # a process was struck by a signal of its own making
    EXITED = "exited"  # the process ended itself
    KILLED = "killed"  # somebody else ended it
    SUSPENDED = "suspended"  # somebody else stopped it
    ERROR = "error"  # an exception that is none of the above
