"""The oracles: what an opponent of the measurement would make it measure, with the true ratio of each.

One experiment is one block: a reference and the options beside it. Experiments whose stages sleep are measured side by
side, those that compute have the machine to themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF, Protocol
from tests.oracles.pipeline import Loader, seconds_per_sample
from tests.oracles.runner import PROTOCOL, Experiment
from tests.oracles.stages import PLAIN, Stages

# Added up from the stages, likewise with another order in every epoch, or timed in a loop without the harness.
Truth = Literal["sum", "shuffled", "loop"]
ALLOWANCES: Mapping[str, float] = {"sum": 0.005, "shuffled": 0.01, "loop": 0.01}  # of the truth's own error


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """One option of an experiment, and what must come of it."""

    option: str  # as a stack: `variant=fast+workers=2`
    threat: str
    truth: Truth = "sum"
    ratio: float | None = None  # where neither a sum nor a loop is needed
    refused: bool = False  # no ratio may be given
    refusable: bool = False  # none need be given


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An experiment with what its reference is and what must come of its options."""

    experiment: Experiment
    oracles: Sequence[Oracle]
    alone: bool = False  # computes, so that nothing may run beside it
    pool: str = "calm"  # experiments whose replicates scatter alike


def trial(
    name: str,
    stages: Mapping[str, Stages],
    oracles: Sequence[Oracle],
    *,
    protocol: Protocol = PROTOCOL,
    reference: str = "",
    timing: Timing = Timing.STEP,
    alone: bool = False,
    pool: str = "",
    shared: bool = False,
    resumed: float = 0.0,
) -> Trial:
    """A trial of these options."""
    experiment = Experiment(
        name=name, stages=stages, options=[one.option for one in oracles], protocol=protocol, reference=reference,
        timing=timing, shared=shared, resumed=resumed,
    )  # fmt: skip
    return Trial(experiment=experiment, oracles=oracles, alone=alone, pool=pool or ("computing" if alone else "calm"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a stack of options means for the pipeline."""

    variant: str = PLAIN
    workers: int = 0
    prefetch: int = 2
    passes: int = 1
    persistent: bool = False
    pinned: bool = False
    keep_last: bool = False
    interval: int = 0  # epochs from one evaluation to the next; 0: it evaluates never
    threads: int = 1  # of the trainer
    start: str = "fork"  # how workers come into being


def parsed(stack: str) -> Parsed:
    """The meaning of `variant=x+workers=2`."""
    found = dict(one.partition("=")[::2] for one in filter(None, stack.split("+")))
    return Parsed(
        variant=found.get("variant", PLAIN),
        workers=int(found.get("workers", 0)),
        prefetch=int(found.get("prefetch_factor", 2)),
        passes=int(found.get("gradient_accumulation", 1)),
        persistent="persistent_workers" in found,
        pinned="cpu_pinning" in found,
        keep_last="keep_last_batch" in found,
        interval=int(found.get("evaluation_interval", 0)),
        threads=int(found.get("trainer_threads", 1)),
        start=found.get("start_method", "fork"),
    )


def added_up(stages: Mapping[str, Stages], stack: str, *, shuffled: bool = False) -> float:
    """Seconds for a sample, added up from the stages."""
    one = parsed(stack)
    told = stages[one.variant]
    if held := told.ahead or told.server:  # a queue in front of a loader that works by itself
        return seconds_per_sample(told, Loader(workers=1, prefetch=held + 1))
    if one.keep_last:
        full, half = told.epoch_steps, told.batch // 2
        seconds = sum(told.batch_s(position) + told.pass_s(position) for position in range(full))
        seconds -= sum(told.item_s(rank) for rank in range(told.samples - half, told.samples))
        return seconds / (told.samples - half)
    loader = Loader(workers=one.workers, prefetch=one.prefetch, passes=one.passes, shuffled=shuffled)
    evaluating_s = told.evaluation_s / (one.interval * told.samples) if one.interval else 0.0
    return seconds_per_sample(told, loader) + evaluating_s


def combined(workers: int, prefetch: int, *, pinned: bool = False) -> str:
    """The options of one point of the cross."""
    words = [f"workers={workers}"] + ([f"prefetch_factor={prefetch}"] if prefetch != 2 else [])
    return "+".join(words + (["cpu_pinning"] if pinned else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the cross of the loader's and the step's facts."""

    workers: int
    prefetch: int
    deficit: int  # percent by which the loader is slower than the step
    computes: bool = False
    pinned: bool = False


def cross(step_ms: int, points: Sequence[Point], protocol: Protocol = PROTOCOL) -> list[Trial]:
    """Trials of the points with that step, those that sleep and those that compute, against an instant loader."""
    made = []
    for computes in (False, True):
        chosen = [one for one in points if one.computes == computes]
        stages, oracles = {PLAIN: Stages(step_s=step_ms / 1e3, epoch_steps=7)}, []
        for one in chosen:
            cores = min(one.workers, 1 if one.pinned else 2) if computes else one.workers
            load_s = step_ms / 1e3 * (1 + one.deficit / 100) * cores
            variant = f"d{one.deficit}w{one.workers}p{one.prefetch}"
            stages[variant] = Stages(
                step_s=step_ms / 1e3, epoch_steps=7, load_s=load_s, load="compute" if computes else "sleep"
            )
            option = f"variant={variant}+{combined(one.workers, one.prefetch, pinned=one.pinned)}"
            loop = computes or step_ms < 10
            threat = "the queue refills while the clock stands"
            oracles.append(Oracle(option=option, threat=threat, truth="loop" if loop else "sum"))
        if oracles:
            name = f"{'computing' if computes else 'sleeping'} loader, step {step_ms} ms"
            if len(points) == 1:
                name += f", workers {points[0].workers}"
            made.append(trial(name, stages, oracles, protocol=protocol, alone=computes or step_ms < 10))
    return made


QUICK = replace(PROTOCOL, rounds=3)
WHOLE = replace(QUICK, whole_s=5.0)  # as `standard`: windows of whole epochs, where a stall makes a few steps look slow
SLOW = replace(PROTOCOL, rounds=3, discarded_rounds=1, window_steps=2, slow_s=1.0, lead_s=0.0)
POINTS = {
    3: [
        Point(workers=1, prefetch=2, deficit=2),
        Point(workers=1, prefetch=8, deficit=60),
        Point(workers=2, prefetch=2, deficit=60),
        Point(workers=2, prefetch=8, deficit=20, computes=True, pinned=True),
        Point(workers=4, prefetch=2, deficit=60, computes=True),
    ],
    45: [
        Point(workers=1, prefetch=8, deficit=20),
        Point(workers=2, prefetch=2, deficit=60),
        Point(workers=2, prefetch=8, deficit=2),
        Point(workers=4, prefetch=2, deficit=20),
        Point(workers=4, prefetch=8, deficit=60),
        Point(workers=4, prefetch=8, deficit=2, computes=True, pinned=True),
        Point(workers=1, prefetch=2, deficit=20, computes=True),
        Point(workers=2, prefetch=2, deficit=60, computes=True),
    ],
    300: [
        Point(workers=2, prefetch=2, deficit=2, pinned=True),
        Point(workers=4, prefetch=2, deficit=20),
        Point(workers=1, prefetch=8, deficit=60),
        Point(workers=1, prefetch=2, deficit=60, computes=True, pinned=True),
    ],
}


def refill() -> Trial:
    """Loader-bound arms beside a reference that loads and computes in turn: 54 and 45 ms, divided by three."""
    plain = Stages(load_s=0.018, step_s=0.015)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "crowd": replace(plain, helpers=8),
        "thread": replace(plain, ahead=4),
        "service": replace(plain, server=4),
        "slow_service": replace(plain, load_s=0.033, server=16),
    }
    queue = "the queue refills while the clock stands"
    return trial("54 ms of loading, 45 ms of computing", stages, [
        Oracle(option="workers=1", threat=queue),
        Oracle(option="workers=2", threat="no queue to refill: the step is the slower stage"),
        Oracle(option="workers=1+prefetch_factor=8", threat=queue),
        Oracle(option="workers=1+cpu_pinning", threat=queue),
        Oracle(option="variant=crowd+workers=1", threat="bookkeeping takes long: nine processes whose memory is read"),
        Oracle(option="variant=thread", threat="a thread of the data set loads on during bookkeeping"),
        Oracle(option="variant=service", threat="a service outside the arm's process group loads on in every pause",
               refusable=True),
        Oracle(option="variant=slow_service", threat="a pause refills a service's long queue for whole windows",
               refusable=True),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def threatened(threat: str, *options: str) -> list[Oracle]:
    """Options under one threat whose truth is timed in a loop, and a copy of their reference."""
    under = [Oracle(option=one, threat=threat, truth="loop") for one in options]
    return [*under, Oracle(option="variant=copy", threat="two equal arms differ")]


def stalls() -> Trial:
    """One item in sixteen batches takes as long as all the rest of them together, and more."""
    plain = Stages(load_s=0.0032, step_s=0.009, stall_every=15, stall_s=0.6)
    oracles = threatened(
        "rare stalls are thrown away as noise", "workers=1", "workers=2", "workers=1+prefetch_factor=8"
    )
    return trial("one item in 512 takes 3 s", {PLAIN: plain, "copy": replace(plain, copy=1)}, oracles, protocol=WHOLE)


def both() -> Trial:
    """Unequal costs of samples and steps, and a stall in every eighth batch."""
    plain = Stages(
        load_s=0.014, step_s=0.009, load_pattern="halves", step_pattern="halves", stall_every=8, stall_s=0.25
    )  # fmt: skip
    oracles = threatened("stalls and a queue at once", "workers=1", "workers=2", "workers=2+prefetch_factor=8")
    return trial("both faults", {PLAIN: plain, "copy": replace(plain, copy=1)}, oracles, protocol=WHOLE)


def innocent() -> Trial:
    """Arms that only a careless clock tells from their reference."""
    plain = Stages(step_s=0.020)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "cold": replace(plain, idle_s=0.3, cold_steps=1, cold_s=0.06),
        "cool": replace(plain, idle_s=0.3, cold_steps=12, cold_s=0.01),
        "warming": replace(plain, warm_steps=20, warm_s=0.1),
        "clock": replace(plain, false_clock=True),
        "helped": replace(plain, load_s=0.010),
        "quick": replace(plain, step_s=0.016, idle_s=0.3, cold_steps=4, cold_s=0.03),
    }
    none = "an option without use gains"
    return trial("arms that are alike", stages, [
        Oracle(option="variant=copy", threat="two equal arms differ"),
        Oracle(option="variant=cold", threat="a pause costs the next step its caches"),
        Oracle(option="variant=cool", threat="a pause slows the next twelve steps"),
        Oracle(option="variant=quick", threat="a pause costs one of two arms its caches"),
        Oracle(option="variant=warming", threat="an arm gets faster over its first twenty steps"),
        Oracle(option="variant=clock", threat="the time of day is set while an arm is timed"),
        Oracle(option="workers=1", threat=none),
        Oracle(option="variant=helped+workers=1", threat=none),
        Oracle(option="variant=helped+workers=2+prefetch_factor=8", threat=none),
    ])  # fmt: skip


def halves() -> Trial:
    """Half of the epoch's samples cost four times as much as the others."""
    plain = Stages(load_s=0.015, step_s=0.010, load_pattern="halves", epoch_steps=63)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "steps": replace(plain, load_s=0.0, step_pattern="halves"),
    }
    unequal = "samples of unequal cost fall into windows of different arms"
    return trial("dear and cheap samples", stages, [
        Oracle(option="workers=1", threat=unequal),
        Oracle(option="workers=2", threat=unequal),
        Oracle(option="variant=steps", threat="steps of unequal cost"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], protocol=WHOLE)  # fmt: skip


def long_epochs() -> Trial:
    """The same, but a window holds a fifth of an epoch."""
    plain = Stages(load_s=0.015, step_s=0.010, load_pattern="halves", epoch_steps=127)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1), "less": replace(plain, load_s=0.012)}
    unequal = "samples of unequal cost fall into windows of different arms"
    return trial("windows that are parts of an epoch", stages, [
        Oracle(option="workers=2", threat=unequal),
        Oracle(option="variant=less", threat=unequal),
        Oracle(option="variant=copy", threat="two equal arms differ"),
        Oracle(option="variant=copy+cpu_pinning", threat="two equal arms differ"),
    ], protocol=replace(PROTOCOL, rounds=6), pool="unequal")  # fmt: skip


