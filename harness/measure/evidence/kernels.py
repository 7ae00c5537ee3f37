"""What a profiler sees of one step on a GPU: kernels of tensor cores, of channels-last tensors, and replayed graphs.

Names of kernels are nobody's promise, so nothing is proved by them: they stand beside what proves a setting. And a
profiler may leave its hooks in the process, where every later launch pays for them; so only arms that nobody times
are looked at (docs/decisions/gpu-facts.md).
"""

import re
from collections.abc import Callable, Iterable

import torch
from torch.profiler import ProfilerActivity, profile

from harness.core.recipe import Value
from harness.measure.clock import synchronize

# cuBLAS, cuDNN and CUTLASS write the instruction into the name: `s16816gemm` and `tensor16x8x8` are shapes of mma,
# `gmma` and `warpgroup` Hopper's, `wmma` and `tensorop` CUTLASS's words, and nvjet is what makes cuBLAS's for Hopper.
# What says `simt` or `ffma` does without them.
TENSOR_CORES = re.compile(
    r"tensorop|tensor\d+x\d+x\d+|[shid]\d{3,}(gemm|cudnn|fprop|dgrad|wgrad|conv)|[hw]mma|gmma|warpgroup|nvjet|"
    r"xmma_\w*(bf16bf16|f16f16|tf32f32|tf32tf32)",
    re.IGNORECASE,
)
PLAIN = re.compile(r"simt|ffma", re.IGNORECASE)
CONVERSION = re.compile(r"nc(d?)hwTo(folded)?n\1hwc|n(d?)hwcTonc\3hw", re.IGNORECASE)  # copies that cuDNN makes
CHANNELS_LAST = re.compile(r"nhwc(?!krsc_nchw)|ndhwc|channels_?last", re.IGNORECASE)  # KRSC is of filters
NO_KERNEL = ("Memcpy", "Memset")
GRAPH_LAUNCH = "cudaGraphLaunch"


def of_kernels(step: Callable[[], object], device: torch.device) -> dict[str, Value]:
    """What one more step runs on the device; on a CPU nothing, and words where no profiler can look."""
    if device.type != "cuda":
        return {}
    try:
        kernels, calls = launched(step, device)
    except RuntimeError as error:
        return {"profiler": f"saw nothing: {str(error).partition('.')[0]}"}
    return counted(kernels) | {"graph_launches": sum(one == GRAPH_LAUNCH for one in calls)}


def launched(step: Callable[[], object], device: torch.device) -> tuple[list[str], list[str]]:
    """The names of all that one step runs on the device, and of all that the host calls for it."""
    synchronize(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        step()
        synchronize(device)
    names: dict[bool, list[str]] = {True: [], False: []}
    for event in seen.events() or ():
        names[event.device_type.name == "CUDA"].append(event.name)
    return names[True], names[False]


def counted(names: Iterable[str]) -> dict[str, Value]:
    """How many kernels there are of each kind, told by their names."""
    kernels = [one for one in names if not one.startswith(NO_KERNEL)]
    conversions = [one for one in kernels if CONVERSION.search(one)]
    channels_last = [one for one in kernels if CHANNELS_LAST.search(one)]
    return {
        "kernels": len(kernels),
        "tensor_core_kernels": sum(bool(TENSOR_CORES.search(one)) and not PLAIN.search(one) for one in kernels),
        "channels_last_kernels": len(channels_last) - len(conversions),
        "layout_conversions": len(conversions),
    }
