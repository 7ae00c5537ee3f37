"""`rehearse`: the whole pipeline on invented times, and whether it recovers the effects that were put in."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness import __version__
from harness.analyze.composition import precisions
from harness.analyze.matrix import Matrix
from harness.cli.measuring import Progress
from harness.cli.reading import console
from harness.core.mistake import Mistake
from harness.core.plan import Block, Request
from harness.report.document import show
from harness.report.matrix import matrix_parts
from harness.results import matrix_of
from harness.run.execution import Campaign
from harness.run.preparation import Prepared, prepared
from harness.search import predictions
from harness.store import Journal, Run, create, finish


def refuse_mixture(of_a_plan: Mapping[str, object], of_coverage: Mapping[str, object], *, coverage: bool) -> None:
    """Raises Mistake for an option that says nothing about what is rehearsed: a plan, or coverage."""
    if coverage:
        for name in (name for name, given in of_a_plan.items() if given):
            raise Mistake(f"--coverage hides ratios of its own in plans of its own; leave out {name}.")
    elif unmeant := [name for name, given in of_coverage.items() if given]:
        raise Mistake(f"{unmeant[0]} is for rehearse --coverage; add --coverage, or leave it out.")


def show_rehearsal(request: Request, effects: tuple[str, ...], results: Path | None) -> None:
    """Rehearses a request and prints the matrix beside the truth."""
    known = Effects(dict(_effect(text) for text in effects))
    ready = prepared(request)
    for name in known.named:
        ready.catalogue.optimization(name)  # refuses a name that would silently be without effect
    with tempfile.TemporaryDirectory() as scratch:
        folder = rehearse(ready, known, results or Path(scratch))
        matrix = matrix_of(folder)
        show(matrix_parts(matrix, "speedmatrix rehearse", predictions(matrix, ready.catalogue)), console())
    _print_truth(matrix, known)


def rehearse(ready: Prepared, effects: Effects, results: Path) -> Path:
    """Runs a plan on invented times; gives the folder of the run."""
    environment = replace(ready.environment, device="cpu", accelerator="rehearsal")
    run = Run(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        command="speedmatrix rehearse",
        rehearsed=True,
        environment=environment,
        plan=ready.plan,
    )
    folder = create(results, run)
    clock, random, journal = VirtualClock(), Random(ready.plan.seed), Journal(folder)

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return RehearsedArm(
            config=config, timing=block.timing, effects=effects, clock=clock, random=Random(random.random())
        )

    Campaign(
        plan=ready.plan,
        records=[],
        start=start,
        append=journal.append,
        watcher=Progress(ready.plan, Console(quiet=True)),
        clock=clock,
        precisions=precisions,
    ).run()
    journal.close()
    finish(folder)
    return folder


def _effect(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"(\w+)=([0-9]+(?:\.[0-9]+)?)", text)
    if not match or not float(match[2]):
        raise Mistake(f"'{text}' is not an effect; write NAME=TIMES, for example workers=1.8.")
    return match[1], float(match[2])


def _print_truth(matrix: Matrix, effects: Effects) -> None:
    table = Table("cell", "true ratio", "interval", "covered", title="Were the known effects recovered?")
    covered = 0
    for row in matrix.every_row:
        if row.estimate is None:
            continue
        truth = effects.speedup(row.comparison.treatment, row.comparison.reference)
        inside = row.estimate.low <= truth <= row.estimate.high
        covered += inside
        interval = f"[{row.estimate.low:.3f}, {row.estimate.high:.3f}]"
        table.add_row(
            f"{row.comparison.treatment.workload}: {row.label}", f"{truth:.3f}", interval, "yes" if inside else "no"
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"{covered} of {matrix.looked_at} intervals cover the truth; 95 % should.")
