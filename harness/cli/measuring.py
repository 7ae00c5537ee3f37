"""`plan`, `run`, `calibrate` and `best`: measure a request, show how it goes, and print what came of it."""

import json
import math
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness import __version__
from harness.analyze.advice import Foremost
from harness.analyze.calibration import calibrate
from harness.analyze.estimate import Estimate, results, so_far
from harness.analyze.evidence import gather
from harness.analyze.isolation import apart_of
from harness.analyze.matrix import Row
from harness.analyze.pairing import pair
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.api import Until, Watch, measure_into, measured, written
from harness.catalogue import APART, read_catalogue, read_workload
from harness.cli.reading import advised_by, console, print_matrix
from harness.core.catalogue import Catalogue
from harness.core.codec import encode
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.own_file import NOW, content, file_and_digest, parse_address
from harness.core.plan import BOTH_WAYS, Block, Plan, Request, placeless
from harness.core.records import Lost, Record, Window
from harness.core.workload import CLIPPING_DEFAULTS, PYTORCH_DEFAULTS, Workload
from harness.measure.surroundings import read_environment, unused_gpu
from harness.plan.cost import seconds_for
from harness.plan.planning import SHARED, USUAL_SIZE, own_process, protocol_named, short_steps
from harness.plan.schedule import failures, outstanding
from harness.report.calibration import apart_toml, calibration_parts, isolation_parts, page_parts
from harness.report.document import show as show_parts
from harness.report.document import to_markdown
from harness.report.matrix import replicates
from harness.report.prediction import winner_parts, winner_to_json
from harness.report.words import counted, duration, factor, looks, ratio
from harness.results import decides, finished, matrix_of, measured_both_ways, newest
from harness.run.preparation import (
    REPORT_S,
    Place,
    Prepared,
    age_s,
    measuring_alone,
    prepared,
    roots,
    run_of,
    seconds_of,
    stopping_on_terminate,
)
from harness.run.processes import ROOT
from harness.run.watching import Watcher
from harness.search import QualityClass, Search, SearchBudget, put_off, request_of, searched, stacks_in
from harness.store import Run, changes, is_finished, is_own, read_records, read_run, replace_file

# Progress: how a run goes, on the terminal.


