import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.pairing import pair
from tests.analyze.synthetic import arm, burst, bursts


def test_a_bracket_computed_by_hand() -> None:
    # Middles: reference at 3.2 s (rate 100) and 23.2 s (rate 100), treatment at 12.13 s with twice a rate of 100.
    own = [
        burst(arm(), 0, 100.0, began_s=0.0),
        burst(arm(position=1), 1, 200.0, began_s=10.0),
        burst(arm(), 2, 100.0, began_s=20.0),
    ]
    assert pair(own, 1).log_ratios[0] == pytest.approx([math.log(2)])


def test_drift_of_the_reference_is_interpolated_in_time() -> None:
    # Reference: rate 100, 6.4 s long, middle 3.2 s; then rate 200, 3.2 s long, middle 41.6 s. The treatment's middle at
    # 22.4 s lies halfway, where the line reads 150.
    own = [
        burst(arm(), 0, 100.0, began_s=0.0),
        burst(arm(position=1), 1, 300.0, began_s=22.4 - 640 / 300 / 2),
        burst(arm(), 2, 200.0, began_s=40.0),
    ]
    assert pair(own, 1).log_ratios[0][0] == pytest.approx(math.log(300 / 150))


def test_lives_of_one_restart_count_together_and_brackets_never_span_them() -> None:
    own = [*bursts(0, 0, 2.0, rounds=2), *bursts(0, 0, 2.0, rounds=3, life=1), *bursts(0, 1, 2.0, rounds=1)]
    pairs = pair(own, 1)
    assert [len(restart) for restart in pairs.log_ratios] == [5, 1]
    assert pairs.count == 6


def test_interference_is_the_references_own_restlessness() -> None:
    rates = [100.0, 100.0 * math.e, 100.0]
    own = [burst(arm(), order, rate) for order, rate in enumerate(rates)]
    assert pair(own, 1).interference == pytest.approx(1.0)
    assert pair([], 1).interference == 0


def test_a_restart_without_brackets_does_not_count() -> None:
    own = [*bursts(0, 0, 1.5), burst(arm(restart=1), 0, 100.0)]
    assert np.shape(pair(own, 1).log_ratios) == (1, 4)


def test_crowding_is_the_mean_over_both_arms_of_what_was_read() -> None:
    life = list(bursts(0, 0, 1.2, rounds=1))
    assert pair(life, 1).crowding == 0
    read = [replace(one, others=share) for one, share in zip(life, (0.1, 0.4, None), strict=True)]
    assert pair(read, 1).crowding == pytest.approx(0.25)
    assert pair([*read, replace(read[1], arm=arm(0, 0, 2), others=0.9)], 1).crowding == pytest.approx(0.25)
