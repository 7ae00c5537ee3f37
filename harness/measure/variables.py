"""Variables of the process by which libraries compute otherwise, which a shell may have set and nobody thinks of.

Each is inherited by every arm and changes what all of them take, so that it belongs to the environment of a run. Those
that a recipe settles itself (threads, host and device allocators) are not here, nor any that holds a path.

After the documentation of PyTorch, CUDA, cuBLAS, oneDNN, oneMKL, OpenMP 5.2, libgomp, LLVM's OpenMP, glibc and CPython.
"""

from collections.abc import Mapping

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
