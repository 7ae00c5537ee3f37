"""Evidence: the records of one comparison, picked from a run and set beside what its options promise."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.analyze.grouping import together
from harness.analyze.quality import Quality, judge_losses, judge_score, worst
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Plan
from harness.core.recipe import Value
from harness.core.records import EPOCH_READ, STILL_FILLING, Arm, Lost, Ready, Record, Window, is_shared, of_one_kind

# What the options in which two configurations differ promise together.


def numerics(comparison: Comparison, known: Mapping[str, Promise]) -> Numerics:
    """The loosest promise among the options in which two configurations differ; raises Mistake for an unknown one.

    Another batch is another training, whatever its options promise.
    """
    if comparison.treatment.batch != comparison.reference.batch:
        return Numerics.DIFFERENT
    differing = set(comparison.treatment.options) ^ set(comparison.reference.options)
    order = list(Numerics)
    found = (_promise(option, known).numerics for option in differing)
    return max(found, key=order.index, default=Numerics.EXACT)


def proved(config: Configuration, known: Mapping[str, Promise]) -> frozenset[str]:
    """The effective settings that a configuration's options promise; raises Mistake for an unknown option."""
    return frozenset(name for option in config.options for name in _promise(option, known).proof)


def pointless(config: Configuration, known: Mapping[str, Promise], effective: Mapping[str, Value]) -> Iterator[str]:
    """Why an option can gain nothing where such settings were seen: `layout contiguous: has no chunks`."""
    seen = {f"{name} {value}" for name, value in effective.items()}
    for option in config.options:
        for setting, reason in _promise(option, known).pointless_where.items():
            if setting in seen:
                yield f"{option.name} has nothing to act on: {setting}, {reason}"


