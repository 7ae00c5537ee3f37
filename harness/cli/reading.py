"""`report`, `advise`, `claims`, `compare`, `list`: shows what was measured, read from run folders alone."""

import json
import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.advice import Advice, Foremost, Recommendation, advise, remedy
from harness.analyze.claims import Account, Finding, Look, Trial, as_timed, find, general, matching, on_emulated, trials
from harness.analyze.collection import TOO_SMALL, StoredRun
from harness.analyze.comparison import Column, compare, of_machines, of_runs
from harness.analyze.evidence import Evidence, gather
from harness.analyze.extent import Extent, extent_of
from harness.analyze.grouping import together
from harness.analyze.matrix import NO_PRICES, Matrix, Prices, parse_prices
from harness.catalogue import read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.claims import ANY, Claim
from harness.core.codec import encode
from harness.core.configuration import Comparison
from harness.core.emulation import is_former, step_named
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Level, Optimization, Stage
from harness.core.own_file import PICKLED, file_and_digest
from harness.core.plan import Request
from harness.core.recipe import Value
from harness.core.records import Record
from harness.core.workload import Workload
from harness.own.rewriting import Rewritten, rewritten
from harness.plan.cost import Forecast
from harness.plan.designs import DESIGNS, ClaimContext, resolve
from harness.plan.planning import commands, pace_of, planned
from harness.plan.schedule import by_replicate, failures, outstanding, pairs_of
from harness.report import matrix as sentences
from harness.report.advice import advice_parts, advice_to_json, chapters, pull_request_parts
from harness.report.claims import claims_parts, claims_to_json, promised
from harness.report.comparison import comparison_parts, comparison_to_json
from harness.report.document import Part, show, to_markdown, to_terminal
from harness.report.extent import extent_parts, extent_to_json
from harness.report.html import Exhibit, Shown, to_html
from harness.report.matrix import matrix_parts, matrix_to_json
from harness.report.overview import advice_overview, after_advice, closing, overview
from harness.report.words import called, duration, ratio
from harness.results import (
    answers,
    finished_and_measured,
    known_limits,
    matrix_of,
    newest,
    read_kept,
    read_whole,
    stored,
    stored_runs,
    thresholds_of,
    without_copies,
)
from harness.search import predictions
from harness.store import Run, is_finished, is_own, read_records, read_run

# The advice of a run, and the commands that answer what it leaves open.


def advised_by(folder: Path, catalogue: Catalogue) -> tuple[Advice, Mapping[Comparison, str]]:
    """The advice of a run, and the commands that answer what it leaves open; raises Mistake as `read_kept` does."""
    kept, run = read_kept(folder), read_run(folder)
    return _advised(kept, tuple(gather(run.plan, read_records(folder))), run, catalogue)


def _advised(
    kept: StoredRun, evidence: tuple[Evidence, ...], run: Run, catalogue: Catalogue
) -> tuple[Advice, Mapping[Comparison, str]]:
    advice = advise(kept, evidence, catalogue.optimizations, catalogue.workloads)
    wanted = dict(_asked(advice))
    replicates = {one: count for one, count in wanted.items() if count is not None}
    return advice, commands(run.plan, run.environment, wanted, catalogue, replicates)


def _asked(advice: Advice) -> Iterator[tuple[Comparison, int | None]]:
    """What the advice asks to be measured, and in how many replicates if not in as many as before."""
    for about in advice.workloads:
        for item in about.recommended(Recommendation.UNDECIDED, Recommendation.NO_ADVICE):
            yield item.effect.row.comparison, item.replicates
        for made in about.ready_made:
            if made.untried is not None:
                yield made.untried, None
            elif made.best is not None:
                yield made.best.rows[-1].comparison, None


WIDE = 110  # columns of a report that goes into a file or a pipe


def program() -> str:
    """How this program was called, as it can be called again."""
    usual = "speedmatrix" if Path(sys.argv[0]).name == "speedmatrix" else "./speedmatrix"
    return os.environ.get("SPEEDMATRIX_CALLED", usual)


