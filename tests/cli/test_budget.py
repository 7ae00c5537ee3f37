import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cli.measuring import age_s, seconds_of
from harness.core.mistake import Mistake


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
