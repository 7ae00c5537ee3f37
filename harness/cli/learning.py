"""`learn`, `trace`, `timeline`: a configuration trained in its own process, for what it learns or where time goes."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich import progress as bars
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.quality import agreement, fell, findings, is_clear
from harness.analyze.race import Heat, Race, sooner
from harness.analyze.rates import FEWEST_STEPS
from harness.api import written
from harness.catalogue import read_catalogue
from harness.cli.measuring import Terminal
from harness.core.codec import encode
from harness.core.configuration import (
    Comparison,
    Configuration,
    ConfigurationRequest,
    Conflict,
    at_hand,
    compose,
    parse_config,
    unmet,
)
from harness.core.emulation import without_time
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.own_file import parse_address
from harness.core.plan import Block, Plan
from harness.core.protocol import BRIEF
from harness.core.workload import Goal, Learned, Lesson, Ranged, Timeline, Traced, Trained
from harness.measure.surroundings import read_environment
from harness.plan.planning import Context, reference_request
from harness.report import rates as ranged
from harness.report.document import to_terminal
from harness.report.race import race_parts
from harness.report.timeline import figure, lines, summary
from harness.report.words import duration, one_line, size
from harness.results import LEARNED
from harness.run.arm import Job
from harness.run.preparation import (
    Prepared,
    adopted,
    described,
    job_of,
    measuring_alone,
    roots,
    seconds_of,
    served_in,
)
from harness.run.sentinel import Sentinel
from harness.run.worker import Assigned, Assignment, Given, Untrained, give
from harness.store import replace_file

# `learn`: trains a configuration from its first weights and tells whether it learns and whether its evaluation holds.

SEEDS = 5  # of a time to a score or a range of learning rates, where nobody says


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What is to be trained, as it was typed."""

    what: str
    steps: int | None
    seed: int
    device: str
    own: Path | None
    data: Path | None
    data_roots: tuple[str, ...]
    scheduled: bool = False


def trained_as_asked(
    asked: Exercise,
    *,
    until: float | None,
    against: str | None,
    rates: str | None,
    seeds: int | None,
    output: Path | None,
    results: Path,
) -> int:
    """A lesson, a time to a score or a range of learning rates; raises Mistake for options of one beside another."""
    if until is None and against is not None:
        raise Mistake("--against is what a time to a score is compared with; add --until SCORE.")
    if rates is not None and (asked.scheduled or until is not None):
        raise Mistake("--range moves the learning rate itself; leave --schedule and --until out.")
    if rates is None and output:
        raise Mistake("--output draws a range of learning rates; add --range LOW:HIGH.")
    if rates is not None:
        return range_test(asked, rates, seeds or SEEDS, output)
    if until is not None:
        return race(asked, against or "baseline", until, seeds or SEEDS, results)
    if seeds:
        raise Mistake("One lesson has one seed, --seed; --seeds goes with --until or --range.")
    return learn(asked)


def learn(asked: Exercise) -> int:
    """Trains and prints; gives 0 when the lesson was learned and the evaluation holds, else 1."""
    environment, console = _real(asked.device), Console(highlight=False)
    request, lesson = _lesson(asked)
    with measuring_alone():
        job, ready = _exercised(asked, request, environment, console)
        task = Assigned(asked.steps or lesson.steps, scheduled=asked.scheduled)
        learned = _given((_of_lesson(job, ready, lesson), ready), task, console)
    assert isinstance(learned, Learned)  # noqa: S101  no trace was asked for
    return _print(job.config, learned, lesson, console)


def _lesson(asked: Exercise) -> tuple[ConfigurationRequest, Lesson]:
    """What is trained, at the batch that its lesson needs; raises Mistake where the workload states none."""
    request = parse_config(asked.what)
    lesson = read_catalogue(asked.own).workload(request.workload).lesson
    if lesson is None:
        raise Mistake(
            f"{request.workload} tells no score; give speedmatrix.job(score=...) a function of the model, or a "
            "Workload its `lesson` with steps, chance and clear."
        )
    return replace(request, batch=request.batch or lesson.batch), lesson


def _of_lesson(job: Job, ready: Prepared, lesson: Lesson) -> Job:
    """The job with the samples of its lesson's epoch, whatever its batch; as it is where one batch takes more."""
    usual = ready.catalogue.workload(job.config.workload).sizes[job.config.size]
    steps = (lesson.epoch_steps or 0) * (lesson.batch or usual.batch) // job.size.batch
    return replace(job, size=replace(job.size, epoch_steps=steps, passes=1)) if steps else job


