import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.mistake import Mistake
from harness.core.protocol import BRIEF, STANDARD, Protocol
from harness.core.records import Record
from harness.plan.cost import Forecast, Pace
from harness.plan.schedule import by_replicate
from harness.run.preparation import age_s, check_budget, seconds_of
from tests.analyze.synthetic import comparison, plan, records


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("4m40s", 280), ("2h", 7200), ("1h1m1s", 3661), ("0s", 0), ("none", None)]
)
def test_budgets(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "3", "-3s", "1s1m", "1.5h", "2h "])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(Mistake, match="is not a time; write 90s, 4m40s, 2h or none"):
        seconds_of(text)


def test_the_age_of_a_command_counts_from_its_start_and_by_no_clock_that_is_set() -> None:
    before = age_s()
    time.sleep(0.2)
    assert 0.15 < age_s() - before < 5
    show = "import time; time.sleep(0.5); from harness.cli.measuring import age_s; print(age_s())"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 0.5 < float(done.stdout) < time.monotonic() - began + 0.1


ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------------------------------------- what is too short

PACES = {"leak": Pace(step_s=0.06), "speaker": Pace(step_s=2.0)}


def forecast(*workloads: str, protocol: Protocol = BRIEF, records: Iterable[Record] = ()) -> Forecast:
    one = plan(*(comparison("workers", workload=name) for name in workloads))
    one = replace(one, protocol=protocol)
    return Forecast(plan=one, kept=by_replicate(records), paces=PACES, arm_s={})


@pytest.mark.parametrize("protocol", [BRIEF, STANDARD])
@pytest.mark.parametrize("workloads", [("leak",), ("speaker",), ("leak", "speaker")])
def test_a_budget_that_buys_no_ratio_is_refused_with_one_that_does(
    protocol: Protocol, workloads: tuple[str, ...]
) -> None:
    known = forecast(*workloads, protocol=protocol)
    with pytest.raises(Mistake, match="is too short for a ratio here") as refused:
        check_budget("10s", 4.0, known)
    named = re.findall(r"\b(?:\d+m)?(?:\d+s)?\b", str(refused.value).split("give ")[1])
    enough, *for_all = [one for one in named if one]
    check_budget(enough, 4.0, known)
    needed_s = min(known.first_ratio_s(*one) for one in known.first_ratios())
    assert needed_s < (seconds_of(enough) or 0) < 1.2 * needed_s + 80
    short = f"{int(needed_s)}s"  # nothing would be left for the start and the report
    with pytest.raises(Mistake):
        check_budget(short, 4.0, known)
    assert len(for_all) == (len(workloads) > 1)
    assert all((seconds_of(one) or 0) > (seconds_of(enough) or 0) for one in for_all)


def test_three_minutes_of_the_standard_protocol_are_no_time_that_is_spent_in_vain() -> None:
    with pytest.raises(Mistake) as refused:
        check_budget("1m", 4.0, forecast("leak", protocol=STANDARD))
    enough = seconds_of(str(refused.value).split("give ")[1].split()[0])
    assert enough
    assert enough < 300


def test_no_budget_and_a_run_with_a_ratio_are_never_refused() -> None:
    check_budget("none", 4.0, forecast("leak"))
    check_budget("5s", 4.0, forecast("leak", "speaker", records=records(0, 2.0)))
    halved = forecast("leak", records=[one for one in records(0, 2.0) if one.arm.replicate == 0])
    half_s = 12.0 + halved.first_ratio_s(*halved.first_ratios()[0])
    check_budget(f"{int(half_s) + 1}s", 4.0, halved)
