"""The page on coverage shows that every promise is kept, on enough configurations."""

import re
from pathlib import Path

from benchmarks.invented.coverage import CHEAPER, PROMISED, WRONG_AT_MOST
from benchmarks.invented.machines import WORLDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coverage.md").read_text(encoding="utf-8")


def command() -> re.Match[str]:
    found = re.search(r"^    (.*--cells (\d+) --protocol (\w+) --seed (\d+) .*)$", PAGE, re.MULTILINE)
    assert found
    return found


def test_enough_cells_stand_behind_the_page_and_every_promise_is_kept() -> None:
    assert int(command()[2]) >= 500
    assert PAGE.count("yes, everywhere.") == 3
    restless = {one.name for one in WORLDS if one.workload is None}
    rows = re.findall(r"^\| (\S.*?) \| [\d.]+ % \\\[.*?, ([\d.]+) times ours \|", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == [one.name for one in WORLDS]
    for name, times in rows:
        assert name not in restless or float(times) >= CHEAPER
    ours = PAGE.partition("## speedmatrix")[2].partition("##")[0]
    shares = re.findall(r"^\| [^|]+ \| ([\d.]+) % \\\[([\d.]+), ", ours, re.MULTILINE)
    held, least = ([float(one) for one in column] for column in zip(*shares, strict=True))
    wrong = [float(one) for one in re.findall(r"\| ([\d.]+) % [^|]*\|$", ours, re.MULTILINE)]
    assert len(held) == len(wrong) == len(WORLDS)
    assert min(held) >= 100 * PROMISED[0]
    assert max(least) <= 100 * PROMISED[1]
    assert max(wrong) <= 100 * WRONG_AT_MOST