def collections() -> Trial:
    """Python's collector goes through a large heap in every tenth step: it computes, whatever the step does."""
    plain = Stages(step_s=0.020, epoch_steps=16)
    stages = {
        PLAIN: plain,
        "tenth": replace(plain, heap=200_000, collect_every=10),
        "fifth": replace(plain, heap=200_000, collect_every=5),
        "quick": replace(plain, heap=200_000, step_s=0.016, collect_every=10),
        "copy": replace(plain, copy=1),
    }
    threat = "garbage is collected in some steps"
    oracles = [Oracle(option=f"variant={one}", threat=threat, truth="loop") for one in ("tenth", "fifth", "quick")]
    oracles.append(Oracle(option="variant=copy", threat="two equal arms differ"))
    return trial("garbage is collected", stages, oracles, alone=True, protocol=QUICK)


def growing_old() -> Trial:
    """Batches of many objects, which grow old before they are dropped: Python itself goes through its heap for that."""
    plain = Stages(step_s=0.020, epoch_steps=64)
    many = replace(plain, objects=8000)
    stages = {PLAIN: plain, "many": many, "heap": replace(many, heap=200_000), "copy": replace(plain, copy=1)}
    threat = "garbage is collected in some steps"
    oracles = [Oracle(option=f"variant={one}", threat=threat, truth="loop") for one in ("many", "heap")]
    oracles.append(Oracle(option="variant=copy", threat="two equal arms differ"))
    return trial("batches of many objects", stages, oracles, alone=True, protocol=QUICK)