class Terminal(Watch):
    """Shows on a console how a measurement goes: files that are written, replicates and ratios."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, sentence: str) -> None:
        """A line by itself."""
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def writing(self, names: Sequence[str]) -> AbstractContextManager[Callable[[int, float], None]]:
        """A bar for each of the workloads whose files are written."""
        return preparing_all([f"{name}: writing its files" for name in names], self._console)

    def measuring(
        self, plan: Plan, records: Sequence[Record], left_s: Callable[[], float], thresholds: Thresholds
    ) -> "Progress":
        """A bar with the present ratios, or a line for each replicate."""
        return Progress(plan, self._console, records, left_s, thresholds)


@contextmanager
def preparing_all(whats: Sequence[str], console: Console) -> Iterator[Callable[[int, float], None]]:
    """A bar for each, which appears once it has begun; call it, from any thread, with a place and the share done."""
    with bars.Progress(*_columns(), console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = [progress.add_task(what, total=1.0, visible=False, start=False) for what in whats]

        def show(place: int, share: float) -> None:
            progress.start_task(tasks[place])  # counts its time from the first call
            progress.update(tasks[place], completed=share, visible=True)

        yield show


def _columns() -> tuple[bars.ProgressColumn, ...]:
    return bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn()


class Progress(Watcher):
    """Watches a campaign; on a terminal as a bar with the present ratios, elsewhere as a line for each replicate."""

    def __init__(
        self,
        plan: Plan,
        console: Console,
        records: Sequence[Record] = (),
        left_s: Callable[[], float] | None = None,
        thresholds: Thresholds = UNCALIBRATED,
    ) -> None:
        """Starts from `records`, which may go on growing; `left_s` tells for how long it is going to go on."""
        self._plan, self._console, self._records = plan, console, records
        self._left_s, self._thresholds, self._began_s = left_s, thresholds, monotonic()
        self._kept: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
        self._sorted = 0  # records that are among those
        self._over: set[tuple[str, int]] = set()  # arms that are given up
        self._now: dict[int, int] = {}  # rounds that the treatments of this life still need
        self._told, self._until_s = "", math.inf  # what is left, and when that ends: worked out once for each attempt
        self._bar = bars.Progress(*_columns(), bars.TextColumn("{task.fields[left]}"), console=console)
        self._task = self._bar.add_task("starting", total=None, left="")
        self._line = Text()
        # Drawn between windows alone: a thread that draws would take a core from those that use all of them.
        self._live = Live(
            console=console, transient=True, auto_refresh=False, get_renderable=lambda: Group(self._bar, self._line)
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def attempt_begins(self, block: Block, replicate: int, rounds: Mapping[int, int]) -> None:
        """Takes note of which treatments start, and shows it on a terminal."""
        self._now = dict(rounds) or self._now
        labels = ", ".join(block.comparisons[position - 1].label for position in rounds)
        self._line = Text(f"{self._place(block, replicate)}: {labels}")
        self._told, self._until_s = self._to_go, monotonic() + (self._left_s() if self._left_s else math.inf)
        self._move()

    def arm_begins(self, block: Block, position: int) -> None:
        """Says which arm warms up."""
        self._line = Text(f"{block.reference.workload}: warming up {_label(block, position)}")
        self._move()

    def recorded(self, block: Block, record: Record) -> None:
        """Takes a window into the ratios, or shows what was lost."""
        if self._console.quiet:
            return
        if isinstance(record, Lost):
            told = f"{block.reference.workload}, {_label(block, record.arm.position)}: {record.reason}"
            self._console.print(told, highlight=False, markup=False)  # foreign words
        if isinstance(record, Window) and self._console.is_terminal:
            self._line = Text("  ".join(filter(None, self._so_far(block))))
            self._move()
        if isinstance(record, Window) and self._now and not self._now.keys() & self._left(block, record.arm.replicate):
            # Of a first replicate there is no interval yet, for which all records are analysed.
            shown = self._ratios(block) if record.arm.replicate else filter(None, self._so_far(block))
            told = f"{self._place(block, record.arm.replicate)}: {', '.join(shown)} ({self._to_go})"
            self._now = {}
            self._console.print(told, highlight=False, markup=False, soft_wrap=True)

    def _place(self, block: Block, replicate: int) -> str:
        count = block.replicates_in(self._plan.protocol)
        place = f"replicate {replicate + 1} of {count}" if replicate < count else f"further replicate {replicate + 1}"
        timing = "" if block.timing is Timing.STEP else f" {block.timing}"
        return f"{block.reference.workload}{timing}, {place}"

    def _move(self) -> None:
        """The bar shows time: what was spent and what is left of the budget, or of what is expected."""
        spent_s, total_s = monotonic() - self._began_s, self._until_s - self._began_s
        known = max(spent_s, total_s) if math.isfinite(total_s) else None
        self._bar.update(self._task, description="measuring", total=known, completed=spent_s, left=self._told)
        if self._console.is_terminal:
            self._live.refresh()

    @property
    def _to_go(self) -> str:
        """How many replicates are done of those that all comparisons get, and how long it goes on."""
        protocol = self._plan.protocol
        counts = ((block, range(block.replicates_in(protocol))) for block in self._plan.blocks)
        left = sum(len(self._left(block, replicate)) for block, replicates in counts for replicate in replicates)
        if not left and self._plan.protocol.target is None:
            return "none to go"
        left_s = self._left_s() if self._left_s else math.inf
        time = f", {duration(round(left_s))} of this call" if math.isfinite(left_s) else ""
        return (f"{left} replicates of the plan to go" if left else "narrowing intervals") + time

    def _ratios(self, block: Block) -> Iterator[str]:
        """The present ratio of every comparison of a block, with its interval as soon as it has one."""
        places = [
            (one.identity, position) for one in self._plan.blocks for position, _ in enumerate(one.comparisons, 1)
        ]
        found = results(list(gather(self._plan, self._records)), self._plan.protocol, self._thresholds)
        known = {place: one for place, one in zip(places, found, strict=True) if isinstance(one, Estimate)}
        for position, text in enumerate(self._so_far(block), 1):
            if estimate := known.get((block.identity, position)):
                yield f"{block.comparisons[position - 1].label} {ratio(estimate)}"
            elif text:
                yield text

    def _so_far(self, block: Block) -> Iterator[str]:
        """The ratio of what was timed of every comparison, with what its windows alone tell; empty without a pair."""
        mine = [one for one in self._records if isinstance(one, Window) and one.arm.block == block.identity]
        for position, comparison in enumerate(block.comparisons, 1):
            found = so_far(pair(mine, position))
            off = f" ±{100 * (found[1] - 1):.0f} %" if found and math.isfinite(found[1]) else ""
            yield f"{comparison.label} {factor(found[0])}x{off} so far" if found else ""

    def _left(self, block: Block, replicate: int) -> dict[int, int]:
        for record in self._records[self._sorted :]:
            self._kept[record.arm.block, record.arm.replicate].append(record)
        self._over |= failures(self._records[self._sorted :])
        self._sorted = len(self._records)
        return outstanding(block, replicate, self._kept[block.identity, replicate], self._plan.protocol, self._over)


def _label(block: Block, position: int) -> str:
    return "the reference" if position == 0 else block.comparisons[position - 1].label


# `plan`, `run`, `calibrate` and `best`: measure a request, show how it goes, and print what came of it.


def show_plan(request: Request, *, as_json: bool) -> None:
    """Prints the plan of a request."""
    ready = prepared(request)
    console = Console()
    if as_json:
        console.print_json(json.dumps({"version": __version__, "plan": encode(ready.plan)}))
        return
    headings = "block", "workload", "timed on", "reference", "against it, in turns", "process"
    table = Table(*headings, title="What would be measured")
    for block in ready.plan.blocks:
        labels = ", ".join(comparison.label for comparison in block.comparisons)
        stack = block.reference.stack or "baseline"
        table.add_row(
            block.identity, block.reference.workload, block.timing, stack, labels, "one" * block.shared or "each"
        )
    console.print(table)
    for one in ready.plan.comparisons if request.isolation == SHARED else ():
        if reason := own_process(one, ready.catalogue, ready.environment.device):
            words = f"{one.treatment.workload}: {one.label} — its own process: {reason}"
            console.print(f"[dim]{words}[/dim]", highlight=False)
    for no_result in ready.plan.no_results:
        console.print(f"[dim]{no_result.workload}: {no_result.label} — {no_result.reason}[/dim]", highlight=False)
    protocol, count = ready.plan.protocol, len(ready.plan.comparisons)
    console.print(
        f"{counted(count, 'comparison')}, each in {replicates(ready.plan)}: "
        f"about {seconds_for(ready.plan, ready.paces) / 60:.0f} minutes{looks(protocol)}; "
        "[bold]run[/bold] with the same words measures them.",
        highlight=False,
    )


def show_shards(request: Request, count: int, results: Path) -> int:
    """Prints a plan's parts, how long each takes and what there is of it; gives 0 when all are measured, else 3."""
    table = Table("shard", "blocks", "comparisons", "about", "state", title=f"{count} shards of one plan")
    states = []
    for number in range(1, count + 1):
        one = prepared(replace(request, shard=f"{number}/{count}"))
        states.append(state_of(run_of(one), results))
        blocks, comparisons = len(one.plan.blocks), len(one.plan.comparisons)
        length = duration(seconds_for(one.plan, one.paces))
        table.add_row(f"{number}/{count}", str(blocks), str(comparisons), length, states[-1])
    console().print(table)
    words = replace(request, shard="NUMBER/COUNT").command
    console().print(f"{words} measures one; runs of all lie together in one folder of results.", highlight=False)
    return 0 if all(one.startswith("measured") for one in states) else 3


