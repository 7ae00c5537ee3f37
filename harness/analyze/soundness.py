"""Soundness: what must hold of an arm's windows whatever it trains; an arm that breaks it has no rate.

Batches that loader workers finish must balance those that steps take, or the windows live on a queue; and they come in
whole groups, as workers finish side by side. A training is no faster than its own loader, or its own step, is alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from scipy import stats

from harness.analyze.evidence import Evidence, Side
from harness.analyze.grouping import ratios_of_sums, together
from harness.analyze.pairing import Pairs
from harness.analyze.quality import Agreement
from harness.core.configuration import changes_batch
from harness.core.optimization import TRAINS, Timing
from harness.core.plan import Block
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.recipe import Value
from harness.core.records import EPOCH_READ, IN_PART, STILL_FILLING, Bounds, Fault, Ready, Record, Window

QUEUED = {Timing.STEP, Timing.EPOCH, Timing.LOADER}  # what takes batches from workers, if there are any
UNBALANCED = 0.02  # share of the batches that may come out of the queue, beside what edges of windows do
EDGE = 2  # times the workers: standard deviation of the batches by which the edges of a window may miss
RESUMED, UNSETTLED = 0.03, 0.1  # change of pace within windows, in the log: that is told, that forbids a ratio
SURELY, FEWEST_GAINS = 6e-5, 4  # how often chance may tell of such a change, and windows of each arm that show it
BEYOND = 1.05  # times an upper bound that was probed once in a replicate
HALF_CACHED = (
    "a data set keeps what it reads, and in one arm or some replicates it had not read all before its windows, for "
    "want of time or since a busy machine hid that it keeps it: measure it again, with a protocol that waits longer"
)
COMES_BACK = (
    "the reference's data set keeps what it has read and had no time to read all of it before, and its windows come "
    "back to that sooner than a training does: measure it over a reference without that cache, or with a protocol "
    "that waits longer"
)
PARTS = range(30, 96)  # percent of readings that a cache saves where it holds a part
AHEAD = 2  # times what steps waited for a batch: what it takes where none is ready, if something loads ahead


# What former versions did wrong in arms that trained: by a setting that later ones show.
COLLECTED_ALWAYS = "its loss collected garbage in every step, where the real system's does in every fourth"
OTHER_TERMS = "its loss had cheaper terms than the real system's, and checkpointing computed three times as much again"
LOOKED_FOR_A_GPU = "each weight's update asked a driver for a GPU, which took 0.1 ms more than without the harness"
DECODED_TWICE = "the object store's time held the decoding too, 4 ms an image, that the arm does itself"
READ_BY_ALL = "each evaluation worker read every volume and threw away the patches of the others"
COLLECTED_EARLY = "its loader workers looked through all objects within a hundred batches, sooner than a training's do"
READ_BACK = "reading its files back made its own large arrays cost less than the reference's"
COMPILED_ANEW = "its loader workers may have compiled what they imported at each start, as they do without bytecode"
WATCHED = "its evaluation workers, which stay, had inherited what watches a first pass, and were slowed by it for life"
SCORED_TWICE = "its evaluations between epochs scored all clips twice, as only the last one of a training does"


def _collected_always(side: Side) -> bool:
    """Whether an arm of patches3d trained and does not tell after how many steps their costs repeat."""
    trains = bool(side.windows) and side.windows[0].timing in {*TRAINS, Timing.COMPUTE}
    return (
        trains
        and side.config.workload == "patches3d"
        and any("uneven_steps" not in one.effective for one in side.readies)
    )


IMPORTING = {"spawn", "forkserver"}  # start methods by which a worker imports what it runs
ELSEWHERE = {"local_copy", "ram_cache", "mounted_storage"}  # options with which imagenet's arms do not read its store


def superseded(evidence: Evidence) -> Iterator[str]:
    """That arms were of a former copy of their system, in words: they do not show what later ones do.

    What an arm shows it need not have shown in every replicate, nor a reference that other blocks have too; a treatment
    that has begun has.
    """
    workload, timing = evidence.comparison.treatment.workload, evidence.comparison.timing
    sides = evidence.treatment, evidence.reference
    if not evidence.treatment.readies:
        return
    seen = [one.effective for one in evidence.readies]
    if timing in {Timing.EPOCH, Timing.EVALUATION}:
        yield from _former_passes(evidence)

    def lacks(name: str, among: Sequence[Mapping[str, Value]]) -> bool:
        return bool(among) and not any(name in one for one in among)

    steps = [one for one in seen if timing in {*TRAINS, Timing.COMPUTE} and "emulated_step_ms" not in one]
    if workload == "patches3d" and lacks("loss_terms", steps):
        yield f"{OTHER_TERMS}: measure it again with this version"
    yield from _former_loaders(evidence)
    hooked = [one for one in steps if one.get("update_in_backward") is True]
    if lacks("gpu_check", hooked):
        yield f"{LOOKED_FOR_A_GPU}: measure it again with this version"
    if workload != "imagenet" or timing is Timing.COMPUTE:
        return
    if all(ELSEWHERE.intersection(one.name for one in side.config.options) for side in sides):
        return
    if lacks("quickest_object_ms", [one for one in seen if "s3_state" in one]):
        yield f"{DECODED_TWICE}: measure it again with this version"


def _former_loaders(evidence: Evidence) -> Iterator[str]:
    """The same of what loads."""
    sides = evidence.treatment, evidence.reference
    cold = [one.effective for one in evidence.readies if one.effective.get("page_cache") == "cold"]
    if cold and not any("read_back_kib" in one for one in cold):
        yield f"{READ_BACK}: measure it again with this version"
    if evidence.comparison.treatment.workload == "leak" and any(map(_collects_early, sides)):
        yield f"{COLLECTED_EARLY}: measure it again with this version"


def _former_passes(evidence: Evidence) -> Iterator[str]:
    """The same of whole epochs and passes over an evaluation set."""
    timing, sides = evidence.comparison.timing, (evidence.treatment, evidence.reference)
    if timing is Timing.EVALUATION:
        yield from _former_evaluations(evidence)
    elif evidence.comparison.treatment.workload == "spoof" and any(map(_scored_twice, sides)):
        yield f"{SCORED_TWICE}: measure it again with this version"
    seen = (one.effective for one in evidence.readies)
    importing = [one for one in seen if one.get("start_method") in IMPORTING]
    if timing is Timing.EVALUATION:
        importing = [one for one in importing if one.get("evaluation_workers")]
    if importing and not any("bytecode" in one for one in importing):
        yield f"{COMPILED_ANEW}: measure it again with this version"


def _former_evaluations(evidence: Evidence) -> Iterator[str]:
    """The same of whole passes over an evaluation set."""
    for side in (evidence.treatment, evidence.reference):
        seen = [ready.effective for ready in side.readies]
        files = max((one.samples // one.steps for one in side.windows), default=0)
        if any(0 < files < _number(one, "files_per_batch") for one in seen):
            yield f"a pass held all {files} files that there are to validate, and not as many as its option says"
        fed = [one for one in seen if _number(one, "evaluation_workers") > 1]
        if side.config.workload == "patches3d" and fed and not any("evaluation_parts" in one for one in fed):
            yield f"{READ_BY_ALL}: measure it again with this version"
        stay = [one for one in seen if one.get("evaluation_persistent_workers") is True]
        # Of spoof alone: other workloads show nothing that is younger than the fault.
        if side.config.workload == "spoof" and stay and not any("scored_times" in one for one in stay):
            yield f"{WATCHED}: measure it again with this version"


def _collects_early(side: Side) -> bool:
    """Whether workers beside an emulated device stall for what their collector does in their first hundred batches."""
    seen = [one.effective for one in side.readies]
    fed = any(one.get("workers") and one.get("automatic_collection") is True for one in seen)
    if not fed or not any("emulated_step_ms" in one for one in seen) or any("collected_before" in one for one in seen):
        return False
    return any(
        one.timing is Timing.EPOCH or max(one.slowest_s or (0.0,)) - one.wall_s / one.steps > STALL_S
        for one in side.windows
    )


def _scored_twice(side: Side) -> bool:
    """Whether an arm of spoof evaluates between epochs and does not tell how often it scores there."""
    names = {one.name for one in side.config.options}
    evaluates = "evaluation_interval" in names and "single_pass_scoring" not in names and bool(side.readies)
    return evaluates and not any("scored_times" in one.effective for one in side.readies)


def _number(effective: Mapping[str, Value], name: str) -> int:
    value = effective.get(name)
    return value if isinstance(value, int) else 0


def unsound(side: Side) -> Iterator[str]:
    """What forbids a rate of this arm, in words."""
    if _collected_always(side):
        yield f"{COLLECTED_ALWAYS}: measure it again with this version"
        return
    if side.windows and side.windows[0].timing is Timing.COMPUTE:
        if any(one.effective.get("varying_shapes") is True for one in side.readies):
            yield "its batches have shapes of their own, and the few that a step alone is timed on do not stand for all"
        return
    if words := _finds_a_part(side):
        yield words
    workers = workers_of(side)
    if side.windows and not workers:
        yield from _helped(side)
    if not workers or not side.windows or side.windows[0].timing not in QUEUED:
        return
    if any(one.lead_steps is None for one in side.windows):
        yield (
            "its loader workers went on while the clock stood still, so that its rate counts what they did then: "
            "measure it again with this version"
        )
        return
    if words := _torn(side.windows, workers):
        yield words
    if words := _unbalanced(side.windows, workers):
        yield words
    varied = any(one.effective.get("varying_shapes") is True for one in side.readies)  # a step alone is probed on few
    yield from _beyond_a_bound(side, ("loader",) if varied else ("loader", "compute"))


def remarks(evidence: Evidence) -> Iterator[str]:
    """What a reader should know of how the windows of a comparison were taken."""
    if any(one.lead_steps is None for one in evidence.windows):
        yield "measured before version 0.3.0, with too few untimed steps after a pause: its cost may be in windows"
    elif words := unsettled(evidence, RESUMED):
        yield words
    steps = next((one.cycle_steps for one in evidence.reference.readies if one.cycle_steps), None)
    for side, whose in ((evidence.treatment, "its"), (evidence.reference, "the reference's")):
        told = {one.effective.get("data_cache") for one in side.readies}
        if STILL_FILLING in told:
            yield f"{whose} data set caches what it reads, and the cache was still filling: later epochs may be faster"
    if evidence.comparison.timing is Timing.EPOCH and steps:
        yield f"whole epochs of {steps} steps: what comes once in each weighs less in a longer one"
    if evidence.comparison.timing is Timing.EVALUATION and evidence.reference.windows:
        first = evidence.reference.windows[0]
        items = f"{first.samples // first.steps:,}"
        yield f"passes over {items} items: what comes once in each weighs less in a longer one"


def unsettled(evidence: Evidence, beyond: float = UNSETTLED) -> str | None:
    """How the treatment's pace changes within its windows, where that is sure and more than so much in the log.

    Whatever is ready when an arm goes on, such as batches of a service that nobody can stop, makes the first half of
    its windows too fast; what a resumption costs makes it too slow. The reference's own change is taken off.
    """
    if evidence.comparison.timing is Timing.EPOCH:  # whose end lies in one of the halves
        return None
    ours, theirs = (_gains(side) for side in (evidence.treatment, evidence.reference))
    if min(len(ours), len(theirs)) < FEWEST_GAINS:
        return None
    apart = fmean(ours) - fmean(theirs)
    if abs(apart) <= max(beyond, _chance(ours, theirs)):
        return None
    word = "faster" if apart > 0 else "slower"
    return (
        f"the second half of its windows is {100 * math.expm1(abs(apart)):.0f} % {word} than the first, beside the "
        "reference's: they began before the arm was back at its usual pace"
    )


def _chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How far apart two means of equal expectation may lie, all but surely: Welch's t."""
    parts = [(variance(one) / len(one), len(one) - 1) for one in (ours, theirs)]
    error = math.sqrt(sum(part for part, _ in parts))
    return error and error * float(stats.t.isf(SURELY / 2, error**4 / sum(part**2 / own for part, own in parts)))