def in_step() -> Trial:
    """A stall after just as many steps as a window and its lead-in take together."""
    plain = Stages(step_s=0.020, epoch_steps=16)
    stalled = replace(plain, step_stall_every=38, step_stall_s=0.2)  # 32 steps and a lead-in of six
    stages = {PLAIN: plain} | {f"phase{one}": replace(stalled, step_stall_phase=one) for one in (0, 10, 20, 30)}
    threat = "a stall comes in step with the windows"
    oracles = [Oracle(option=f"variant={one}", threat=threat) for one in stages if one != PLAIN]
    return trial("stalls in step with windows", stages, oracles, pool="in step")


def counting() -> Trial:
    """Arms that count their samples in another way."""
    plain = Stages(load_s=0.016, step_s=0.015, epoch_steps=8)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1)}
    counted = "samples are counted wrongly"
    return trial("other batches", stages, [
        Oracle(option="gradient_accumulation=2", threat=counted),
        Oracle(option="gradient_accumulation=4", threat=counted),
        Oracle(option="gradient_accumulation=2+workers=1", threat=counted, truth="loop"),
        Oracle(option="keep_last_batch", threat=counted),
    ], protocol=QUICK)  # fmt: skip


def hidden() -> Trial:
    """A stall in every eighth batch that batches in flight hide in part or in all."""
    plain = Stages(load_s=0.005, step_s=0.015, stall_every=8, stall_s=0.060)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1)}
    threat = "prefetching hides a stall"
    return trial("stalls that are hidden", stages, [
        Oracle(option="workers=1+prefetch_factor=1", threat=threat, truth="loop"),
        Oracle(option="workers=1", threat=threat, truth="loop"),
        Oracle(option="workers=1+prefetch_factor=8", threat=threat, truth="loop"),
        Oracle(option="workers=2", threat=threat, truth="loop"),
    ])  # fmt: skip


