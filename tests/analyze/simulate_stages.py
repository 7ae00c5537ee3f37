"""How well the stage model does on simulated pipelines: python -m tests.analyze.simulate_stages [WORLDS [KIND...]]."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.search.prediction import INTERVAL, Validation, validate
from harness.analyze.search.shares import shapley
from harness.analyze.search.stage_model import Fitted, Signal, Stack, Study, fit
from harness.core.configuration import Comparison
from harness.plan.designs import Space, space_of, varied
from harness.plan.search import ROUNDS, LogTimes, every_stack, propose
from tests.analyze.worlds import CPU, GPU, NOTHING, PROFILED, World, study, world
from tests.pipelines import Array, Pipeline, drawn, on_cpu, with_large_effects, with_thieves

SEED = 20_261_121
MOST = 3000  # stacks over which errors are averaged; of more, so many are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one model did in one world. Errors and regrets are of ratios: 0.02 is 2 %."""

    runs: int
    error: float  # mean over all stacks
    first: float  # how much slower than the best the stack is that is predicted to be the fastest
    found: float  # the same for the fastest that was measured when the search ended
    further: int  # runs that the search took
    covered: float  # share of unmeasured stacks inside their 90 % intervals
    half_width: float
    validation: Validation
    shapley: float  # root mean square error of the model's shares, in log points
    midway: float  # the same for the mean of alone and last


def played(there: World, seen: Sequence[Signal], generator: np.random.Generator) -> Score:
    """Measures the design `matrix`, fits, predicts every stack, and measures what the search proposes."""
    comparisons = there.matrix
    known = study(there, comparisons, seen, generator)
    model = fit(known)
    # Nothing here excludes anything but what a space knows by itself, and composing every stack takes its time.
    space = replace(space_of(there.scope, varied(there.scope)), possible=lambda _: True)
    stacks = some(space, generator)
    truth, plain = there.log_times(stacks), there.log_times([()])[0]
    best = min(truth.min(), there.log_times([fastest(space, there.log_times)])[0])
    logs, deviations = model.log_ratios(there.arrangements(stacks), there.arrangements([()])[0])
    errors = logs - (plain - truth)
    measured = {one.options for one in known.arrangements}
    new = np.array([stack not in measured for stack in stacks])
    half_widths = stats.norm.ppf((1 + INTERVAL) / 2) * deviations
    found, further = searched(there, space, comparisons, known, seen)
    first = fastest(space, _forecast(there, model))
    truly = modelled(there, None)
    return Score(
        runs=len(measured),
        error=float(np.abs(np.expm1(errors)).mean()),
        first=float(np.expm1(there.log_times([first])[0] - best)),
        found=float(np.expm1(found - best)),
        further=further,
        covered=float((np.abs(errors) <= half_widths)[new].mean()),
        half_width=float(half_widths[new].mean()),
        validation=validate(known),
        shapley=deviation(modelled(there, model), truly),
        midway=deviation(between(there, known), truly),
    )


def some(space: Space, generator: np.random.Generator) -> list[Stack]:
    """All stacks, or so many drawn ones where there are too many."""
    if 2 ** len(space.levels) <= 2 * MOST:
        return list(every_stack(space))
    return list({space.drawn(generator) for _ in range(MOST)})


def fastest(space: Space, forecast: LogTimes) -> Stack:
    """The stack that a forecast takes for the fastest."""
    proposal = propose(space, {(): np.inf}, [forecast], np.random.default_rng(0))
    return min(((), proposal.stacks[0]), key=lambda stack: forecast([stack])[0])


def searched(
    there: World, space: Space, comparisons: Sequence[Comparison], known: Study, seen: Sequence[Signal]
) -> tuple[float, int]:
    """True log time of the fastest stack that was measured when the search ended, and the runs that it took."""
    generator = np.random.default_rng(1)
    like, further = comparisons[0], 0
    for rounds in range(ROUNDS + 1):
        models = [fit(known)]
        models.append(models[0].drawn(generator))
        forecasts = [_forecast(there, model) for model in models]
        times = measured_times(known)
        proposal = propose(space, times, forecasts, generator)
        if proposal.finished is not None or rounds >= ROUNDS:
            break
        configs = [replace(like.treatment, options=stack) for stack in proposal.stacks]
        more = study(there, [replace(like, treatment=config) for config in configs], seen, generator)
        known = replace(known, ratios=(*known.ratios, *more.ratios), sights=(*known.sights, *more.sights[1:]))
        further += len(configs)
    return float(there.log_times([min(times, key=lambda stack: times[stack])])[0]), further


def _forecast(there: World, model: Fitted) -> LogTimes:
    return lambda stacks: model.log_times(there.arrangements(list(stacks)))


