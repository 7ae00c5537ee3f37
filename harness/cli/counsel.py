"""Counsel: the advice of a run, and the commands that answer what it leaves open."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.analyze.advice import Advice, Call, Shelf, advise
from harness.analyze.collection import Kept
from harness.analyze.evidence import Evidence
from harness.catalogue import Catalogue
from harness.cli.asking_again import commands
from harness.core.cell import Comparison
from harness.store import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """The advice of a run, and the commands that answer what it leaves open."""

    advice: Advice
    commands: Mapping[Comparison, str]


def advised_by(kept: Kept, evidence: tuple[Evidence, ...], run: Run, catalogue: Catalogue) -> Advised:
    """The advice of a run that was read, with its commands."""
    shelf = Shelf(known=catalogue.optimizations, workloads=catalogue.workloads)
    advice = advise(kept, evidence, shelf)
    wanted = dict(_asked(advice))
    restarts = {one: count for one, count in wanted.items() if count is not None}
    return Advised(advice=advice, commands=commands(run, wanted, catalogue, restarts))


def _asked(advice: Advice) -> Iterator[tuple[Comparison, int | None]]:
    """What the advice asks to be measured, and in how many restarts if not in as many as before."""
    for counsel in advice.counsels:
        for item in counsel.called(Call.UNDECIDED, Call.NO_ADVICE):
            yield item.effect.row.comparison, item.restarts
        for made in counsel.ready_made:
            if made.untried is not None:
                yield made.untried, None
            elif made.best is not None:
                yield made.best.rows[-1].comparison, None
