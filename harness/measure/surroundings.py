"""The surroundings: reads the machine and its software into an Environment, without importing torch."""

import importlib.metadata
import os
import platform
import runpy
import shutil
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import psutil

from harness.core.emulation import is_emulated, table_of, title_of
from harness.core.environment import DEVICES, MATRIX_UNITS, STEMS, Environment, library_of, round_memory
from harness.core.mistake import Mistake
from harness.core.parallel import usable_cores
from harness.core.workload import Workload
from harness.measure.gpu import Driver, driver_of

# Variables of the process by which libraries compute otherwise, which a shell may have set and nobody thinks of.
#
# Each is inherited by every arm and changes what all of them take, so that it belongs to the environment of a run.
# Those that a recipe settles itself (threads, host and device allocators) are not here, nor any that holds a path.
#
# After the documentation of PyTorch, CUDA, cuBLAS, oneDNN, oneMKL, OpenMP 5.2, libgomp, LLVM's OpenMP, glibc and
# CPython.

SETTINGS = (
    *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_AUTO_BOOST"),
    *("NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "CUDA_FORCE_PTX_JIT"),
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_CUDNN_V8_API_DISABLED", "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT"),
    *("TORCH_BLAS_PREFER_CUBLASLT", "TORCH_SHOW_CPP_STACKTRACES", "TORCH_LOGS", "TORCH_COMPILE_DEBUG"),
    *("TORCHDYNAMO_DISABLE", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_FREEZING", "TORCHINDUCTOR_CPP_WRAPPER"),
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE"),
    *("DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "ONEDNN_VERBOSE", "DNNL_VERBOSE"),
    *("MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_DYNAMIC", "MKL_CBWR", "MKL_VERBOSE", "OPENBLAS_CORETYPE"),
    *("OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_DYNAMIC", "OMP_SCHEDULE", "OMP_THREAD_LIMIT"),
    *("GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET"),
    *("GLIBC_TUNABLES", "MALLOC_PERTURB_", "MALLOC_CHECK_", "MALLOC_ARENA_MAX"),
    *("PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONOPTIMIZE", "PYTHON_GIL", "PYTHON_JIT"),
)


def read_variables(process: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those that are set to something, by name."""
    return tuple((name, process[name]) for name in sorted(SETTINGS) if process.get(name))


PACKAGES = (
    *("torch", "torchvision", "torchaudio", "triton", "numpy", "scipy"),
    *("h5py", "soundfile", "tifffile", "pillow", "simplejpeg", "boto3"),  # what reads the data
)
CPU_FACTS = Path("/proc/cpuinfo")
# What shows that there is a GPU although NVML answers for none.
NVIDIA_DRIVER, AMD_DRIVER = Path("/proc/driver/nvidia/version"), Path("/dev/kfd")
GRAPHICS, AMD, INTEL = Path("/sys/class/drm"), "0x1002", "0x8086"  # the vendors' numbers on the PCI bus
UNSUPPORTED = (
    "{found}, but only NVIDIA GPUs are supported, through CUDA and NVML; the CPU can be measured with --device cpu."
)


def read_environment(device: str = "auto") -> Environment:
    """The facts of this machine; `auto` takes a GPU where there is one, `cuda` raises Mistake where there is none."""
    if device not in {"auto", "cpu", "cuda"} and not is_emulated(device):
        raise Mistake(f"There is no device '{device}'; choose {', '.join(['auto', *DEVICES])}.")
    gpu = read_gpu() if device in {"auto", "cuda"} else {}
    if device == "cuda" and not gpu:
        raise Mistake(unused_gpu() or "No CUDA device answers on this machine; leave out --device cuda.")
    if gpu and (words := unusable_by_torch(gpu)):
        raise Mistake(words)
    return Environment(
        device="cuda" if gpu else "cpu" if device == "auto" else device,
        accelerator=title_of(device) if is_emulated(device) else gpu.get("name"),
        accelerator_memory_bytes=int(gpu["memory"]) if gpu else None,
        capability=gpu.get("capability"),
        driver=table_of(device) if is_emulated(device) else gpu.get("driver"),
        cpu=cpu_name(),
        cores=usable_cores(),
        memory_bytes=round_memory(memory_limit_bytes()),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        compiler=compiler_for("cuda" if gpu else "cpu"),
        packages=tuple((name, version) for name in PACKAGES if (version := package_version(name))),
        variables=read_variables(os.environ),
        cpu_flags=cpu_flags(),
        cpu_design=cpu_design(),
        allocators=tuple(filter(library_of, STEMS)),
    )


def package_version(name: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def unread(workload: Workload, packages: Iterable[tuple[str, str]] = ()) -> str | None:
    """Why a workload's files can be neither written nor read here, with the remedy; None where they can.

    Of the packages of the machine that is planned for, a reader that is not the one installed here counts as able.
    Without torch nothing is measured: whatever is planned is meant for another machine.
    """
    reader, known = workload.reader, dict(packages)
    if reader is None or ("torch" not in known and package_version("torch") is None):
        return None
    installed = package_version(reader)
    if known.get(reader, installed) != installed:
        return None
    if installed is None:
        return f"{reader} is not installed; pip install {reader}"
    failure = import_failure(reader)
    return f"{reader} cannot be imported ({failure}); pip install {reader} adds what it lacks" if failure else None


@cache
def import_failure(package: str) -> str | None:
    """Why an installed package cannot be imported, in words; None where it was."""
    try:
        import_module(package)
    except Exception as error:  # noqa: BLE001  whatever a stranger's module raises
        return " ".join(str(error).split())[:200] or type(error).__name__
    return None


def memory_limit_bytes() -> int:
    """Memory of the machine, or the control group's limit where that is less."""
    total, limit = psutil.virtual_memory().total, _cgroup_bytes("memory.max")
    return total if limit is None else min(total, limit)


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on: `ext4`, `nfs4`, `overlay`."""
    parents = {str(one) for one in (folder.resolve(), *folder.resolve().parents)}
    held = [one for one in psutil.disk_partitions(all=True) if one.mountpoint in parents]
    last_first = reversed(held)  # of several on one folder the last one counts
    return max(last_first, key=lambda one: len(one.mountpoint)).fstype if held else "an unknown file system"


def free_bytes(device: str) -> tuple[int, ...]:
    """Memory that could be had now: the host's, within its control group, and the device's where that is a GPU.

    Raises Mistake when the device is gone.
    """
    free = psutil.virtual_memory().available
    limit, used = (_cgroup_bytes(name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None:
        free = min(free, limit - used + _cgroup_reclaimable_bytes())
    if device != "cuda":
        return (free,)
    memory = driver_of().ask("nvmlDeviceGetMemoryInfo")
    if memory is None:
        raise Mistake(
            "The driver no longer answers for the GPU; what was measured is kept: see nvidia-smi and dmesg, reset the "
            "device or the machine, and give the same command again."
        )
    return free, int(memory.free)


def _cgroup_bytes(name: str) -> int | None:
    """A number of the control group; None where it has none, or sets no limit."""
    path = Path("/sys/fs/cgroup") / name
    text = path.read_text().strip() if path.is_file() else "max"
    return None if text == "max" else int(text)


def _cgroup_reclaimable_bytes() -> int:
    """Pages of files that the kernel drops when somebody needs them."""
    path = Path("/sys/fs/cgroup/memory.stat")
    facts = dict(line.split() for line in path.read_text().splitlines()) if path.is_file() else {}
    return sum(int(facts.get(name, 0)) for name in ("active_file", "inactive_file"))


def cpu_name() -> str:
    """The processor's model name as the kernel tells it."""
    names = (line.partition(":")[2].strip() for line in _cpu_facts().splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def cpu_design() -> str | None:
    """Family, model and stepping, as the kernel tells them: a virtual machine calls several designs `AMD EPYC`."""
    facts = dict(line.partition(":")[::2] for line in _cpu_facts().splitlines())
    told = {name.strip(): value.strip() for name, value in facts.items()}
    named = [
        (name, told.get(key)) for name, key in (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"))
    ]
    return ", ".join(f"{name} {value}" for name, value in named if value) or None


def cpu_flags() -> tuple[str, ...] | None:
    """Those of the processor's flags by which an optimization can run here, or None where the kernel shows none."""
    words = set(_cpu_facts().split())
    return tuple(flag for flag in MATRIX_UNITS if flag in words) if words else None


def _cpu_facts() -> str:
    return CPU_FACTS.read_text(encoding="utf-8", errors="replace") if CPU_FACTS.is_file() else ""


def governor() -> str | None:
    """The frequency governor of the first core, or None where the kernel shows none."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return path.read_text().strip() if path.is_file() else None


def read_gpu() -> dict[str, str]:
    """Name, memory in bytes, compute capability and driver of the first GPU; empty where no driver answers."""
    driver = driver_of()
    capability, memory = driver.ask("nvmlDeviceGetCudaComputeCapability"), driver.ask("nvmlDeviceGetMemoryInfo")
    if capability is None or memory is None:
        return {}
    return {
        "name": str(driver.ask("nvmlDeviceGetName")),
        "memory": str(memory.total),
        "capability": "{}.{}".format(*capability),
        "driver": driver.nvml.nvmlSystemGetDriverVersion(),
        "cuda": _newest_cuda(driver),
    }


def _newest_cuda(driver: Driver) -> str:
    """The newest CUDA that the driver can run, as 12.8; empty where it does not tell."""
    tell = getattr(driver.nvml, "nvmlSystemGetCudaDriverVersion_v2", None)
    number = tell() if tell else 0  # 12080
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def unusable_by_torch(gpu: Mapping[str, str]) -> str | None:
    """Why the installed torch cannot use a GPU whose driver answers, in a sentence; None where it can, or none is."""
    specification = find_spec("torch")
    if specification is None or specification.origin is None:
        return None
    built_for = runpy.run_path(str(Path(specification.origin).with_name("version.py"))).get("cuda")
    newest = gpu.get("cuda")
    instead = "or measure the CPU with --device cpu."
    if built_for is None:
        return f"{gpu['name']} is here, but the installed torch is built without CUDA; install another, {instead}"
    # Within one major version any driver runs any CUDA (NVIDIA, CUDA Compatibility, "minor version compatibility").
    if newest and int(newest.partition(".")[0]) < int(str(built_for).partition(".")[0]):
        return (
            f"The driver {gpu['driver']} of {gpu['name']} runs CUDA up to {newest}, but the installed torch is built "
            f"for {built_for}; update the driver, install a torch for CUDA {newest}, {instead}"
        )
    return None


def compiler_for(device: str) -> str | None:
    """The compiler that torch.compile calls: g++ for a CPU, for CUDA one of C, which needs Python's headers too."""
    if device != "cuda":
        return "g++" if shutil.which("g++") else None
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return next(filter(shutil.which, ("gcc", "clang")), None) if headers.is_file() else None


def unused_gpu() -> str | None:
    """The GPU that is here and cannot be measured, and what is supported, in a sentence; None where none was found."""
    build = package_version("torch") or ""
    if NVIDIA_DRIVER.exists():
        return (
            f"The driver of an NVIDIA GPU is loaded ({NVIDIA_DRIVER}), but NVML does not answer for any; see that "
            "nvidia-ml-py is installed and nvidia-smi lists the GPU, or measure the CPU with --device cpu."
        )
    if AMD_DRIVER.exists() or AMD in _vendors():
        return UNSUPPORTED.format(found=f"An AMD GPU was found ({AMD_DRIVER if AMD_DRIVER.exists() else GRAPHICS})")
    if "rocm" in build:
        return UNSUPPORTED.format(found=f"The installed torch is built for AMD GPUs ({build})")
    # Most laptops have a graphics unit of Intel that nobody would train on: torch must be built for it.
    if "xpu" in build and INTEL in _vendors():
        return UNSUPPORTED.format(found=f"An Intel GPU was found ({GRAPHICS}) with torch {build}")
    return None


def _vendors() -> set[str]:
    """The vendors of the graphics cards that the kernel lists."""
    return {path.read_text(encoding="utf-8").strip() for path in GRAPHICS.glob("card*/device/vendor")}


def processes_on_gpu() -> int | None:
    """How many processes compute on the first GPU, or None where no driver answers or tells."""
    running = driver_of().ask("nvmlDeviceGetComputeRunningProcesses")
    return None if running is None else len(running)
