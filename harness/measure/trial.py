"""The trial of one arm: first losses, ceilings, warm-up, then bursts whenever the launcher asks."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import ceil, isfinite
from time import perf_counter
from typing import Any

from harness.core.compose import unengaged
from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.measure import evidence
from harness.measure.backend import effective_backend, settle_backend
from harness.measure.board import Board, board_of
from harness.measure.ceilings import ceilings_of
from harness.measure.clock import device_bytes, host_bytes, synchronize, timed
from harness.measure.delay import begun
from harness.measure.habits import Diverged
from harness.measure.interlude import Interlude
from harness.measure.opening import Opening, observe, seed_spread, take_first_steps
from harness.measure.page_cache import ColdFiles, cold_files
from harness.measure.session import Session, Task, open_session
from harness.measure.settling import events_of, undisturbed
from harness.measure.warm_up import WarmUp, warm_up

# What a resumed process may take to find its caches again; steps that begin earlier are not timed.
RESUME_S = {"cpu": 0.03, "cuda": 0.1}


@dataclass(slots=True, kw_only=True)
class Trial:
    """One arm at work."""

    session: Session
    timing: Timing
    protocol: Protocol
    step: Callable[[], object]
    step_s: float = 1.0
    interlude: Interlude | None = None  # between whole epochs, if the recipe evaluates there
    cold: ColdFiles | None = None  # what each burst must read from storage, if the recipe says so
    board: Board = field(default_factory=Board)

    def burst(self, target_s: float) -> dict[str, Any]:
        """Times steps for about that long without interruption; gives the fields of a Burst; raises Unsettled."""

        def taken() -> dict[str, Any]:
            with self.cold.dropped() if self.cold else nullcontext():
                return self._burst(target_s)

        return undisturbed(taken, events_of(self.session.task.recipe, self.session.task.device))

    def _burst(self, target_s: float) -> dict[str, Any]:
        device, strangers = self.session.task.device, self.board.strangers()
        self._lead_in()
        steps, consumed = self.steps_for(target_s), self.session.consumed
        self.session.phases.split()
        energy_j = self.board.energy_j()
        wall_s = timed(self.step, steps, device)
        told = self.board.after(strangers, energy_j)
        split = self.session.phases.split()
        self._refuse_divergence()
        return {
            "timing": self.timing,
            "steps": steps,
            "samples": self._samples(steps, consumed),
            "wall_s": wall_s,
            "wait_s": split.wait_s,
            "copy_s": split.copy_s,
            "device_s": split.device_s,
            "host_bytes": host_bytes(),
            "device_bytes": device_bytes(device),
        } | told

    def _samples(self, steps: int, consumed: int) -> int:
        """Samples of a burst that began when so many batches had been consumed."""
        size, session = self.session.task.size, self.session
        if self.timing in {Timing.EVALUATION, Timing.COMPUTE}:
            return steps * (size.evaluation_items if self.timing is Timing.EVALUATION else size.batch)
        return session.feed.order.samples(consumed, session.consumed)

    def steps_for(self, target_s: float) -> int:
        """Steps of a burst: whole epochs unless an epoch is much longer than the target."""
        wanted = ceil(target_s / self.step_s)
        if self.timing is Timing.EVALUATION:
            return max(1, wanted)
        # Workers finish in clumps of one batch each. A loader that nothing slows shows its mean rate over many.
        clumps = 12 if self.timing is Timing.LOADER else 2
        least = 1 if self.protocol.is_slow(self.step_s) else self.protocol.burst_steps
        wanted = max(wanted, least, clumps * self.session.task.recipe.workers)
        epoch = self.session.task.size.epoch_steps * self._epochs_at_once()
        # A second epoch would find in memory what the first has read.
        whole = epoch if self.cold else max(1, round(wanted / epoch)) * epoch
        return whole if self.timing is Timing.EPOCH or whole <= 2 * wanted else wanted

    def _epochs_at_once(self) -> int:
        """Epochs of which a burst takes all or none: those from one evaluation to the next."""
        return (self.session.task.recipe.evaluation_epochs or 1) if self.timing is Timing.EPOCH else 1

    def _lead_in(self) -> None:
        """Steps that are not timed, where a step is short enough to suffer from the resumption."""
        resume_s = RESUME_S[self.session.task.device.type]
        if self.timing is Timing.EPOCH or self.step_s >= resume_s:
            return
        began = perf_counter()
        while perf_counter() - began < resume_s:
            self.step()
        synchronize(self.session.task.device)

    def _refuse_divergence(self) -> None:
        if not isfinite(float(self.session.trainee.metrics.total)):
            raise Diverged("the loss is no longer a finite number")


def begin(
    task: Task, timing: Timing, protocol: Protocol, proof: dict[str, Value], *, is_reference: bool
) -> tuple[Trial, dict[str, Any]]:
    """Builds the arm, takes its first steps and warms it up; gives the trial and the fields of Ready."""
    settle_backend(task.recipe)
    began = perf_counter()
    session = open_session(task)
    build_s = perf_counter() - began
    opening = take_first_steps(session, protocol.loss_steps)
    observed, score = observe(session, opening, timing)
    ceilings = ceilings_of(session, opening, protocol) if timing in {Timing.STEP, Timing.EPOCH} else (None, None)
    trial = Trial(session=session, timing=timing, protocol=protocol, step=_timed_step(session, opening, timing))
    trial.board = board_of(task.device)
    warm = _warm(trial, opening.step_s)
    trial.step_s = warm.step_s
    if task.recipe.keep_last_batch and timing in {Timing.STEP, Timing.LOADER}:
        _reach_the_last_batch(session)
    files = cold_files(task.data) if task.recipe.page_cache == "cold" else None
    effective = observed | _seen_at_last(trial, opening, files) | _delayed(trial)
    trial.cold = files if effective.get("page_cache") == "cold" else None
    return trial, {
        "build_s": build_s,
        "first_step_s": opening.first_step_s,
        "warm_up_s": warm.seconds,
        "warm_up_steps": warm.steps,
        "step_s": warm.step_s,
        "steady": warm.steady,
        "effective": effective,
        "unengaged": unengaged(proof, effective),
        "losses": opening.losses,
        "seed_spread": seed_spread(session, opening, protocol) if is_reference else None,
        "loader_rate": ceilings[0],
        "compute_rate": ceilings[1],
        "score": score,
    }


def _seen_at_last(trial: Trial, opening: Opening, files: ColdFiles | None) -> dict[str, Value]:
    """What the arm shows once it is warm: its loader, its process, its device."""
    session, task = trial.session, trial.session.task
    return (
        evidence.of_launch()
        | evidence.of_batch(session.feed, opening.host_batch)
        | evidence.of_epoch(session.feed)
        | evidence.of_ahead(session.ahead, pinned=opening.pinned)
        | evidence.of_page_cache(files)
        | evidence.of_feed(session.feed, pinned=opening.pinned, non_blocking=task.recipe.non_blocking)
        | evidence.of_interlude(trial.interlude)
        | evidence.of_capture(session.trainee)
        | evidence.of_precision(task.device)
        | ({} if trial.protocol.is_timed else evidence.of_kernels(trial.step, task.device))
        | effective_backend()
    )


def _delayed(trial: Trial) -> dict[str, Value]:
    """What a control shows of its delay, which begins now that a step's usual time can be told."""
    delay = trial.session.trainee.delay
    if delay is None:
        return {}
    shown = begun(delay, trial.step, trial.steps_for(trial.protocol.burst_s))
    trial.step_s += delay.seconds
    return shown