def periodic() -> Trial:
    """Stalls of the step that come by its number: of a checkpoint, an evaluation, a collection."""
    plain = Stages(step_s=0.020, epoch_steps=16, step_stall_every=10, step_stall_s=0.060)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "half": replace(plain, step_stall_every=20),
        "none": replace(plain, step_stall_every=0),
    }
    threat = "a stall comes in step with the windows"
    return trial("stalls by the step's number", stages, [
        Oracle(option="variant=copy", threat=threat),
        Oracle(option="variant=half", threat="a gain that no median step shows"),
        Oracle(option="variant=none", threat="a gain that no median step shows"),
    ], pool="periodic")  # fmt: skip


def weather(name: str, swing: float, period_s: float) -> Trial:
    """A machine whose pace changes for all arms alike."""
    plain = Stages(load_s=0.018, step_s=0.015, swing=swing, swing_period_s=period_s)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1), "quick": replace(plain, step_s=0.012)}
    threat = f"the machine's pace changes by {200 * swing:.0f} % within {period_s:.0f} s"
    return trial(name, stages, [
        Oracle(option="variant=copy", threat=threat),
        Oracle(option="variant=quick", threat=threat),
        Oracle(option="workers=1", threat=threat),
        Oracle(option="workers=2", threat=threat),
    ], pool=name, protocol=replace(PROTOCOL, replicates=3))  # fmt: skip