def print_matrix(
    matrix: Matrix, folder: Path, catalogue: Catalogue, *, verbose: bool = False, asked: Sequence[str] = ()
) -> None:
    """The matrix on one screen and where to look next; in full, with what a model says beyond it, where asked for.

    `asked` are the words of the command that measured it, places of this machine included.
    """
    run, unfinished, left = read_run(folder), None, ""
    if not is_finished(folder):
        place = () if folder.parent.parent == Path("results") else ("--results", str(folder.parent.parent))
        unfinished = _all_of_it(asked or (*shlex.split(run.command)[1:], *place))
        left = f", about {duration(left_s(run, read_records(folder), catalogue))}"
    parts = overview(matrix, __version__)
    if verbose:
        parts = matrix_parts(matrix, run.command, predictions(matrix, catalogue))
    show((*parts, *closing(str(folder), unfinished, left, program())), console())


def _all_of_it(asked: Sequence[str]) -> str:
    """The command that measures what is left of a run, in one call where it has a budget."""
    kept = [one for one in asked if one != "--fresh"]  # which would begin anew
    if kept[:1] in (["run"], ["tune"]):
        if "--budget" in kept:
            at = kept.index("--budget")
            del kept[at : at + 2]
        kept = [*(one for one in kept if not one.startswith("--budget=")), "--budget", "none"]
    return f"{program()} {shlex.join(kept)}"


def left_s(run: Run, records: Sequence[Record], catalogue: Catalogue) -> float:
    """About how many seconds the replicates take that every comparison of a plan gets and that are missing."""
    references = {block.reference for block in run.plan.blocks if block.reference.workload in catalogue.workloads}
    there = run.environment.device, run.environment.cores
    paces = {one.workload: pace_of(catalogue.workload(one.workload), one.size, *there) for one in references}
    kept, over = by_replicate(records), failures(records)
    forecast = Forecast(plan=run.plan, kept=kept, paces=paces, arm_s={})
    seconds = 0.0
    needed = ((block, range(block.replicates_in(run.plan.protocol))) for block in run.plan.blocks)
    for block, replicate in ((block, one) for block, replicates in needed for one in replicates):
        found = kept.get((block.identity, replicate), [])
        places = [at for at in outstanding(block, replicate, found, run.plan.protocol, over) if not pairs_of(at, found)]
        seconds += forecast.replicate_s(block, places) if places else 0.0
    return seconds


def console() -> Console:
    """As wide as the terminal, or as the whole table where there is none."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=WIDE)


def show_report(run: Path | None, form: str, output: Path | None, results: Path, *, verbose: bool = False) -> None:
    """Shows or writes the matrix of a run in the form asked for; on a terminal one screen unless all is asked for."""
    check_form(form, "html")
    folder, catalogue = run or newest(results), read_catalogue()
    if form == "html":
        _refuse_a_terminal(output)
        found = exhibit(folder, catalogue)
        found = replace(found, predictions=predictions(found.kept.matrix, catalogue))
        deliver(to_html(Shown(exhibits=(found,), known=catalogue.optimizations, version=__version__)), output)
        return
    matrix = matrix_of(folder)
    if form == "terminal" and output is None and not verbose:
        print_matrix(matrix, folder, catalogue)
        return
    told = predictions(matrix, catalogue)
    if form == "json":
        deliver(matrix_to_json(matrix, told) + "\n", output)
    else:
        deliver_parts(matrix_parts(matrix, read_run(folder).command, told), form, output)


def show_all(run: Path | None, form: str, output: Path | None, results: Path) -> None:
    """Writes every finished run below a folder as one HTML file, or what they leave to be measured in other forms.

    Raises Mistake where there is no run.
    """
    if run is not None:
        raise Mistake(f"--all shows every run under --results; leave out {run}, or --all.")
    found = finished_and_measured(results)
    catalogue = read_catalogue()
    if form != "html":
        check_form(form, "html")
        extents = tuple(_extents(found, catalogue))
        if form == "json":
            deliver(extent_to_json(extents), output)
        else:
            deliver_parts(extent_parts(extents), form, output)
        return
    _refuse_a_terminal(output)
    exhibits = tuple(exhibit(folder, catalogue) for folder in found if answers(read_run(folder)))
    deliver(
        to_html(Shown(exhibits=exhibits, known=catalogue.optimizations, version=__version__, collected=True)), output
    )


def _extents(folders: Iterable[Path], catalogue: Catalogue) -> Iterator[Extent]:
    """Of every machine that has runs of its own, by what its newest environment can run."""
    runs = together((one.machine, one) for one in stored_runs(folders) if not one.contributed)
    for machine, of_machine in sorted(runs.items()):
        newest_run = max(of_machine, key=lambda one: one.began)
        for name in sorted(
            {one.reference.workload for run in of_machine for one in (row.comparison for row in run.matrix.rows)}
        ):
            if name in catalogue.workloads:
                asked = Request(workloads=(name,), design="alone", device=newest_run.environment.device)
                yield extent_of(machine, name, planned(asked, catalogue, newest_run.environment), of_machine)


def exhibit(folder: Path, catalogue: Catalogue) -> Exhibit:
    """A run, finished or not, with the records behind its matrix; raises Mistake when the folder is none or damaged."""
    with read_whole(folder) as (run, records):
        kept, evidence = stored(folder, run, records), tuple(gather(run.plan, records))
    compared = [row.comparison for row in kept.matrix.rows if row.estimate]
    advice, questions = _advised(kept, evidence, run, catalogue)
    return Exhibit(
        kept=kept,
        evidence=evidence,
        advice=chapters(advice, catalogue.optimizations),
        questions=questions,
        commands=commands(run.plan, run.environment, compared, catalogue),
        rehearsed=run.rehearsed,
    )


def _refuse_a_terminal(output: Path | None) -> None:
    if output is None and sys.stdout.isatty():
        raise Mistake("A page of HTML is for a browser; name a file for it with --output.")


def deliver(text: str, output: Path | None) -> None:
    """Prints a report or writes it to a file; raises Mistake where that cannot be."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Mistake(f"Cannot write {output} ({error.strerror}); choose another path for --output.") from error


