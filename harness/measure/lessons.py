"""Lessons: a training from its first weights whose speed is not the question, but what it learns."""

import gc
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED, Protocol
from harness.core.recipe import Recipe, Value
from harness.core.records import Bounds
from harness.core.workload import Goal, Learned, Ranged, Trained
from harness.measure.devices import keep_to, settle_process
from harness.measure.opening import asked_rate
from harness.measure.session import Session, Task, open_session
from harness.measure.trial import begin

ASKED_S = 1.0  # for which batches are asked for, to see whether a helper has loaded ahead
LOST = 4  # times the first loss, at which a range test has seen enough


def learn(
    task: Task,
    slow: Recipe,
    proof: dict[str, Value],
    steps: int,
    show: Callable[[int, float], None],
    *,
    scheduled: bool,
) -> Learned:
    """Trains for so many steps, then evaluates twice as the task's recipe says and once by the slow recipe."""
    session, ready = _begun(task, proof)
    advance, losses, train_s = _schedule(session, steps, scheduled=scheduled), [], 0.0
    for number, (loss, spent_s) in enumerate(_steps(session, steps, advance), 1):
        losses.append(loss)
        train_s += spent_s
        show(number, loss)
    evaluation, again = session.evaluate(), session.evaluate()
    original = session.evaluate(slow)
    session.feed.close()
    return Learned(
        losses=tuple(losses),
        evaluation=evaluation,
        again=again,
        original=original,
        inactive=ready["inactive"],
        train_s=train_s,
    )


def train_until(
    task: Task,
    proof: dict[str, Value],
    steps: int,
    goal: Goal,
    show: Callable[[int, float], None],
    *,
    scheduled: bool,
) -> Trained:
    """Trains until an evaluation reaches the goal, for so many steps at most.

    The clock stands still while the model is evaluated, and so do loader workers. What a request of theirs brings in
    such a pause, a helper that nobody stops, or what a data set keeps of what it was asked for before, would make
    training look faster: then it tells that its steps have to be taken `again`. Losses are read when the model is
    evaluated and not before, which would be a wait in every step. What the start takes is that of the session before,
    which was the first of its process to read and to compile.
    """
    session, ready = _begun(task, proof)
    scores, train_s, start_s = [], 0.0, 0.0
    advance = _schedule(session, steps, scheduled=scheduled)
    for number, (loss, spent_s) in enumerate(_steps(session, steps, advance, read_every=goal.every), 1):
        train_s += spent_s
        if number == 1:
            start_s = ready["build_s"] + max(0.0, ready["first_step_s"] - spent_s)
        if number % goal.every == 0:
            session.feed.freeze()
            show(number, loss)
            scores.append((number, train_s, session.evaluate().score))
            session.feed.thaw()
            if goal.is_met(scores[-1][-1]):
                break
    again = bool(scores) and _is_spared(ready, session, train_s)
    session.feed.close()
    reached = bool(scores) and goal.is_met(scores[-1][-1])
    return Trained(scores=tuple(scores), reached=reached, inactive=ready["inactive"], start_s=start_s, again=again)


