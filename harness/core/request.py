"""A request: what is to be measured, as the command line, the Python interface and other tools ask for it."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured; what is not said is what `./speedmatrix run` takes."""

    workloads: tuple[str, ...] = ()  # all of them, or the user's own, when empty
    size: str | None = None  # smoke, quick or standard; None: quick on a CPU, standard on a GPU
    batch: int | None = None  # samples per optimizer step
    design: str = "alone"
    only: tuple[str, ...] = ()  # NAME or NAME=LEVEL
    stack: str | None = None  # one more comparison: A+B=2, all or original
    reference: str = "baseline"
    probe: str | None = None  # loader or compute
    protocol: str = "brief"
    replicates: int | None = None
    rounds: int | None = None
    target: str | None = None  # of an interval's half-width: 2%, or none
    seed: int = 0
    device: str = "auto"
    own: Path | None = None  # a Python file that defines WORKLOAD
    data_roots: tuple[str, ...] = ()  # [WORKLOAD=]FOLDER of real data
    environment: Environment | None = None  # that is planned for; None: this machine's

    @property
    def words(self) -> tuple[str, ...]:
        """What of it differs from the defaults, as the command line takes it; no place on this machine is named."""
        found = ["run", *self.workloads]
        for option, values in self._options():
            found += [word for value in values for word in (option, str(value))]
        return tuple(found)

    @property
    def command(self) -> str:
        """The command line that asks for it, for as long as it takes."""
        return shlex.join(["./speedmatrix", *self.words, "--budget", "none"])

    def _options(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        usual = Request()
        yield "--size", _given(self.size)
        yield "--design", () if self.design == usual.design else (self.design,)
        yield "--only", self.only
        yield "--stack", _given(self.stack)
        yield "--reference", () if self.reference == usual.reference else (self.reference,)
        yield "--batch", _given(self.batch)
        yield "--probe", _given(self.probe)
        yield "--protocol", () if self.protocol == usual.protocol else (self.protocol,)
        yield "--replicates", _given(self.replicates)
        yield "--rounds", _given(self.rounds)
        yield "--target", _given(self.target)
        yield "--seed", (self.seed,) if self.seed else ()
        yield "--device", () if self.device == usual.device else (self.device,)
        yield "--workload", (self.own.name,) if self.own else ()
        yield "--data-root", tuple(map(placeless, self.data_roots))


def placeless(text: str) -> str:
    """A `[WORKLOAD=]FOLDER` without the folder, which is nobody's business."""
    name, separator, _ = text.partition("=")
    return f"{name}=FOLDER" if separator and "/" not in name else "FOLDER"


def _given(value: object) -> tuple[object, ...]:
    return () if value is None else (value,)
