"""The opening of an arm: its first steps, and what they show of its settings."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from math import ceil, inf, lcm
from statistics import fmean, median
from time import perf_counter
from typing import Any

import torch

from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import AVERAGED_EVERY, Value, patched
from harness.core.records import EPOCH_READ, FILLED, IN_PART, STILL_FILLING
from harness.core.workload import Built
from harness.measure import observed_process, observed_step
from harness.measure.devices import Device, give_back, timed
from harness.measure.evaluation import counting_read_backs, of_read_backs
from harness.measure.feed import Order
from harness.measure.ranks import agreed, averaged, of_link, of_ranks, of_updates, watched_update
from harness.measure.session import Session, Task, open_trainee, step_of
from harness.measure.transfer import transfer_to

AS_LOADED = {"channels_last": False, "channels_last_3d": False}
OTHER_SEEDS = (1001, 2002)  # added to an arm's seed, for the spread that a close optimization must stay within


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first steps of an arm: their losses, and their batches as they lie on the device."""

    first_step_s: float
    step_s: float  # of the last
    losses: tuple[float, ...]
    batches: list[Any]  # before the device stage
    host_batch: Any  # the first, as the loader gave it
    pinned: bool
    backwards: int  # passes whose gradients reached the model in the first step
    habits: dict[str, Value]  # what these steps have left in the habits of the recipe
    fetched_s: tuple[float, ...] = ()  # what each batch took that the arm loaded itself, from the epoch's first on

    def full_batches(self, order: Order) -> list[Any]:
        """The batches that hold as many samples as the recipe says; an epoch's last may hold fewer."""
        return [one for at, one in enumerate(self.batches) if order.samples(at, at + 1) == order.samples(0, 1)]

    def shapes(self, order: Order, on_host: Collection[int] = ()) -> int:
        """How many shapes those batches have, without the parts of these numbers, which no step meets as they are."""
        met = ((part for at, part in enumerate(batch) if at not in on_host) for batch in self.full_batches(order))
        return len({tuple(part.shape for part in batch) for batch in met})


def take_first_steps(session: Session, steps: int) -> Opening:
    """Takes the first steps, keeping their losses and their batches."""
    seen, fetched_s = list[Any](), list[float]()

    def remembering() -> Any:
        began = perf_counter()
        seen.append(_loaded(session, len(seen)))
        fetched_s.append(perf_counter() - began)
        return seen[-1]

    step, device = session.step_from(remembering), session.task.device
    before = observed_process.tally(device)
    began = perf_counter()
    with observed_step.backwards_into(session.trainee.model) as backwards:
        losses = [float(step())]
    first_step_s = perf_counter() - began
    for _ in range(steps - 1):
        began = perf_counter()
        losses.append(float(step()))
    step_s, *losses = [*agreed([perf_counter() - began]), *averaged(losses)]
    pinned = _is_pinned(session, seen[0])
    device.synchronize()
    batches = [_placed(session, batch) for batch in seen]
    return Opening(
        first_step_s=first_step_s,
        step_s=step_s,
        losses=tuple(losses),
        batches=batches,
        host_batch=seen[0],
        pinned=pinned,
        backwards=max(backwards.values(), default=0),
        habits=observed_process.of_habits(session.trainee.habits, before, observed_process.tally(device), steps),
        fetched_s=() if session.task.first else tuple(agreed(fetched_s)),
    )


def take_first_batch(session: Session) -> Opening:
    """Takes one batch and no step, where a former replicate has shown all that steps show."""
    batch = _loaded(session, 0)
    return Opening(
        first_step_s=0.0,
        step_s=0.0,
        losses=(),
        batches=[_placed(session, batch)],
        host_batch=batch,
        pinned=_is_pinned(session, batch),
        backwards=0,
        habits={},
    )


def _is_pinned(session: Session, batch: Any) -> bool:
    """Whether what travels of a batch lies in pinned memory."""
    stay = parts_on_host(session)
    return all(session.task.device.is_pinned(part) for at, part in enumerate(batch) if at not in stay)