def _gains(side: Side) -> list[float]:
    """Of every window: log of the pace of its second half over that of the first.

    Without those whose halves do other work wherever they begin: whole epochs of few samples, or of files that are
    read from storage once.
    """
    if any(one.effective.get("page_cache") == "cold" for one in side.readies):
        return []
    cycle = next((one.cycle_steps for one in side.readies if one.cycle_steps), None) or 1
    found = []
    for one in side.windows:
        first, half_s = one.steps // 2, one.first_half_s
        unlike = cycle > 1 and one.steps % cycle == 0 and first % cycle > 0
        if first and half_s and one.wall_s > half_s and not unlike:
            found.append(math.log(half_s) - math.log(first) - math.log((one.wall_s - half_s) / (one.steps - first)))
    return found


def workers_of(side: Side) -> int:
    """Loader workers that were seen alive in any replicate."""
    counts = (one.effective.get("workers") for one in side.readies)
    return max((count for count in counts if isinstance(count, int)), default=0)


def _torn(windows: Sequence[Window], workers: int) -> str | None:
    """Windows that hold part of a group: 15 batches of 8 workers come with one wait for a group or two, not 15/8."""
    if windows[0].timing not in {Timing.STEP, Timing.LOADER}:  # an epoch begins its groups anew, as a training does
        return None
    worst = max(windows, key=lambda one: _missed(one, workers))
    if (missed := _missed(worst, workers)) <= UNBALANCED:
        return None
    return (
        f"a window of {worst.batches} batches held part of a group of {workers}, which loader workers finish side by "
        f"side, so that its time may be false by {100 * missed:.0f} %: measure it again with this version"
    )


