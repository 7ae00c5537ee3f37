"""Claims: what a machine's runs say of each promise in the ledger."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.analyze.absence import Absence, Outcome
from harness.analyze.estimate import Estimate
from harness.analyze.gauge import Trial, gauge
from harness.analyze.quality import Agreement, Quality
from harness.analyze.ruling import Gauged, Ruling, restarts_needed, rule
from harness.core.cell import Cell
from harness.core.claim import Bound, Claim, Metric, Resolution, Tried, Untried

# What another attempt may still put right; other absences are an answer.
_UNFINISHED = {Outcome.NOT_MEASURED, Outcome.ONE_RESTART, Outcome.INTERRUPTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One run's answer to one claim on one workload: how the claim is tested where it was made, and its comparison."""

    run: str
    resolution: Resolution
    trial: Trial | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """By what a claim was judged."""

    run: str
    cell: Cell  # the treatment
    reference: Cell
    tried: Tried
    data: str = ""  # what the real data were, in words; empty where they were the suite's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim on one machine: the ruling, the words that belong to it, and what it rests on."""

    claim: Claim
    workload: str  # or `any`, for what several workloads say together
    ruling: Ruling
    words: str = ""
    gauged: Gauged | None = None
    basis: Basis | None = None
    parts: tuple["Finding", ...] = ()  # workload by workload, where a claim is about training in general


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All findings of one machine, in the ledger's order."""

    machine: str
    runs: tuple[str, ...]  # those that were looked at, the newest first
    findings: tuple[Finding, ...]


def find(claim: Claim, workload: str, looks: Sequence[Look]) -> Finding:
    """What runs of one machine, the newest first, say of a claim on a workload.

    The newest run with an estimate of what the claim names decides, else the newest with an estimate of something like
    it; runs are never pooled. Raises ValueError where there is no run at all.
    """
    newest = looks[0].resolution
    if claim.untestable:
        return Finding(claim=claim, workload=workload, ruling=Ruling.UNTESTABLE, words=claim.untestable)
    answers = [look for look in looks if look.trial is not None and _is_answer(claim, look.trial)]
    answers.sort(key=lambda look: _rank(claim, look))  # stable: the newest of each kind stays first
    if answers:
        return _judged(claim, workload, answers[0])
    if isinstance(newest, Untried):
        return Finding(claim=claim, workload=workload, ruling=Ruling.NOT_TESTABLE_HERE, words=newest.reason)
    return Finding(claim=claim, workload=workload, ruling=Ruling.NOT_MEASURED, words=_command(workload))


def _command(workload: str) -> str:
    return f"speedmatrix run {workload} --design claims"


def _rank(claim: Claim, look: Look) -> int:
    """The place of a run among the answers: what was measured as claimed, then otherwise, then what has no estimate."""
    if not _is_decisive(claim, look):
        return 2
    return int(isinstance(look.resolution, Tried) and bool(look.resolution.shortfalls))


def _is_decisive(claim: Claim, look: Look) -> bool:
    """Whether a run has an estimate; a loss that became nan decides about quality without one."""
    if look.trial is None or isinstance(look.trial.result, Estimate):
        return look.trial is not None
    return claim.metric is Metric.QUALITY and _is_broken(look.trial)


def _is_broken(trial: Trial) -> bool:
    quality = trial.evidence.quality
    return quality is not None and quality.status is Agreement.NAN


def _is_answer(claim: Claim, trial: Trial) -> bool:
    """Whether nothing that another attempt would add is needed to judge."""
    if isinstance(trial.result, Absence) and trial.result.outcome in _UNFINISHED:
        return False
    return claim.metric is not Metric.DEVICE_SHARE or bool(trial.evidence.treatment.bursts)


def _judged(claim: Claim, workload: str, look: Look) -> Finding:
    trial, tried = look.trial, look.resolution
    if trial is None or not isinstance(tried, Tried):
        raise ValueError("only a comparison that was made can be judged")
    comparison = trial.evidence.comparison
    basis = Basis(run=look.run, cell=comparison.treatment, reference=comparison.reference, tried=tried, data=trial.data)
    found = Finding(claim=claim, workload=workload, ruling=Ruling.UNDECIDED, basis=basis)
    quality = trial.evidence.quality if claim.metric is Metric.QUALITY else None
    if isinstance(trial.result, Absence) and not (quality and _is_broken(trial)):
        return replace(found, words=trial.result.words)
    if quality is not None:
        ruling = Ruling.TESTED_OTHERWISE if tried.shortfalls else _ruled_quality(claim, quality)
        return replace(found, ruling=ruling, words=quality.sentence)
    if claim.metric is Metric.QUALITY:
        return replace(found, words="no losses were reported")
    gauged = gauge(claim.metric, trial)
    if isinstance(gauged, str):
        known = claim.metric is Metric.THROUGHPUT  # a cost that no record holds was not measured at all
        return replace(found, ruling=Ruling.UNDECIDED if known else Ruling.NOT_MEASURED, words=gauged)
    ruling = Ruling.TESTED_OTHERWISE if tried.shortfalls else rule(claim, gauged)
    words = (_more_restarts(claim, gauged),) if ruling is Ruling.UNDECIDED else ()
    return replace(found, ruling=ruling, words="; ".join((*words, *_caveats(trial))), gauged=gauged)


def _caveats(trial: Trial) -> Iterator[str]:
    """What a reader must know beside a ruling: that there was nothing to act on, or that it no longer learns alike."""
    yield from trial.evidence.treatment.pointless
    quality = trial.evidence.quality
    if quality is not None and quality.status in {Agreement.DIFFERS, Agreement.NAN}:
        yield f"but its quality {quality.status}: {quality.sentence}"


def _more_restarts(claim: Claim, gauged: Gauged) -> str:
    needed = restarts_needed(claim, gauged)
    if needed is None:
        return "too close to call: no number of restarts in reach would decide"
    return f"about {max(needed, gauged.restarts + 1)} restarts would decide, {gauged.restarts} were made"


def _ruled_quality(claim: Claim, quality: Quality) -> Ruling:
    if quality.status is Agreement.NOT_JUDGED:
        return Ruling.UNDECIDED
    kept = quality.status in {Agreement.SAME_BITS, Agreement.CLOSE}
    if claim.bound is Bound.LOSS:
        return Ruling.NO_EFFECT if kept else Ruling.CONFIRMED
    return Ruling.CONFIRMED if kept else Ruling.HARMFUL


def matching(resolution: Resolution, workload: str, made: Iterable[Trial]) -> Trial | None:
    """The comparison of a run that tests a claim there, whatever its size and batch; one with an estimate if it can."""
    if isinstance(resolution, Untried):
        return None
    found = [one for one in made if _matches(resolution, workload, one)]
    return min(found, key=lambda one: isinstance(one.result, Absence), default=None)


def _matches(tried: Tried, workload: str, trial: Trial) -> bool:
    comparison = trial.evidence.comparison
    wanted = (workload, tried.treatment, tried.reference, tried.timing)
    treatment, reference = comparison.treatment, comparison.reference
    return wanted == (treatment.workload, treatment.switches, reference.switches, comparison.timing)
