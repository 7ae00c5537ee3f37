"""All oracles, measured: every truth lies within its interval, and careless ways of measuring fail."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import pytest

from tests.oracles.catalogue import all_trials
from tests.oracles.judged import Judged, judge, most_misses
from tests.oracles.old_ways import OldWay, from_records, without_protections
from tests.oracles.runner import Measured
from tests.oracles.zygote import Zygote

pytestmark = [pytest.mark.alone, pytest.mark.oracles, pytest.mark.timeout(1200)]
TRIALS = all_trials()
WIDEST = 0.04  # median half-width of the log ratios
NAMES = [(one.experiment.name, oracle.option) for one in TRIALS for oracle in one.oracles]


@dataclass(frozen=True, slots=True)
class Everything:
    """What was measured, once for all tests."""

    judged: dict[tuple[str, str], Judged]
    kept: dict[str, Measured]


@pytest.fixture(scope="module")
def all_options() -> Iterator[Everything]:
    zygote, kept = Zygote(), dict[str, Measured]()
    try:
        judged = judge(TRIALS, zygote, kept)
        yield Everything({(one.experiment, one.option): one for one in judged}, kept)
    finally:
        zygote.close()


@pytest.mark.parametrize(("experiment", "option"), NAMES)
def test_the_truth_lies_within_the_interval(all_options: Everything, experiment: str, option: str) -> None:
    found = all_options.judged[experiment, option]
    assert found.holds, found


def test_no_more_intervals_miss_at_first_than_chance_explains(all_options: Everything) -> None:
    with_ratio = [one for one in all_options.judged.values() if one.true is not None]
    missed = [one for one in with_ratio if not one.within]
    assert len(missed) <= most_misses(len(with_ratio)), missed


def test_intervals_are_narrow_enough_to_prove_something(all_options: Everything) -> None:
    """Beside other work they are wide, and hold whatever is measured: then this has to run again, alone."""
    widths = [one.half_width for one in all_options.judged.values() if one.half_width is not None]
    assert median(widths) < WIDEST


def test_careless_ways_fail(all_options: Everything) -> None:
    judged = list(all_options.judged.values())
    found = [
        *from_records(TRIALS, all_options.kept, judged),
        *without_protections(TRIALS, judged),
    ]
    ways = {one.way for one in found}
    failing: dict[str, list[OldWay]] = {way: [one for one in found if one.way == way and one.fails] for way in ways}
    assert sum(bool(rows) for rows in failing.values()) >= 6, found
