"""Needs: named conditions, each with the words that stand in the matrix where it is not met."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.core.environment import Environment
    from harness.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A condition on the machine and the workload, judged from what is recorded of both and never from the host.

    What an environment does not record is unknown and counts as met: it hinders nothing, so that a claim about it reads
    "not measured" where no run has tried it.
    """

    missing: str
    met: Callable[["Environment", "Workload"], bool]


CUDA = Need(missing="needs a CUDA device", met=lambda environment, _: environment.device == "cuda")
COMPILER = Need(missing="needs a C++ compiler (g++)", met=lambda environment, _: environment.compiler is not None)
SEVERAL_CORES = Need(missing="needs at least two CPU cores", met=lambda environment, _: environment.cores >= 2)


def trait(name: str, missing: str) -> Need:
    """The need of a workload that offers something, such as `convolutions`."""
    return Need(missing=missing, met=lambda _, workload: name in workload.traits)


def without(name: str, present: str) -> Need:
    """The need of a workload that does not do something already."""
    return Need(missing=present, met=lambda _, workload: name not in workload.traits)


CONVOLUTIONS = trait("convolutions", "needs 2-D convolutions")
ANY_CONVOLUTIONS = Need(
    missing="needs 2-D or 3-D convolutions",
    met=lambda _, workload: not workload.traits.isdisjoint({"convolutions", "convolutions_3d"}),
)
SEVERAL_ITEMS = Need(  # a system that takes one at a time has items of several shapes
    missing="needs a system that takes several items into a batch",
    met=lambda _, workload: any(size.batch > 1 for size in workload.sizes.values()),
)
EVALUATION = trait("evaluation", "needs a workload with an evaluation")