def _promise(option: Option, known: Mapping[str, Promise]) -> Promise:
    if option.name not in known:
        raise Mistake(f"The plan switches on '{option.name}' without saying what it promises; restore run.json.")
    return known[option.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """All records of one configuration in a comparison, over every replicate and life."""

    config: Configuration
    proved: frozenset[str]  # the effective settings that its options promise
    pointless: tuple[str, ...]  # why an option of it has nothing to act on
    windows: tuple[Window, ...]
    readies: tuple[Ready, ...]  # by replicate and life
    lost: tuple[Lost, ...]

    @property
    def first_starts(self) -> dict[int, Ready]:
        """The first start of each replicate, since later ones find caches warm; none in a process warmed by others."""
        return {one.arm.replicate: one for one in reversed(self.readies) if not one.arm.shared}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A comparison's two sides."""

    comparison: Comparison
    position: int  # of the treatment in its block
    shared: bool = False  # both arms lived in a process that others shared
    numerics: Numerics
    treatment: Side
    reference: Side
    judged_by: tuple[Ready, ...] = ()  # starts of the same reference in all blocks, whose first losses count

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of both sides, without replicates whose caches differed."""
        both, unlike = self.reference.windows + self.treatment.windows, self.half_cached
        return tuple(one for one in both if _attempt(one.arm) not in unlike)

    @property
    def readies(self) -> tuple[Ready, ...]:
        """The starts of both sides."""
        return self.reference.readies + self.treatment.readies

    @property
    def half_cached(self) -> frozenset[tuple[int, int]]:
        """Replicates and attempts in which the data set of one arm alone had kept all it reads before its windows.

        Or in which an arm's had not, where it had in others. Later replicates do as the reference did in the first one;
        older records do not tell enough.
        """
        ours, theirs = map(_caches, (self.treatment, self.reference))
        told = {name: {ours[name], theirs[name]} for name in ours.keys() & theirs}
        unlike = {name for name, both in told.items() if STILL_FILLING in both and both & EPOCH_READ}
        # Where a reference's cache was overlooked once, it comes back to what it has just read, whoever is beside it;
        # a treatment's fills in its windows, also beside a reference without one.
        return frozenset(unlike | _unfilled(theirs, theirs) | _unfilled(ours, told.keys() - unlike))

    @property
    def quality(self) -> Quality | None:
        """The worst judgement over all lives in which both arms started; None before there is one."""
        references = {_attempt(ready.arm): ready for ready in self.reference.readies}
        found = []
        for ours in self.treatment.readies:
            theirs = references.get(_attempt(ours.arm))
            if theirs is not None and not theirs.losses:
                alike = (one for one in reversed(self.judged_by) if one.arm.replicate == ours.arm.replicate)
                another = self.numerics is Numerics.DIFFERENT  # whose losses are held against none
                theirs = next((one for one in alike if another or _same_order(one, ours)), None)
            if theirs is not None and ours.losses:
                found.append(judge_losses(ours, theirs, self.numerics))
            if theirs is not None and self.comparison.timing is Timing.EVALUATION:
                found.append(judge_score(ours, theirs, self.numerics))
        return worst(found)


def _attempt(arm: Arm) -> tuple[int, int]:
    """The replicate, with the attempt in which arms were alive together, or with which they began to be in turn."""
    return arm.replicate, arm.attempt if arm.turn is None else arm.turn


def _caches(side: Side) -> dict[tuple[int, int], Value]:
    """What became of its data set's cache, by replicate and attempt; empty where it has none.

    Where none was found although another replicate shows one, it was overlooked, and nothing has filled it.
    """
    told = {_attempt(one.arm): one.effective.get("data_cache", "") for one in side.readies if one.epoch_steps}
    otherwise = STILL_FILLING if any(told.values()) else ""
    return {name: one or otherwise for name, one in told.items()}


def _unfilled(caches: Mapping[tuple[int, int], Value], others: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Where an arm's cache was not full, if it was in one of those others."""
    if EPOCH_READ.isdisjoint(caches[one] for one in others):
        return set()
    return {name for name, one in caches.items() if one == STILL_FILLING}


def _same_order(one: Ready, other: Ready) -> bool:
    """Whether two arms may have met the samples in the same order: epochs of another length hold them in another one.

    Older records tell an epoch's length only where one is gone through.
    """
    if one.epoch_steps and other.epoch_steps:
        return one.epoch_steps == other.epoch_steps
    cycle, others = one.cycle_steps or 1, other.cycle_steps or 1
    return others == 1 or (cycle > 1 and max(cycle, others) % min(cycle, others) == 0)


def gather(plan: Plan, records: Iterable[Record]) -> Iterator[Evidence]:
    """The evidence of every comparison, in the plan's order; empty sides where nothing was measured yet."""
    by_block = together((record.arm.block, record) for record in records)
    seen = together(
        (block.reference, one)
        for block in plan.blocks
        for one in by_block.get(block.identity, [])
        if isinstance(one, Ready) and one.arm.position == 0 and one.losses
    )
    for block in plan.blocks:
        records_here = by_block.get(block.identity, [])
        references: dict[bool, Side] = {}  # in a process that was shared, and in one of its own
        for position, comparison in enumerate(block.comparisons, 1):
            shared = is_shared(position, records_here)
            own = of_one_kind(records_here, shared=shared)
            if shared not in references:
                references[shared] = _side(block.reference, 0, own, block.timing, plan)
            yield Evidence(
                comparison=comparison,
                position=position,
                shared=shared,
                numerics=numerics(comparison, plan.promises),
                treatment=_side(comparison.treatment, position, own, block.timing, plan),
                reference=references[shared],
                judged_by=tuple(sorted(seen.get(block.reference, ()), key=lambda one: one.arm.shared is shared)),
            )


def merged(sides: Iterable[Side]) -> Side:
    """One configuration's sides as one; comparisons of a block share their reference's side, which counts once."""
    sides = tuple({id(side): side for side in sides}.values())  # records hold mappings, so sides have no hash
    return Side(
        config=sides[0].config,
        proved=sides[0].proved,
        pointless=sides[0].pointless,
        windows=tuple(window for side in sides for window in side.windows),
        readies=tuple(ready for side in sides for ready in side.readies),
        lost=tuple(lost for side in sides for lost in side.lost),
    )


def _side(config: Configuration, position: int, records: Iterable[Record], timing: Timing, plan: Plan) -> Side:
    own = [record for record in records if record.arm.position == position]
    readies = [one for one in own if isinstance(one, Ready)]
    seen = {name: value for ready in readies for name, value in ready.effective.items()}
    return Side(
        config=config,
        proved=proved(config, plan.promises),
        pointless=tuple(pointless(config, plan.promises, seen)),
        windows=tuple(one for one in own if isinstance(one, Window) and one.timing is timing),
        readies=tuple(sorted(readies, key=lambda ready: (ready.arm.replicate, ready.arm.attempt))),
        lost=tuple(one for one in own if isinstance(one, Lost)),
    )


# The counter of energy of an H200 moves every 100 to 120 ms, and what it says lags behind: on average it leaves out
# 50 ms of work, 3 % of what it counts in this time and a third of what it counts in 150 ms.
COUNTED_S = 2.0


def tells_energy(window: Window) -> bool:
    """Whether the counter of energy moved often enough in a window and in the lead-in that it is read before."""
    return bool(window.energy_j) and (window.lead_s or 0.0) + window.wall_s >= COUNTED_S