def lucky() -> Trial:
    """Processes of one configuration differ by 3 %, each for its whole life."""
    plain = Stages(load_s=0.006, step_s=0.010, process_spread=0.03)
    stages = {PLAIN: plain} | {f"copy{one}": replace(plain, copy=one) for one in range(1, 5)}
    stages["quick"] = replace(plain, step_s=0.008)
    threat = "processes differ by luck"
    options = [*(f"variant=copy{one}" for one in range(1, 5)), "variant=quick"]
    oracles = [Oracle(option=one, threat=threat) for one in options]
    short = replace(PROTOCOL, replicates=4, rounds=3, window_s=0.3)
    return trial("processes that differ", stages, oracles, pool="lucky", protocol=short)


def epochs() -> Trial:
    """Every epoch begins with workers that take 0.1 s to open their files."""
    plain = Stages(load_s=0.012, step_s=0.010, late_s=0.1)
    threat = "the boundary between epochs costs"
    return trial("epochs with a costly boundary", {PLAIN: plain}, [
        Oracle(option="workers=1+persistent_workers", threat=threat, truth="loop"),
        Oracle(option="workers=2", threat=threat, truth="loop"),
        Oracle(option="workers=2+persistent_workers", threat=threat, truth="loop"),
        Oracle(option="workers=1+prefetch_factor=8+persistent_workers", threat=threat, truth="loop"),
    ], reference="workers=1", timing=Timing.EPOCH)  # fmt: skip


def evaluations() -> Trial:
    """Half an epoch's time for an evaluation between epochs, and twice as much for the one that ends a training."""
    plain = Stages(step_s=0.020, epoch_steps=8, evaluation_s=0.080)
    threat = "an evaluation between epochs is timed as the last one"
    return trial("evaluations between epochs", {PLAIN: plain, "copy": replace(plain, copy=1)}, [
        Oracle(option="evaluation_interval=1", threat=threat),
        Oracle(option="evaluation_interval=3", threat=threat),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], timing=Timing.EPOCH)  # fmt: skip


