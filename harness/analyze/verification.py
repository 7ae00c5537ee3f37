"""Verification: does an optimization take effect, and do its losses keep the promise of its numerics class?"""

from dataclasses import dataclass

from harness.analyze.quality import Agreement, Quality, judge_losses, judge_score
from harness.core.measurement import Lost, Ready
from harness.core.optimization import Numerics, Timing

SKIPPED, FAILED, NOT_ENGAGED = "skipped", "failed", "not engaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of one optimization on one workload."""

    workload: str
    subject: str
    promised: Numerics | None  # None where it could not be tried
    status: str  # an Agreement, or skipped, failed, not engaged
    sentence: str

    @property
    def broken(self) -> bool:
        """Whether a promise was not kept; what could not be tried here has broken none."""
        return self.status in {FAILED, NOT_ENGAGED, Agreement.DIFFERS, Agreement.NAN}


def verified(treatment: Ready | Lost, reference: Ready | Lost, promised: Numerics, timing: Timing) -> tuple[str, str]:
    """Status and sentence of an arm beside its reference: did it run, did it engage, do its losses agree?"""
    for name, arm in (("reference", reference), ("treatment", treatment)):
        if isinstance(arm, Lost):
            return FAILED, f"the {name}: {arm.reason}"
    assert isinstance(treatment, Ready) and isinstance(reference, Ready)  # noqa: S101, PT018  the loop has seen to it
    if treatment.unengaged:
        return NOT_ENGAGED, "; ".join(treatment.unengaged)
    quality = _quality(treatment, reference, promised, timing)
    return str(quality.status), quality.sentence


def _quality(treatment: Ready, reference: Ready, promised: Numerics, timing: Timing) -> Quality:
    if timing is not Timing.EVALUATION:
        return judge_losses(treatment, reference, promised)
    # An evaluation must leave the training alone, whatever it does to the score.
    trained = judge_losses(treatment, reference, Numerics.EXACT)
    if trained.status not in {Agreement.SAME_BITS, Agreement.CLOSE}:
        return trained
    return judge_score(treatment, reference, promised)