def state_of(wanted: Run, results: Path) -> str:
    """What there is of a run of ours in a folder of results, whichever host measured it."""
    found = [path.parent for path in sorted(results.glob("*/*/run.json")) if is_own(path.parent)]
    same = [folder for folder in found if folder.name.endswith(f"-{wanted.digest}")]
    if done := [folder for folder in same if is_finished(folder)]:
        return "measured" if len(done) == 1 else f"measured {len(done)} times: pages average them"
    if same:
        return "begun: the same command continues it there"
    alike = (read_run(folder) for folder in found if folder.name[:8].isdigit())
    if other := next((one for one in alike if one.plan == wanted.plan), None):
        return f"in another environment: {'; '.join(changes(other, wanted))}"
    return "missing"


def measure(request: Request, place: Place, shown: Callable[[Path], int] | None = None) -> int:
    """Measures what is left of the request's plan; gives the exit status.

    That is 0, or 1 when nothing could be measured, or 130 when it was stopped by Ctrl-C or SIGTERM. `shown` prints
    what a run's folder says in another way than as a matrix, and gives the status.
    """
    try:
        tell_unused_gpu(request.device)
        folder = measured(request, place, Terminal(Console()), command=shown_command(sys.argv[1:]), spent_s=age_s())
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    status = (shown or partial(show_matrix, request.own))(folder)
    # An engine that asks for shards would try a finished one again and again, although it has no ratio to give.
    return 0 if request.shard and is_finished(folder) else status