def _loaded(session: Session, number: int) -> Any:
    """Batch `number`, which another arm of the process may have loaded."""
    task = session.task
    return task.first.fetch(number, session.feed.fetch, task.device.torch) if task.first else session.feed.fetch()


def _placed(session: Session, batch: Any) -> Any:
    """A batch on the device as the loader laid it out: a step on it still converts whatever a training converts."""
    task = session.task
    return transfer_to(task.device, patched(task.recipe, AS_LOADED), parts_on_host(session))(batch)


def parts_on_host(session: Session) -> Collection[int]:
    """The numbers of the parts of a batch that the device stage takes from the host."""
    on_host: Collection[int] = getattr(session.trainee.device_stage, "on_host", ())
    return on_host


def observe(session: Session, opening: Opening, timing: Timing) -> tuple[dict[str, Value], float | None]:
    """What the arm shows of its settings, and the score of an evaluation if that is what is timed."""
    task, trainee = session.task, session.trainee
    shown = dict(task.parts.effective(_built(session, opening)))
    shown |= observed_step.of_optimizer(trainee.optimizer)
    shown["gradient_scaling"] = trainee.scaler is not None and trainee.scaler.get_scale() != 1.0
    shown["deferred_metrics"] = isinstance(trainee.metrics.total, torch.Tensor)
    shown["micro_batches"] = opening.backwards
    shown["update_samples"] = opening.backwards * samples_in(opening.host_batch) * task.recipe.ranks
    shown |= opening.habits | observed_process.of_backward(trainee.bound.backward, task.device.torch)
    if task.recipe.nvtx:
        shown |= observed_process.of_marks(session.step_on(cycle(opening.batches).__next__), task.device.push)
    with observed_step.run_in_eager(trainee.model), trainee.graph.queued() if trainee.graph else nullcontext():
        # Models that ask for gradients in their forward pass need them; sharded weights are gathered without, and what
        # a captured step holds is not touched.
        quiet = torch.no_grad() if task.recipe.sharded_weights or trainee.graph else nullcontext()
        with observed_step.watching(trainee.model) as watch, quiet, trainee.bound.autocast():
            trainee.model(trainee.bound.transfer(opening.batches[0])[0])
        shown |= observed_step.of_step(watch) | observed_step.of_training(trainee, opening.batches[0])
    shown |= observed_step.of_learning_rate(trainee.optimizer, task) | observed_step.of_precision(task.device)
    if task.recipe.compile:
        shown |= observed_step.of_compiler(trainee, opening.batches[0], task.device)
    if task.recipe.ranks > 1:
        shown |= _between_ranks(session, opening)
    if timing is not Timing.EVALUATION:
        return shown, None
    if task.recipe.evaluation_persistent_workers:
        session.evaluate()  # workers that stay would inherit what counts, and be slowed by it for life
    with observed_step.watching(trainee.model) as watch, counting_read_backs(trainee.model, task.device.torch) as reads:
        evaluation = session.evaluate()
    shown |= observed_step.of_evaluation(watch, evaluation.items) | of_read_backs(reads)
    shown |= evaluation.effective
    return shown, evaluation.score


def _between_ranks(session: Session, opening: Opening) -> dict[str, Value]:
    """What a few more updates show of what goes between the ranks."""
    trainee, recipe = session.trainee, session.task.recipe
    bound, batch = trainee.bound, opening.batches[0]

    def forward() -> torch.Tensor:
        inputs, targets = bound.transfer(batch)
        with bound.autocast():
            return bound.loss(trainee.parallel(inputs), targets)

    seen = [watched_update(forward, trainee, recipe.micro_batches) for _ in range(AVERAGED_EVERY)]
    shown = of_ranks(opening.host_batch[0]) | of_updates(seen, trainee.model, trainee.parallel, recipe)
    return shown | of_link(session.task.device)