def _missed(window: Window, workers: int) -> float:
    """The share of a window's time by which waits for whole groups may differ from those for its batches."""
    if not window.batches or window.batches % workers == 0:
        return 0.0
    groups = window.batches / workers
    return window.wait_s / window.wall_s * max(groups - math.floor(groups), math.ceil(groups) - groups) / groups


def _unbalanced(windows: Sequence[Window], workers: int) -> str | None:
    taken = sum(one.batches or 0 for one in windows)
    made = sum(one.produced or 0 for one in windows)
    by_chance = EDGE * workers * math.sqrt(len(windows))
    if taken - made <= UNBALANCED * taken + by_chance:
        return None
    return (
        f"its loader workers finished {made} batches in windows that took {taken}: the rest came out of a queue, which "
        "no training has for long"
    )


def _helped(side: Side) -> Iterator[str]:
    """What goes on loading while the arm stands still, where that makes a training faster than its loader by itself.

    Then windows wait for a batch far shorter than one takes that is asked for when none is ready. Where the data set
    keeps what it has read, that is so without any such help.
    """
    if side.windows[0].timing is not Timing.STEP or any("data_cache" in one.effective for one in side.readies):
        return
    rates = ratios_of_sums((one.arm, one.samples, one.wall_s) for one in side.windows)
    waits_s = ratios_of_sums((one.arm, one.wait_s, one.samples) for one in side.windows)
    asked = [(rates[one.arm], waits_s[one.arm], one.asked_rate) for one in side.readies if one.arm in rates]
    pairs = [(rate, bound) for rate, wait_s, bound in asked if bound and 1 / bound > AHEAD * wait_s]
    if len(pairs) == len(asked) and _are_beyond(pairs):
        rate, bound = map(fmean, zip(*pairs, strict=True))
        yield (
            f"it trained {rate:.4g} samples/s, and its loader alone gives {bound:.4g}: something that no pause stops, "
            "a service or a thread, prepares batches while it stands still"
        )


