"""`claims`: what the runs of each machine say of the ledger's promises."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analyze.claims import Account, Finding, Look, find, matching
from harness.analyze.collection import TOO_SMALL
from harness.analyze.gauge import Trial, trials
from harness.analyze.generality import general
from harness.analyze.terms import UNCALIBRATED
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.reporting import console, deliver
from harness.cli.shelf import calibration_beside
from harness.core.claim import ANY, Claim
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.plan.claimed import Ground, resolve
from harness.report.claim_tables import to_json, to_markdown, to_terminal
from harness.store import read_records, read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One run, read."""

    folder: str  # its name, without where it lies
    began: str
    environment: Environment
    trials: tuple[Trial, ...]


def show_claims(runs: tuple[Path, ...], form: str, place: tuple[Path | None, Path], only: str | None) -> None:
    """Shows or writes the findings of some runs, or of all below a folder; `place` is the output and that folder."""
    output, results = place
    if form not in {"terminal", "markdown", "json"}:
        raise Mistake(f"There is no format '{form}'; choose terminal, markdown or json.")
    catalogue = read_catalogue()
    if only is not None and only != ANY:
        catalogue.workload(only)  # refuses a name that would silently show nothing
    witnesses = [_read(folder) for folder in runs] if runs else list(witnesses_of(_below(results)))
    if not witnesses:
        raise Mistake(f"There is no measured run in {results}; ./speedmatrix run --design claims makes one.")
    deliver(_rendered(accounts(witnesses, catalogue, only), form), output)


def accounts(witnesses: Sequence[Witness], catalogue: Catalogue, only: str | None = None) -> list[Account]:
    """What the runs say of every claim, or of one workload's alone; the machine that tested most of them first."""
    machines = sorted({one.environment.machine for one in witnesses})
    found = [
        _account(name, [one for one in witnesses if one.environment.machine == name], catalogue, only)
        for name in machines
    ]
    return sorted(found, key=lambda one: -sum(finding.gauged is not None for finding in one.findings))


def _rendered(accounts: Sequence[Account], form: str) -> str:
    if form == "terminal":
        where = console()
        return to_terminal(accounts, width=where.width, colour=where.is_terminal)
    return to_markdown(accounts) if form == "markdown" else to_json(accounts)


def _below(results: Path) -> list[Path]:
    folders = [path.parent for path in sorted(results.glob("*/*/run.json"))]
    if not folders:
        raise Mistake(f"There is no run in {results}; ./speedmatrix run --design claims measures one.")
    return folders


def witnesses_of(folders: Iterable[Path]) -> Iterator[Witness]:
    """Every run of real times, without what was measured at a size that proves nothing."""
    for folder in folders:
        if not read_run(folder).rehearsed:
            one = _read(folder)
            large = tuple(trial for trial in one.trials if trial.evidence.comparison.treatment.size != TOO_SMALL)
            yield Witness(folder=one.folder, began=one.began, environment=one.environment, trials=large)


def _read(folder: Path) -> Witness:
    run = read_run(folder)
    if run.rehearsed:
        raise Mistake(
            f"{folder} was rehearsed: its times are invented and prove nothing; name a run that was measured."
        )
    calibration = calibration_beside(folder, run)
    made = trials(run.plan, read_records(folder), calibration.terms if calibration else UNCALIBRATED)
    return Witness(folder=folder.resolve().name, began=run.began, environment=run.environment, trials=made)


def _account(machine: str, witnesses: Sequence[Witness], catalogue: Catalogue, only: str | None) -> Account:
    """The findings of one machine; its newest run decides what it can test."""
    newest_first = sorted(witnesses, key=lambda one: (one.began, one.folder), reverse=True)
    wanted = [
        claim for claim in catalogue.claims if only is None or only in {claim.workload, *_named(claim, catalogue)}
    ]
    return Account(
        machine=machine,
        runs=tuple(one.folder for one in newest_first),
        findings=tuple(_finding(claim, newest_first, catalogue, only) for claim in wanted),
    )


def _named(claim: Claim, catalogue: Catalogue) -> tuple[str, ...]:
    return tuple(sorted(catalogue.workloads)) if claim.workload == ANY else ()


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
        environment: resolve(claim, Ground(workload=workload, environment=environment, known=known))
        for environment in {one.environment for one in witnesses}
    }
    looks = [
        Look(
            run=one.folder,
            resolution=meant[one.environment],
            trial=matching(meant[one.environment], name, one.trials),
        )
        for one in witnesses
    ]
    return find(claim, name, looks)
