import math
from dataclasses import replace

import pytest

from harness.analyze.search.stage_model import Arrangement, Compared, Stack, Study, joined, measured_log_times
from harness.core.configuration import Option

A, B = Option(name="a"), Option(name="b")


def at(*options: Option) -> Arrangement:
    return Arrangement(options=options, overlapped=False)


def compared(treatment: Stack, reference: Stack, ratio: float, deviation: float = 0.01) -> Compared:
    return Compared(treatment=at(*treatment), reference=at(*reference), log_ratio=math.log(ratio), deviation=deviation)


def study(*ratios: Compared) -> Study:
    return Study(ratios=ratios, sights=(), seconds=0.1, declared={}, asynchronous=False)


def test_times_follow_chains_of_ratios() -> None:
    found = measured_log_times(study(compared((A, B), (), 2.0), compared((A,), (A, B), 0.5), compared((B,), (A,), 3.0)))
    times = {stack: math.exp(time) for stack, time in found.items()}
    assert times == pytest.approx({(): 0.1, (A, B): 0.05, (A,): 0.1, (B,): 0.1 / 3})


def test_what_was_measured_twice_has_a_mean_in_which_the_surer_weighs_more() -> None:
    found = measured_log_times(study(compared((A,), (), 2.0, 0.01), compared((A,), (), 4.0, 0.02)))
    assert found[A,] == pytest.approx(math.log(0.1) - (4 * math.log(2) + math.log(4)) / 5)


def test_what_no_ratio_leads_to_has_no_time() -> None:
    assert (B,) not in measured_log_times(study(compared((A,), (), 2.0), compared((B,), (B, A), 2.0)))


def test_only_studies_with_one_reference_are_joined() -> None:
    one, other = study(compared((A,), (), 2.0)), study(compared((B,), (), 3.0))
    assert len(joined([one, other]).ratios) == 2
    placed = [replace(made, ratios=tuple(replace(its, block="b0") for its in made.ratios)) for made in (one, other)]
    numbered = joined(placed)
    assert len({its.block for its in numbered.ratios}) == 2, "each run counts its own blocks"
    strange = replace(other, ratios=(compared((B,), (A,), 3.0),))
    with pytest.raises(ValueError, match="different references"):
        joined([one, strange])
