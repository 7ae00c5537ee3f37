"""The environment: a machine and its software as plain facts, with a digest that identifies it."""

import hashlib
import json
from dataclasses import asdict, dataclass

STEP_BYTES = 1 << 26


def round_memory(count: int) -> int:
    """Bytes to the nearest whole 64 MiB."""
    return (count + STEP_BYTES // 2) // STEP_BYTES * STEP_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a ratio depends on besides the cell; bytes and counts, no names of people, hosts or folders."""

    device: str  # cpu or cuda
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

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that differ when any fact differs.

        Memory counts to whole 64 MiB: the same virtual machine is given some pages more or fewer every day.
        """
        facts = asdict(self) | {"memory_bytes": round_memory(self.memory_bytes)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def machine(self) -> str:
        """A neutral name of the machine, fit for a folder: `h200` or `cpu-2-amd-epyc`."""
        chip = self.accelerator or f"cpu {self.cores} {self.cpu}"
        words = "".join(letter if letter.isalnum() else " " for letter in chip.lower()).split()
        return "-".join(word for word in words if word not in {"nvidia", "r", "tm", "processor", "with"})[:48]
