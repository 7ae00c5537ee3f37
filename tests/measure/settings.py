"""Process-wide settings that an arm leaves as it likes, because its process is its own; tests put them back."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def put_back() -> Iterator[None]:
    """Restores threads, cores, garbage collection and torch's switches at the end of the block."""
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
