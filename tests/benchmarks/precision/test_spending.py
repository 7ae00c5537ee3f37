import pytest

from benchmarks.precision.spending import LEAST_S, MOST_REPLICATES, ROUND_S, Cost, processes, replicates, timed


@pytest.mark.parametrize("seconds", [20.0, 30.0, 60.0, 120.0])
@pytest.mark.parametrize("lent", [0.0, 15.0])
def test_restarts_and_rounds_use_the_time_and_no_more(seconds: float, lent: float) -> None:
    cost = Cost(fixed_s=2.0, unit_s=4.5, lent=lent)
    chosen = replicates(seconds, cost)
    spent = cost.fixed_s + chosen["restarts"] * (cost.unit_s + (chosen["rounds"] - 1) * ROUND_S)
    assert spent <= seconds
    assert spent + chosen["restarts"] * ROUND_S > seconds  # not one more round
    assert 2 <= chosen["restarts"] <= MOST_REPLICATES
    assert chosen["rounds"] >= 2


def test_a_calibration_makes_fewer_restarts_worth_while() -> None:
    alone, calibrated = (replicates(30.0, Cost(fixed_s=2.0, unit_s=4.5, lent=lent)) for lent in (0.0, 20.0))
    assert calibrated["restarts"] < alone["restarts"]
    assert calibrated["rounds"] > alone["rounds"]


def test_too_little_time_buys_the_least() -> None:
    assert replicates(6.0, Cost(fixed_s=3.0, unit_s=5.0)) == {"restarts": 2, "rounds": 1}
    assert processes(6.0, Cost(fixed_s=0.0, unit_s=5.0)) == {"processes": 2}
    assert timed(6.0, Cost(fixed_s=7.0), parts=2) == {"seconds": LEAST_S}


def test_what_starting_leaves_is_shared_out() -> None:
    assert timed(30.0, Cost(fixed_s=4.0), parts=2) == {"seconds": 13.0}
    # Of either side, one process counts loops and five are timed: 12 at 2.5 s.
    assert processes(30.0, Cost(fixed_s=0.0, unit_s=2.5)) == {"processes": 5}