def measured_times(known: Study) -> dict[Stack, float]:
    """Log times of all measured stacks, the first reference's being that of the study, along chains of ratios."""
    found = {known.ratios[0].reference.options: float(np.log(known.seconds))}
    for _ in range(3):
        for one in known.ratios:
            if one.reference.options in found:
                found.setdefault(one.treatment.options, found[one.reference.options] - one.log_ratio)
    return found


def modelled(there: World, model: Fitted | None) -> Array:
    """Shares by a model, or by the truth; among several levels of one optimization the first counts."""
    players = [levels[0] for levels in varied(there.scope)]
    forecast: Callable[[Sequence[Stack]], Array] = _forecast(there, model) if model else there.log_times
    needs = {name: one.requires for name, one in there.scope.known.items()}
    found, _ = shapley(players, lambda stacks: -forecast(stacks)[:, None], needs, np.random.default_rng(2))
    return found[:, 0]


def between(there: World, known: Study) -> Array:
    """The mean of what each gives alone and what it gives last, as measured."""
    whole, times = known.ratios[0].treatment.options, measured_times(known)
    found = []
    for levels in varied(there.scope):
        option = levels[0]
        alone = next(one for one in known.ratios if set(one.treatment.options) - set(one.reference.options) == {option})
        rest = [one for one in known.ratios if one.reference.options == whole and option not in one.treatment.options]
        last = times[min(rest, key=lambda one: -len(one.treatment.options)).treatment.options] - times[whole]
        found.append((alone.log_ratio + last) / 2)
    return np.array(found)


def deviation(ours: Array, theirs: Array) -> float:
    """Root mean square of the differences."""
    return float(np.sqrt(np.mean((ours - theirs) ** 2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One line of the table."""

    title: str
    draw: Callable[[np.random.Generator], Pipeline]
    seen: tuple[Signal, ...]


KINDS = (
    Kind(title="GPU, what records hold", draw=lambda generator: drawn(generator, 12), seen=GPU),
    Kind(title="GPU, as a profiler tells", draw=lambda generator: drawn(generator, 12), seen=PROFILED),
    Kind(title="GPU, ratios only", draw=lambda generator: drawn(generator, 12), seen=NOTHING),
    Kind(title="CPU, what records hold", draw=lambda generator: on_cpu(drawn(generator, 12)), seen=CPU),
    Kind(title="CPU, workers steal", draw=lambda generator: with_thieves(drawn(generator, 12), generator), seen=CPU),
    Kind(title="large effects", draw=lambda generator: with_large_effects(drawn(generator, 12), generator), seen=GPU),
    Kind(title="no wrong labels", draw=lambda generator: drawn(generator, 12, mislabelled=0.0), seen=GPU),
    Kind(title="40 % wrong labels", draw=lambda generator: drawn(generator, 12, mislabelled=0.4), seen=GPU),
    Kind(title="workers at 3 levels", draw=lambda generator: drawn(generator, 14, levels=3), seen=GPU),
    Kind(title="k = 8", draw=lambda generator: drawn(generator, 8), seen=GPU),
    Kind(title="k = 20", draw=lambda generator: drawn(generator, 20), seen=GPU),
)


def line(kind: Kind, worlds: int) -> str:
    """One line of the Markdown table."""
    scores = []
    for number in range(worlds):
        generator = np.random.default_rng([SEED, number])
        scores.append(played(world(kind.draw(generator)), kind.seen, generator))
    return f"| {kind.title} | {' | '.join(configs(scores))} |"


def configs(scores: Sequence[Score]) -> Iterator[str]:
    """What a line says, in per cent but for runs."""

    def of(name: str) -> Array:
        return 100 * np.array([getattr(one, name) for one in scores])

    passing = np.array([one.validation.failing is None for one in scores])
    error, covered = of("error"), of("covered")
    failed = f"{error[~passing].mean():.1f}" if not passing.all() else "none"
    yield f"{scores[0].runs} + {of('further').mean() / 100:.1f}"
    yield f"{error.mean():.2f} ({np.median(error):.2f}, {error.max():.1f})"
    yield f"{100 * (of('first') <= 2).mean():.0f} ({np.median(of('first')):.2f})"
    yield f"{100 * (of('found') <= 2).mean():.0f} ({np.median(of('found')):.2f}, {of('found').max():.1f})"
    yield f"{covered.mean():.0f} ({np.quantile(covered, 0.1):.0f}) ±{of('half_width').mean():.1f}"
    yield f"{100 * passing.mean():.0f} ({error[passing].mean():.1f}, {failed})"
    yield f"{np.median(of('shapley')):.2f}, {np.median(of('midway')):.2f}"


HEADER = ("| worlds | runs | error | first | found | inside 90 % | gate | shares |", "|---" * 8 + "|")


def main(worlds: int, titles: Sequence[str]) -> None:
    """Prints a Markdown table, a line for each kind of world."""
    sys.stdout.write("\n".join(HEADER) + "\n")
    for kind in KINDS:
        if not titles or kind.title in titles:
            sys.stdout.write(line(kind, worlds) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, sys.argv[2:])