def shapes_of(session: Session, opening: Opening) -> dict[str, Value]:
    """What the batches of the first steps show of their shapes; one alone does not tell whether they vary."""
    shown: dict[str, Value] = {
        "whole_batches": samples_in(opening.host_batch) * session.task.recipe.ranks == session.task.size.batch
    }
    if len(opening.batches) > 1:
        shown["varying_shapes"] = opening.shapes(session.feed.order, parts_on_host(session)) > 1
    return shown


def samples_in(batch: Sequence[Any]) -> int:
    """Samples of a batch: inputs may be all their bytes or two crops of each, and targets one for each word of them."""
    return min(len(one) for one in batch[:2] if not isinstance(one, torch.Tensor) or one.dim())


def uneven(task: Task) -> dict[str, Value]:
    """After how many steps the same work has been done, where one step alone does not show it."""
    averages = AVERAGED_EVERY if task.recipe.communication_hook == "post_local_sgd" else 1
    steps = lcm(task.parts.uneven_steps, averages)
    return {"uneven_steps": steps} if steps > 1 else {}


def _built(session: Session, opening: Opening) -> Built:
    trainee = session.trainee
    return Built(
        dataset=session.feed.loader.dataset,
        model=trainee.model,
        loss=trainee.loss,
        device_stage=trainee.device_stage,
        batch=opening.host_batch,
    )


def spreads(session: Session, opening: Opening, protocol: Protocol) -> dict[str, float]:
    """How far the first losses of other runs on the same batches lie from the arm's, by the names of Ready's fields."""
    runs = 1 if protocol.is_slow(opening.step_s) else 2
    return {
        "seed_spread": seed_spread(session, opening, OTHER_SEEDS[:runs]),
        "repeat_spread": repeat_spread(session, opening, runs),
    }


def seed_spread(session: Session, opening: Opening, others: Sequence[int]) -> float:
    """Mean absolute difference of the first losses between the arm's seed and others."""
    return fmean(_difference(_first_losses(session, opening, other), opening.losses) for other in others)


def repeat_spread(session: Session, opening: Opening, runs: int) -> float:
    """The largest mean absolute difference of the first losses between runs from the arm's own seed; 0 if none differs.

    More than one run is only taken where the first one shows that kernels do not repeat their own bits, and on GPUs,
    whose kernels may do so by luck.
    """
    losses = [opening.losses, _first_losses(session, opening)]
    if losses[0] == losses[1] and session.task.device.steps_on_host:
        return 0.0
    losses += [_first_losses(session, opening) for _ in range(runs - 1)]
    return max(_difference(one, other) for one, other in combinations(losses, 2))


def _first_losses(session: Session, opening: Opening, other: int = 0) -> tuple[float, ...]:
    """The losses of the first steps once more, from the arm's own seed or another one."""
    trainee = open_trainee(replace(session.task, seed=session.task.seed + other), session.phases)
    step = step_of(trainee, cycle(opening.batches).__next__)
    losses = averaged([float(step()) for _ in opening.losses])
    session.phases.split()
    return tuple(losses)


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    return fmean(abs(first - second) for first, second in zip(one, other, strict=True))


# The two upper bounds of an arm: its loader without the step, and its step without the loader.
#
# Where nothing works ahead, the host loads, then computes: what its windows waited for is the loader alone and the rest
# is the step alone, over the very same samples. Bounds are probed only where that cannot be told from windows.

GROUPS = 4  # workers finish side by side: so many batches of each are the least that show their mean rate
STARTS = 0.02  # of a long epoch: what its start must take to be part of the bound


def upper_bounds_of(session: Session, opening: Opening, protocol: Protocol) -> tuple[float | None, float | None]:
    """Samples a second of the loader alone and of the step alone; None for what the windows will tell."""
    ahead = session.task.recipe.workers > 0
    if not ahead and not session.task.device.asynchronous:
        return None, None
    return (_loader_rate(session, opening, protocol) if ahead else None), _compute_rate(session, opening, protocol)


