"""`compare`: the same cells of several machines or environments, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.analyze.comparison import Comparison, compare
from harness.analyze.costs import NO_PRICES, Prices, parse_prices
from harness.analyze.limits import Known, parse_limits
from harness.analyze.places import Place, of_machines, of_runs
from harness.catalogue import read_catalogue
from harness.cli.reporting import console, deliver
from harness.cli.shelf import finished, read_kept, shelf
from harness.core.mistake import Mistake
from harness.report.comparison import to_json, to_markdown, to_terminal

PRICES = "prices.toml"  # below the results, where somebody keeps one
LIMITS = Path(harness.__file__).parent / "limits.toml"
FORMS = ("terminal", "markdown", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is compared: some runs, or all machines below a folder of results."""

    runs: tuple[Path, ...]
    machines: bool
    prices: Path | None
    results: Path


def show_comparison(wanted: Wanted, form: str, output: Path | None) -> None:
    """Shows or writes a comparison in the form asked for; raises Mistake where there is nothing to compare."""
    if form not in FORMS:
        raise Mistake(f"There is no format '{form}'; choose terminal, markdown or json.")
    places, prices = _places(wanted), _prices(wanted)  # what the user named is refused before anything is computed
    deliver(_rendered(compare(places, _known(), prices), form), output)


def _places(wanted: Wanted) -> tuple[Place, ...]:
    if wanted.machines and wanted.runs:
        raise Mistake("Name runs, or compare --machines; both together would show some runs twice.")
    if wanted.machines:
        folders = finished(wanted.results)
        if not folders:
            raise Mistake(f"There is no finished run in {wanted.results}; ./speedmatrix run measures one.")
        return of_machines(shelf(folders))
    if not wanted.runs:
        raise Mistake("Name the folders of two runs or more, or compare --machines for all below --results.")
    return of_runs([read_kept(folder) for folder in wanted.runs])


def _prices(wanted: Wanted) -> Prices:
    path = wanted.prices or wanted.results / PRICES
    if wanted.prices is None and not path.exists():
        return NO_PRICES
    return parse_prices(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} cannot be read ({error}); name a file of prices with --prices.") from error


def _known() -> Known:
    work: Mapping[tuple[str, str], int] = {
        (name, size): count
        for name, workload in read_catalogue().workloads.items()
        for size, count in workload.operations.items()
    }
    return Known(limits=parse_limits(LIMITS.read_text(encoding="utf-8"), LIMITS.name), work=work)


def _rendered(comparison: Comparison, form: str) -> str:
    if form == "terminal":
        where = console()
        return to_terminal(comparison, width=where.width, colour=where.is_terminal)
    return to_markdown(comparison) if form == "markdown" else to_json(comparison)
