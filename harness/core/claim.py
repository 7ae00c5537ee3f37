"""Claims: what somebody promised, written down before we measured it."""

from dataclasses import dataclass
from enum import StrEnum

from harness.core.optimization import Timing


class Metric(StrEnum):
    """What a claim is about, and so what of two cells is compared."""

    THROUGHPUT = "throughput"  # samples a second of whatever the cells are timed on
    START_UP = "start-up"  # seconds until the first step is done
    HOST_MEMORY = "host memory"  # bytes of the training process and its workers
    DEVICE_MEMORY = "device memory"  # peak bytes
    DEVICE_SHARE = "device share"  # of the time in which the device works, from 0 to 1; of one cell, not a ratio
    RATE = "rate"  # samples a second of one cell, not a ratio
    QUALITY = "quality"  # losses or score stay what they were


class Bound(StrEnum):
    """How the figures of a claim are meant."""

    RANGE = "range"  # from low to high
    AT_LEAST = "at least"  # low; high is not read
    UP_TO = "up to"  # high on the best workload; low is not read
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
    workload: str  # that tests it
    metric: Metric
    bound: Bound
    low: float | None = None
    high: float | None = None
    treatment: str = ""  # the stack that tests it, as on the command line: A+B=2
    reference: str = "plain"  # plain, as_found or a stack
    timing: Timing = Timing.STEP
    conditions: str = ""  # hardware, sizes and whatever else was said to hold
    remark: str = ""  # what is known of the claim before any measurement of ours
    untestable: str = ""  # why no cell of this suite can test it; then treatment is empty
    contradicts: tuple[str, ...] = ()  # names of claims that cannot all be true
