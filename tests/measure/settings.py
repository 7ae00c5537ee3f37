"""Process-wide settings that an arm leaves as it likes, because its process is its own; tests put them back."""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# What torch says about the settings of these tests, which they chose: as errors they would end them.
FLOAT32_COMPILED = "ignore:TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled"


@contextmanager
def put_back() -> Iterator[None]:
    """Restores threads, cores, garbage collection and torch's options at the end of the block."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    sharing, anomalies = torch.multiprocessing.get_sharing_strategy(), torch.is_anomaly_enabled()
    precision = torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)
        torch.multiprocessing.set_sharing_strategy(sharing)
        torch.autograd.set_detect_anomaly(anomalies)
        torch.set_float32_matmul_precision(precision)
        gc.unfreeze()
        gc.enable()


@contextmanager
def no_waits() -> Iterator[None]:
    """Makes a wait of the host for the device an error within the block.

    In each process the first call warns when the mode is set already: as an error that would leave it on for good.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