def probes() -> Trial:
    """Bounds that a short probe gets wrong, one of them on purpose."""
    plain = Stages(load_s=0.020, step_s=0.015)
    stages = {
        PLAIN: plain,
        "cheat": replace(plain, first_loads=60, first_load_s=0.02),
        "tail": replace(plain, load_s=0.010, stall_every=15, stall_s=0.3),
        "copy": replace(plain, copy=1),
    }
    return trial("probes that are too short", stages, [
        Oracle(option="variant=cheat+workers=1", threat="a rate above its own upper bound", refused=True),
        Oracle(option="variant=tail+workers=1", threat="a probe that meets no stall", truth="loop"),
        Oracle(option="workers=1", threat="a rate above its own upper bound"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def waves() -> Trial:
    """Eight workers that finish together, in epochs of fifteen steps: one of them holds one wait, or two."""
    plain = Stages(step_s=0.020)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "half": replace(plain, load_s=0.320),
        "third": replace(plain, load_s=0.480),
    }
    threat = "workers finish side by side, and a window holds part of a group"
    return trial("fifteen steps of eight workers", stages, [
        Oracle(option="variant=half+workers=8", threat=threat),
        Oracle(option="variant=half+workers=8+prefetch_factor=4", threat=threat),
        Oracle(option="variant=third+workers=8", threat=threat),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def waves_of_the_reference() -> Trial:
    """The same eight workers in the reference, as most systems have some before anybody tunes them."""
    plain = Stages(step_s=0.020)
    stages = {PLAIN: plain, "half": replace(plain, load_s=0.320), "copy": replace(plain, load_s=0.320, copy=1)}
    threat = "workers finish side by side, and a window holds part of a group"
    return trial("eight workers of the reference", stages, [
        Oracle(option="variant=copy+workers=8", threat="two equal arms differ"),
        Oracle(option="variant=copy+workers=4", threat=threat),
        Oracle(option="workers=1", threat=threat),
    ], reference="variant=half+workers=8")  # fmt: skip


def unequal_samples_of_the_reference() -> Trial:
    """Loader workers of the reference cannot be told where in the epoch to go on, and half of its samples are dear."""
    plain = Stages(load_s=0.015, step_s=0.010, load_pattern="halves", epoch_steps=125)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1), "less": replace(plain, load_s=0.012)}
    threat = "samples of unequal cost fall into windows of different arms"
    return trial("workers of the reference in parts of an epoch", stages, [
        Oracle(option="variant=copy", threat=threat),
        Oracle(option="variant=less", threat=threat),
        Oracle(option="variant=copy+workers=2", threat="two equal arms differ"),
    ], reference="workers=2", protocol=replace(PROTOCOL, rounds=6), pool="unequal")  # fmt: skip


def own_batches() -> Trial:
    """Epochs as long as a power of two whose dear batches would all come to one of two workers, for ever."""
    plain = Stages(load_s=0.020, step_s=0.006, load_pattern="every_other", epoch_steps=64)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1)}
    threat = "each worker keeps its own batches, where a training shuffles them"
    return trial("dear batches at even places", stages, [
        Oracle(option="workers=2+prefetch_factor=8", threat=threat, truth="shuffled"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def remembered() -> Trial:
    """A data set that keeps what it has read: only the first epoch of a process waits for it."""
    plain = Stages(load_s=0.020, step_s=0.020, epoch_steps=25)
    stages = {
        PLAIN: plain,
        "keeps": replace(plain, load_s=0.0, unread_s=0.020),
        "half": replace(plain, load_s=0.010, unread_s=0.010),
        "copy": replace(plain, copy=1),
    }
    threat = "a cache fills while it is timed"
    return trial("a data set that keeps what it read", stages, [
        Oracle(option="variant=keeps", threat=threat),
        Oracle(option="variant=half", threat=threat),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def remembered_soon() -> Trial:
    """Epochs so short that the probe of how fast batches come on demand reads one whole, in the first process alone.

    A look for a cache that comes behind it sees batches that are kept, and none that are not.
    """
    plain = Stages(load_s=0.005, unread_s=0.015, step_s=0.030, epoch_steps=20)
    stages = {PLAIN: plain, "quick": replace(plain, step_s=0.020)}
    stages |= {f"copy{number}": replace(plain, copy=number) for number in (1, 2)}
    threat = "a cache that one probe has filled seems to be none to the next"
    return trial("a data set that keeps a short epoch", stages, [
        Oracle(option=f"variant={one}", threat=threat) for one in ("copy1", "quick", "copy2")
    ], protocol=replace(BRIEF, replicates=4, rounds=1, target=None, looks=()))  # fmt: skip


def forgotten() -> Trial:
    """A cache that holds half an epoch: in a training it never holds what comes next, but what came a moment ago."""
    plain = Stages(load_s=0.010, unread_s=0.010, keeps=60, step_s=0.010, epoch_steps=131)
    stages = {PLAIN: plain, "free": replace(plain, unread_s=0.0)}
    stages |= {f"copy{number}": replace(plain, copy=number) for number in range(1, 5)}
    threat = "the reference comes back to what it has just read"
    return trial("a data set that keeps a part of what it read", stages, [
        Oracle(option="variant=free", threat=threat, refused=True),
        *(Oracle(option=f"variant=copy{number}", threat=threat, refused=True) for number in range(1, 5)),
    ])  # fmt: skip


def kept_first() -> Trial:
    """A cache that is full before an epoch is over and takes nothing more: what comes later is dear for ever."""
    plain = Stages(load_s=0.010, unread_s=0.010, keeps=100, stays=True, step_s=0.010, epoch_steps=131)
    return _refused(
        "a data set that keeps the first of what it read", plain, "windows hold more of what is kept than an epoch"
    )


def kept_by_treatments() -> Trial:
    """The same caches in treatments, over a reference that keeps nothing."""
    plain = Stages(load_s=0.020, step_s=0.010, epoch_steps=131)
    keeps = replace(plain, load_s=0.010, unread_s=0.010)
    stages = {PLAIN: plain, "last": replace(keeps, keeps=60), "first": replace(keeps, keeps=100, stays=True)}
    threat = "windows hold more of what is kept than an epoch, or less"
    return trial("treatments that keep a part of what they read", stages | {"copy": replace(plain, copy=1)}, [
        Oracle(option="variant=last", threat=threat, refused=True),
        Oracle(option="variant=first", threat=threat, refused=True),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ])  # fmt: skip


def unfilled() -> Trial:
    """A cache of everything, in an epoch too long to be read beforehand: the reference finds what it has just read."""
    plain = Stages(load_s=0.010, unread_s=0.010, step_s=0.010, epoch_steps=251)
    return _refused("a data set whose cache still fills", plain, "the reference comes back to what it has just read")


def _refused(name: str, plain: Stages, threat: str) -> Trial:
    """A reference over which neither an arm without its dear readings nor a copy of it may have a ratio."""
    stages = {PLAIN: plain, "free": replace(plain, unread_s=0.0), "copy": replace(plain, copy=1)}
    options = ("variant=free", "variant=copy")
    return trial(name, stages, [Oracle(option=one, threat=threat, refused=True) for one in options])


LENGTHS = (0.3, 0.6, 1.2, 2.4)  # seconds of a window of the reference


def lengths() -> list[Trial]:
    """One block of loader-bound arms in windows of four lengths."""
    plain = Stages(load_s=0.018, step_s=0.015, epoch_steps=8)
    made = []
    for seconds in LENGTHS:
        protocol = replace(PROTOCOL, window_s=seconds, rounds=3, whole_s=0.0)
        threat = "the ratio depends on the window's length"
        oracles = [Oracle(option=one, threat=threat) for one in ("workers=1", "workers=1+prefetch_factor=8")]
        made.append(trial(f"windows of {seconds} s", {PLAIN: plain}, oracles, protocol=protocol))
    return made


def computing() -> Trial:
    """Loading and computing for the same cores: 60 ms and 30 ms of CPU time, halved."""
    plain = Stages(load_s=0.030, step_s=0.015, load="compute", step="compute", epoch_steps=7)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1)}
    threat = "a queue refills, on shared cores"
    return trial("60 ms of CPU for loading, 30 for the step", stages, [
        Oracle(option="workers=1", threat=threat, truth="loop"),
        Oracle(option="workers=2", threat=threat, truth="loop"),
        Oracle(option="workers=1+cpu_pinning", threat=threat, truth="loop"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], alone=True, protocol=QUICK)  # fmt: skip


def sharing() -> Trial:
    """Arms of one process: what goes on in it while one of them is timed belongs to the others."""
    plain = Stages(load_s=0.018, step_s=0.015)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "quick": replace(plain, step_s=0.012),
        "crowd": replace(plain, helpers=8),
        "thread": replace(plain, ahead=4),
    }
    return trial("arms of one process", stages, [
        Oracle(option="workers=1+prefetch_factor=8", threat="workers load on while their neighbours are timed"),
        Oracle(option="variant=thread", threat="a thread of the data set loads on while its neighbours are timed",
               refusable=True),
        Oracle(option="variant=crowd", threat="a neighbour leaves idle processes"),
        Oracle(option="variant=quick", threat="a neighbour leaves idle processes"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], shared=True, protocol=QUICK)  # fmt: skip


OPERATORS = 60  # of a step: some 20 ms of one thread


def sharing_cores() -> Trial:
    """The same of arms that compute, one of which gives PyTorch two threads that another one would gain from."""
    plain = Stages(load_s=0.030, step_s=0.015, load="compute", step="compute", epoch_steps=7)
    divided = replace(plain, load_s=0.0, step_s=0.005, operators=OPERATORS)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "quick": replace(plain, step_s=0.010),
        "divided": divided,
        "threads": replace(divided, threads=2),
    }
    threads = "a neighbour changes the threads of the process"
    return trial("arms of one process that compute", stages, [
        Oracle(option="workers=2", threat="workers load on while their neighbours are timed", truth="loop"),
        Oracle(option="variant=divided", threat=threads, truth="loop"),
        Oracle(option="variant=threads", threat=threads, truth="loop"),
        Oracle(option="variant=quick", threat=threads),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], shared=True, alone=True, protocol=QUICK)  # fmt: skip


def lists() -> Trial:
    """A large heap that nobody collects, and a collector that would go through it where both share a process."""
    plain = Stages(step_s=0.020, epoch_steps=20)
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "quick": replace(plain, step_s=0.016),
        "lists": replace(plain, heap=2_000_000),
        "tenth": replace(plain, collect_every=10),
    }
    threat = "a collector goes through the heap of another arm"
    return trial("beside two million lists", stages, [
        Oracle(option="variant=lists", threat=threat),
        Oracle(option="variant=tenth", threat=threat, truth="loop"),
        Oracle(option="variant=quick", threat=threat),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], alone=True, protocol=QUICK)  # fmt: skip


def divided() -> Trial:
    """Steps of 25 ms of CPU time in Python, which threads cannot divide, and of operators that they can."""
    plain = Stages(step_s=0.025, step="compute")
    stages = {
        PLAIN: plain,
        "copy": replace(plain, copy=1),
        "divided": replace(plain, step_s=0.005, operators=OPERATORS),
    }
    threads = "the trainer has other threads than its option says"
    return trial("steps that threads divide", stages, [
        Oracle(option="trainer_threads=2", threat="threads gain where there is nothing to divide"),
        Oracle(option="variant=divided", threat=threads, truth="loop"),
        Oracle(option="variant=divided+trainer_threads=2", threat=threads, truth="loop"),
        Oracle(option="variant=copy", threat="two equal arms differ"),
    ], alone=True, protocol=QUICK)  # fmt: skip


def spawned() -> Trial:
    """Workers that begin a fresh interpreter, import torch and open their files for 0.5 s, in every epoch or once."""
    plain = Stages(load_s=0.040, step_s=0.025, late_s=0.5, epoch_steps=16)
    threat = "the start of workers costs seconds"
    whole = replace(QUICK, whole_s=20.0)  # a probe of the loader alone holds the start of whole epochs
    return trial("workers that are spawned", {PLAIN: plain}, [
        Oracle(option="workers=1+start_method=spawn", threat=threat, truth="loop"),
        Oracle(option="workers=2+persistent_workers+start_method=spawn", threat=threat, truth="loop"),
    ], reference="workers=1", timing=Timing.EPOCH, alone=True, protocol=whole)  # fmt: skip


def resumed() -> Trial:
    """A run that is interrupted within its second replicate, and goes on when everything takes 1.3 times as long."""
    plain = Stages(load_s=0.018, step_s=0.015)
    stages = {PLAIN: plain, "copy": replace(plain, copy=1), "quick": replace(plain, step_s=0.012)}
    threat = "a run is interrupted, and goes on when the machine has another pace"
    options = ("variant=copy", "variant=quick", "workers=1", "workers=1+prefetch_factor=8")
    oracles = [Oracle(option=one, threat=threat) for one in options]
    protocol = replace(QUICK, replicates=3)
    return trial("a run that is interrupted", stages, oracles, pool="interrupted", protocol=protocol, resumed=1.3)


def all_trials() -> list[Trial]:
    """Every trial."""
    crosses = [
        one
        for step_ms, points in POINTS.items()
        for group in ([points] if step_ms < 300 else [[point] for point in points])
        for one in cross(step_ms, group, QUICK if step_ms < 300 else SLOW)
    ]
    return [
        refill(), stalls(), both(), computing(), collections(), growing_old(), *crosses, *lengths(), innocent(),
        halves(), long_epochs(), in_step(), counting(), hidden(), periodic(),
        weather("a machine that swings", 0.15, 3.7), weather("a machine that drifts", 0.3, 150.0),
        lucky(), epochs(), evaluations(), probes(),
        waves(), waves_of_the_reference(), unequal_samples_of_the_reference(), own_batches(), remembered(),
        remembered_soon(), forgotten(), kept_first(), kept_by_treatments(), unfilled(), sharing(), sharing_cores(),
        lists(), divided(), spawned(), resumed(),
    ]  # fmt: skip