def _is_spared(ready: Mapping[str, Any], session: Session, train_s: float) -> bool:
    """Whether a training may have waited less for its batches than one without evaluations, and without a proof before.

    Helpers that cannot be seen are found out when it is over: batches that are asked for one after another, until none
    lies ready, come more slowly than it trained.
    """
    task, consumed = session.task, session.consumed
    if task.recipe.workers or task.size.keeps_items or "data_cache" in ready["effective"]:
        return True
    step_s = train_s / (consumed // task.recipe.micro_batches)
    asked = asked_rate(session, step_s, ASKED_S)
    return asked is not None and session.feed.order.samples(0, consumed) > asked * train_s


def train_again(
    task: Task, steps: int, before: Trained, show: Callable[[int, float], None], *, scheduled: bool
) -> Trained:
    """The training of so many steps up to its last evaluation once more, without any: the same scores, its own seconds.

    It wants a process of its own, where nothing was read before.
    """
    session = _cold(task)
    every, last = before.scores[0][0], before.scores[-1][0]
    seconds, spent_s = list[float](), 0.0
    advance = _schedule(session, steps, scheduled=scheduled)
    # Begun for all the steps, as before: of several, the first counts as the second does.
    taken = _steps(session, steps, advance, read_every=every)
    for number, (loss, took_s) in enumerate(islice(taken, last), 1):
        spent_s += took_s
        if number % every == 0:
            seconds.append(spent_s)
            show(number, loss)
    session.feed.close()
    timed = zip(before.scores, seconds, strict=True)
    return replace(before, scores=tuple((number, passed_s, score) for (number, _, score), passed_s in timed))


def _cold(task: Task) -> Session:
    """A session in a process that has had none. Where code is compiled, that is done before, on a few batches."""
    if task.recipe.compile:
        nothing = Bounds(loader_rate=None, compute_rate=None)
        return _begun(task, {}, replace(UNTIMED, whole_s=0.0), observed=True, bounds=nothing)[0]
    settle_process(task.recipe, task.device)
    return open_session(task)


def _forget(task: Task, cores: set[int]) -> None:
    """Gives back what a session held that is closed: memory, and cores that it kept for its workers."""
    gc.collect()
    task.device.forget_memory()
    keep_to(cores)


def range_test(
    task: Task,
    proof: dict[str, Value],
    steps: int,
    rates: tuple[float, float],
    show: Callable[[int, float], None],
) -> Ranged:
    """Trains while the learning rate grows by the same factor in each step, from the first rate to the last.

    Smith, 2017, arXiv 1506.01186. Ends early when the loss is beyond hope. Parameter groups keep their proportions.
    Raises Mistake where the loss is no finite number before any update.
    """
    session, ready = _begun(task, proof)
    low, high = rates
    own = session.trainee.optimizer.param_groups[0]["lr"]
    growth = (high / low) ** (1 / (steps - 1))
    step = session.step()
    advance = _stepping(session, lambda optimizer: LambdaLR(optimizer, lambda number: low / own * growth**number))
    points: list[tuple[float, float]] = []
    for number in range(steps):
        points.append((low * growth**number, float(step())))
        if not math.isfinite(points[0][1]):
            raise Mistake(
                f"its loss is {points[0][1]} before any update, which tells nothing of learning rates; look for what "
                "is no finite number in its data or its first weights"
            )
        advance()
        session.phases.forget()  # nobody reads them, and on a GPU they add up
        show(number + 1, points[-1][1])
        if not points[-1][1] <= LOST * abs(points[0][1]):  # or not a number
            break
    session.feed.close()
    return Ranged(points=tuple(points), steps=steps, own=own, inactive=ready["inactive"])


def _begun(
    task: Task, proof: dict[str, Value], protocol: Protocol = UNTIMED, **how: Any
) -> tuple[Session, dict[str, Any]]:
    """The first weights and the first batch once more, after another session has proved the settings: what it told.

    That session begins as for a measurement, but nothing waits for a clock. Its proofs take updates, and more of them
    the more workers it has.
    """
    cores = os.sched_getaffinity(0)
    trial, ready = begin(task, Timing.STEP, protocol, proof, other_seeds=False, **how)
    trial.session.feed.close()
    del trial
    _forget(task, cores)
    return open_session(task), ready


def _steps(
    session: Session, steps: int, advance: Callable[[], None], *, read_every: int = 1
) -> Iterator[tuple[float, float]]:
    """The loss of every step and the seconds that it took with what follows it; the loss that was read last.

    After `read_every` steps the device is waited for, within their time.
    In the first step code is compiled and kernels are chosen, and workers wait meanwhile: it counts as the second does,
    and what was waited for the first batches besides, in which workers had loaded those of the steps that follow.
    """
    began = perf_counter()
    first_loss, fetching_s = _first_step(session)
    advance()
    if steps == 1:
        yield first_loss, perf_counter() - began
    step, loss = session.step(), first_loss
    for number in range(2, steps + 1):
        began = perf_counter()
        last = step()
        advance()
        session.phases.forget()
        if number == 2 or number % read_every == 0:
            loss = float(last)
            session.task.device.synchronize()
        spent_s = perf_counter() - began
        if number == 2:
            yield first_loss, spent_s + (fetching_s if session.task.recipe.workers else 0.0)
        yield loss, spent_s


def _first_step(session: Session) -> tuple[float, float]:
    """Its loss and the seconds until its batches were there.

    Loader workers load nothing while it computes, which would be a gift to steps that are timed.
    """
    sent_ahead = session.ahead is not None
    began = perf_counter()
    batches = [session.fetch() for _ in range(session.task.recipe.micro_batches + sent_ahead)]
    fetching_s = perf_counter() - began
    session.feed.freeze()
    loss = float(session.step_from(iter(batches).__next__)())
    session.feed.thaw()
    return loss, fetching_s


def _schedule(session: Session, steps: int, *, scheduled: bool) -> Callable[[], None]:
    """What moves the learning rate on after a step; the system's own schedule over so many steps, if that is asked."""
    schedule = session.task.parts.schedule
    if not scheduled:
        return _nothing
    if schedule is None:
        raise Mistake("this workload states no schedule of the learning rate; give its Parts a `schedule`")
    return _stepping(session, lambda optimizer: schedule(optimizer, steps))


def _stepping(session: Session, schedule: Callable[[Optimizer], LRScheduler]) -> Callable[[], None]:
    """A scheduler's step. Raises Mistake where a recipe keeps the rate out of its reach."""
    recipe = session.task.recipe
    for is_on, name in ((recipe.cuda_graph, "cuda_graph"), (recipe.update_in_backward, "update_in_backward")):
        if is_on:
            raise Mistake(f"{name} keeps the learning rate that it began with; leave it out")
    scheduler = schedule(session.trainee.optimizer)

    def step() -> None:
        with warnings.catch_warnings():  # it does not see the optimizer's step, which was bound before it came
            warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step", category=UserWarning)
            warnings.filterwarnings("ignore", message="Seems like `optimizer.step", category=UserWarning)
            scheduler.step()

    return step


def _nothing() -> None:
    """The rate stays."""
