"""The trial of one arm: first losses, ceilings, warm-up, then bursts whenever the launcher asks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from math import ceil, isfinite
from time import perf_counter
from typing import Any

import torch

from harness.core.compose import unengaged
from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.core.workload import Built
from harness.measure import evidence
from harness.measure.backend import effective_backend, settle_backend
from harness.measure.clock import device_bytes, host_bytes, synchronize, timed
from harness.measure.session import Session, Task, open_session, open_trainee, step_of
from harness.measure.warm_up import WarmUp, warm_up

OTHER_SEEDS = (1001, 2002)  # added to an arm's seed, for the spread that a close optimization must stay within
RESUME_S = 0.1  # what a resumed process may take to find its caches again; steps that begin earlier are not timed


class Diverged(RuntimeError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first steps of an arm: their losses, and their batches as they lie on the device."""

    first_step_s: float
    step_s: float  # of the last
    losses: tuple[float, ...]
    batches: list[Any]  # before the device stage
    host_batch: Any  # the first, as the loader gave it
    pinned: bool


@dataclass(slots=True, kw_only=True)
class Trial:
    """One arm at work."""

    session: Session
    timing: Timing
    protocol: Protocol
    step: Callable[[], object]
    step_s: float = 1.0

    def burst(self, target_s: float) -> dict[str, Any]:
        """Times steps for about that long without interruption; gives the fields of a Burst."""
        size, device = self.session.task.size, self.session.task.device
        self._lead_in()
        steps = self.steps_for(target_s)
        self.session.phases.split()
        wall_s = timed(self.step, steps, device)
        split = self.session.phases.split()
        self._refuse_divergence()
        return {
            "timing": self.timing,
            "steps": steps,
            "samples": steps * (size.evaluation_items if self.timing is Timing.EVALUATION else size.batch),
            "wall_s": wall_s,
            "wait_s": split.wait_s,
            "copy_s": split.copy_s,
            "device_s": split.device_s,
            "host_bytes": host_bytes(),
            "device_bytes": device_bytes(device),
        }

    def steps_for(self, target_s: float) -> int:
        """Steps of a burst: whole epochs unless an epoch is much longer than the target."""
        wanted = ceil(target_s / self.step_s)
        if self.timing is Timing.EVALUATION:
            return max(1, wanted)
        # Workers finish in clumps of one batch each. A loader that nothing slows shows its mean rate over many.
        clumps = 12 if self.timing is Timing.LOADER else 2
        least = 1 if self.protocol.is_slow(self.step_s) else self.protocol.burst_steps
        wanted = max(wanted, least, clumps * self.session.task.recipe.workers)
        epoch = self.session.task.size.epoch_steps
        whole = max(1, round(wanted / epoch)) * epoch
        return whole if self.timing is Timing.EPOCH or whole <= 2 * wanted else wanted

    def _lead_in(self) -> None:
        """Steps that are not timed, where a step is short enough to suffer from the resumption."""
        if self.timing is Timing.EPOCH or self.step_s >= RESUME_S:
            return
        began = perf_counter()
        while perf_counter() - began < RESUME_S:
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
    opening = _open(session, protocol.loss_steps)
    observed, score = _observe(session, opening, timing)
    ceilings = _ceilings(session, opening, protocol) if timing in {Timing.STEP, Timing.EPOCH} else (None, None)
    trial = Trial(session=session, timing=timing, protocol=protocol, step=_timed_step(session, opening, timing))
    warm = _warm(trial, opening.step_s)
    trial.step_s = warm.step_s
    effective = (
        observed
        | evidence.of_feed(session.feed, pinned=opening.pinned, non_blocking=task.recipe.non_blocking)
        | effective_backend()
    )
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
        "seed_spread": _seed_spread(session, opening, protocol) if is_reference else None,
        "loader_rate": ceilings[0],
        "compute_rate": ceilings[1],
        "score": score,
    }


def _open(session: Session, steps: int) -> Opening:
    """Takes the first steps, keeping their losses and their batches."""
    seen: list[Any] = []

    def remembering() -> Any:
        seen.append(session.feed.fetch())
        return seen[-1]

    step, device = session.step_on(remembering), session.task.device
    began = perf_counter()
    losses = [float(step())]
    first_step_s = perf_counter() - began
    for _ in range(steps - 1):
        began = perf_counter()
        losses.append(float(step()))
    step_s = perf_counter() - began
    pinned = torch.cuda.is_available() and bool(seen[0][0].is_pinned())
    synchronize(device)
    batches = [session.trainee.move(batch) for batch in seen]
    return Opening(
        first_step_s=first_step_s,
        step_s=step_s,
        losses=tuple(losses),
        batches=batches,
        host_batch=seen[0],
        pinned=pinned,
    )


