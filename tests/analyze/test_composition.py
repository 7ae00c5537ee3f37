import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.attribution import effects
from harness.analyze.composition import ARRIVING, MISFIT, Arrival, Composed, arrival, composed, precisions
from harness.analyze.estimate import Estimate, estimates
from harness.analyze.matrix import Row
from harness.analyze.verdict import Verdict
from harness.core.optimization import Timing
from harness.core.plan import STAGES, Plan
from harness.core.records import Record
from harness.report import matrix as matrix_report
from harness.report import overview, words
from tests.analyze.synthetic import comparison, matrix, pairs_of, plan, records


def part(*log_ratios: float) -> Estimate:
    """A part's ratio, as surely known as its neighbours allow."""
    found: Estimate = estimates([pairs_of(*((one,) for one in log_ratios))] * 6)[0]
    return found


@pytest.mark.parametrize(
    ("share", "ratio", "expected"),
    [(0.5, 2.0, 1 / 0.75), (0.06, 120.0, 1 / (0.94 + 0.06 / 120)), (0.9, 0.5, 1 / 1.9), (0.3, 1.0, 1.0)],
)
def test_a_part_counts_by_its_share(share: float, ratio: float, expected: float) -> None:
    found = composed(part(math.log(ratio) - 0.01, math.log(ratio) + 0.01), [share, share])
    assert found.ratio == pytest.approx(expected)
    assert found.low < expected < found.high
    assert found.share == pytest.approx(share)


def test_a_small_share_makes_a_wide_ratio_narrow() -> None:
    wide = part(-0.3, 0.3)
    found = composed(wide, [0.05, 0.05])
    assert wide.half_width > 0.3
    assert found.half_width < 0.05
    assert found.verdict is Verdict.UNDECIDED


def test_no_interval_is_narrower_than_the_formula_was_seen_to_miss() -> None:
    found = composed(part(0.0, 0.0), [0.001, 0.001])
    assert found.half_width > 1.9 * MISFIT


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3, 20.0])
@pytest.mark.parametrize("replicates", [2, 4])
def test_intervals_hold_as_often_as_they_say(share: float, ratio: float, replicates: int) -> None:
    """Loader, step, process and what arrives have a scatter of their own; the pool has eight options."""
    random, trials, held = np.random.default_rng(hash((share, ratio, replicates)) % 2**32), 250, 0
    for _ in range(trials):
        logs = math.log(ratio) + random.normal(0, 0.06, (8, replicates))
        chosen = estimates([pairs_of(*((float(one),) for one in row)) for row in logs])[0]
        loads, computes = (np.exp(random.normal(0, 0.04, replicates)) for _ in range(2))
        seen = share * loads / (share * loads + (1 - share) * computes)
        arrives = random.normal(1, ARRIVING)
        truth = (1 - share + share / ratio) ** -arrives * math.exp(random.normal(0, MISFIT))
        found = composed(chosen, [float(one) for one in seen])
        held += found.low <= truth <= found.high
    assert held / trials >= 0.92, held


def test_what_arrives_is_learned_from_what_was_timed_on_steps_too() -> None:
    """Half of the loader's gain is lost, as surely as four replicates can tell."""
    loader, share = part(*[math.log(4.0)] * 4), 0.6
    plain = composed(loader, [share, share]).ratio
    seen = arrival([(part(*[math.log(plain) / 2] * 4), loader)], [share, share])
    assert seen.seen == 1
    assert 0.5 < seen.share < 0.6
    assert seen.deviation < ARRIVING / 2
    assert composed(loader, [share, share], seen).ratio == pytest.approx(plain**seen.share)


def test_an_effect_too_small_to_tell_teaches_nothing() -> None:
    assert arrival([(part(0.3, 0.3), part(0.001, 0.001))], [0.5, 0.5]) == Arrival()


def of_stages(design: str = STAGES) -> tuple[Plan, list[Record]]:
    """A run in which the reference loads for four fifths of each step and an option halves that on the loader alone."""
    told = plan(comparison("amp"), comparison("workers", timing=Timing.LOADER))
    return replace(told, design=design), [*records(0, 1.3), *records(1, 2.0, timing=Timing.LOADER)]


def rows(design: str) -> dict[str, Row]:
    return {row.label: row for row in matrix(*of_stages(design)).rows}


def test_a_run_of_stages_says_what_a_part_comes_to_on_steps() -> None:
    found = rows(STAGES)
    assert found["amp"].on_steps is None
    assert isinstance(found["workers"].on_steps, Composed)
    assert found["workers"].estimate is not None
    assert found["workers"].estimate.ratio == pytest.approx(2.0, rel=1e-3)
    assert found["workers"].on_steps.ratio == pytest.approx(1 / (0.2 + 0.8 / 2), rel=1e-3)
    assert found["workers"].shown == found["workers"].on_steps


def test_no_other_design_composes() -> None:
    """Whoever probes a loader with workers has parts that do not add up to a step."""
    assert all(row.on_steps is None for row in rows("alone").values())


def test_replicates_are_added_by_what_a_part_weighs() -> None:
    weighed, whole = precisions(*of_stages()), precisions(*of_stages("alone"))
    assert weighed["1", 1].half_width == pytest.approx(0.8 * whole["1", 1].half_width)
    assert weighed["0", 1].half_width == whole["0", 1].half_width


def test_advice_marks_what_is_composed_and_tells_no_memory_of_it() -> None:
    (row,) = (one for one in matrix(*of_stages()).rows if one.on_steps)
    assert overview._prices(row)[0] == words.NOTHING
    assert matrix_report._of_steps(row).startswith(matrix_report.COMPOSED)
    (effect,) = effects([row])
    assert row.on_steps is not None
    assert (effect.timing, effect.verdict) == (Timing.STEP, row.on_steps.verdict)
    assert effect.gain.ratio == pytest.approx(row.on_steps.ratio)
