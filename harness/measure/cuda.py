"""NVIDIA devices through CUDA and NVML."""

import ctypes
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, autocast, backends, cuda, nn, randn
from torch import bfloat16 as bfloat16_type

from harness.measure.devices import Device
from harness.measure.gpu import Driver, driver_of

_BLOCKING, _SCHEDULING = 0x04, 0x07  # CU_CTX_SCHED_BLOCKING_SYNC and CU_CTX_SCHED_MASK of cuda.h


def _driver() -> Any:
    """CUDA's driver, of which device 0 is the first that this process may see."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    return driver


class Cuda(Device):
    """One device of CUDA: it works while the host goes on."""

    asynchronous = True
    steps_on_host = False
    # For a small convolution cuDNN may choose kernels without tensor cores, which says nothing of those of a model.
    convolved = (32, 128, 32)
    push: Any = staticmethod(cuda.nvtx.range_push)
    pop: Any = staticmethod(cuda.nvtx.range_pop)

    def synchronize(self) -> None:
        """Waits for all streams."""
        cuda.synchronize(self.torch)

    def driver(self) -> Driver:
        """NVML's device of the same identity."""
        return driver_of(str(cuda.get_device_properties(self.torch).uuid))

    def forget_memory(self) -> None:
        """The caching allocator's, of all streams."""
        cuda.empty_cache()
        cuda.reset_peak_memory_stats(self.torch)

    def empty_cache(self) -> None:
        """Waits for the device too."""
        cuda.empty_cache()

    def peak_bytes(self) -> int | None:
        """Reserved bytes, of which those in use are a part."""
        return cuda.max_memory_reserved(self.torch)

    def frees(self) -> int:
        """Calls of cudaFree."""
        return int(cuda.memory_stats(self.torch)["num_device_free"])

    def refusals(self) -> int:
        """Of all that asked, those that went on without a word among them."""
        return int(cuda.memory_stats(self.torch).get("num_ooms", 0))

    def segments(self) -> list[dict[str, Any]] | None:
        """The snapshot of the caching allocator."""
        found: list[dict[str, Any]] = cuda.memory_snapshot()
        return found

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether its memory is page-locked; one without elements has none, and nothing of it travels."""
        return tensor.numel() == 0 or tensor.is_pinned()

    def block(self) -> None:
        """Asks the driver before a context exists; whether it obeys, `blocks` tells."""
        driver, device = _driver(), self.torch.index or 0
        driver.cuDevicePrimaryCtxSetFlags_v2(device, _BLOCKING)

    def blocks(self) -> bool | None:
        """What the flags of the device's context say."""
        flags, is_active = ctypes.c_uint(), ctypes.c_int()
        _driver().cuDevicePrimaryCtxGetState(self.torch.index or 0, ctypes.byref(flags), ctypes.byref(is_active))
        return flags.value & _SCHEDULING == _BLOCKING

    def stream(self) -> Any:
        """A stream from PyTorch's pool."""
        return cuda.Stream(self.torch)

    def current_stream(self) -> Any:
        """The current stream of the device."""
        return cuda.current_stream(self.torch)

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """The stream made current."""
        return cuda.stream(stream)

    def lend(self, tensor: Tensor, stream: Any) -> None:
        """The allocator waits for the stream before it gives the memory to somebody else."""
        if tensor.is_cuda:  # a device stage may want a part of a batch on the host
            tensor.record_stream(stream)

    def event(self, *, timing: bool) -> Any:
        """An event of the current device."""
        return cuda.Event(enable_timing=timing)

    def graph(self) -> Any:
        """An empty graph."""
        return cuda.CUDAGraph()

    def capture(self, graph: Any, stream: Any) -> AbstractContextManager[Any]:
        """Only this thread's calls are watched: the loader's pinning thread may allocate meanwhile."""
        return cuda.graph(graph, stream=stream, capture_error_mode="thread_local")

    def compiled_graphs(self) -> int | None:
        """First ones and those that follow another."""
        from torch._inductor.cudagraph_trees import get_manager

        manager = get_manager(self.torch.index or 0, create_if_none_exists=False)
        return _recorded(manager.roots) if manager else 0

    def sleep(self, cycles: int) -> None:
        """A kernel that counts cycles, whose clock changes with the load."""
        cuda._sleep(cycles)  # noqa: SLF001


def _recorded(graphs: Mapping[Any, list[Any]]) -> int:
    return sum(1 + _recorded(one.children) for alternatives in graphs.values() for one in alternatives)


def use_once(device: str = "cuda") -> None:
    """Uses the device as steps do: what they need of its libraries lies in the host's memory then.

    `cudnn_benchmark` and bfloat16 ask for others than the default: a first such step took ten seconds, a later one two.
    """
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.Flatten(), nn.Linear(64 * 32 * 32, 10)).to(device)
    inputs = randn(8, 3, 32, 32, device=device)
    for benchmark, bfloat16 in ((False, False), (True, False), (True, True)):
        backends.cudnn.benchmark = benchmark
        with autocast(device, bfloat16_type, enabled=bfloat16):
            model(inputs).sum().backward()
    if device == "cuda":
        cuda.synchronize()


if __name__ == "__main__":  # a process that nobody measures, before the first that somebody does
    use_once()