def _observe(session: Session, opening: Opening, timing: Timing) -> tuple[dict[str, Value], float | None]:
    """What the arm shows of its settings, and the score of an evaluation if that is what is timed."""
    task, trainee = session.task, session.trainee
    shown = dict(task.parts.effective(_built(session, opening)))
    shown |= evidence.of_optimizer(trainee.optimizer)
    shown["gradient_scaling"] = trainee.scaler is not None and trainee.scaler.get_scale() != 1.0
    shown["deferred_metrics"] = isinstance(trainee.metrics.total, torch.Tensor)
    shown["micro_batches"] = len(opening.batches) // len(opening.losses)
    with evidence.watching(trainee.model) as watch, torch.no_grad(), trainee.bound.autocast():
        trainee.model(trainee.bound.transfer(opening.batches[0])[0])
    shown |= evidence.of_step(watch) | evidence.of_training(trainee, opening.batches[0])
    if task.recipe.compile:
        shown |= evidence.of_compiler()
    if timing is not Timing.EVALUATION:
        return shown, None
    with evidence.watching(trainee.model) as watch:
        evaluation = session.evaluate()
    return shown | evidence.of_evaluation(watch, evaluation.items), evaluation.score


def _built(session: Session, opening: Opening) -> Built:
    trainee = session.trainee
    return Built(
        dataset=session.feed.loader.dataset,
        model=trainee.model,
        loss=trainee.loss,
        device_stage=trainee.device_stage,
        batch=opening.host_batch,
    )


def _ceilings(session: Session, opening: Opening, protocol: Protocol) -> tuple[float, float]:
    """Samples a second of the loader alone and of the step alone."""
    size, recipe = session.task.size, session.task.recipe
    batch = size.batch // recipe.micro_batches
    for _ in range(2 * recipe.prefetched_batches):
        session.feed.fetch()
    slow = protocol.is_slow(opening.step_s)
    whole = size.epoch_steps <= 16 and not slow
    loader_batches = size.epoch_steps * recipe.micro_batches if whole else protocol.burst_steps
    compute = session.step_on(cycle(opening.batches).__next__)
    if not slow:
        compute()
    device = session.task.device
    loader_rate = batch * _calls_per_s(session.feed.fetch, loader_batches, protocol.ceiling_s, device)
    compute_rate = size.batch * _calls_per_s(compute, 1 if slow else 2, protocol.ceiling_s, device)
    session.phases.split()
    return loader_rate, compute_rate


def _calls_per_s(call: Callable[[], object], times: int, seconds: float, device: torch.device) -> float:
    """Calls a second over rounds of `times` calls, until the time is up."""
    calls, spent_s = 0, 0.0
    while spent_s < seconds:
        spent_s += timed(call, times, device)
        calls += times
    return calls / spent_s


def _timed_step(session: Session, opening: Opening, timing: Timing) -> Callable[[], object]:
    """What one step of a burst is."""
    if timing is Timing.EVALUATION:
        return session.evaluate
    if timing is Timing.COMPUTE:
        return session.step_on(cycle(opening.batches).__next__)
    if timing is Timing.LOADER:
        fetch, times = session.phases.waiting(session.feed.fetch), session.task.recipe.micro_batches
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
    if trial.timing is Timing.EPOCH:
        _finish_epoch(trial)
    return warm


def _finish_epoch(trial: Trial) -> None:
    """Steps to the end of the epoch and through a whole one, so that a burst begins with a boundary."""
    size, feed = trial.session.task.size, trial.session.feed
    epoch_batches = size.epoch_steps * trial.session.task.recipe.micro_batches
    while feed.taken % epoch_batches:
        trial.step()
    for _ in range(size.epoch_steps):
        trial.step()


def _seed_spread(session: Session, opening: Opening, protocol: Protocol) -> float:
    """Mean absolute difference of the first losses between the arm's seed and others, on the same batches."""
    differences = []
    for other in OTHER_SEEDS[: 1 if protocol.is_slow(opening.step_s) else None]:
        trainee = open_trainee(replace(session.task, seed=session.task.seed + other), session.phases)
        step = step_of(trainee, cycle(opening.batches).__next__)
        differences += [abs(float(step()) - loss) for loss in opening.losses]
    session.phases.split()
    return sum(differences) / len(differences)


def _always() -> bool:
    return True
