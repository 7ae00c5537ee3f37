"""The plan: which comparisons are made, in which blocks and order; data that can be replayed."""

from dataclasses import dataclass, field, replace

from harness.core.configuration import Comparison, Configuration, Option, current_names
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.protocol import Protocol


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

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons, in the order of their blocks."""
        return tuple(comparison for block in self.blocks for comparison in block.comparisons)


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
    used = {one.name for block in blocks for arm in _arms(block) for one in arm.options}
    promises = {name: promise for name, promise in plan.promises.items() if name != "glibc_malloc"}
    if _TUNED.name in used:
        promises[_TUNED.name] = Promise(numerics=Numerics.EXACT, proof=("malloc",), pointless_where={})
    return replace(plan, blocks=blocks, names={}, promises=promises)


def _renamed(block: Block) -> Block:
    comparisons = tuple(replace(one, label=current_names(one.label)) for one in block.comparisons)
    return replace(block, comparisons=comparisons)


def _arms(block: Block) -> tuple[Configuration, ...]:
    return (block.reference, *(one.treatment for one in block.comparisons))


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
