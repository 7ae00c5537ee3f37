import pytest

from harness.cli.measuring import seconds_of
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