STALL_S = 0.1  # at least, by which a full collection of a worker's objects makes a batch late
LOOKS = 2  # for a cache, of an arm that has shown none; each takes as long as a dozen batches at most
NEARLY = 1.5  # times as fast as the other bound at most: a short probe may not tell which of the two holds the arm back


def bounds_seen(records: Sequence[Record], block: Block, replicate: int, position: int) -> Bounds | None:
    """The upper bounds of an arm that a replicate before this one has probed, where they need no second probe."""
    for earlier in range(replicate):
        name = block.identity, earlier, position
        mine = [one for one in records if (one.arm.block, one.arm.replicate, one.arm.position) == name]
        readies = [one for one in mine if isinstance(one, Ready)]
        windows = [one for one in mine if isinstance(one, Window)]
        if readies and windows and _hold(readies[-1], windows):
            return Bounds(loader_rate=readies[-1].loader_rate, compute_rate=readies[-1].compute_rate)
    return None


def data_cache_seen(records: Sequence[Record], block: Block, replicate: int, position: int) -> str | None:
    """What becomes of an arm's cache after a block's first replicate, empty where it has none; None where it must look.

    Whoever keeps what it reads does as the reference did there: else one would read from a full cache, the other not.
    An arm that has found no cache looks once more, whatever the others found: a busy machine hides one. Not where it
    and the reference both took as long for each batch as when they first read it.
    """
    readies = [one for one in records if isinstance(one, Ready) and one.arm.block == block.identity]
    before = sorted((one for one in readies if one.arm.replicate < replicate), key=lambda one: one.arm.replicate)
    told = together((one.arm.position, str(one.effective.get("data_cache", ""))) for one in before)
    own, reference = (next(filter(None, told.get(whose, [])), "") for whose in (position, 0))
    if not own:
        plain = {one.arm.position for one in before if one.effective.get("keeps_nothing") is True}
        return "" if {0, position} <= plain or len(told.get(position, [])) >= LOOKS else None
    if own in EPOCH_READ and reference in EPOCH_READ:  # what is read before windows is the same
        return own
    return reference or own


