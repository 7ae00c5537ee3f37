"""Optimizations: named differences between two recipes, with what they need and how they are proved."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.core.recipe import Value

if TYPE_CHECKING:
    from harness.core.environment import Environment


class Stage(StrEnum):
    """The part of a training run that an optimization acts on."""

    LAUNCH = "launch"
    INPUT = "input"
    HOST = "host"
    DEVICE = "device"
    SYNC = "sync"
    EVALUATION = "evaluation"
    RANKS = "ranks"  # between processes that train together


class Numerics(StrEnum):
    """How the losses of an optimized run must relate to the reference's."""

    EXACT = "exact"  # bitwise the same, or as near as the reference comes to its own bits
    CLOSE = "close"  # within the spread of seeds
    DIFFERENT = "different"  # another training: it changes what is learned, and its score must be measured


class Timing(StrEnum):
    """What one window covers."""

    STEP = "step"  # training steps in steady state, no epoch boundary
    EPOCH = "epoch"  # whole epochs with the boundary between them
    EVALUATION = "evaluation"  # whole passes over the evaluation set
    LOADER = "loader"  # batches taken from the loader and thrown away
    COMPUTE = "compute"  # steps on batches that already lie on the device


PARTS_OF_A_STEP = frozenset({Timing.LOADER, Timing.COMPUTE})
TRAINS = frozenset({Timing.STEP, Timing.EPOCH})  # what times a training, and not a part of one or its evaluation


class Level:
    """Stands in `sets` and `proof` for the level that was chosen."""

    def __repr__(self) -> str:
        return "LEVEL"


LEVEL: Final = Level()


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """A named difference between two recipes."""

    name: str
    title: str
    stage: Stage
    numerics: Numerics
    sets: Mapping[str, Value | Level]
    proof: Mapping[str, Value | Level]  # effective settings that show it active
    timed_on: Timing = Timing.STEP
    # LOADER or COMPUTE where it changes nothing but that part of a step: the part's own ratio and its share of the step
    # then tell the ratio of steps, as long as nothing works ahead.
    alone_on: Timing | None = None
    levels: tuple[int | str, ...] = ()
    usual: Callable[["Environment"], int | str] | None = None  # the level a matrix of singles tries
    needs: tuple["Need", ...] = ()
    level_needs: Mapping[int | str, "Need"] = field(default_factory=dict)  # what one level needs beside
    requires: tuple[str, ...] = ()
    excludes: Mapping[str, str] = field(default_factory=dict)  # other name -> reason that data cannot show
    supersedes: tuple[str, ...] = ()  # others that it stands in for where everything is switched on
    pointless_where: Mapping[str, str] = field(default_factory=dict)  # `setting value` seen -> why it gains nothing
    sought: bool = True  # False for a price, a harm or a condition: measured for its own sake, never part of everything
    stacked_if: "Need | None" = None  # where it is not met, it is measured alone and is no part of everything
    start_s: float = 0.0  # what it adds to an arm's start, about; for planning only
    workload: str | None = None  # the one workload it belongs to; None is every workload
    page: str = ""  # the module's docstring, filled in by the catalogue

    def usual_level(self, environment: "Environment") -> int | str | None:
        """The level that stands for this optimization where only one is measured; None if it has no levels."""
        if not self.levels:
            return None
        return self.usual(environment) if self.usual else self.levels[0]


# Promises: what a run's reader must know of each optimization, kept in the plan so that it outlives the catalogue.


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How an optimization may change losses, what proves it, and what makes it pointless."""

    numerics: Numerics
    proof: tuple[str, ...]  # names of effective settings
    pointless_where: dict[str, str]  # `setting value` as it is seen in an arm -> why nothing can then be gained


def promises(optimizations: Iterable[Optimization]) -> dict[str, Promise]:
    """The promises of optimizations by their names."""
    return {
        one.name: Promise(
            numerics=one.numerics, proof=tuple(sorted(one.proof)), pointless_where=dict(one.pointless_where)
        )
        for one in optimizations
    }


# Needs: named conditions, each with the words that stand in the matrix where it is not met.

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
# Of what moves work in time and leaves it as it is, so that an emulated device can tell it too.
ASYNCHRONOUS = Need(missing="needs a CUDA device", met=lambda environment, _: environment.kind in {"cuda", "emulated"})
REAL_LOSS = Need(
    missing="moves work of the host out of the loss, which an emulated device leaves out",
    met=lambda environment, _: not environment.emulated,
)
COMPILER = Need(
    missing="needs a compiler (g++; on a GPU gcc or clang, and Python.h)",
    met=lambda environment, _: environment.compiler is not None,
)
AMPERE = Need(  # bfloat16 and TensorFloat-32: earlier ones only emulate the first, and lack the second
    missing="needs a GPU of compute capability 8.0 or higher",
    met=lambda environment, workload: CUDA.met(environment, workload) and float(environment.capability or 8) >= 8,
)
FAST_BFLOAT16 = Need(
    missing="needs a GPU of compute capability 8.0 or higher, or a CPU with matrix units for bfloat16",
    met=lambda environment, workload: (
        AMPERE.met(environment, workload) if CUDA.met(environment, workload) else _may_have_matrix_units(environment)
    ),
)
A_DEVICE_EACH = Need(  # an environment tells of one GPU
    missing="needs a CPU with at least two cores; ranks on several GPUs have not been tried",
    met=lambda environment, _: environment.device == "cpu" and environment.cores >= 2,
)
SEVERAL_CORES = Need(missing="needs at least two CPU cores", met=lambda environment, _: environment.cores >= 2)


def _may_have_matrix_units(environment: "Environment") -> bool:
    """Where no flags were recorded the name decides: no AMD has had such units, and of others it is unknown."""
    if environment.emulated:  # whose precision is its table's; what its host has decides nothing
        return False
    if environment.cpu_flags is None:
        return "AMD" not in environment.cpu
    return bool(environment.cpu_flags)


def trait(name: str, missing: str) -> Need:
    """The need of a workload that offers something, such as `convolutions`."""
    return Need(missing=missing, met=lambda _, workload: name in workload.traits)


def kernel(name: str) -> Need:
    """The need of an optimizer that takes a keyword, as those of the suite's systems take both."""
    return Need(
        missing=f"needs an optimizer that takes {name}",
        met=lambda _, workload: f"no_{name}_optimizer" not in workload.traits,
    )


CONVOLUTIONS = trait("convolutions", "needs 2-D convolutions")
ANY_CONVOLUTIONS = Need(
    missing="needs 2-D or 3-D convolutions",
    met=lambda _, workload: not workload.traits.isdisjoint({"convolutions", "convolutions_3d"}),
)
NEW_SHAPES = Need(  # of what pays once for each shape: the user's own epoch is too long to be timed whole
    missing="its batches have shapes of their own, and a short epoch repeats a few of them: new ones would cost more",
    met=lambda _, workload: "few_shapes" not in workload.traits,
)
GRAPHS = Need(
    missing="records CUDA graphs, which need a CUDA device, and batches of few shapes",
    met=lambda environment, workload: CUDA.met(environment, workload) and NEW_SHAPES.met(environment, workload),
)
SEVERAL_ITEMS = Need(  # a system that takes one at a time has items of several shapes
    missing="needs a system that takes several items into a batch",
    met=lambda _, workload: any(size.batch > 1 for size in workload.sizes.values()),
)
EVALUATION = trait("evaluation", "needs a workload with an evaluation")
EVALUATION_OPTIONS = trait("evaluation_options", "needs an evaluation whose reading and precision can be chosen")
