"""On an invented H200 sharing buys ratios where contexts take the time, and says what else does."""

import pytest

from benchmarks.invented.h200 import CONTEXT_S, session
from harness.plan.planning import PROCESS, SHARED


@pytest.mark.thorough
def test_shared_arms_bring_more_ratios_in_the_same_minutes() -> None:
    alone, shared = (session(one, "compute", session_s=600.0) for one in (PROCESS, SHARED))
    assert alone.over_s == pytest.approx(600.0, abs=30.0)
    assert shared.ratios > alone.ratios
    assert shared.spent_s["contexts"] < alone.spent_s["contexts"] / 2
    assert CONTEXT_S > 0


def test_what_was_spent_is_the_whole_session() -> None:
    one = session(SHARED, "compute", session_s=120.0)
    assert sum(one.spent_s.values()) == pytest.approx(one.over_s, rel=0.1)
    assert one.windows_s == pytest.approx(one.spent_s["windows"])