def _loader_rate(session: Session, opening: Opening, protocol: Protocol) -> float:
    """Of batches that nobody has loaded yet, in whole groups; whole epochs if short, so that rare stalls are met.

    And however long they are where their start, which is a part of the first step, is much of them.
    """
    feed, task = session.feed, session.task
    for _ in range(feed.in_flight):
        feed.fetch()
    taken, group = feed.taken, task.recipe.workers
    epoch = task.size.epoch_steps * task.recipe.micro_batches
    both = lcm(epoch, group) if task.endless else epoch  # whole epochs of whole groups; each epoch begins groups anew
    (spent_s,) = agreed([timed(feed.fetch, GROUPS * group, task.device)])
    while spent_s < protocol.upper_bound_s:
        spent_s += agreed([timed(feed.fetch, group, task.device)])[0]
    done = feed.taken - taken
    whole, each_s = -(-done // both) * both, spent_s / done
    begins = not task.endless and agreed([opening.first_step_s])[0] > STARTS * each_s * epoch
    if begins or each_s * whole <= 2 * protocol.whole_s:
        spent_s += agreed([timed(feed.fetch, whole - done, task.device)])[0]
    return feed.order.samples(taken, feed.taken) / spent_s


def _compute_rate(session: Session, opening: Opening, protocol: Protocol) -> float:
    """On the batches of the first steps, which lie on the device.

    Loader workers stand still meanwhile: after their own probe they refill their queue, on the cores of the step.
    """
    slow = protocol.is_slow(opening.step_s)
    compute = session.step_on(cycle(opening.full_batches(session.feed.order)).__next__)
    session.feed.freeze()
    compute()
    at_once = lcm(1 if slow else 2, session.task.parts.uneven_steps)
    rate = session.task.size.batch * _calls_per_s(compute, at_once, protocol.upper_bound_s, session.task.device)
    session.feed.thaw()
    session.phases.split()
    return rate


def _calls_per_s(call: Callable[[], object], times: int, seconds: float, device: Device) -> float:
    """Calls a second over rounds of `times` calls, until the time is up.

    A device that works on its own is given whole rounds at once, since each pays for its pipeline's way out.
    """
    if device.asynchronous:
        round_s = agreed([timed(call, times, device)])[0]  # ranks take as many steps
        times *= max(1, ceil(seconds / max(1e-6, round_s)))
        return times / agreed([timed(call, times, device)])[0]
    calls, spent_s = 0, 0.0
    while spent_s < seconds:
        spent_s += agreed([timed(call, times, device)])[0]
        calls += times
    return calls / spent_s


# A data set that keeps what it has read is timed as it is from its second epoch on.

PROBED, NEW = 3, 3  # batches that are read twice; batches behind those, to the epoch's end
SOON, LOST = 8, 3  # first batches of an epoch that was read; so many of them are dear again where a cache drops some
CHEAPER, MATTERS = 0.6, 0.02  # the second reading: times the first at most; share of a step that it saves at least
SHARE = 0.25  # of what keeping a batch saves: less than that may be the processor's own cache
LEAST_S = 2e-4  # that it saves a loader alone: less is little of a step, and a processor's own cache saves as much
LATER = 4  # times as long at most, reads a later replicate where a cache holds a part: its epoch may be far longer
WAKES_S = 0.2  # a step: of shorter ones the first batches after a pause may be dear enough to look as if kept later
ALIKE = 0.9  # the second reading of each batch, times the first at least, where nothing is kept


def fill_cache(
    session: Session,
    step_s: float,
    seconds: float,
    before: str | None = None,
    least_s: float = 0.0,
    fetched_s: Sequence[float] = (),
) -> dict[str, Value]:
    """Where reading batches again is cheaper, reads a whole epoch if that takes no longer than this; tells what it did.

    Cheaper means by `least_s` at least. The same as a replicate `before` this one did: an epoch may take about as
    long as that, now longer and now shorter.
    A cache that was full before it was looked at holds a part, however long an epoch is, and needs none; it is known by
    what the first batches took when they were `fetched_s` first.
    Nothing where loader workers each keep what they read themselves, where files must be read from storage, and where
    no window holds what the arm has read before.
    """
    feed, recipe = session.feed, session.task.recipe
    if recipe.workers or recipe.page_cache == "cold" or session.task.size.keeps_items:
        return {}
    taken, epoch, told = feed.taken, session.task.size.epoch_steps * recipe.micro_batches, before
    is_plain = False
    if before is None and epoch <= min(PROBED, taken):
        return {}  # all of it was read more than once, and what it was like before nobody can see
    if before is None:
        least_s = max(least_s, MATTERS * step_s / recipe.micro_batches)
        told, saved_s, is_plain = _kept(session, step_s, seconds, epoch, least_s, fetched_s)
        if told == FILLED and not _is_whole(session, _seconds_from(session, 0, epoch), saved_s, least_s):
            told = IN_PART
    elif before in EPOCH_READ:
        _seconds_from(session, 0, epoch, LATER * seconds if before == IN_PART else inf)
    feed.order.go_to(taken)
    feed.taken = taken
    return {"data_cache": told} if told else {"keeps_nothing": True} if is_plain else {}


def _kept(
    session: Session, step_s: float, seconds: float, epoch: int, least_s: float, fetched_s: Sequence[float]
) -> tuple[str, float, bool]:
    """What becomes of the cache, empty where there is none: whether an epoch of it is read within so many seconds.

    And how many seconds keeping a batch saves, `least_s` at least; and whether there is surely none. Of batches that
    take long one alone is read twice, and only when others came between: a cache of the last one or two is none.
    """
    far = _far(epoch)
    is_new = session.feed.taken_from_workers <= far  # what was read before tells nothing of a cache
    if step_s < WAKES_S:
        _seconds_from(session, 0, PROBED)
    first = _seconds_from(session, far, PROBED)
    is_slow = min(*first, step_s) > seconds / 4  # a busy machine may make one reading long
    again = _seconds_from(session, far, 1 if is_slow else PROBED)
    both = [(median(first), again[0])] if is_slow else list(zip(first, again, strict=True))
    if not _mostly(late < CHEAPER * soon and soon - late > least_s for soon, late in both):
        was_full = len(both) == PROBED and _was_full(session, again, least_s, fetched_s)
        looked = is_new and len(both) == PROBED
        is_plain = looked and was_full is False and all(late >= ALIKE * soon for soon, late in both)
        return (IN_PART if was_full else ""), 0.0, is_plain
    saved_s = median(soon - late for soon, late in both)
    return (FILLED if median(first) * epoch < seconds else STILL_FILLING), saved_s, False


def _was_full(session: Session, dear_s: Sequence[float], least_s: float, fetched_s: Sequence[float]) -> bool | None:
    """Whether a cache that takes nothing more holds the first batches, as none of the dear ones.

    Batches differ: so each of them must be cheaper than any of those, and than it was itself when it was fetched first.
    None where it seems so and nobody knows that. The epoch's very first does not tell, since files were opened for it.
    """
    for number in range(1, PROBED):
        (late_s,) = _seconds_from(session, number, 1)
        most_s = min(*dear_s, *fetched_s[number : number + 1])
        if late_s >= CHEAPER * most_s or most_s - late_s <= least_s:
            return False
    return True if len(fetched_s) > 1 else None


def _is_whole(session: Session, took_s: Sequence[float], saved_s: float, matters_s: float) -> bool:
    """Whether a cache holds the first and the last batches of an epoch that was just read, each in so many seconds.

    One that drops what was read long ago has dropped some of the first: each is dear once, and cheap when it is read
    again at once. One that takes nothing more when it is full has not taken the last, which were new: they stay as
    dear as they were.
    """
    epoch, least_s = len(took_s), max(matters_s, SHARE * saved_s)
    twice = [
        _seconds_from(session, number, 1) + _seconds_from(session, number, 1) for number in range(min(SOON, epoch))
    ]
    dropped = sum(two < CHEAPER * one and one - two > least_s for one, two in twice) >= min(LOST, epoch)
    new = min(epoch, _far(epoch) + PROBED)
    again = _seconds_from(session, new, epoch - new) if new < epoch else []
    # Half of what keeping a batch saves lies as far from one that was kept as from one that was not.
    refused = _mostly(one - two < saved_s / 2 < two for one, two in zip(took_s[new:], again, strict=True))
    return not dropped and not refused


def _far(epoch: int) -> int:
    """The first of the batches that are read twice: the first steps have not read them, unless the epoch is short."""
    return max(0, epoch - PROBED - min(NEW, epoch // 5))


def _mostly(votes: Iterable[bool]) -> bool:
    """Whether more are for than against: a busy machine may spoil one reading of a few."""
    given = list(votes)
    return 2 * sum(given) > len(given)


def _seconds_from(session: Session, number: int, batches: int, within_s: float = inf) -> list[float]:
    """What reading takes from one batch on, each by itself; nothing more is read once all took so long."""
    session.feed.order.go_to(number)
    took_s, spent_s = list[float](), 0.0
    while len(took_s) < batches and spent_s < within_s:
        took_s += agreed([timed(session.feed.fetch, 1, session.task.device)])
        spent_s += took_s[-1]
    return took_s


# What nobody can pause prepares batches while the arm stands still: a service, a thread of the data set. Steps find
# them ready, and how long one takes shows only where they are asked for one after another until none is left.

ASKED = 500  # batches at most, of which no helper has so many ready
READY = 4  # times sooner than the last ones comes what lies ready
LONGER = 4  # times as long at most, until two batches had to be waited for


def asked_rate(session: Session, step_s: float, seconds: float) -> float | None:
    """Samples a second of batches asked for one after another, once none is ready; None if that is little of a step.

    Those that lie ready come first and far sooner than the last ones, and do not count.
    """
    feed, device, each = session.feed, session.task.device, session.task.recipe.micro_batches
    before, spent_s, taken = feed.taken, 0.0, list[float]()
    while len(taken) < ASKED and (spent_s < seconds or (spent_s < LONGER * seconds and _waited_for(taken) < 2)):
        taken += agreed([timed(feed.fetch, 1, device)])
        spent_s += taken[-1]
    samples = feed.order.samples(before, feed.taken) / len(taken)  # of a batch
    feed.order.go_to(before)
    feed.taken = before
    late_s = late_of(taken)
    return samples / late_s if late_s and late_s * each > MATTERS * step_s else None


def _waited_for(taken: Sequence[float]) -> int:
    return sum(one >= max(taken) / READY for one in taken)


def late_of(taken: Sequence[float]) -> float | None:
    """What batches take that are not ready, of seconds in the order in which they came; None of a single one.

    Of many the lower of median and mean, without the first, which may have been half ready; of few the least.
    """
    first = next(place for place, one in enumerate(taken) if one >= min(taken[-2:]) / READY)
    late = taken[first:]
    if len(late) > GROUPS:
        return min(median(late[1:]), fmean(late[1:]))
    return min(late) if len(late) > 1 else None


def forget(opening: Opening, device: Device, *, judged: bool) -> None:
    """Gives back what only the evidence needed, on the device and on the host, so that peaks are the training's.

    The C library keeps what models of other seeds had taken between blocks that live on: a tenth of a process and more.
    """
    opening.batches.clear()
    # To look at every imported object takes a quarter of a second, and copies all pages that hold one. Where no losses
    # are judged, no arm has made models of other seeds, and a device's memory alone needs it.
    give_back(device, old=judged or device.peak_bytes() is not None)