def _timed_step(session: Session, opening: Opening, timing: Timing) -> Callable[[], object]:
    """What one step of a burst is."""
    if timing is Timing.EVALUATION:
        return session.evaluate
    if timing is Timing.COMPUTE:
        return session.step_on(cycle(opening.full_batches(session.feed.order)).__next__)
    if timing is Timing.LOADER:
        fetch, times = session.phases.waiting(session.fetch), session.task.recipe.micro_batches
        return fetch if times == 1 else lambda: [fetch() for _ in range(times)]
    return session.step()


def _warm(trial: Trial, opened_step_s: float) -> WarmUp:
    recipe, device, protocol = trial.session.task.recipe, trial.session.task.device, trial.protocol
    if trial.timing is Timing.EVALUATION:  # one pass ran already, under observation
        protocol = replace(protocol, floor_steps=1, floor_s=0.0, settle_s=0.0)
    if protocol.is_slow(opened_step_s):
        protocol = replace(protocol, floor_steps=1)
    prefetched = 0 if trial.timing in {Timing.EVALUATION, Timing.COMPUTE} else recipe.prefetched_batches
    quiet = evidence.compiler_quiet() if recipe.compile else _always
    warm = warm_up(lambda: timed(trial.step, 1, device), quiet, prefetched, protocol)
    return _finish_epoch(trial, warm) if trial.timing is Timing.EPOCH else warm


def _finish_epoch(trial: Trial, warm: WarmUp) -> WarmUp:
    """Steps to the end of the epoch and through a whole one, so that a burst begins with a boundary.

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


def _always() -> bool:
    return True