# `advise`: what a run says to switch on, to leave, to measure further and to stack, in plain words.


PULL_REQUEST = "pull-request"  # Markdown to be pasted beside a change; of advice alone


def check_form(form: str, *more: str) -> None:
    """Raises Mistake for a form that neither every document nor this one has."""
    *others, last = "terminal", "markdown", "json", *more
    if form not in {*others, last}:
        raise Mistake(f"There is no format '{form}'; choose {', '.join(others)} or {last}.")


def show_advice(run: Path | None, form: str, output: Path | None, results: Path, *, verbose: bool = False) -> None:
    """Shows or writes the advice of a run, of the newest where none is named; raises Mistake.

    On a terminal it takes one screen unless all is asked for.
    """
    if form != PULL_REQUEST:
        check_form(form)
    folder, catalogue = run or newest(results), read_catalogue()
    advice, answers = advised_by(folder, catalogue)
    if form == PULL_REQUEST:
        deliver_parts(pull_request_parts(advice, advice.run.command, str(folder)), "markdown", output)
        return
    if form == "json":
        deliver(advice_to_json(advice, answers), output)
        return
    if form == "terminal" and output is None and not verbose:
        parts = (*advice_overview(advice, __version__), *after_advice(advice, answers, str(folder)))
    else:
        facts = sentences.heading(advice.run.matrix)
        parts = tuple(advice_parts(chapters(advice, catalogue.optimizations), answers, facts))
    deliver_parts(parts, form, output)


def show_diff(run: Path | None, script: Path, results: Path) -> None:
    """Prints what a run advises first as a change of somebody's script, and beside it what has no place there.

    Where no run is named, the newest must be of that script's training; raises Mistake.
    """
    folder, catalogue = run or newest(results), read_catalogue()
    found, (advice, _) = read_run(folder), advised_by(folder, catalogue)
    asked = [one.foremost for one in advice.workloads if one.foremost]
    if len(asked) != 1:
        raise Mistake(f"{folder} advises {len(asked)} trainings; name a run that advises one.")
    (first,) = asked
    if run is None:
        _hold_to_script(found, folder, first.treatment.workload, script)
    added = sorted({*first.treatment.options} - {*first.reference.options}, key=str)
    try:
        source = script.read_bytes().decode()  # line ends stay as they are
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{script} cannot be read ({error}); name the script of your training.") from error
    (base,) = (one.base for one in advice.workloads if one.foremost)
    rows = [one.comparison.treatment for one in base.rows if one.estimate] if base else []
    compared = {option for one in (first.reference, *rows) for option in one.options}
    name = Path(os.path.relpath(script)).as_posix()
    if name.startswith("../"):
        raise Mistake(
            f"{script} lies outside this folder, from which git would refuse the diff; ask from its own folder."
        )
    made = rewritten(name, source, added, compared)
    sys.stdout.write(made.diff)
    _tell_beside(script, made, first, found, catalogue)


