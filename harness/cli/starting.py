"""Starting: arms and looks at free memory, with a sentence where the system or the device gives no more."""

from harness.core.mistake import Mistake
from harness.measure.surroundings import free_bytes
from harness.run.arm import ProcessArm
from harness.run.job import Job
from harness.run.sentinel import Sentinel


def started(job: Job, sentinel: Sentinel, deadline_s: float) -> ProcessArm:
    """An arm that has started; raises Mistake where the system starts no more processes."""
    try:
        return ProcessArm(job, sentinel, deadline_s)
    except OSError as error:
        raise Mistake(
            f"Cannot start another process ({error.strerror}); what was measured is kept: see ulimit -a, make room, "
            "and give the same command again."
        ) from error


def free_memory(device: str) -> tuple[int, ...]:
    """Memory that could be had now, of the host and of the device; raises Mistake when the device is gone."""
    if device != "cuda":
        return free_bytes(device)
    import pynvml

    try:
        return free_bytes(device)
    except pynvml.NVMLError as error:
        raise Mistake(
            f"The driver no longer answers for the GPU ({error}); what was measured is kept: see nvidia-smi and dmesg, "
            "reset the device or the machine, and give the same command again."
        ) from error
