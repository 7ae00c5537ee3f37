"""Claims: what somebody promised, written down before we measured it."""

from dataclasses import dataclass
from enum import StrEnum

from harness.core.cell import Switch, parse_switch
from harness.core.optimization import Timing

ANY = "any"  # stands for a workload in claims about training in general


class Metric(StrEnum):
    """What a claim is about, and so what of two cells is compared."""

    THROUGHPUT = "throughput"  # samples a second of whatever the cells are timed on
    START_UP = "start-up"  # seconds until the first step is done
    HOST_MEMORY = "host memory"  # bytes of the training process and its workers
    DEVICE_MEMORY = "device memory"  # peak bytes
    DEVICE_SHARE = "device share"  # of the time, 0 to 1, that steps span on the device, gaps included; of one cell
    RATE = "rate"  # samples a second of one cell, not a ratio
    QUALITY = "quality"  # losses or score stay what they were


class Bound(StrEnum):
    """How the figures of a claim are meant."""

    RANGE = "range"  # from low to high
    POINT = "point"  # low alone; a fifth or so of the gain is left on either side
    AT_LEAST = "at least"  # low alone
    UP_TO = "up to"  # high alone, on the best workload
    FREE = "free"  # within 2 % of 1
    GAIN = "gain"  # better, without a figure
    LOSS = "loss"  # worse, without a figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One promise, its source, its conditions and the pair of cells that tests it.

    `low` and `high` are times better (throughput times faster, memory and start-up times less); for `device share` and
    `rate` they are the values themselves.
    """

    name: str  # lower case, words joined by hyphens; unique
    text: str  # what is promised, in our words
    source: str  # repository or publication, and the document
    workload: str  # that tests it, or `any`
    metric: Metric
    bound: Bound
    low: float | None = None
    high: float | None = None
    treatment: str = ""  # the stack that tests it, as on the command line: A+B=2
    reference: str = "plain"  # plain, as_found or a stack
    timing: Timing = Timing.STEP
    conditions: str = ""  # hardware, sizes and whatever else was said to hold
    remark: str = ""  # what is known of the claim before any measurement of ours
    essential: tuple[str, ...] = ()  # optimizations without which it is not tested, however much else remains
    deviation: str = ""  # how the stacks differ from the promise on any machine, without a full stop
    stand_in: str = ""  # the stack that is tested where nothing of the treatment can run
    untestable: str = ""  # why no cell of this suite can test it; then treatment is empty
    contradicts: tuple[str, ...] = ()  # names of claims that cannot all be true

    @property
    def differing(self) -> frozenset[str]:
        """The optimizations whose effect it is about: those in only one of its two stacks, or at two levels."""
        ours, theirs = (frozenset(map(parse_switch, names_of(one))) for one in (self.treatment, self.reference))
        return frozenset(switch.name for switch in ours ^ theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The pair of stacks that tests a claim on one machine, and how it falls short of what was claimed."""

    treatment: tuple[Switch, ...]
    reference: tuple[Switch, ...]
    timing: Timing
    shortfalls: tuple[str, ...] = ()  # sentences without their full stop

    @property
    def subject(self) -> str:
        """What the matrix calls it: the switches that the reference lacks, or those that it has too many."""
        added = sorted(set(self.treatment) - set(self.reference))
        removed = sorted(set(self.reference) - set(self.treatment))
        return "+".join(map(str, added)) or "without " + "+".join(map(str, removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """Why a claim cannot be tested on a machine."""

    reason: str


Resolution = Tried | Untried


def names_of(stack: str) -> tuple[str, ...]:
    """The names of a stack as it is written on the command line; `plain` has none."""
    return tuple(name for name in stack.split("+") if name and name != "plain")