def _tell_beside(script: Path, made: Rewritten, first: Foremost, run: Run, catalogue: Catalogue) -> None:
    """What the diff rests on, and what of the advice it does not hold."""
    told, name = Console(stderr=True, highlight=False), run.plan.names.get(str(first.reference), "baseline")
    told.print(f"{first.label} was measured: {ratio(first.gain)} against {called(name)}.", markup=False)
    if not first.alike:
        told.print("Nothing shows that it learns alike: compare the score before you keep it.", markup=False)
    if made.loaders[1:]:
        lines = ", ".join(map(str, made.loaders))
        told.print(
            f"{script} makes loaders in lines {lines}, and all of them are changed; only the training's was measured.",
            markup=False,
        )
    added = {one.name for one in first.treatment.options}
    for option in sorted({*first.reference.options} - {*first.treatment.options}, key=str):
        if option.name not in added:
            told.print(f"{option} is advised to be left out; where it is in {script}, take it out.", markup=False)
    further = "" if name == "original" else "; to compare with it, measure with --reference original"
    for words in made.kept:
        told.print(f"{script} has {words}, which was not compared; it stays as it is{further}.", markup=False)
    for option in made.left:
        told.print(f"{option} has no call in {script} to be written into:", markup=False)
        known = catalogue.optimizations.get(option.name)
        code = remedy(known, run.environment.device) if known else ""
        told.print(textwrap.indent(code or "its page tells what to do", "    "), markup=False)


def _hold_to_script(run: Run, folder: Path, workload: str, script: Path) -> None:
    """Raises Mistake where a run is of another training than a script's; a job that no file defines may be any's."""
    file, _ = file_and_digest(run.plan.data.get(workload, ""))
    if file != script.name and not file.endswith(PICKLED):
        raise Mistake(
            f"The newest run, {folder}, is of {file or workload} and not of {script.name}; name the run whose advice "
            f"is meant: ./speedmatrix advise RUN --diff {script}."
        )


def deliver_parts(parts: Iterable[Part], form: str, output: Path | None, *, short: bool = False) -> None:
    """Prints a document, or writes it, as Markdown or as a terminal shows it (if short, without details)."""
    if form == "markdown":
        deliver(to_markdown(parts), output)
    elif output is None:
        show(parts, console(), short=short)
    else:
        deliver(to_terminal(parts, width=console().width, short=short), output)


# `claims`: what the runs of each machine say of the ledger's promises.


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One run, read."""

    folder: str  # its name, without where it lies
    run: Run
    trials: tuple[Trial, ...]
    contributed: bool  # somebody else measured it


def show_claims(runs: tuple[Path, ...], form: str, place: tuple[Path | None, Path], only: str | None) -> None:
    """Shows or writes the findings of some runs, or of all below a folder; `place` is the output and that folder."""
    output, results = place
    check_form(form)
    catalogue = read_catalogue()
    if only is not None and only != ANY:
        catalogue.workload(only)  # refuses a name that would silently show nothing
    witnesses = [_read(folder) for folder in runs] if runs else list(witnesses_of(_begun(results)))
    if not witnesses:
        raise Mistake(f"There is no measured run in {results}; ./speedmatrix run --design claims makes one.")
    found = accounts(witnesses, catalogue, only)
    if form == "json":
        deliver(claims_to_json(found), output)
    else:
        deliver_parts(claims_parts(found), form, output, short=True)


def accounts(witnesses: Sequence[Witness], catalogue: Catalogue, only: str | None = None) -> list[Account]:
    """What the runs say of every claim, or of one workload's alone; the machine that tested most of them first."""
    machines = together((one.run.environment.machine, one) for one in witnesses)
    found = [_account(name, machines[name], catalogue, only) for name in sorted(machines)]
    return sorted(found, key=lambda one: -sum(finding.measured_value is not None for finding in one.findings))


