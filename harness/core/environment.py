"""The environment: a machine and its software as plain facts, with a digest that identifies it."""

import ctypes.util
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

LAUNCHER = "SPEEDMATRIX_LAUNCHER"  # a variable of arms: the process whose arms are no strangers to each other
GPU_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"  # a variable: lets torch look for a GPU without setting up CUDA

# Memory allocators that a process can be started with in place of its C library's own.

STEMS = {"jemalloc": ("jemalloc",), "tcmalloc": ("tcmalloc_minimal", "tcmalloc")}
PACKAGES = {"jemalloc": "libjemalloc2", "tcmalloc": "libtcmalloc-minimal4"}  # as Debian and Ubuntu call them
VERSIONS = (".2", ".4", "")  # of the libraries' interfaces; without one only where headers are installed too


def library_of(name: str) -> str | None:
    """What the loader of programs must be told to put the allocator in place, or None where it is not installed."""
    return _found(name, os.environ.get("LD_LIBRARY_PATH", ""))


@cache
def _found(name: str, library_path: str) -> str | None:
    folders = [*filter(None, library_path.split(os.pathsep)), f"{sys.prefix}/lib"]
    files = [f"lib{stem}.so{version}" for stem in STEMS[name] for version in VERSIONS]
    paths = (Path(folder, file) for folder in folders for file in files)
    if path := next((one for one in paths if one.is_file()), None):
        return str(path)
    return next(filter(None, map(ctypes.util.find_library, STEMS[name])), None)


STEP_BYTES = 1 << 26
MATRIX_UNITS = ("amx_bf16", "bf16")  # flags of a processor with matrix units for bfloat16, as x86 and Arm call them
# What a run can be measured on, and the class that measures there. A new device is a module with one, and a line here.
DEVICES = {
    "cpu": "harness.measure.devices:Device",
    "cuda": "harness.measure.cuda:Cuda",
    "emulated": "harness.measure.emulated:Emulated",  # what is emulated follows a colon: see core/emulation.py
}
LATER = frozenset({"variables", "cpu_flags", "allocators", "cpu_design"})  # facts that the first runs did not record
MEMORY_SHARE = 0.03  # by which total memory differs between machines that are sold as the same


def round_memory(count: int) -> int:
    """Bytes to the nearest whole 64 MiB."""
    return (count + STEP_BYTES // 2) // STEP_BYTES * STEP_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a ratio depends on besides the configuration; bytes and counts, no names of people, hosts or folders."""

    device: str  # one of DEVICES; what an emulated one stands for follows a colon
    accelerator: str | None
    accelerator_memory_bytes: int | None
    capability: str | None
    driver: str | None
    cpu: str
    cores: int  # usable: affinity and cgroup limit respected
    memory_bytes: int
    system: str
    python: str
    compiler: str | None
    packages: tuple[tuple[str, str], ...]  # name, version
    # Of the process, by which libraries compute otherwise: name, value.
    variables: tuple[tuple[str, str], ...] = field(default=(), metadata={"since": "0.2.0"})
    # Those of MATRIX_UNITS that the processor has, and the allocators that are installed; None where nobody looked.
    cpu_flags: tuple[str, ...] | None = field(default=None, metadata={"since": "0.3.0"})
    allocators: tuple[str, ...] | None = field(default=None, metadata={"since": "0.3.0"})
    # Family, model and stepping of the processor, whose name may be that of several; None where nobody looked.
    cpu_design: str | None = field(default=None, metadata={"since": "0.3.0"})

    @property
    def accelerated(self) -> bool:
        """Whether the device is another one than the host."""
        return self.device != "cpu"

    @property
    def kind(self) -> str:
        """Which of DEVICES it is."""
        return self.device.partition(":")[0]

    @property
    def emulated(self) -> bool:
        """Whether the device's own time was looked up and not measured."""
        return self.kind == "emulated"

    @property
    def emulation(self) -> str:
        """What is emulated, `emulated A100`; empty where nothing is."""
        return (self.accelerator or self.kind) if self.emulated else ""

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that differ when any fact differs.

        Memory counts to whole 64 MiB: the same virtual machine is given some pages more or fewer every day.
        """
        facts = self.identity | {"memory_bytes": round_memory(self.memory_bytes)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def identity(self) -> dict[str, Any]:
        """What a digest is made of: of the later facts only what was found, as in runs that did not know them."""
        return {name: value for name, value in asdict(self).items() if name not in LATER or value}

    @property
    def facts(self) -> dict[str, str | int | None]:
        """Every fact by its name in words, then each package and each variable; memory as the digest counts it."""
        names = (one.name for one in fields(self) if one.name not in LATER | {"packages"})
        plain = {name.replace("_", " "): getattr(self, name) for name in names}
        found = {"cpu flags": self.cpu_flags, "allocators": self.allocators}
        lists = {name: ", ".join(values) for name, values in found.items() if values}
        lists |= {"cpu design": self.cpu_design} if self.cpu_design else {}
        return plain | {"memory bytes": round_memory(self.memory_bytes)} | lists | dict(self.packages + self.variables)

    @property
    def chip(self) -> str:
        """What trained, in words; beside an emulated device the host, on which nearly everything rests there."""
        host = f"{self.cpu}, {self.cores} core{'' if self.cores == 1 else 's'}"
        return f"{self.accelerator} on {host}" if self.emulated else self.accelerator or host

    @property
    def machine(self) -> str:
        """A neutral name of the machine, fit for a folder: `h200` or `cpu-2-amd-epyc`."""
        host = f"{self.cores} {self.cpu}"
        chip = self.accelerator or f"cpu {host}"
        if self.emulated:  # those whose steps were given by their time lie together: a sweep has many
            kind = "emulated steps" if self.device.partition(":")[2][:1].isdecimal() else chip
            chip = f"{kind} {host}"
        words = "".join(letter if letter.isalnum() else " " for letter in chip.lower()).split()
        return "-".join(word for word in words if word not in {"nvidia", "r", "tm", "processor", "with"})[:48]


def differing(one: Environment, other: Environment) -> Iterator[tuple[str, str | int | None, str | int | None]]:
    """The facts in which two environments differ: the name, then what each says, None where it says nothing."""
    ours, theirs = one.facts, other.facts
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            yield name, ours.get(name), theirs.get(name)


def is_one_kind(one: Environment, other: Environment) -> bool:
    """Whether two machines differ at most in the patch level of the driver and by a few per cent of memory."""
    alike = replace(
        other,
        driver=one.driver,
        memory_bytes=one.memory_bytes,
        accelerator_memory_bytes=one.accelerator_memory_bytes,
    )
    return (
        alike == one
        and _branch(one.driver) == _branch(other.driver)
        and _is_near(one.memory_bytes, other.memory_bytes)
        and _is_near(one.accelerator_memory_bytes, other.accelerator_memory_bytes)
    )


def _branch(driver: str | None) -> tuple[str, ...] | None:
    """The numbers of a driver before its patch level: 580 and 159 of 580.159.03."""
    return None if driver is None else tuple(driver.split(".")[:2])


def _is_near(one: int | None, other: int | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) <= MEMORY_SHARE * one)