def tune(request: Request, place: Place, against: str | None, *, verbose: bool) -> int:
    """Shows what is seen of a job, then measures it and prints its matrix; gives the exit status of `measure`.

    `against` is a commit with whose code the code of now is compared.
    """
    where = parse_address(str(request.own))
    beside = where.names[1:]
    if against:
        from harness.own.history import check_alike, since

        then, now = since(where, against)
        check_alike(then, now, against, batch=request.batch is None)
        if content(then.path) == content(now.path):
            words = f"{now.path.name} runs as it is now in both versions; what differs is what it imports at {against}."
            console().print(words, highlight=False, markup=False)
        request, beside = replace(request, own=Path(str(then))), (NOW,)
    workload = read_workload(request.own or Path())
    if beside and not request.only and not request.stack:
        request = replace(request, only=beside)
    told = (workload.title, *workload.seen, *switched_off(workload, request))
    console().print("\n".join(told), highlight=False, markup=False)
    return measure(request, place, partial(show_matrix, request.own, verbose=verbose))


def switched_off(workload: Workload, request: Request) -> Iterator[str]:
    """That what a user has on is off in what options are compared with, where that is so."""
    usual = {*PYTORCH_DEFAULTS.values(), *CLIPPING_DEFAULTS.values()}
    chosen = sorted(name for name, words in workload.original.items() if words not in usual)
    if chosen and request.reference == "baseline":
        yield (
            f"Options are compared with everything off, though you have {', '.join(chosen)} on: "
            "--reference original compares with that."
        )


def tell_unused_gpu(chosen: str) -> None:
    """Says once that a GPU is here and the CPU is measured in its place, unless the user chose the CPU."""
    if chosen == "auto" and read_environment(chosen).device == "cpu" and (sentence := unused_gpu()):
        sys.stderr.write(f"{sentence}\n")


def show_matrix(own: Path | None, folder: Path, *, verbose: bool = False) -> int:
    """Prints what a run says, on one screen or in full; gives 1 where it has no ratio, else 0."""
    matrix = matrix_of(folder)
    print_matrix(matrix, folder, read_catalogue(own), verbose=verbose, asked=sys.argv[1:])
    return 0 if matrix.looked_at else 1


