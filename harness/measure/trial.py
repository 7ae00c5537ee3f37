"""The trial of one arm: first losses, upper bounds, warm-up, then windows whenever the launcher asks."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from math import inf, isfinite
from time import perf_counter
from typing import Any

from harness.core.configuration import inactive
from harness.core.optimization import TRAINS, Timing
from harness.core.protocol import LONGEST_SETTLING, Protocol
from harness.core.recipe import Value
from harness.core.records import Bounds, quantiles
from harness.measure import observed_process as evidence
from harness.measure import observed_step
from harness.measure.collector import PASSES, Growth, Share
from harness.measure.delay import begun
from harness.measure.devices import (
    Device,
    effective_backend,
    marked,
    moments,
    settle_process,
    stamped,
    timed,
)
from harness.measure.evaluation import Interlude
from harness.measure.gpu import Board, board_of
from harness.measure.loop import Diverged
from harness.measure.observed_process import ColdFiles, cold_files
from harness.measure.opening import (
    LEAST_S,
    MATTERS,
    Opening,
    asked_rate,
    fill_cache,
    forget,
    observe,
    shapes_of,
    spreads,
    take_first_batch,
    take_first_steps,
    uneven,
    upper_bounds_of,
)
from harness.measure.ranks import agreed, agreed_on
from harness.measure.session import Session, Task, open_session
from harness.measure.warm_up import WarmUp, end_compilers, graphs_of, transient, undisturbed, warm_up

SEEN_IN_STEPS = frozenset({"device_prefetch", "cuda_graph"})
HOST = Device("cpu")
WARMING = 2  # first steps, behind which one is as fast as later ones
BALANCED = 1.1  # times the rate of the step alone: a loader slower than that never fills its queue for long


@dataclass(slots=True, kw_only=True)
class Trial:
    """One arm at work. Its loader workers run while it takes steps, and never else."""

    session: Session
    timing: Timing
    protocol: Protocol
    step: Callable[[], object]
    step_s: float = 1.0
    fills_queue: bool = False  # its loader alone is surely faster than its step
    interlude: Interlude | None = None  # between whole epochs, if the recipe evaluates there
    cold: ColdFiles | None = None  # what each window must read from storage, if the recipe says so
    board: Board = field(default_factory=Board)
    growth: Growth = field(default_factory=Growth)
    _left_at: int | None = None  # batches that workers had finished when the last window ended

    def settle(self, steps: int, offset: int) -> int:
        """Takes steps after a resumption until they are as fast as later ones; gives how many that needs.

        Afterwards the next step is number `offset` of an epoch. A queue that filled while nobody trained is emptied
        first where the loader is too slow to fill it in a training.
        """
        feed = self.session.feed
        self._go_on()
        if self._draws_on_a_queue and not self.fills_queue:
            feed.drain()
        times: list[float] = []
        while len(times) < LONGEST_SETTLING * steps and (lead := transient(times)) is None:
            times += self._settling_steps(steps, offset)
        feed.freeze()
        self.session.phases.split()
        return len(times) // 2 if lead is None else lead

    def _go_on(self) -> None:
        """Wakes loader workers; those that nothing here takes batches from would only load beside what is timed."""
        self.session.feed.thaw()
        if not self._draws_on_a_queue:
            self.session.feed.freeze()

    def _use_up_the_queue(self) -> None:
        """Steps to an epoch's end, where no batch is left that workers loaded from memory, and stops them there."""
        task = self.session.task
        while self._draws_on_a_queue and self.session.consumed % (task.size.epoch_steps * task.recipe.micro_batches):
            self.step()
        self.session.feed.freeze()  # dropping files takes a moment, in which they would read what is about to go

    def _settling_steps(self, steps: int, offset: int) -> list[float]:
        """Seconds of so many steps, or as many as batches are in flight, that lead up to step `offset`."""
        session, ahead = self.session, self.session.feed.taken - self.session.consumed
        feed, each = session.feed, session.task.recipe.micro_batches
        in_flight = feed.in_flight if self._draws_on_a_queue else 0
        count = max(steps, -(-(in_flight + ahead) // each))
        if self.can_go_to:
            feed.order.go_to((offset - count) * each + in_flight + ahead)
        stamps = agreed(stamped(self.step, count, self._clock))
        if self.can_go_to:
            feed.taken = offset * each + feed.taken - session.consumed
        return [later - sooner for sooner, later in pairwise(stamps)]

    def window(self, lead: int, steps: int, start: int = 0) -> dict[str, Any]:
        """Times so many steps after a lead-in; gives the fields of a Window; raises Unsettled.

        Without batches in flight the window begins with step `start`; else with whatever comes after the lead-in.
        """

        def taken() -> dict[str, Any]:
            strangers, slipped = self.board.strangers(), self._slipped()
            # Whoever reads the counter later lets a device run out of work that it does not do at once.
            energy_j = self.board.energy_j() if self.session.task.device.asynchronous else None
            self._go_on()
            led_in = self._lead_in(lead, start)
            if self.cold:
                self._use_up_the_queue()
            with self.cold.dropped() if self.cold else nullcontext():
                self._go_on()
                return self._window(steps, led_in, strangers, energy_j) | {"lead_steps": lead, "slipped": slipped}

        return undisturbed(taken, graphs_of(self.session.task.recipe))

    def _window(
        self, steps: int, led_in: tuple[Any, Any], strangers: int | None, energy_j: float | None
    ) -> dict[str, Any]:
        session, feed, device = self.session, self.session.feed, self.session.task.device
        steps = self.session.task.size.epoch_steps * self._epochs_at_once() if self.cold else self._whole(steps)
        session.phases.forget()
        if not device.asynchronous:
            feed.freeze()  # reading a counter may take milliseconds
            energy_j = self.board.energy_j()
        # Of a device that runs behind, both counts are read when the host asks for the first step that is timed, and
        # when it has asked for the last: in between it takes as many batches as lie between the device's marks.
        consumed, made = session.consumed, self._produced
        if not device.asynchronous:
            self._go_on()
        share = Share(self.growth)
        marks = marked(self.step, steps, self._clock)
        feed.freeze()  # before anything else is done
        led_in_at, led_at, *own = moments([*led_in, *marks], self._clock)
        stamps, lead_s = agreed(own), led_at - led_in_at
        met_s = stamps[-1] - stamps[0]
        produced = self._produced
        self._left_at = produced
        told = self.board.after(strangers, energy_j, met_s / (lead_s + met_s) if device.asynchronous else 1.0)
        split = session.phases.split()
        # A host that is less far ahead in the end than it was at first has waited longer than the window lasted.
        stamps, wait_s = share.fair(stamps, min(split.wait_s, met_s), ahead=device.asynchronous)
        wall_s = stamps[-1] - stamps[0]
        if not isfinite(float(session.trainee.metrics.total)):
            raise Diverged("the loss is no longer a finite number")
        times = [later - sooner for sooner, later in pairwise(stamps)]
        return {
            "timing": self.timing,
            "steps": steps,
            "first_step": self._first_step(steps, consumed),
            "samples": self._samples(steps, consumed),
            "wall_s": wall_s,
            "lead_s": lead_s,
            "wait_s": wait_s,
            "copy_s": split.copy_s,
            "device_s": split.device_s,
            "queue_s": split.queue_s,
            "device_bytes": device.peak_bytes(),
            "first_half_s": stamps[steps // 2] - stamps[0],
            "slowest_s": tuple(sorted(times, reverse=True)[: 1 + steps // 50]),
            "quantiles_s": quantiles(times),
            "batches": None if made is None else session.consumed - consumed,
            "produced": None if made is None or produced is None else produced - made,
        } | told

    @property
    def _clock(self) -> Device:
        """Whose marks tell the time: the host's where the loader is timed alone, beside which a device does nothing."""
        return HOST if self.timing is Timing.LOADER else self.session.task.device

    def _slipped(self) -> int | None:
        """Batches that were finished since the last window, while the arm stood still."""
        produced = self._produced
        return None if produced is None or self._left_at is None else produced - self._left_at

    def _first_step(self, steps: int, consumed: int) -> int:
        """Of its cycle, with which a window begins; whole cycles are alike wherever they begin."""
        cycle = self.cycle_steps
        return consumed // self.session.task.recipe.micro_batches % cycle if steps % cycle else 0

    def _samples(self, steps: int, consumed: int) -> int:
        """Samples of a window that began when so many batches had been consumed."""
        size, session = self.session.task.size, self.session
        if self.timing in {Timing.EVALUATION, Timing.COMPUTE}:
            return steps * (size.evaluation_items if self.timing is Timing.EVALUATION else size.batch)
        return session.feed.order.samples(consumed, session.consumed)

    @property
    def _produced(self) -> int | None:
        """Batches that loader workers have finished so far; None where windows draw on none."""
        return self.session.feed.produced if self._draws_on_a_queue else None

    @property
    def _draws_on_a_queue(self) -> bool:
        """Whether loader workers fill a queue that the windows take from."""
        return self.session.task.recipe.workers > 0 and self.timing not in {Timing.EVALUATION, Timing.COMPUTE}

    @property
    def can_go_to(self) -> bool:
        """Whether the order of samples can be told where to go on."""
        return self.timing in {Timing.STEP, Timing.LOADER} and self.session.task.endless

    def _whole(self, steps: int) -> int:
        """As many steps, but whole epochs where a boundary is timed: wherever they begin, they hold each once."""
        if self.timing is not Timing.EPOCH:
            return steps
        epoch = self.session.task.size.epoch_steps * self._epochs_at_once()
        return -(-steps // epoch) * epoch

    def _epochs_at_once(self) -> int:
        """Epochs of which a window takes all or none: those from one evaluation to the next."""
        return (self.session.task.recipe.evaluation_epochs or 1) if self.timing is Timing.EPOCH else 1

    @property
    def cycle_steps(self) -> int:
        """Steps after which the same work comes round again."""
        if self.timing in {Timing.EVALUATION, Timing.COMPUTE}:
            return 1
        return self.session.task.size.epoch_steps * self._epochs_at_once()

    def _lead_in(self, lead: int, start: int) -> tuple[Any, Any]:
        """Steps that are not timed, up to step `start` where nothing is in flight; gives the marks at both ends."""
        session, each = self.session, self.session.task.recipe.micro_batches
        if self.can_go_to and not session.feed.in_flight:
            ahead = session.feed.taken - session.consumed  # sent to the device already, and taken by the first step
            session.feed.order.go_to((start - lead) * each + ahead)
            session.feed.taken = (start - lead) * each + ahead
        session.task.device.synchronize()
        marks = marked(self.step, lead, self._clock)
        return marks[0], marks[-1]


def begin(
    task: Task,
    timing: Timing,
    protocol: Protocol,
    proof: dict[str, Value],
    *,
    other_seeds: bool,
    observed: bool = False,
    bounds: Bounds | None = None,
    data_cache: str | None = None,
) -> tuple[Trial, dict[str, Any]]:
    """Builds the arm, takes its first steps and warms it up; gives the trial and the fields of Ready.

    Where a former replicate has `observed` the settings, it tells those alone that can be seen without further steps.
    `bounds` that a former replicate has probed are not probed again; what it did about a `data_cache` is done again.
    """
    settle_process(task.recipe, task.device)
    began, again = perf_counter(), observed and timing is not Timing.EVALUATION  # a score is asked of every replicate
    session = open_session(task)
    build_s = perf_counter() - began
    judged = not again or protocol.judged_again
    opening = _opened(session, timing, protocol.loss_steps, judged=judged)
    shown, score = ({}, None) if again else observe(session, opening, timing)
    shown |= shapes_of(session, opening) | uneven(task)
    spread: dict[str, Any] = spreads(session, opening, protocol) if other_seeds and judged else {"seed_spread": None}
    shown |= task.device.take_over(session, opening.full_batches(session.feed.order)[0], (0.0, *opening.losses)[-1])
    step, board = _timed_step(session, opening, timing), board_of(task.device, task.recipe.ranks)
    trial = Trial(session=session, timing=timing, protocol=protocol, step=step, board=board)
    warm, rates, cache = _warmed(trial, opening, bounds, data_cache, judged=judged)
    files = cold_files(task.data) if task.recipe.page_cache == "cold" else None
    effective = shown | cache | _seen_at_last(trial, opening, files) | _delayed(trial)
    if not opening.losses:  # without a step neither can be seen
        effective = {one: shown for one, shown in effective.items() if one not in SEEN_IN_STEPS}
    trial.cold = files if effective.get("page_cache") == "cold" else None
    return trial, {
        "build_s": build_s,
        "first_step_s": opening.first_step_s,
        "warm_up_s": warm.seconds,
        "warm_up_steps": warm.steps,
        "step_s": warm.step_s,
        "steady": warm.steady,
        "effective": effective,
        "inactive": inactive({one: proof[one] for one in proof if not again or one in effective}, effective),
        "losses": opening.losses if judged else (),
        "score": score,
        "cycle_steps": trial.cycle_steps,
        "epoch_steps": task.size.epoch_steps,
    } | spread | rates


def _opened(session: Session, timing: Timing, steps: int, *, judged: bool) -> Opening:
    """The first steps; fewer in a later replicate whose losses nobody compares, where steps take the host's cores."""
    if timing is Timing.LOADER and not judged:
        return take_first_batch(session)
    fewer = not judged and timing in TRAINS and session.task.device.steps_on_host
    return take_first_steps(session, 1 if fewer else steps)


def _cached(trial: Trial, opening: Opening, step_s: float, before: str | None) -> dict[str, Value]:
    """What becomes of a data set's cache; of a loader alone it matters where it saves a part of the step as well."""
    if not trial.can_go_to:
        return {}
    least_s = min(LEAST_S, MATTERS * (opening.step_s or inf)) if trial.timing is Timing.LOADER else 0.0
    return fill_cache(trial.session, step_s, 2 * trial.protocol.whole_s, before, least_s, opening.fetched_s)


def _warmed(
    trial: Trial, opening: Opening, bounds: Bounds | None, data_cache: str | None, *, judged: bool
) -> tuple[WarmUp, dict[str, float | None], dict[str, Value]]:
    """The warm-up, the rates of loader and step alone (where training is timed, as fields of Ready), and the cache.

    Bounds are those of a warm arm: what workers begin with would make a loader seem slower than it is. A cache is
    looked for before they are probed: it keeps the batches that are asked for.
    """
    session = trial.session
    session.phases.forget()
    warm = _warm(trial, opening)
    session.phases.split()
    cache = _cached(trial, opening, warm.step_s, data_cache)
    found, asked = (bounds, None) if bounds else _probed(trial, opening, warm.step_s)
    loader, compute = found.loader_rate, found.compute_rate
    trial.fills_queue = bool(loader and compute and loader > BALANCED * compute)
    if loader:  # of a batch that lay ready a step alone was timed
        warm = replace(warm, step_s=max(warm.step_s, session.task.size.batch / loader))
    forget(opening, session.task.device, judged=judged)
    PASSES.begin()
    if session.task.device.peak_bytes() is not None and trial.timing is not Timing.LOADER:
        # What a step holds is taken again before the launcher counts how many such arms the device has room for.
        once = trial.timing is Timing.EVALUATION or trial.protocol.is_slow(warm.step_s)
        timed(trial.step, 1 if once else session.task.parts.uneven_steps, session.task.device)
    if trial.timing is Timing.EPOCH:
        warm = _finish_epoch(trial, warm)
    trial.step_s = warm.step_s
    if session.task.recipe.keep_last_batch and trial.timing in {Timing.STEP, Timing.LOADER}:
        _reach_the_last_batch(session)
    told = (None, None) if bounds else (loader, compute)
    return warm, {"loader_rate": told[0], "compute_rate": told[1], "asked_rate": asked}, cache


def _probed(trial: Trial, opening: Opening, step_s: float) -> tuple[Bounds, float | None]:
    """The rates of the loader and of the step alone, where training is timed, and of batches that are asked for."""
    session, trains = trial.session, trial.timing in TRAINS
    loader_rate, compute_rate = upper_bounds_of(session, opening, trial.protocol) if trains else (None, None)
    alone = trial.timing is Timing.STEP and session.task.endless and not session.task.recipe.workers
    asks = alone and not session.task.size.keeps_items
    asked = asked_rate(session, step_s, trial.protocol.upper_bound_s) if asks else None
    return Bounds(loader_rate=loader_rate, compute_rate=compute_rate), asked


def _seen_at_last(trial: Trial, opening: Opening, files: ColdFiles | None) -> dict[str, Value]:
    """What the arm shows once it is warm: its loader, its process, its device."""
    session, task = trial.session, trial.session.task
    return (
        evidence.of_launch(task.device)
        | evidence.of_batch(session.feed, opening.host_batch)
        | evidence.of_epoch(session.feed)
        | evidence.of_ahead(session.ahead, pinned=opening.pinned)
        | evidence.of_page_cache(files)
        | evidence.of_feed(session.feed, pinned=opening.pinned, non_blocking=task.recipe.non_blocking)
        | evidence.of_interlude(trial.interlude)
        | observed_step.of_capture(session.trainee)
        | effective_backend()
        | ({"keeps_items": True} if task.size.keeps_items else {})
        | ({"memory_refusals": refused} if (refused := task.device.refusals()) else {})
        | ({"compiled": False} if _fell_back(trial) else {})
    )


def _fell_back(trial: Trial) -> bool:
    steps = trial.session.task.recipe.compile and trial.timing in {Timing.STEP, Timing.COMPUTE}
    return bool(steps) and not observed_step.still_compiled(trial.session.trainee, trial.step)


def _delayed(trial: Trial) -> dict[str, Value]:
    """What a control shows of its delay, which begins now that a step's usual time can be told."""
    delay = trial.session.trainee.delay
    if delay is None:
        return {}
    shown = begun(delay, trial.step, trial.protocol.steps_of(trial.step_s, trial.cycle_steps))
    trial.step_s += delay.seconds
    return shown


def _timed_step(session: Session, opening: Opening, timing: Timing) -> Callable[[], object]:
    """What one step of a window is."""
    if timing is Timing.EVALUATION:
        return session.evaluate
    if timing is Timing.COMPUTE:
        return session.step_on(cycle(opening.full_batches(session.feed.order)).__next__)
    if timing is Timing.LOADER:
        fetch, times = session.phases.waiting(session.fetch), session.task.recipe.micro_batches
        return fetch if times == 1 else lambda: [fetch() for _ in range(times)]
    return session.step()


def _is_warm(trial: Trial, opening: Opening) -> bool:
    """Whether the first steps were a warm-up: where one step is enough for that, the last of several was like it."""
    recipe, protocol = trial.session.task.recipe, trial.protocol
    asks = protocol.settle_s > 0 or protocol.floor_steps > 1 or opening.step_s < protocol.floor_s
    ahead = recipe.workers > 0 or recipe.compile is not None or trial.session.task.device.asynchronous
    return trial.timing is Timing.STEP and not (asks or ahead) and len(opening.losses) > WARMING


def _warm(trial: Trial, opening: Opening) -> WarmUp:
    recipe, device, protocol = trial.session.task.recipe, trial.session.task.device, trial.protocol
    if trial.timing is Timing.EVALUATION:  # one pass ran already, under observation
        protocol = replace(protocol, floor_steps=1, floor_s=0.0, settle_s=0.0)
    if _is_warm(trial, opening):
        return WarmUp(steps=0, seconds=0.0, step_s=opening.step_s, steady=True)
    if protocol.is_slow(opening.step_s):
        protocol = replace(protocol, floor_steps=1)
    prefetched = recipe.prefetched_batches if _uses_up_the_queue(trial) else 0
    quiet = observed_step.compiler_quiet() if recipe.compile else lambda: True
    warm = warm_up(
        lambda: agreed([timed(trial.step, 1, device)])[0], lambda: not agreed_on(not quiet()), prefetched, protocol
    )
    if recipe.compile:
        end_compilers()
    return warm


def _uses_up_the_queue(trial: Trial) -> bool:
    """Whether the warm-up must; the turn in which an arm settles does it too, unless the loader alone is timed.

    Of that nothing else tells how long a step takes. Workers that are not forked take seconds to begin, and what they
    show of themselves is looked at before that turn.
    """
    forks, protocol = trial.session.task.recipe.start_method == "fork", trial.protocol
    settles = trial.timing is Timing.STEP and forks and protocol.discarded_rounds and not protocol.settle_s
    return not settles and trial.timing not in {Timing.EVALUATION, Timing.COMPUTE}


def _finish_epoch(trial: Trial, warm: WarmUp) -> WarmUp:
    """Steps to the end of the epoch and through a whole one, so that a window begins with a boundary.

    Where the recipe evaluates after so many epochs, it goes through as many: then a step takes its share of that too.
    """
    size = trial.session.task.size
    epoch_batches = size.epoch_steps * trial.session.task.recipe.micro_batches
    while trial.session.consumed % epoch_batches:
        trial.step()
    epochs = trial.session.task.recipe.evaluation_epochs
    if epochs is None:
        timed(trial.step, size.epoch_steps, trial.session.task.device)
        return warm
    trial.interlude = Interlude(session=trial.session, batches=epochs * epoch_batches)
    trial.step = trial.interlude.after(trial.step)
    interval_s = timed(trial.step, epochs * size.epoch_steps, trial.session.task.device)
    return replace(warm, step_s=interval_s / (epochs * size.epoch_steps))


def _reach_the_last_batch(session: Session) -> None:
    """Fetches until a whole epoch has been gone through, so that its last batch was seen; trains on none of it."""
    while session.feed.taken < session.task.size.epoch_steps:
        session.feed.fetch()