def comes_back(reference: Side) -> str | None:
    """That a cache was still filling in which the reference finds what it has read before the treatments of a round.

    It takes the same samples before several of them, and a treatment takes them once, as all do that are alive alone.
    """
    told = {one.effective.get("data_cache") for one in reference.readies if one.epoch_steps}
    if STILL_FILLING in told and any(one.arm.turn is None for one in reference.windows):
        return COMES_BACK
    return None


def _finds_a_part(side: Side) -> str | None:
    """That a cache holds a part of an epoch, and windows that are no whole epochs find more or less of it."""
    cycle = next((one.cycle_steps for one in side.readies if one.cycle_steps), None) or 1
    seen = [one.effective for one in side.readies]
    # Of a cache that holds all and that an arm filled before its windows, what it did not save is what filled it.
    in_part = any(
        one.get("data_cache") == IN_PART
        or (
            _number(one, "cache_hits_percent") in PARTS
            and not (one.get("volume_cache") == "all" and one.get("data_cache"))
        )
        for one in seen
    )
    if not in_part or not any(one.steps % cycle for one in side.windows):
        return None
    return f"it keeps a part of what it reads, and windows that are no whole epochs of {cycle} steps find more or less"


def _hold(ready: Ready, windows: Sequence[Window]) -> bool:
    """Whether no window was faster than the bounds allow, so that `unsound` has nothing to ask of other replicates."""
    spent_s, samples = sum(one.wall_s for one in windows), sum(one.samples for one in windows)
    loader, compute = ready.loader_rate, ready.compute_rate
    if loader and compute and 1 / NEARLY < loader / compute < NEARLY:
        return False
    bounds = [one for one in (loader, compute, ready.asked_rate) if one]
    return all(samples <= BEYOND * one * spent_s for one in bounds)