def shown_command(words: list[str]) -> str:
    """The command line as others can use it: without the places on this machine, which are nobody's business."""
    kept, rest = ["speedmatrix"], iter(words)
    if words[:1] == ["tune"]:  # its first argument is a place
        kept += [next(rest)]
        rest = iter([Path(one).name if one.partition(":")[0].endswith(".py") else one for one in rest])
    for word in rest:
        option, _, value = word.partition("=")
        if option in {"--results", "--data", "--archive", "--workload", "--output", "--figures"}:
            place = value or next(rest, "")
            kept += ["--workload", Path(place).name] if option == "--workload" else []
        elif option == "--data-root":
            kept += ["--data-root", placeless(value or next(rest, ""))]
        else:
            kept.append(word)
    return shlex.join(kept)


# `calibrate`: measures what this machine can tell, and prints what came of it.


def measure_and_show(request: Request, place: Place) -> int:
    """Calibrates this machine; gives 0, or 1 when it failed, or what `run` gives when it was stopped."""
    return measure(replace(request, workloads=request.workloads or _quick_ones(request)), place, show)


def _quick_ones(request: Request) -> tuple[str, ...]:
    """Workloads whose steps are short beside a window: in the same time they show more pairs."""
    catalogue, protocol = read_catalogue(request.own), protocol_named(request.protocol)
    if catalogue.own:
        return (catalogue.own,)
    size = request.size or USUAL_SIZE
    if size not in (sizes := {one: None for name in catalogue.workloads for one in catalogue.workload(name).sizes}):
        raise Mistake(f"There is no size '{size}'; choose one of {', '.join(sizes)}.")
    found = tuple(sorted(short_steps(catalogue, size, protocol)))
    if not found:
        raise Mistake(
            f"Every workload's step is slow at size {size}; name those that are to calibrate, or --size quick."
        )
    return found


def show(folder: Path) -> int:
    """Prints what a run of the design `calibration` says of its machine; gives 1 where it failed."""
    run = read_run(folder)
    found, where = calibrate(run.plan, read_records(folder)), console()
    show_parts(calibration_parts(found), where)
    if not is_finished(folder):
        where.print(f"Not finished, so nothing rests on it yet: the same command continues {folder}.", highlight=False)
        return 0 if found.copies else 1
    rests = (
        "every report of this machine and environment rests on it" if decides(run) else "too small to decide anything"
    )
    where.print(f"Kept in {folder}; {rests}.", highlight=False)
    return 0 if found.passed else 1


# `calibrate --isolation`: the same comparisons with arms that share a process and with isolated ones.


def measure_both_ways(request: Request, place: Place) -> int:
    """Measures and prints; gives 0, or 1 where nothing was measured both ways, or what `run` gives when stopped."""
    asked = replace(request, design=BOTH_WAYS, workloads=request.workloads or _quick_ones(request))
    return measure(asked, place, show_both_ways)


def show_both_ways(folder: Path) -> int:
    """Prints what a run of that design says; gives 1 where it has no comparison both ways."""
    found = list(measured_both_ways([folder]))
    show_parts(isolation_parts(found), console())
    for one in apart_of(found):
        console().print(f"{', '.join(one.names)} should have its own process: {one.reason}.", highlight=False)
    return 0 if found else 1


ISOLATION = Path("docs") / "isolation.md"  # of this clone, whose list for planning says the same


