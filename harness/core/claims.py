"""Claims: what somebody promised, written down before we measured it."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum

from harness.core.codec import Malformed, decode, encode
from harness.core.configuration import Option, parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.workload import Workload

ANY = "any"  # stands for a workload in claims about training in general


class Metric(StrEnum):
    """What a claim is about, and so what of two configurations is compared."""

    THROUGHPUT = "throughput"  # samples a second of whatever the configurations are timed on
    START_UP = "start-up"  # seconds until the first step is done
    HOST_MEMORY = "host memory"  # bytes of the training process and its workers
    DEVICE_MEMORY = "device memory"  # peak bytes
    DEVICE_SHARE = (
        "device share"  # of the time, 0 to 1, that steps span on the device, gaps included; of one configuration
    )
    RATE = "rate"  # samples a second of one configuration, not a ratio
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
    """One promise, its source, its conditions and the pair of configurations that tests it.

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
    reference: str = "baseline"  # baseline, original or a stack
    timing: Timing = Timing.STEP
    conditions: str = ""  # hardware, sizes and whatever else was said to hold
    remark: str = ""  # what is known of the claim before any measurement of ours
    essential: tuple[str, ...] = ()  # optimizations without which it is not tested, however much else remains
    said_of: str = ""  # the kind of device, where it is that of all claims of a file: GPU
    deviation: str = ""  # how the stacks differ from the promise on any machine, without a full stop
    stand_in: str = ""  # the stack that is tested where nothing of the treatment, or not what is essential, can run
    stand_in_reference: str = ""  # beside it in place of the reference; the reference where empty
    untestable: str = ""  # why no configuration of this suite can test it; then treatment is empty
    contradicts: tuple[str, ...] = ()  # names of claims that cannot all be true

    @property
    def differing(self) -> frozenset[str]:
        """The optimizations whose effect it is about: those in only one of its two stacks, or at two levels."""
        ours, theirs = (frozenset(map(parse_option, names_of(one))) for one in (self.treatment, self.reference))
        return frozenset(option.name for option in ours ^ theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The pair of stacks that tests a claim on one machine, and how it falls short of what was claimed."""

    treatment: tuple[Option, ...]
    reference: tuple[Option, ...]
    timing: Timing
    shortfalls: tuple[str, ...] = ()  # sentences without their full stop

    @property
    def label(self) -> str:
        """What the matrix calls it: the options that the reference lacks, or those that it has too many."""
        added = sorted(set(self.treatment) - set(self.reference))
        removed = sorted(set(self.reference) - set(self.treatment))
        return "+".join(map(str, added)) or "without " + "+".join(map(str, removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """Why a claim cannot be tested on a machine."""

    reason: str


Resolution = Tried | Untried


def names_of(stack: str) -> tuple[str, ...]:
    """The names of a stack as it is written on the command line; `baseline` has none."""
    return tuple(name for name in stack.split("+") if name and name != "baseline")


# The ledger: claims read from TOML text, strictly. A test holds them against what there is to test them with.


def parsed(text: str, file: str) -> tuple[Claim, ...]:
    """The claims of one TOML file, tables `[[claim]]`, and what all of them are `said_of`.

    Raises Mistake that names the file and the claim.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"{file} is not TOML ({error}); put it right.") from error
    entries = document.pop("claim", None)
    if not set(document) <= {"said_of"} or not isinstance(entries, list):
        raise Mistake(f"{file} must hold tables [[claim]], before them perhaps said_of, and nothing else.")
    return tuple(_claim(entry, document, f"{file}, claim {number}") for number, entry in enumerate(entries, 1))


def options(stack: str, workload: Workload, device: str = "cuda") -> tuple[Option, ...]:
    """A stack as a claim means it: `original` spelt out, a later option in place of an earlier one of its name."""
    chosen: dict[str, Option] = {}
    for name in names_of(stack):
        for one in workload.found_on(device) if name == "original" else (name,):
            option = parse_option(one)
            chosen[option.name] = option
    return tuple(sorted(chosen.values()))


def _claim(entry: object, shared: Mapping[str, object], where: str) -> Claim:
    if not isinstance(entry, dict):
        raise Mistake(f"{where} must be a table.")
    where = f"{where} ({entry.get('name', 'no name')})"
    absent = {one.name: encode(one.default) for one in fields(Claim) if one.default is not MISSING}
    try:
        return decode(Claim, {**absent, **shared, **entry}, where)
    except Malformed as malformed:
        raise Mistake(f"{malformed}; put the ledger right.") from malformed
