"""Faults are told by the words of torch 2.11 and CUDA 13, by how a process ended, and by where a silent one stands."""

import signal

import pytest

from harness.core.mistake import Mistake
from harness.core.records import Fault
from harness.measure.loop import Diverged
from harness.run.fault import (
    COURSES,
    LONGEST_REASON,
    Raised,
    fault_ended,
    fault_raised,
    fault_silent,
    raised,
    reason_for,
    struck_by_kernel,
    with_remedy,
)

SAID = [
    ("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of", Fault.DEVICE_MEMORY),
    ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", Fault.DEVICE_MEMORY),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Fault.DEVICE_MEMORY),
    ("CUDA error: uncorrectable ECC error encountered", Fault.DEVICE_LOST),
    ("CUDA error: uncorrectable NVLink error detected during the execution", Fault.DEVICE_LOST),
    ("CUDA error: no CUDA-capable device is detected", Fault.DEVICE_LOST),
    ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", Fault.DEVICE_LOST),
    ("CUDA error: system not yet initialized", Fault.DEVICE_LOST),
    ("CUDA error: unknown error", Fault.DEVICE_LOST),
    ("CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error", Fault.DEVICE_LOST),
    ("No CUDA GPUs are available", Fault.DEVICE_LOST),
    ("CUDA error: an illegal memory access was encountered", Fault.DEVICE_ERROR),
    ("CUDA error: unspecified launch failure", Fault.DEVICE_ERROR),
    ("CUDA error: device-side assert triggered", Fault.DEVICE_ERROR),
    ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", Fault.DEVICE_ERROR),
    ("cuFFT error: CUFFT_INTERNAL_ERROR", Fault.DEVICE_ERROR),
    ("cuFFT error: CUFFT_ALLOC_FAILED", Fault.DEVICE_MEMORY),
    ("CUDA driver error: out of memory", Fault.DEVICE_MEMORY),
    ("CUDA driver error: unknown error", Fault.DEVICE_LOST),
    ("CUDA driver error: invalid argument", Fault.DEVICE_ERROR),
    (
        "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to",
        Fault.HOST_MEMORY,
    ),
    ("[Errno 12] Cannot allocate memory", Fault.HOST_MEMORY),
    (
        "unable to allocate shared memory(shm) for file </torch_71_3960_0>: No space left on device (28)",
        Fault.SHARED_MEMORY,
    ),
    ("unable to resize file </torch_71_3960_0> to the right size: No space left on device (28)", Fault.SHARED_MEMORY),
    ("unable to open shared memory object </torch_71_3960_0> in read-write mode: x (24)", Fault.SHARED_MEMORY),
    (
        "DataLoader worker (pid 71) is killed by signal: Bus error. It is possible that dataloader's workers are",
        Fault.SHARED_MEMORY,
    ),
    ("DataLoader worker (pid 71) is killed by signal: Killed. ", Fault.WORKER_DEATH),
    ("DataLoader worker (pid(s) 71, 72) exited unexpectedly", Fault.WORKER_DEATH),
    ("DataLoader worker (pid 71) is killed by signal: Segmentation fault. ", Fault.CRASHED),
    (
        "DataLoader worker (pid 71) exited unexpectedly with exit code 3. Details are lost due to multiprocessing.",
        Fault.EXITED,
    ),
    ("[Errno 28] No space left on device: '/tmp/kernel.cpp'", Fault.DISK),
    ("[Errno 122] Disk quota exceeded", Fault.DISK),
    ("Application timeout caused pair closure", Fault.WINDOW_TIME_OUT),
    ("mat1 and mat2 shapes cannot be multiplied (4x3 and 5x6)", Fault.ERROR),
]


@pytest.mark.parametrize(("words", "fault"), SAID, ids=[words[:40] for words, _ in SAID])
def test_words_tell_the_fault(words: str, fault: Fault) -> None:
    assert fault_raised(raised(RuntimeError(words))) is fault


@pytest.mark.parametrize(
    ("kinds", "fault"),
    [
        (("torch.OutOfMemoryError", "builtins.RuntimeError"), Fault.DEVICE_MEMORY),
        (("numpy._core._exceptions._ArrayMemoryError", "builtins.MemoryError"), Fault.HOST_MEMORY),
        (("torch._inductor.exc.InductorError", "torch._dynamo.exc.BackendCompilerFailed"), Fault.COMPILER),
        (("torch._dynamo.exc.Unsupported", "builtins.RuntimeError"), Fault.COMPILER),
        (("builtins.ValueError", "builtins.Exception"), Fault.ERROR),
    ],
)
def test_an_exception_s_class_tells_what_its_words_do_not(kinds: tuple[str, ...], fault: Fault) -> None:
    assert fault_raised(Raised(kinds, "")) is fault


def test_classes_and_words_of_causes_are_signs_too() -> None:
    error = RuntimeError("the step failed")
    error.__cause__ = MemoryError()
    assert fault_raised(raised(error)) is Fault.HOST_MEMORY
    assert fault_raised(raised(Diverged("the loss is no longer a finite number"))) is Fault.DIVERGED


def test_a_semaphore_without_room_lacks_shared_memory() -> None:
    words = "[Errno 28] No space left on device"
    assert fault_raised(Raised((), words, place="/usr/lib/python3.11/multiprocessing/synchronize.py")) is (
        Fault.SHARED_MEMORY
    )
    assert fault_raised(Raised((), words, place="/home/me/mine.py")) is Fault.DISK


