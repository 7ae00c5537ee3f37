"""The plan: which comparisons are made, in which blocks and order; data that can be replayed."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.configuration import Comparison, Configuration, Option, current_names
from harness.core.environment import Environment
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.protocol import Protocol

# A request: what is to be measured, as everybody asks for it.


STAGES = "stages"  # the design that times options on the part of a step that they change; its order is kept
# Fields that are options of the same name, in the order in which a command line gives them.
_SAID = (
    "size", "design", "only", "stack", "reference", "batch", "probe", "protocol", "replicates", "rounds", "target",
    "seed", "isolation", "copies", "shard", "device",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured; what is not said is what `./speedmatrix run` takes."""

    workloads: tuple[str, ...] = ()  # all of them, or the user's own, when empty
    size: str | None = None  # smoke, quick or standard; None: quick
    batch: int | None = None  # samples per optimizer step
    design: str = STAGES
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
    isolation: str = "process"  # of every arm, or `shared`: one process for those that can share one
    copies: int | None = None  # of the reference, hidden among the treatments of every workload; None: a first look's
    shard: str | None = None  # NUMBER/COUNT: one of so many parts of the plan
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
        for name in _SAID:
            value = getattr(self, name)
            if value != getattr(usual, name):
                yield f"--{name}", value if isinstance(value, tuple) else (value,)
        yield "--workload", (self.own.name,) if self.own else ()
        yield "--data-root", tuple(map(placeless, self.data_roots))


def placeless(text: str) -> str:
    """A `[WORKLOAD=]FOLDER` without the folder, which is nobody's business."""
    name, separator, _ = text.partition("=")
    return f"{name}=FOLDER" if separator and "/" not in name else "FOLDER"


# The plan: which comparisons are made, in which blocks and order; data that can be replayed.

# A design: every comparison whose arms may share a process, in one process and in processes of their own.
SEARCH, WINNER = "search", "winner"  # what the plans of a search's later runs are called
BOTH_WAYS = "isolation"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResult:
    """A comparison that is not made, and the words that stand in its place."""

    workload: str
    label: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A reference and the treatments that are alive beside it, all timed on the same thing."""

    identity: str
    reference: Configuration
    timing: Timing
    comparisons: tuple[Comparison, ...]
    rounds: int | None = field(default=None, metadata={"since": "0.2.0"})  # where they are not the protocol's
    # Positions of the comparisons that some claim of the ledger tests: where time is short, they come first.
    claimed: tuple[int, ...] = field(default=(), metadata={"since": "0.2.0"})
    # Whether its arms live in one process, unless one of them is lost there: then it gets a process of its own.
    shared: bool = field(default=False, metadata={"since": "0.3.0"})
    replicates: int | None = field(default=None, metadata={"since": "0.3.0"})  # where they are not the protocol's

    @property
    def arms(self) -> tuple[Configuration, ...]:
        """The reference and its treatments, by position."""
        return self.reference, *(one.treatment for one in self.comparisons)

    def replicates_in(self, protocol: Protocol) -> int:
        """The replicates that all its comparisons get."""
        return self.replicates or protocol.replicates

    def most_replicates_in(self, protocol: Protocol) -> int:
        """Replicates beyond which none of its comparisons gets more, however wide its interval."""
        return max(protocol.most_replicates, self.replicates_in(protocol))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Blocks in the order in which they run, and the comparisons that cannot be made here."""

    design: str
    seed: int
    protocol: Protocol
    blocks: tuple[Block, ...]
    no_results: tuple[NoResult, ...]
    names: dict[str, str]  # of configurations that have one, by their text: `baseline`, `original`
    promises: dict[str, Promise]  # of every optimization that a configuration switches on
    # What the real data of a workload are; those that are not named have the suite's own.
    data: dict[str, str] = field(default_factory=dict, metadata={"since": "0.2.0"})
    # Samples in an epoch of the real system, of workloads whose steps are as large here as there.
    epochs: dict[str, int] = field(default_factory=dict, metadata={"since": "0.3.0"})
    trainings: dict[str, int] = field(default_factory=dict, metadata={"since": "0.3.0"})  # and its epochs in all

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons, in the order of their blocks."""
        return tuple(comparison for block in self.blocks for comparison in block.comparisons)

    @property
    def own_counts(self) -> tuple[int, int] | None:
        """Replicates and rounds of whole steps, where they are not the protocol's."""
        return next(((one.replicates, one.rounds) for one in self.blocks if one.replicates and one.rounds), None)


# What plans of former schemas mean in today's words; the files themselves are never edited.

OWN_MALLOC = 4  # the schema since which arms run under the C library's own thresholds unless they say otherwise
TUNED = "tuned_malloc"
_OF_MALLOC = frozenset({"allocator", TUNED})
_TUNED = Option(name=TUNED)


def is_or_was_baseline(config: Configuration) -> bool:
    """Whether everything is off that was off in some version's baseline."""
    return all(one.name == TUNED for one in config.options)


def in_todays_words(plan: Plan, schema: int) -> Plan:
    """The plan of a run of that schema, with today's names and with `tuned_malloc` in all arms that had its thresholds.

    Up to schema 3 all arms were but those of `glibc_malloc` and `allocator`; their reference was called plain then.
    """
    plan = replace(
        plan,
        blocks=tuple(map(_renamed, plan.blocks)),
        no_results=tuple(replace(one, label=current_names(one.label)) for one in plan.no_results),
        names={config: current_names(name) for config, name in plan.names.items()},
    )
    if schema >= OWN_MALLOC:
        return plan
    blocks = tuple(map(_block, plan.blocks))
    used = {one.name for block in blocks for arm in block.arms for one in arm.options}
    promises = {name: promise for name, promise in plan.promises.items() if name != "glibc_malloc"}
    if _TUNED.name in used:
        promises[_TUNED.name] = Promise(numerics=Numerics.EXACT, proof=("malloc",), pointless_where={})
    return replace(plan, blocks=blocks, names={}, promises=promises)


def _renamed(block: Block) -> Block:
    comparisons = tuple(replace(one, label=current_names(one.label)) for one in block.comparisons)
    return replace(block, comparisons=comparisons)


def _block(block: Block) -> Block:
    comparisons = tuple(map(_comparison, block.comparisons))
    return replace(block, reference=_config(block.reference), comparisons=comparisons)


def _comparison(one: Comparison) -> Comparison:
    label = "baseline" if one.label == "glibc_malloc" else one.label
    return replace(one, label=label, treatment=_config(one.treatment), reference=_config(one.reference))


def _config(config: Configuration) -> Configuration:
    options = {one for one in config.options if one.name != "glibc_malloc"}
    if len(options) == len(config.options) and not any(one.name in _OF_MALLOC for one in options):
        options.add(_TUNED)
    return replace(config, options=tuple(sorted(options)))