def write_isolation(results: Path, page: Path) -> None:
    """Writes the page of all finished runs of that design; with this clone's own page the list that planning reads."""
    found = list(measured_both_ways(finished(results)))
    if not found:
        raise Mistake(
            f"There is no finished run both ways in {results}; ./speedmatrix calibrate --isolation measures one."
        )
    apart = apart_of(found)
    text = to_markdown(page_parts(found, apart, read_catalogue().workloads.values()))
    try:
        is_foreign = page.is_file() and not page.read_bytes().startswith(text.partition("\n")[0].encode())
    except OSError as error:
        raise Mistake(f"{page} cannot be read ({error.strerror}); choose another file with --output.") from error
    if is_foreign:
        raise Mistake(f"{page} was not written by this command; choose another file with --output.")
    replace_file(page, text.encode(), "choose another file with --output")
    if page.resolve() == (ROOT / ISOLATION).resolve():
        replace_file(ROOT / "harness" / APART, apart_toml(apart).encode(), "make it writable")


# `advise --check`: what a run advises, measured afresh before anybody believes it.


def check_advice(run: Path | None, own: Path | None, place: Place, data_roots: Sequence[str] = ()) -> int:
    """Measures each workload's foremost advice in fresh processes, from another seed; 1 where any does not hold.

    What cannot be measured is told and costs no other workload; 130 when it was stopped by Ctrl-C or SIGTERM. Raises
    Mistake where the advice is about another training than the one in the user's `own` file, or about real data that
    are not among the `data_roots`.
    """
    folder, catalogue = run or newest(place.results), read_catalogue(own)
    found, (advice, _) = read_run(folder), advised_by(folder, catalogue)
    asked = [(one.workload, one.foremost) for one in advice.workloads if one.foremost]
    if not asked:
        raise Mistake(f"{folder} advises nothing yet; measure it further, or name another run.")
    names = tuple(name for name, _ in asked)
    _hold_to_trainings(found, folder, names, catalogue)
    real = roots(data_roots, catalogue, names)
    _hold_to_data(found, folder, names, real)
    if other := "; ".join(_changes(found, catalogue)):
        told = f"{folder} was measured under other conditions ({other}); what does not hold now may have held then."
        console().print(told, highlight=False, markup=False)
    rows = list[tuple[str, Foremost, Row]]()
    budget_s, began_s = seconds_of(place.budget), monotonic() - age_s()
    for number, (name, one) in enumerate(asked):
        left_s = None if budget_s is None else budget_s - (monotonic() - began_s)
        request = Request(
            workloads=() if name == catalogue.own else (name,), own=own,
            size=one.treatment.size, batch=one.treatment.batch,
            stack=one.treatment.stack or "baseline", reference=one.reference.stack or "baseline",
            device=found.environment.device, seed=found.plan.seed + 1,
            data_roots=(f"{name}={real[name]}",) if name in real else (),
        )  # fmt: skip
        now = replace(place, budget=share_of(left_s, len(asked) - number))
        command = shlex.join(("speedmatrix", *request.words, "--budget", "none"))
        try:
            afresh = matrix_of(measured(request, now, Terminal(Console()), command=command))
        except Mistake as mistake:
            if not rows and number == len(asked) - 1:
                raise
            sys.stderr.write(f"{name}: {mistake}\n")
            continue
        except KeyboardInterrupt:
            sys.stderr.write(f"Stopped; what was measured is kept, and advise --check {folder} continues.\n")
            return 130
        if name in real and afresh.data.get(name) != (then := found.plan.data[name]):
            told = f"{name} was measured on other data ({then}); what does not hold now may have held then."
            console().print(told, highlight=False, markup=False)
        rows.append((name, one, afresh.rows[0]))
    return 0 if _all_hold(rows) and len(rows) == len(asked) else 1


def _hold_to_trainings(run: Run, folder: Path, names: Sequence[str], catalogue: Catalogue) -> None:
    """Raises Mistake where a run advises on other trainings than the catalogue has under these names."""
    if catalogue.own and catalogue.own not in names:
        raise Mistake(
            f"{folder} advises on {', '.join(names)} and not on {catalogue.own}; name a run of {catalogue.own}, or "
            "leave out --workload."
        )
    for name in names:
        file, _ = file_and_digest(run.plan.data.get(name, ""))
        here, _ = file_and_digest(catalogue.workloads[name].source if name in catalogue.workloads else "")
        if file != here:
            remedy = f"give --workload {file}" if file else "leave out --workload"
            raise Mistake(
                f"{folder} advises on {name}, which {file or 'no file of yours'} makes; {remedy}, or name another run."
            )