def _are_beyond(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether rates beat their bounds in every replicate, and on average the largest bound.

    A bound is probed for a moment, and machines change: the largest tells best what an arm can do.
    """
    if len(pairs) < FEWEST_REPLICATES or any(rate <= BEYOND * bound for rate, bound in pairs):
        return False
    return fmean(rate for rate, _ in pairs) > BEYOND * max(bound for _, bound in pairs)


def _beyond_a_bound(side: Side, names: Sequence[str]) -> Iterator[str]:
    """Rates that the loader alone, or the step alone, could not give."""
    if side.windows[0].timing not in TRAINS:
        return
    rates = ratios_of_sums((one.arm, one.samples, one.wall_s) for one in side.windows)
    for name in names:
        bounds = ((one.arm, one.loader_rate if name == "loader" else one.compute_rate) for one in side.readies)
        pairs = [(rates[arm], bound) for arm, bound in bounds if arm in rates and bound]
        if _are_beyond(pairs):
            rate, bound = map(fmean, zip(*pairs, strict=True))
            what = "loader" if name == "loader" else "step"
            yield (
                f"it trained {rate:.4g} samples/s, and its {what} alone gives {bound:.4g}: one of the two is wrong, "
                "most likely because the probe was too short"
            )


# Absences: why a comparison has no estimate, as a typed outcome with words.


class Outcome(StrEnum):
    """What happened instead of an estimate."""

    NOT_COMPARABLE = "not comparable"
    NOT_ACTIVE = "not active"
    UNSOUND = "unsound"
    FAILED = "failed"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    ONE_REPLICATE = "one replicate only"
    NOT_MEASURED = "not measured yet"


# What another attempt may still put right; other absences are an answer.
UNFINISHED = frozenset({Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE, Outcome.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What stands in the matrix in place of a ratio."""

    outcome: Outcome
    words: str  # complete: the outcome is said in them
    kind: Fault | None = None  # what ended the arm, where that is known


def absence(evidence: Evidence, pairs: Pairs) -> Absence | None:
    """Why there can be no ratio, the gravest reason first, or None where one may be estimated."""
    return next(_reasons(evidence, pairs), None)


def _reasons(evidence: Evidence, pairs: Pairs) -> Iterator[Absence]:
    comparison, quality, replicates = evidence.comparison, evidence.quality, len(pairs.replicates)
    if comparison.treatment.batch != comparison.reference.batch and not changes_batch(comparison):
        counts = f"{comparison.treatment.batch} samples a step against {comparison.reference.batch}"
        yield _absence(Outcome.NOT_COMPARABLE, counts)
    own = [sentence for ready in evidence.treatment.readies for sentence in ready.inactive]
    reference = [f"in the reference {words}" for ready in evidence.reference.readies for words in ready.inactive]
    if inactive := dict.fromkeys(own + reference):
        yield _absence(Outcome.NOT_ACTIVE, "; ".join(inactive))
    for who, faults in (
        ("", unsound(evidence.treatment)), ("the reference: ", unsound(evidence.reference)),
        ("", superseded(evidence)),
    ):  # fmt: skip
        yield from (_absence(Outcome.UNSOUND, who + words) for words in faults)
    cached = HALF_CACHED if replicates < FEWEST_REPLICATES and evidence.half_cached else None
    for words in filter(None, (unsettled(evidence), cached, comes_back(evidence.reference))):
        yield _absence(Outcome.UNSOUND, words)
    if quality is not None and quality.status is Agreement.NAN:
        yield _absence(Outcome.FAILED, quality.sentence)
    lost = evidence.treatment.lost + evidence.reference.lost
    for one in (one for one in lost if one.outcome != Outcome.INTERRUPTED):  # final: such an arm is not tried again
        who = "the reference: " if one.arm.position == 0 else ""
        found = _absence(Outcome(one.outcome), f"{who}{one.reason} (replicate {one.arm.replicate + 1})")
        yield replace(found, kind=one.kind)
    if replicates < FEWEST_REPLICATES and lost:
        times = f", {len(lost)} times" if len(lost) > 1 else ""
        yield _absence(Outcome.INTERRUPTED, f"{lost[-1].reason}{times}; run the same command again to continue")
    if replicates == 0:
        yield _absence(Outcome.NOT_MEASURED, "run the same command again to continue")
    if replicates < FEWEST_REPLICATES:
        yield _absence(Outcome.ONE_REPLICATE, "run again to add the second")


def _absence(outcome: Outcome, words: str) -> Absence:
    return Absence(outcome=outcome, words=f"{outcome}: {words}")
