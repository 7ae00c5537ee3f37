"""What became of an arm beside its reference: lost, not active, or judged by its losses."""

from dataclasses import replace

import pytest

from harness.analyze.quality import Verified, verified
from harness.core.optimization import Numerics, Timing
from harness.core.records import Lost, Ready
from tests.analyze.synthetic import LOSSES, arm, ready

REFERENCE = replace(ready(arm()), seed_spread=0.1, losses=LOSSES)
MOVED = replace(REFERENCE, losses=tuple(one + 0.05 for one in LOSSES))
GONE = Lost(arm=arm(), outcome="failed", reason="out of memory: no more host memory")


@pytest.mark.parametrize(
    ("treatment", "reference", "promised", "status"),
    [
        (REFERENCE, REFERENCE, Numerics.EXACT, "same bits"),
        (MOVED, REFERENCE, Numerics.EXACT, "differs"),
        (MOVED, REFERENCE, Numerics.CLOSE, "close"),
        (replace(MOVED, losses=tuple(one + 0.2 for one in LOSSES)), REFERENCE, Numerics.CLOSE, "differs"),
        (MOVED, REFERENCE, Numerics.DIFFERENT, "another training"),
        (replace(MOVED, losses=(2.3, float("nan"), 1.9)), REFERENCE, Numerics.DIFFERENT, "nan"),
        (replace(REFERENCE, inactive=("workers is 0, not 4",)), REFERENCE, Numerics.EXACT, "not active"),
        (GONE, REFERENCE, Numerics.EXACT, "failed"),
        (REFERENCE, GONE, Numerics.EXACT, "failed"),
    ],
)
def test_status(treatment: Ready | Lost, reference: Ready | Lost, promised: Numerics, status: str) -> None:
    assert verified(treatment, reference, promised, Timing.STEP)[0] == status


def test_an_evaluation_is_judged_by_its_score_where_the_reference_does_not_repeat_its_bits() -> None:
    reference = replace(REFERENCE, score=0.5, repeat_spread=1.0, seed_spread=1.0)
    moved = replace(MOVED, score=0.7)
    assert verified(moved, reference, Numerics.EXACT, Timing.EVALUATION)[0] == "differs"
    assert verified(replace(moved, score=0.501), reference, Numerics.EXACT, Timing.EVALUATION)[0] == "close"


def test_an_evaluation_that_changes_the_training_is_broken_whatever_its_score() -> None:
    scored = replace(REFERENCE, score=0.5)
    assert verified(replace(MOVED, score=0.5), scored, Numerics.CLOSE, Timing.EVALUATION)[0] == "differs"
    assert verified(scored, scored, Numerics.EXACT, Timing.EVALUATION)[0] == "same bits"
    assert verified(replace(scored, score=0.7), scored, Numerics.EXACT, Timing.EVALUATION)[0] == "differs"


def test_the_words_say_who_failed_and_why() -> None:
    status, sentence = verified(REFERENCE, GONE, Numerics.EXACT, Timing.STEP)
    assert (status, sentence) == ("failed", "the reference: out of memory: no more host memory")


@pytest.mark.parametrize(
    ("status", "broken"),
    [("same bits", False), ("close", False), ("another training", False), ("not judged", False), ("skipped", False)]
    + [(one, True) for one in ("differs", "nan", "failed", "not active")],
)
def test_what_counts_as_broken(status: str, broken: bool) -> None:
    found = Verified(workload="leak", label="one", promised=None, status=status, sentence="")
    assert found.broken is broken
