"""`verify`: every optimization takes effect, and its losses keep the promise of its numerics class."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich import progress as bars
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.promise import numerics
from harness.analyze.verification import SKIPPED, Verified, verified
from harness.cli.measuring import Place, job_of, prepare_data, served_in
from harness.cli.planning import Prepared, Wish, prepared
from harness.core.cell import Cell, Comparison
from harness.core.environment import Environment
from harness.core.measurement import Lost, Ready
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plain import decode, encode
from harness.core.plan import Block
from harness.run.examination import examined, untimed
from harness.run.job import Job
from harness.run.lock import measuring_alone
from harness.run.sentinel import Sentinel

FOLDER = "verified"  # under the machine's results


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the user asked for."""

    wish: Wish
    place: Place
    steps: int
    at_once: int


def verify(asked: Examination) -> int:
    """Verifies and prints; gives 0 when every promise was kept, else 1."""
    ready, console = prepared(asked.wish), Console(highlight=False)
    with measuring_alone():
        arms = _arms(ready, asked, console)
    found = [
        *(_judged(one, block, arms, ready) for block in ready.plan.blocks for one in block.comparisons),
        *(_skipped(hole.workload, hole.subject, hole.reason) for hole in ready.plan.holes),
    ]
    for workload in dict.fromkeys(one.workload for one in found):
        mine = sorted((one for one in found if one.workload == workload), key=lambda one: one.subject)
        console.print(_table(workload, mine))
        _keep(mine, workload, ready, asked)
    counts = Counter(one.status for one in found)
    console.print(f"{len(found)} in all: " + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    return int(any(one.broken for one in found))


Key = tuple[Cell, Timing, bool]  # the bool: it is a reference, and so tells how far seeds lie apart


def _arms(ready: Prepared, asked: Examination, console: Console) -> Mapping[Key, Ready | Lost]:
    """Every arm of the plan once, however many blocks it stands in."""
    data, sentinel = prepare_data(ready, asked.place, console), Sentinel()
    jobs: dict[Key, Job] = {}
    for key, block, position in _wanted(ready):
        job = job_of(ready, data, block, restart=0, position=position)
        jobs.setdefault(key, replace(job, protocol=untimed(asked.steps)))
    columns = (bars.TextColumn("verifying"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with ExitStack() as closing:
        closing.callback(sentinel.close)
        served = {name: closing.enter_context(one) for name, one in served_in(ready, data, sentinel)}
        bar = closing.enter_context(bars.Progress(*columns, bars.TextColumn("{task.description}"), console=console))
        task = bar.add_task("", total=len(jobs))
        chosen = [replace(job, service=served.get(job.cell.workload)) for job in jobs.values()]
        told = examined(
            chosen, asked.at_once, sentinel, lambda job: bar.update(task, advance=1, description=str(job.cell))
        )
    return dict(zip(jobs, told, strict=True))


def _wanted(ready: Prepared) -> Iterator[tuple[Key, Block, int]]:
    for block in ready.plan.blocks:
        yield (block.reference, block.timing, True), block, 0
        for position, one in enumerate(block.comparisons, 1):
            yield (one.treatment, block.timing, False), block, position


def _judged(one: Comparison, block: Block, arms: Mapping[Key, Ready | Lost], ready: Prepared) -> Verified:
    promised = numerics(one, ready.plan.promises)
    treatment, reference = arms[one.treatment, block.timing, False], arms[block.reference, block.timing, True]
    status, sentence = verified(treatment, reference, promised, block.timing)
    return Verified(
        workload=one.reference.workload, subject=one.subject, promised=promised, status=status, sentence=sentence
    )


def _skipped(workload: str, subject: str, reason: str) -> Verified:
    return Verified(workload=workload, subject=subject, promised=None, status=SKIPPED, sentence=reason)


def _table(workload: str, found: list[Verified]) -> Table:
    table = Table("optimization", "promised", "found", "", box=box.SIMPLE_HEAD, title=workload, title_justify="left")
    for one in found:
        status = f"[bold red]{one.status}[/]" if one.broken else str(one.status)
        table.add_row(one.subject, str(one.promised or ""), status, one.sentence)
    return table


def _keep(found: list[Verified], workload: str, ready: Prepared, asked: Examination) -> None:
    """Writes what was found beside the machine's runs, in place of what an earlier look gave."""
    cell = next((block.reference for block in ready.plan.blocks if block.reference.workload == workload), None)
    path = asked.place.results / ready.environment.machine / FOLDER / f"{workload}.json"
    facts: dict[str, object] = {
        "version": __version__,
        "size": cell.size if cell else None,
        "steps": asked.steps,
    }
    facts |= {"environment": encode(ready.environment)}
    try:
        rows = _with_others(encode(found), facts, path) if asked.wish.only or asked.wish.stack else encode(found)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**facts, "found": rows}, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Mistake(f"Cannot read or write {path} ({error}); choose another folder with --results.") from error


def _with_others(rows: list[dict[str, object]], facts: Mapping[str, object], path: Path) -> list[dict[str, object]]:
    """The rows, and those of the same circumstances that were not looked at again."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not known or _circumstances(known) != _circumstances(facts):
        return rows
    fresh = {row["subject"] for row in rows}
    kept = (row for row in known["found"] if row["subject"] not in fresh)
    return sorted([*rows, *kept], key=lambda row: str(row["subject"]))


def _circumstances(facts: Mapping[str, object]) -> tuple[object, ...]:
    environment = decode(Environment, json.loads(json.dumps(facts["environment"])))
    return facts["version"], facts["size"], facts["steps"], environment.digest
