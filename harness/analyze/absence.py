"""Absences: why a comparison has no estimate, as a typed outcome with words."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.evidence import Evidence
from harness.analyze.pairing import Pairs
from harness.analyze.quality import Agreement
from harness.analyze.soundness import unsettled, unsound
from harness.core.protocol import FEWEST_RESTARTS


class Outcome(StrEnum):
    """What happened instead of an estimate."""

    NOT_COMPARABLE = "not comparable"
    NOT_ENGAGED = "not engaged"
    UNSOUND = "unsound"
    FAILED = "failed"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    ONE_RESTART = "one restart only"
    NOT_MEASURED = "not measured yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What stands in the matrix in place of a ratio."""

    outcome: Outcome
    words: str  # complete: the outcome is said in them


def absence(evidence: Evidence, pairs: Pairs) -> Absence | None:
    """Why there can be no ratio, the gravest reason first, or None where one may be estimated."""
    return next(_reasons(evidence, pairs), None)


def _reasons(evidence: Evidence, pairs: Pairs) -> Iterator[Absence]:
    comparison, quality, restarts = evidence.comparison, evidence.quality, len(pairs.log_ratios)
    if comparison.treatment.batch != comparison.reference.batch:
        counts = f"{comparison.treatment.batch} samples a step against {comparison.reference.batch}"
        yield _absence(Outcome.NOT_COMPARABLE, counts)
    if unengaged := _unengaged(evidence):
        yield _absence(Outcome.NOT_ENGAGED, "; ".join(unengaged))
    for side, who in ((evidence.treatment, ""), (evidence.reference, "the reference: ")):
        yield from (_absence(Outcome.UNSOUND, who + words) for words in unsound(side))
    if words := unsettled(evidence):
        yield _absence(Outcome.UNSOUND, words)
    if quality is not None and quality.status is Agreement.NAN:
        yield _absence(Outcome.FAILED, quality.sentence)
    lost = evidence.treatment.lost + evidence.reference.lost
    for one in (one for one in lost if one.outcome != Outcome.INTERRUPTED):  # final: such an arm is not tried again
        who = "the reference: " if one.arm.position == 0 else ""
        yield _absence(Outcome(one.outcome), f"{who}{one.reason} (restart {one.arm.restart + 1})")
    if restarts < FEWEST_RESTARTS and lost:
        times = f", {len(lost)} times" if len(lost) > 1 else ""
        yield _absence(Outcome.INTERRUPTED, f"{lost[-1].reason}{times}; run the same command again to continue")
    if restarts == 0:
        yield _absence(Outcome.NOT_MEASURED, "run the same command again to continue")
    if restarts < FEWEST_RESTARTS:
        yield _absence(Outcome.ONE_RESTART, "run again to add the second")


def _absence(outcome: Outcome, words: str) -> Absence:
    return Absence(outcome=outcome, words=f"{outcome}: {words}")


def _unengaged(evidence: Evidence) -> tuple[str, ...]:
    """Every sentence once, in order; those of the reference say so."""
    own = [sentence for ready in evidence.treatment.readies for sentence in ready.unengaged]
    reference = [f"in the reference {words}" for ready in evidence.reference.readies for words in ready.unengaged]
    return tuple(dict.fromkeys(own + reference))
