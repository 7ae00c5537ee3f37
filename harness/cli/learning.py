"""`learn`: trains a cell from its first weights and tells whether it learns and whether its evaluation holds."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich import progress as bars
from rich.console import Console
from rich.table import Table

from harness.analyze.lesson import fell, findings, is_clear
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.naming import Context
from harness.cli.progress import preparing
from harness.cli.real_data import adopted, roots
from harness.core.cell import Cell, parse_cell
from harness.core.compose import Conflict, compose, expected, unmet
from harness.core.environment import Environment
from harness.core.lesson import Learned
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.workload import Lesson, Size, Workload
from harness.measure.surroundings import read_environment
from harness.run.job import Job
from harness.run.lesson import Assignment, give
from harness.run.lock import measuring_alone
from harness.run.prepare import data_root, ensure_data
from harness.run.sentinel import Sentinel
from harness.run.services import serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What the user asked for."""

    cell: str
    steps: int | None
    seed: int
    device: str
    own: Path | None
    data: Path | None
    data_roots: tuple[str, ...]


def learn(course: Course) -> int:
    """Trains and prints; gives 0 when the lesson was learned and the evaluation holds, else 1."""
    catalogue, environment = read_catalogue(course.own), read_environment(course.device)
    request = parse_cell(course.cell)
    real = roots(course.data_roots, catalogue, (request.workload,))
    catalogue = adopted(catalogue, real, request.size)
    workload = catalogue.workload(request.workload)
    lesson = workload.lesson
    if lesson is None:
        raise Mistake(f"{workload.name} states no lesson; give its Workload a `lesson` with steps, chance and clear.")
    if lesson.batch and request.batch is None:
        request = replace(request, batch=lesson.batch)
    cell = Context(catalogue=catalogue, environment=environment, protocol=BRIEF).cell(request)
    console = Console(highlight=False)
    with measuring_alone():
        with preparing(f"{cell.workload}: writing its files", console) as show:
            folder = real.get(cell.workload) or ensure_data(data_root(course.data), workload, cell.size, show)
        job = _job(cell, catalogue, environment, folder, course.seed)
        job = replace(job, size=_for_learning(job.size, lesson))
        learned = _given(job, workload, catalogue, course.steps or lesson.steps, console)
    return _print(cell, learned, lesson, console)


def _job(cell: Cell, catalogue: Catalogue, environment: Environment, folder: Path, seed: int) -> Job:
    workload, known = catalogue.workload(cell.workload), catalogue.known
    for switch in cell.switches:
        if reason := unmet(known[switch.name], environment, workload, switch.level):
            raise Mistake(f"{switch} cannot be tried here: {reason}.")
    try:
        recipe = compose(workload, cell.switches, known)
    except Conflict as conflict:
        raise Mistake(f"The cell {cell} is impossible: {conflict}.") from conflict
    trained = [one for one in cell.switches if known[one.name].timed_on is not Timing.EVALUATION]
    return Job(
        cell=cell,
        size=workload.at(cell.size, cell.batch),
        recipe=recipe,
        proof={name: value for one in trained for name, value in expected(known[one.name], one.level).items()},
        timing=Timing.STEP,
        protocol=BRIEF,
        data=str(folder),
        device=environment.device,
        seed=seed,
        is_reference=False,
        workload_path=workload.path,
        service=None,
    )


def _for_learning(size: Size, lesson: Lesson) -> Size:
    return replace(size, epoch_steps=lesson.epoch_steps or size.epoch_steps)


def _given(job: Job, workload: Workload, catalogue: Catalogue, steps: int, console: Console) -> Learned:
    trained = [one for one in job.cell.switches if catalogue.known[one.name].timed_on is not Timing.EVALUATION]
    slow = compose(workload, trained, catalogue.known)
    sentinel = Sentinel()
    service = workload.service if workload.service and workload.service.wanted(job.recipe) else None
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    try:
        with (
            serving(service, Path(job.data), sentinel) if service else nullcontext() as address,
            bars.Progress(
                *columns, bars.TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
            ) as progress,
        ):
            task = progress.add_task("learning", total=steps)

            def show(step: int, loss: float) -> None:
                progress.update(task, completed=step, description=f"learning, loss {loss:.3g}")

            return give(Assignment(job=replace(job, service=address), slow=slow, steps=steps), sentinel, show)
    finally:
        sentinel.close()


def _print(cell: Cell, learned: Learned, lesson: Lesson, console: Console) -> int:
    first, last = fell(learned.losses)
    table = Table(title=f"What {cell} learned", title_justify="left", show_header=False)
    table.add_row("steps", f"{len(learned.losses):,} in {learned.train_s:.0f} s")
    table.add_row("loss, first and last tenth", f"{first:.4g}, {last:.4g}")
    table.add_row("score", f"{learned.evaluation.score:.4g}, over {learned.evaluation.items:,} items")
    table.add_row("chance, and what is clear", f"{lesson.chance:g}, {lesson.clear:g} or {lesson.better}")
    console.print(table)
    wrong = findings(learned, lesson)
    for finding in wrong:
        console.print(f"[red]{finding.word}[/red]: {finding.sentence}.")
    if not wrong and is_clear(learned.evaluation.score, lesson):
        console.print(
            "Learned: clearly better than chance, and the evaluation gives every item the same answer thrice."
        )
    return int(bool(wrong))
