"""Renders every page as if on another host: python -m tests.cli.invented_host HOST [--claims | --spies].

Run in an empty folder that holds `results`. Whatever tells about the host is replaced before the harness is imported.
With --claims the claims alone are rendered. With --spies too, and the catalogue has an optimization and a claim for
each way of reading a host; its need reads it so.
"""

import builtins
import ctypes.util
import importlib.metadata
import importlib.util
import io
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil

GIB = 1 << 30
OPTIONAL = {"boto3", "simplejpeg", "torch", "torchaudio", "torchvision"}
CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine that was invented."""

    cores: int
    cpu: str  # the text of /proc/cpuinfo
    chip: str
    memory_gib: int
    gpu: bool = False
    has_packages: bool = True
    allocator: str = ""  # the one that is installed
    compiler: str | None = "/usr/bin/g++"


HOSTS = {
    "bare": Host(
        cores=1, cpu="model name : AMD EPYC\nflags : fpu sse2\n", chip="x86_64", memory_gib=4, has_packages=False,
        compiler=None,
    ),
    "large": Host(
        cores=64, cpu="model name : Intel(R) Xeon(R) Platinum 8480+\nflags : fpu avx512f amx_tile amx_bf16\n",
        chip="x86_64", memory_gib=1024, gpu=True, allocator="jemalloc",
    ),
    "arm": Host(cores=8, cpu="Features : fp asimd bf16\n", chip="aarch64", memory_gib=64, allocator="tcmalloc"),
}  # fmt: skip
# Each says whether a host is large, and stands for all that read the host in that way.
SPIES: dict[str, Callable[[], bool]] = {
    "cpu_count": lambda: (os.cpu_count() or 1) > 2,
    "affinity": lambda: len(os.sched_getaffinity(0)) > 2,
    "cpuinfo": lambda: "amx_bf16" in CPU_FACTS.read_text(encoding="utf-8"),
    "find_spec": lambda: importlib.util.find_spec("simplejpeg") is not None,
    "version": lambda: bool(_version_of("torch")),
    "which": lambda: shutil.which("g++") is not None,
    "find_library": lambda: ctypes.util.find_library("jemalloc") is not None,
    "memory": lambda: psutil.virtual_memory().total > 8 * GIB,
    "gpu": lambda: sys.modules.get("pynvml") is not None,
}
COMMANDS = (
    ["publish"],
    ["document", "--output", "docs"],
    ["claims", "--format", "markdown", "--output", "claims.md"],
    ["claims", "--format", "json", "--output", "claims.json"],
    ["compare", "--machines", "--format", "markdown", "--output", "comparison.md"],
    *(["report", "--format", form, "--output", f"report.{form}"] for form in ("markdown", "json", "html")),
    *(["advise", "--format", form, "--output", f"advice.{form}"] for form in ("markdown", "json")),
)


def pretend(host: Host) -> None:
    """Replaces what tells about the host."""
    os.cpu_count = lambda: host.cores  # type: ignore[assignment]
    os.sched_getaffinity = lambda _: set(range(host.cores))
    shutil.which = lambda name, *_, **__: host.compiler if name == "g++" else None  # type: ignore[assignment]
    ctypes.util.find_library = lambda name: f"lib{name}.so.2" if name == host.allocator else None
    psutil.virtual_memory = lambda: SimpleNamespace(total=host.memory_gib * GIB, available=host.memory_gib * GIB)
    platform.machine = platform.processor = lambda: host.chip
    sys.modules["pynvml"] = _driver() if host.gpu else None  # type: ignore[assignment]
    builtins.open = io.open = _opening(host.cpu, io.open)  # type: ignore[assignment]
    if not host.has_packages:
        importlib.util.find_spec = _finding(importlib.util.find_spec)
        importlib.metadata.version = _telling(importlib.metadata.version)


def _opening(cpu: str, really: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, *given: Any, **named: Any) -> Any:
        return io.StringIO(cpu) if str(file) == str(CPU_FACTS) else really(file, *given, **named)

    return opened


def _finding(really: Callable[..., Any]) -> Callable[..., Any]:
    return lambda name, *given: None if name in OPTIONAL else really(name, *given)


def _telling(really: Callable[[str], str]) -> Callable[[str], str]:
    def told(name: str) -> str:
        if name in OPTIONAL:
            raise importlib.metadata.PackageNotFoundError(name)
        return really(name)

    return told


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _driver() -> ModuleType:
    driver = ModuleType("pynvml")
    driver.NVMLError = OSError  # type: ignore[attr-defined]
    driver.nvmlInit = lambda: None  # type: ignore[attr-defined]
    return driver


def add_spies() -> None:
    """Puts the spies and their claims into every catalogue that is read."""
    from harness import catalogue
    from harness.core.claims import Bound, Claim, Metric
    from harness.core.optimization import Need, Numerics, Optimization, Stage

    def spy(name: str, sees: Callable[[], bool]) -> Optimization:
        need = Need(missing="needs a large host", met=lambda *_: sees())
        return Optimization(
            name=name, title=name, stage=Stage.HOST, numerics=Numerics.EXACT, sets={"set_to_none": True}, proof={},
            needs=(need,),
        )  # fmt: skip

    really, ledger = catalogue._optimizations, catalogue._ledger
    catalogue._optimizations = lambda package, workload: [  # type: ignore[assignment]
        *really(package, workload),
        *((f"spy_{name}", spy(f"spy_{name}", sees)) for name, sees in SPIES.items() if workload is None),
    ]
    catalogue._ledger = lambda: [  # type: ignore[assignment]
        *ledger(),
        *(
            Claim(
                name=f"spy-{name.replace('_', '-')}", text="Faster.", source="Nobody", workload="leak",
                metric=Metric.THROUGHPUT, bound=Bound.GAIN, treatment=f"spy_{name}",
            )
            for name in SPIES
        ),
    ]  # fmt: skip


def main(name: str, options: list[str]) -> None:
    """Renders everything, or the claims alone if asked; ends with the status of a command that fails."""
    pretend(HOSTS[name])
    from harness import cli

    if "--spies" in options:
        add_spies()
    for command in [one for one in COMMANDS if one[0] == "claims"] if options else COMMANDS:
        sys.argv = ["speedmatrix", *command]
        try:
            cli.main()
        except SystemExit as end:
            if end.code:
                raise


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