def _begun(results: Path) -> list[Path]:
    """The folders of all our runs, those that go on among them, and of what somebody else has finished."""
    folders = (path.parent for path in sorted(results.glob("*/*/run.json")))
    return without_copies([folder for folder in folders if is_own(folder) or is_finished(folder)])


def witnesses_of(folders: Iterable[Path]) -> Iterator[Witness]:
    """Every run of real times, without what was measured at a size or for a step time that nobody claims a thing of.

    What somebody else measured is among them only on machines where we measured nothing ourselves.
    """
    runs = ((folder, read_run(folder)) for folder in folders)
    telling = (
        (run.environment.machine, folder)
        for folder, run in runs
        if answers(run) and not _is_of_a_step_time(run.environment)
    )
    for found in together(telling).values():
        for folder in [one for one in found if is_own(one)] or found:
            one = _read(folder)
            large = tuple(trial for trial in one.trials if trial.evidence.comparison.treatment.size != TOO_SMALL)
            yield replace(one, trials=large)


def _read(folder: Path) -> Witness:
    run = read_run(folder)
    if run.rehearsed:
        raise Mistake(
            f"{folder} was rehearsed: its times are invented and prove nothing; name a run that was measured."
        )
    if _is_of_a_step_time(run.environment):
        raise Mistake(
            f"{folder} emulates a step time, and claims are about devices; name a run of emulated:a100 or so."
        )
    with read_whole(folder) as (_, records):
        made = trials(run.plan, records, thresholds_of(folder), emulated=run.environment.emulated)
    return Witness(folder=folder.resolve().name, run=run, trials=made, contributed=not is_own(folder))


def _telling(one: Witness) -> tuple[bool, str, str]:
    """By what witnesses are sorted: today's tables of emulated devices, then when it was measured."""
    former = is_former(one.run.environment.device, one.run.environment.driver)
    return not former, one.run.began, one.folder


def _is_of_a_step_time(environment: Environment) -> bool:
    return environment.emulated and step_named(environment.device) is not None


def _account(machine: str, witnesses: Sequence[Witness], catalogue: Catalogue, only: str | None) -> Account:
    """The findings of one machine; its newest run decides what it can test."""
    newest_first = sorted(witnesses, key=_telling, reverse=True)
    everywhere = ANY if only in catalogue.workloads else only  # a claim about any workload is one about each
    wanted = [claim for claim in catalogue.claims if only is None or claim.workload in {only, everywhere}]
    found = (_finding(claim, newest_first, catalogue, only) for claim in wanted)
    emulated = newest_first[0].run.environment.emulated
    return Account(
        machine=machine + (" (contributed)" if any(one.contributed for one in witnesses) else ""),
        runs=tuple(one.folder for one in newest_first),
        findings=tuple(on_emulated(one) if emulated else one for one in found),
    )


def _finding(claim: Claim, witnesses: Sequence[Witness], catalogue: Catalogue, only: str | None) -> Finding:
    if claim.workload != ANY:
        return _on_one(claim, claim.workload, witnesses, catalogue)
    if only not in (None, ANY):
        return _on_one(claim, only, witnesses, catalogue)
    parts = [_on_one(claim, name, witnesses, catalogue) for name in sorted(catalogue.workloads)]
    return general(claim, parts)


def _on_one(claim: Claim, name: str, witnesses: Sequence[Witness], catalogue: Catalogue) -> Finding:
    workload, known = catalogue.workload(name), catalogue.optimizations
    meant = {
        environment: resolve(claim, ClaimContext(workload=workload, environment=environment, known=known))
        for environment in {one.run.environment for one in witnesses}
    }
    looks = []
    for one in witnesses:
        environment = one.run.environment
        resolution = meant[environment]
        trial = matching(resolution, name, one.trials)
        former, made_in = is_former(environment.device, environment.driver), f"{one.run.version} {environment.digest}"
        resolved = as_timed(claim, resolution, trial, workload, former=former)
        looks.append(Look(run=one.folder, resolution=resolved, trial=trial, made_in=made_in))
    return find(claim, name, looks)


# `compare`: the same configurations of several machines or environments, side by side.

PRICES = "prices.toml"  # below the results, where somebody keeps one