# `learn --until`: how long two trainings take to the same score.

LOOKS, MOST = 50, 4  # evaluations in the steps of a lesson; times those steps before a training is given up


def race(asked: Exercise, against: str, until: float, seeds: int, results: Path) -> int:
    """Trains a configuration and another until both have a score, from several seeds; keeps and prints what came of it.

    Gives 0 where there is an interval, 130 where it was stopped, else 1.
    """
    environment, console = _real(asked.device), Console(highlight=False)
    if not math.isfinite(until):
        raise Mistake(f"{until} is no score that anything reaches; give --until a number.")
    request, lesson = _lesson(asked)
    folder = _writable(results / environment.machine / LEARNED)
    goal = Goal(score=until, better=lesson.better, every=max(1, lesson.steps // LOOKS))
    task = Assigned(asked.steps or MOST * lesson.steps, goal=goal, scheduled=asked.scheduled)
    began = datetime.now(UTC).isoformat(timespec="seconds")
    with measuring_alone():
        context, real = _context(asked, request, environment)
        config, reference, names = _pair(request, against, context)
        jobs, ready = _jobs(asked, (context, real), (config, reference), console)
        made = Race(
            version=__version__, began=began, environment=environment, workload=config.workload, size=config.size,
            batch=config.batch, treatment=config.stack or "baseline", reference=reference.stack or "baseline",
            goal=goal, steps=task.steps, heats=(), names=names, scheduled=asked.scheduled, seeds=seeds,
            score=ready.catalogue.workload(config.workload).score, data=_data_of(ready, config),
        )  # fmt: skip
        path = folder / made.file_name
        try:
            for heat in _heats((jobs, ready), lesson, range(asked.seed, asked.seed + seeds), task, console):
                made = replace(made, heats=(*made.heats, heat))
                text = json.dumps(encode(made), indent=1) + "\n"
                replace_file(path, text.encode(), ANOTHER)  # an interruption keeps what was trained
                console.print(_heat(heat), markup=False)
        except KeyboardInterrupt:
            kept = f"what was trained is kept in {path}" if made.heats else "nothing is kept"
            sys.stderr.write(f"Stopped after {len(made.heats)} of {seeds} seeds; {kept}.\n")
            return 130
    console.print(to_terminal(race_parts([made]), width=console.width, colour=console.is_terminal), markup=False)
    console.print(f"Kept in {path}.", markup=False)
    return 0 if sooner(made) else 1


def _pair(
    request: ConfigurationRequest, against: str, context: Context
) -> tuple[Configuration, Configuration, tuple[str, str]]:
    """Two configurations with as many samples for each update, and what they are called; raises Mistake."""
    below = reference_request(against, request.workload, request.size, request.batch)
    config, usual = context.config(request), context.config(below)
    try:
        reference = context.at_equal_samples(config, usual)
    except Conflict as conflict:
        raise Mistake(
            f"{config} cannot be held against {usual}: {conflict}; name another with --against."
        ) from conflict
    if config == reference:
        raise Mistake(f"{config} is what it is to be held against; name another with --against.")
    size = context.catalogue.workload(config.workload).sizes[config.size]
    if size.draw is None and not size.all_items:  # else all of them were read when it was first looked at
        raise Mistake(
            f"{config.workload} keeps what it reads where other processes find it, as on the disk, so that its first "
            "training alone would read all items; leave that cache out of its data set."
        )
    added = (str(one) for one in reference.options if one not in usual.options)
    return config, reference, ("+".join(request.names) or "baseline", "+".join((*below.names, *added)) or "baseline")


def _data_of(ready: Prepared, config: Configuration) -> str:
    """What real data are trained on, or whose code trains; empty for the suite's own."""
    workload, real = ready.catalogue.workload(config.workload), ready.real_data.get(config.workload)
    found = [described(workload.sizes[config.size], real)] if real else []
    if workload.source:
        found.append(workload.source)
    elif workload.path:
        found.append(f"own workload, {parse_address(workload.path).path.name} {ready.code()}")
    return "; ".join(found)


def _heats(
    made: tuple[tuple[Job, ...], Prepared], lesson: Lesson, seeds: range, task: Assigned, console: Console
) -> Iterator[Heat]:
    """Both trainings of each seed, which take turns in going first. One that fails has not reached the goal.

    Raises Mistake where what was asked for cannot be, which the first seed shows.
    """
    jobs, ready = made
    for number, seed in enumerate(seeds):
        places, found = ((0, 1) if number % 2 == 0 else (1, 0)), dict[int, Trained]()
        for place in places:
            found[place] = _raced((jobs[place], ready), lesson, seed, task, console, strict=number == 0)
        # In a new process, beside a new server; and both, since evaluations in between change what a step takes.
        again = places if any(one.again for one in found.values()) else ()
        for place in (one for one in again if found[one].scores):
            anew = replace(task, before=found[place])
            found[place] = _raced((jobs[place], ready), lesson, seed, anew, console, strict=number == 0)
        yield Heat(seed=seed, treatment=found[0], reference=found[1])


def _raced(
    made: tuple[Job, Prepared], lesson: Lesson, seed: int, task: Assigned, console: Console, *, strict: bool
) -> Trained:
    """One training of a heat, or why it failed; where it is `strict`, raises Mistake for what cannot be asked for."""
    try:
        return _trained(made, lesson, seed, task, console)
    except Mistake as failure:
        if strict and not isinstance(failure, Untrained):
            raise
        return Trained(scores=(), reached=False, inactive=(), failed=one_line(str(failure)).rstrip("."))


# `learn --range`: at which learning rates a configuration learns.


def range_test(asked: Exercise, rates: str, seeds: int, output: Path | None) -> int:
    """Trains under a learning rate that grows with every step and prints what that shows; gives 0."""
    low, high = _rates_of(rates)
    if output:
        _check_output(output, "Losses cannot be drawn in", ".svg")
    environment, console = _real(asked.device), Console(highlight=False)
    request, lesson = _lesson(asked)
    steps = asked.steps or lesson.steps
    if steps < FEWEST_STEPS:
        raise Mistake(f"{steps} steps are too few for a range of learning rates; take at least {FEWEST_STEPS}.")
    with measuring_alone():
        job, ready = _exercised(asked, request, environment, console)
        job = _of_lesson(job, ready, lesson)
        task = Assigned(steps, rates=(low, high))
        tests = [
            _given((replace(job, seed=seed), ready), task, console) for seed in range(asked.seed, asked.seed + seeds)
        ]
    done = [one for one in tests if isinstance(one, Ranged)]
    if wrong := next((one.inactive for one in done if one.inactive), ()):
        raise Mistake(f"{job.config} did not take effect: {'; '.join(wrong)}; its losses prove nothing.")
    title = f"{job.config}: loss under a growing learning rate, {seeds} seeds of {steps} steps"
    console.print("\n".join((title, *ranged.sentences(done))), markup=False, soft_wrap=True)
    if output:
        replace_file(output, ranged.figure(title, done).encode(), ANOTHER_FILE)
        console.print(f"Drawn in {output}.", markup=False)
    return 0


def _rates_of(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = 0.0
    if not 0 < low < high < math.inf:
        raise Mistake(f"{text} is no range of learning rates; write the least and the greatest, such as 1e-5:1.")
    return low, high


def _trained(made: tuple[Job, Prepared], lesson: Lesson, seed: int, task: Assigned, console: Console) -> Trained:
    job, ready = made
    job = replace(_of_lesson(job, ready, lesson), seed=seed)
    found = _given((job, ready), task, console)
    assert isinstance(found, Trained)  # noqa: S101  a goal was given
    if found.inactive:
        raise Mistake(f"{job.config} did not take effect: {'; '.join(found.inactive)}; its training proves nothing.")
    return found


def _heat(heat: Heat) -> str:
    words = (
        f"{name} {_ended(one)}" for name, one in (("the configuration", heat.treatment), ("the other", heat.reference))
    )
    return f"seed {heat.seed}: {'; '.join(words)}"


def _ended(one: Trained) -> str:
    if one.failed is not None:
        return f"failed ({one.failed})"
    if not one.scores:
        return "was never looked at"
    (steps, seconds, _), start_s = one.scores[-1], one.start_s or 0.0
    reached = "reached it" if one.reached else "did not reach it"
    return f"{reached} in {steps} steps, {duration(seconds)} after {duration(start_s)} of start-up"


ANOTHER, ANOTHER_FILE = "choose another folder with --results", "choose another file with --output"


def _writable(folder: Path) -> Path:
    """The folder, made if need be; raises Mistake where nothing could be kept in it, before anything is trained."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Cannot write to {folder} ({error.strerror}); {ANOTHER}.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Mistake(f"Cannot write to {folder} (no permission); {ANOTHER}.")
    return folder


def _check_output(output: Path, words: str, *endings: str) -> None:
    """Raises Mistake where nothing could be written to a file, before anything is trained."""
    folder = output.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or not output.name.endswith(endings):
        kind = f"an {endings[0]}" if len(endings) == 1 else f"a {' or '.join(endings)}"
        raise Mistake(f"{words} {output}; name {kind} file in a folder that exists and is writable.")


def _real(device: str) -> Environment:
    environment = read_environment(device)
    if environment.emulated:
        raise Mistake("An emulated device leaves the model out, so that nothing is learned on it; take --device cpu.")
    return environment


def _exercised(
    asked: Exercise, request: ConfigurationRequest, environment: Environment, console: Console
) -> tuple[Job, Prepared]:
    """The job, and the plan of its one arm; files are written first."""
    context, real = _context(asked, request, environment)
    config = context.config(request)
    (job, _), ready = _jobs(asked, (context, real), (config, config), console)
    return job, ready


def _context(
    asked: Exercise, request: ConfigurationRequest, environment: Environment
) -> tuple[Context, Mapping[str, Path]]:
    """What names mean here, and the folder of real data, if they were given."""
    catalogue = read_catalogue(asked.own)
    real = roots(asked.data_roots, catalogue, (request.workload,))
    catalogue = adopted(catalogue, real, request.size)
    return Context(catalogue=catalogue, environment=environment, protocol=BRIEF), real


def _jobs(
    asked: Exercise,
    found: tuple[Context, Mapping[str, Path]],
    arms: tuple[Configuration, Configuration],
    console: Console,
) -> tuple[tuple[Job, Job], Prepared]:
    """Those of a configuration and its reference, both with the same epoch, and their plan; files are written first."""
    (context, real), (config, reference) = found, arms
    both = Comparison(label="itself", treatment=config, reference=reference, timing=Timing.STEP)
    block = Block(identity="itself", reference=reference, timing=Timing.STEP, comparisons=(both,))
    plan = Plan(design="alone", seed=asked.seed, protocol=BRIEF, blocks=(block,), no_results=(), names={}, promises={})
    ready = Prepared(catalogue=context.catalogue, environment=context.environment, plan=plan, real_data=real)
    for one in dict.fromkeys(arms):
        _check(one, ready)
    data = written(ready, asked.data, Terminal(console))
    treatment, baseline = (job_of(ready, data, block, replicate=0, position=position) for position in (1, 0))
    return (treatment, baseline), ready


def _check(config: Configuration, ready: Prepared) -> None:
    """Raises Mistake for a configuration that cannot be tried here."""
    environment, workload, known = ready.environment, ready.catalogue.workload(config.workload), ready.catalogue.known
    tried = at_hand(workload, config, known)
    for option in config.options:
        if reason := unmet(known[option.name], environment, tried, option.level):
            raise Mistake(f"{option} cannot be tried here: {reason}.")
    try:
        recipe = ready.recipe(config)
    except Conflict as conflict:
        raise Mistake(f"The configuration {config} is impossible: {conflict}.") from conflict
    size = workload.at(config.size, config.batch)
    if environment.emulated and (reason := without_time(environment.device, workload, config.size, size, recipe)):
        raise Mistake(f"{config} cannot be tried here: {reason}.")


TRACED_STEPS = 5
SHORTEST_S, LONGEST_S = 2, 600  # of a timeline


def trace(asked: Exercise, output: Path) -> int:
    """Profiles a few steps of a configuration, writes the trace and prints where their time goes; gives 0."""
    _check_output(output, "A trace cannot be written to", ".json", ".json.gz")
    environment, console = _real(asked.device), Console(highlight=False)
    with measuring_alone():
        job, ready = _exercised(asked, parse_config(asked.what), environment, console)
        traced = _given((job, ready), Assigned(asked.steps or TRACED_STEPS, str(output.resolve())), console)
    assert isinstance(traced, Traced)  # noqa: S101  a trace was asked for
    if traced.inactive:
        raise Mistake(f"{job.config} did not take effect: {'; '.join(traced.inactive)}; nothing was traced of it.")
    clock = "device" if environment.accelerated else "host"
    title = (
        f"{job.config}: {duration(traced.step_s)} a step under the profiler, {100 * traced.waited:.0f} % for a batch"
    )
    table = Table("operator", "calls a step", f"{clock}'s own time a step", "share", title=title, title_justify="left")
    for name, count, seconds in traced.operators:
        table.add_row(name, f"{count:,}", duration(seconds), f"{100 * seconds / traced.step_s:.0f} %")
    console.print(table)
    kinds = ", ".join(f"{name} {size(count)}" for name, count in traced.memory.items())
    console.print(f"Memory of a step: {kinds}.")
    console.print(f"The profiler slows steps down: for how long they take, use run. {output} opens in ui.perfetto.dev.")
    return 0


def timeline(asked: Exercise, over: str, output: Path | None) -> int:
    """Trains for so long, prints how busy the device was over time and draws it where that is asked for; gives 0."""
    seconds = seconds_of(over)
    if seconds is None or not SHORTEST_S <= seconds <= LONGEST_S:
        raise Mistake(f"A timeline cannot be {over} long; name a time from {SHORTEST_S} s to {LONGEST_S // 60} min.")
    if output:
        _check_output(output, "A timeline cannot be drawn in", ".svg")
    environment, console = read_environment(asked.device), Console(highlight=False)
    with measuring_alone():
        job, ready = _exercised(asked, parse_config(asked.what), environment, console)
        found = _given((job, ready), Assigned(0, over_s=seconds), console)
    assert isinstance(found, Timeline)  # noqa: S101  one was asked for
    if found.inactive:
        raise Mistake(f"{job.config} did not take effect: {'; '.join(found.inactive)}; its timeline tells nothing.")
    title = f"{job.config} on {environment.accelerator or environment.cpu}"
    for line in (title, *lines(found), summary(found)):
        console.print(line, markup=False)
    if output:
        replace_file(output, figure(title, found).encode(), ANOTHER_FILE)
        console.print(f"Drawn in {output}.", markup=False)
    return 0


def _given(made: tuple[Job, Prepared], task: Assigned, console: Console) -> Given:
    job, ready = made
    known = ready.catalogue.known
    trained = [one for one in job.config.options if known[one.name].timed_on is not Timing.EVALUATION]
    slow = compose(ready.catalogue.workload(job.config.workload), trained, known)
    sentinel = Sentinel()
    data = {(job.config.workload, job.config.size): Path(job.data)}
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    try:
        with (
            next((one for _, one in served_in(ready, data, sentinel)), nullcontext()) as address,
            bars.Progress(
                *columns, bars.TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
            ) as progress,
        ):
            word = "watching" if task.over_s else "tracing" if task.trace else "learning"
            bar = progress.add_task(word, total=task.steps if word == "learning" else None)

            def show(step: int, loss: float) -> None:
                progress.update(bar, completed=step, description=f"learning, loss {loss:.3g}")

            return give(Assignment(job=replace(job, service=address), slow=slow, assigned=task), sentinel, show)
    finally:
        sentinel.close()


def _print(config: Configuration, learned: Learned, lesson: Lesson, console: Console) -> int:
    first, last = fell(learned.losses)
    table = Table(title=f"What {config} learned", title_justify="left", show_header=False)
    table.add_row("steps", f"{len(learned.losses):,} in {learned.train_s:.0f} s")
    table.add_row("loss, first and last tenth", f"{first:.4g}, {last:.4g}")
    over = f", over {learned.evaluation.items:,} items" if learned.evaluation.items else ""
    table.add_row("score", f"{learned.evaluation.score:.4g}{over}")
    for name, value in learned.evaluation.scores.items():
        table.add_row(name, f"{value:.4g}")
    if lesson.clear is not None:
        table.add_row("chance, and what is clear", f"{lesson.chance:g}, {lesson.clear:g} or {lesson.better}")
    console.print(table)
    wrong = findings(learned, lesson)
    for finding in wrong:
        console.print(f"[red]{finding.word}[/red]: {finding.sentence}.")
    if not wrong and is_clear(learned.evaluation.score, lesson):
        console.print(f"Learned: clearly better than chance. {agreement(learned)}.")
    return int(bool(wrong))
