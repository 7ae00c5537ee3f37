"""Every fault, injected: the right words, kind and status, nothing lost and nothing left."""

import pytest

from tests.faults.injected import Injected
from tests.faults.page import Told
from tests.faults.stage import Stage
from tests.faults.suite import FAULTS

QUICK = {"an arm is killed"}  # the others take minutes, or a quicker test holds what they refuse


def marks_of(one: Injected) -> list[pytest.MarkDecorator]:
    return [pytest.mark.alone] * one.alone + [pytest.mark.thorough] * (one.name not in QUICK)


EACH = [pytest.param(one, marks=marks_of(one), id=one.name) for one in FAULTS]


@pytest.mark.parametrize("injected", EACH)
def test_a_fault_is_told_and_nothing_is_lost_or_left(injected: Injected, stage: Stage, seen: list[Told]) -> None:
    if missing := injected.lacks():
        seen.append(Told(injected=injected, words="", missing=missing))
        pytest.skip(f"{missing}; would check that this is told: {injected.says}")
    words = injected.judge(injected.act(stage))
    stage.assert_nothing_is_left()
    seen.append(Told(injected=injected, words=words))