@pytest.mark.parametrize(
    ("status", "kills", "fault", "words"),
    [
        (3, 0, Fault.EXITED, "its process ended with status 3"),
        (0, 1, Fault.EXITED, "its process ended with status 0"),
        (None, 0, Fault.EXITED, "its process hung up without ending"),
        (-signal.SIGKILL, 0, Fault.KILLED, "ended by SIGKILL"),
        (-signal.SIGKILL, 1, Fault.OOM_KILLED, "out of memory: ended by the kernel (SIGKILL)"),
        (-signal.SIGTERM, 1, Fault.KILLED, "ended by SIGTERM"),
        (-signal.SIGSEGV, 1, Fault.CRASHED, "ended by SIGSEGV"),
        (-signal.SIGBUS, 0, Fault.CRASHED, "ended by SIGBUS"),
        (-37, 0, Fault.KILLED, "ended by signal 37"),
    ],
)
def test_the_end_of_a_process_tells_the_fault(status: int | None, kills: int, fault: Fault, words: str) -> None:
    assert fault_ended(status, kills) == (fault, words)


COMPILING = '  File "/x/site-packages/torch/_dynamo/convert_frame.py", line 1 in _compile\n'
RUNNING_COMPILED = '  File "/x/site-packages/torch/_dynamo/eval_frame.py", line 1 in compile_wrapper\n'
LOADING = '  File "/x/site-packages/torch/utils/data/dataloader.py", line 1 in _get_data\n'


@pytest.mark.parametrize(
    ("usual", "stack", "log", "fault"),
    [
        (Fault.START_TIME_OUT, "", "", Fault.START_TIME_OUT),
        (Fault.WINDOW_TIME_OUT, RUNNING_COMPILED, "", Fault.WINDOW_TIME_OUT),
        (Fault.START_TIME_OUT, COMPILING.replace("_compile", "<module>"), "", Fault.START_TIME_OUT),
        (Fault.START_TIME_OUT, LOADING.replace("_get_data", "<module>"), "", Fault.START_TIME_OUT),
        (Fault.START_TIME_OUT, COMPILING + RUNNING_COMPILED, "", Fault.COMPILE_TIME_OUT),
        (Fault.WINDOW_TIME_OUT, LOADING, "", Fault.LOADER_STALLED),
        (Fault.WINDOW_TIME_OUT, LOADING, "unable to allocate shared memory(shm) for file", Fault.SHARED_MEMORY),
        (Fault.WINDOW_TIME_OUT, "", "unable to allocate shared memory(shm) for file", Fault.WINDOW_TIME_OUT),
    ],
)
def test_where_it_stands_tells_the_fault_of_a_silent_arm(usual: Fault, stack: str, log: str, fault: Fault) -> None:
    found, words = fault_silent(usual, 7.0, stack, log)
    assert found is fault
    assert "7 s" in words


def test_the_kernel_s_count_tells_who_struck_a_loader_worker() -> None:
    killed = "DataLoader worker (pid 71) is killed by signal: Killed. "
    assert struck_by_kernel(Fault.WORKER_DEATH, killed, 1)
    assert not struck_by_kernel(Fault.WORKER_DEATH, killed, 0)
    assert not struck_by_kernel(Fault.WORKER_DEATH, "DataLoader worker (pid(s) 71) exited unexpectedly", 1)
    assert not struck_by_kernel(Fault.ERROR, killed, 1)


def test_what_would_come_again_is_final_and_another_s_doing_is_tried_again() -> None:
    again = {fault for fault, course in COURSES.items() if course.outcome == "interrupted"}
    assert again == {
        Fault.OOM_KILLED, Fault.DISK, Fault.WORKER_DEATH, Fault.DEVICE_LOST, Fault.KILLED, Fault.SUSPENDED
    }  # fmt: skip
    assert {course.outcome for course in COURSES.values()} == {"interrupted", "failed"}


def test_a_reason_is_one_line_with_a_remedy() -> None:
    worker = (
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\nValueError: y"
    )
    assert reason_for(ValueError(worker)) == "in a loader worker: ValueError: y"
    pinning = worker.replace("DataLoader worker process 0", "pin memory thread for device 0")
    assert reason_for(ValueError(pinning)) == "in the pinning thread: ValueError: y"
    assert reason_for(RuntimeError("backend='inductor' raised:\nCppCompileError: C++")) == (
        "RuntimeError: backend='inductor' raised: CppCompileError: C++"
    )
    gone = RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
    assert reason_for(gone) == "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"
    gone.__cause__ = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
    assert reason_for(gone) == "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    assert with_remedy(Fault.KILLED, reason_for(gone)).startswith(
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed; see"
    )
    assert reason_for(MemoryError()) == "out of memory: no more host memory"
    assert reason_for(RuntimeError("CUDA out of memory. Tried")) == "out of memory: CUDA out of memory. Tried"
    assert reason_for(ValueError()) == "ValueError: no message"
    assert reason_for(Mistake("Do this instead.")) == "Do this instead."
    assert len(reason_for(ValueError("x" * 9999))) == LONGEST_REASON
    for fault in Fault:
        assert with_remedy(fault, "it ended") == f"it ended; {COURSES[fault].remedy}"
        assert ";" not in COURSES[fault].remedy, "what was interrupted thrice counts before the last one"