def _hold_to_data(run: Run, folder: Path, names: Sequence[str], real: Mapping[str, Path]) -> None:
    """Raises Mistake where a run advises on real data that are not given, or some are given where it had none."""
    for name in names:
        was_real = run.plan.data.get(name, "").startswith("real data")
        if was_real and name not in real:
            raise Mistake(
                f"{folder} advises on {name} with real data; give --data-root {name}=FOLDER, or name another run."
            )
        if name in real and not was_real:
            raise Mistake(f"{folder} advises on {name} without real data; leave out --data-root, or name another run.")


def _changes(run: Run, catalogue: Catalogue) -> Iterator[str]:
    """What differs between the conditions of a run and those of now, the user's own file among them."""
    yield from changes(run, replace(run, environment=read_environment(run.environment.device)))
    file, now = file_and_digest(catalogue.workloads[catalogue.own].source if catalogue.own else "")
    _, before = file_and_digest(run.plan.data.get(catalogue.own or "", ""))
    if file and now != before:
        yield f"the digest of {file} (code, job, versions) was {before}, now is {now}"


def _all_hold(rows: Sequence[tuple[str, Foremost, Row]]) -> bool:
    """Whether all that was measured afresh bears out what was advised; prints it, and why what does not."""
    table = Table("workload", "in place of", "advised", "was", "afresh, 95 %", "holds", title="Measured afresh")
    broken: list[str] = []
    for name, one, row in rows:
        objection = next(one.objections(row), None)
        held, words = "no" if objection else "yes", ratio(row.estimate) if row.estimate else "no ratio"
        table.add_row(name, one.reference.stack or "baseline", one.label, ratio(one.gain), words, held)
        broken += [f"{name}, {one.label}: {objection}."] if objection else []
    where = console()
    where.print(table)
    for sentence in broken:
        where.print(sentence, highlight=False, markup=False, soft_wrap=True)
    return not broken


def share_of(left_s: float | None, count: int) -> str:
    """What `--budget` says of an equal share of the seconds left, at least one; None of them is no budget at all."""
    return "none" if left_s is None else f"{max(1, int(left_s / count))}s"


# `best`: searches the fastest stack, and prints the winner.


def best(asked: Request, quality: QualityClass, place: Place, *, as_json: bool) -> int:
    """Searches and prints; 0, or 1 when nothing could be measured, or 130 when it was stopped."""
    budget_s = seconds_of(place.budget)
    request = request_of(asked, quality)
    ready = prepared(request, shown_command(sys.argv[1:]))
    tell_unused_gpu(request.device)
    words = Console(stderr=as_json, highlight=False)
    for sentence in put_off(asked, quality):
        words.print(sentence, markup=False)
    try:
        with measuring_alone(), stopping_on_terminate():
            bench = _budget(ready, place, budget_s, words)
            found = searched(Search(request=request, ready=ready, possible=stacks_in(request, ready), budget=bench))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    if isinstance(found, str):
        words.print(f"Nothing was found: {found}.")
        return 1
    if as_json:
        sys.stdout.write(winner_to_json(found))
    else:
        show_parts(winner_parts(found), console())
    return 0


def _budget(ready: Prepared, place: Place, budget_s: float | None, words: Console) -> SearchBudget:
    spent_s = age_s()
    data = written(ready, place.data, Terminal(words))  # written once, and not from the budget
    return SearchBudget(
        results=place.results,
        measure=lambda one, folder, until: measure_into(one, folder, data, Until(until), Terminal(words)),
        clock=monotonic,
        began_s=monotonic() - spent_s,
        budget_s=None if budget_s is None else max(0.0, budget_s - REPORT_S),
        fresh=place.fresh,
        tell=words.print,
    )