def show_comparison(
    runs: tuple[Path, ...], form: str, output: Path | None, *, machines: bool, prices: Path | None, results: Path
) -> None:
    """Shows or writes a comparison of some runs, or of all machines below a folder, in the form asked for.

    Raises Mistake where there is nothing to compare.
    """
    check_form(form)
    # What the user named is refused before anything is computed.
    places, known = _places(runs, results, machines=machines), _prices(prices, results)
    found = compare(places, known_limits(), known)
    if form == "json":
        deliver(comparison_to_json(found), output)
    else:
        deliver_parts(comparison_parts(found), form, output)


def _places(runs: tuple[Path, ...], results: Path, *, machines: bool) -> tuple[Column, ...]:
    if machines and runs:
        raise Mistake("Name runs, or compare --machines; both together would show some runs twice.")
    if machines:
        return of_machines(stored_runs(finished_and_measured(results)))
    if not runs:
        raise Mistake("Name the folders of two runs or more, or compare --machines for all below --results.")
    return of_runs([read_kept(folder) for folder in runs])


def _prices(named: Path | None, results: Path) -> Prices:
    path = named or results / PRICES
    if named is None and not path.exists():
        return NO_PRICES
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} cannot be read ({error}); name a file of prices with --prices.") from error
    return parse_prices(text, str(path))


# `list`: the workloads, optimizations, claims and designs there are.

# What fits a terminal; --json has it all.
SHOWN = {
    "workloads": ("name", "parameters", "sizes", "title"),
    "optimizations": ("name", "workload", "title", "levels"),
    "claims": ("name", "workload", "promise", "treatment"),
    "designs": ("name", "what"),
}


def show_list(own: Path | None, *, as_json: bool) -> None:
    """Prints everything that can be named on the command line."""
    everything = listed(read_catalogue(own))
    console = Console()
    if as_json:
        console.print_json(json.dumps(everything))
        return
    for title, entries in everything.items():
        console.print(_table(title, entries))


def listed(catalogue: Catalogue) -> dict[str, list[dict[str, Any]]]:
    """Workloads, optimizations, claims and designs, each as plain objects with a `name`."""
    workloads = [catalogue.workloads[name] for name in sorted(catalogue.workloads)]
    # In the order in which a run goes through the stages, then by name.
    stages = list(Stage)
    optimizations = sorted(catalogue.optimizations.values(), key=lambda one: (stages.index(one.stage), one.name))
    return {
        "workloads": [_workload(one) for one in workloads],
        "optimizations": [_optimization(one) for one in optimizations],
        "claims": [{**encode(one), "promise": promised(one)} for one in catalogue.claims],
        "designs": [{"name": name, "what": (design.__doc__ or "").strip()} for name, design in DESIGNS.items()],
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "title": workload.title,
        "parameters": workload.parameters,
        "variants": dict(workload.variants),
        "sizes": list(workload.sizes),
        "original": dict(workload.original),
        "score": workload.score,
        "lesson": encode(workload.lesson),
    }


def _optimization(optimization: Optimization) -> dict[str, Any]:
    return {
        "name": optimization.name,
        "title": optimization.title,
        "stage": optimization.stage,
        "numerics": optimization.numerics,
        "levels": list(optimization.levels),
        "workload": optimization.workload or "any",
        "timed_on": optimization.timed_on,
        "needs": [need.missing for need in optimization.needs],
        "requires": list(optimization.requires),
        "excludes": dict(optimization.excludes),
        "supersedes": list(optimization.supersedes),
        "sought": optimization.sought,
        "sets": _settings(optimization.sets),
        "proof": _settings(optimization.proof),
        "page": optimization.page,
    }


def _settings(settings: Mapping[str, Value | Level]) -> dict[str, Value]:
    """Names and values; LEVEL stands for the level that is chosen."""
    return {name: repr(value) if isinstance(value, Level) else value for name, value in settings.items()}


def _table(title: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in SHOWN[title]:
        narrow = 18 if name == "levels" else None
        table.add_column(name, no_wrap=name == "name", overflow="fold", max_width=narrow)
    for stage, alike in groupby(entries, key=lambda entry: entry.get("stage")):
        if stage is not None:
            table.add_row(f"[bold]{stage}[/bold]")
        for entry in alike:
            table.add_row(*(_shown(entry[name]) for name in SHOWN[title]))
        table.add_section()
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
