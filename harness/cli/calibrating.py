"""`calibrate`: measures what this machine can tell, and prints what came of it."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness.analyze.calibrating import calibrate
from harness.analyze.calibration import Calibration
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.measuring import Place, measure
from harness.cli.naming import protocol_named, usual_size
from harness.cli.planning import Wish
from harness.cli.reporting import console
from harness.cli.shelf import decides
from harness.core.mistake import Mistake
from harness.measure.surroundings import read_environment
from harness.report.calibration import HEADINGS, controls, facts
from harness.store import IN_PROGRESS, read_records, read_run

TARGET = "2%"  # a delay of 3 % can be told from nothing by intervals of such a width, and not by much wider ones


def measure_and_show(wish: Wish, place: Place) -> int:
    """Calibrates this machine; gives 0, or 1 when it failed, or what `run` gives when it was stopped."""
    return measure(replace(wish, workloads=wish.workloads or _quick_ones(wish)), place, show)


def _quick_ones(wish: Wish) -> tuple[str, ...]:
    """Workloads whose steps are short beside a window: in the same time they show more pairs."""
    catalogue, protocol = read_catalogue(wish.own), protocol_named(wish.protocol)
    if catalogue.own:
        return (catalogue.own,)
    size = wish.size or usual_size(read_environment(wish.device))
    found = tuple(name for name, step_s in _step_s(catalogue, size) if not protocol.is_slow(step_s))
    if not found:
        raise Mistake(
            f"Every workload's step is slow at size {size}; name those that are to calibrate, or --size quick."
        )
    return found


def _step_s(catalogue: Catalogue, size: str) -> list[tuple[str, float]]:
    return [(name, one.sizes[size].step_s) for name, one in sorted(catalogue.workloads.items()) if size in one.sizes]


def show(folder: Path) -> int:
    """Prints what a run of the design `calibration` says of its machine; gives 1 where it failed."""
    run = read_run(folder)
    found, where = calibrate(run.plan, read_records(folder)), console()
    print_calibration(found, where)
    if (folder / IN_PROGRESS).exists():
        where.print(f"Not finished, so nothing rests on it yet: the same command continues {folder}.", highlight=False)
        return 0 if found.copies else 1
    rests = (
        "every report of this machine and environment rests on it" if decides(run) else "too small to decide anything"
    )
    where.print(f"Kept in {folder}; {rests}.", highlight=False)
    return 0 if found.passed else 1


def print_calibration(found: Calibration, where: Console) -> None:
    """The header's sentence, the controls and what else is known of the machine."""
    table = Table(*HEADINGS, title="Are delays found that were put in?", title_justify="left")
    for row in controls(found):
        table.add_row(*row)
    where.print(table)
    for sentence in facts(found):
        where.print(sentence, highlight=False, markup=False)
    where.print(f"{found.sentence}.", highlight=False, markup=False, style="bold")
