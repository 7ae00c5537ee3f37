"""Closing: a campaign's runs end with what they have, so that they are published; holes say what is missing."""

from collections.abc import Container, Iterator
from pathlib import Path

from harness.analyze.calibration import DESIGN
from harness.analyze.winner import SEARCH, WINNER
from harness.cli.shelf import ORIGIN
from harness.store import IN_PROGRESS, MEASUREMENTS, read_run


def closable(machine: Path, runs: Container[str]) -> Iterator[Path]:
    """Unfinished runs that say something when they are cut short, among those of the campaign.

    A calibration does not: with fewer copies than can tell, nothing may rest on it. Later runs of a search are known
    by their design, since a search that was killed has named none of them.
    """
    for path in sorted(machine.glob(f"*/{IN_PROGRESS}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not _holds_anything(folder / MEASUREMENTS):
            continue
        design = read_run(folder).plan.design
        if design != DESIGN and (folder.name in runs or design in {SEARCH, WINNER}):
            yield folder


def _holds_anything(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
