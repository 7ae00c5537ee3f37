import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from harness.analyze.attribution import (
    Attribution,
    Basis,
    Gain,
    attribute,
    attributed,
    combined,
)
from harness.analyze.collection import StoredRow, StoredRun, answered
from harness.core.configuration import Comparison, Configuration
from harness.core.optimization import Timing
from tests.analyze.synthetic import ENVIRONMENT, config, matrix, plan, records

NAMES = ("workers", "amp", "pin_memory", "chunk_cache")


def exactly(log: float) -> Gain:
    return Gain(log=log, half_width=0.0)


def worth(subset: frozenset[int], single: np.ndarray, pair: np.ndarray) -> float:
    """The log ratio of a subset where options interact in pairs only."""
    inside = sorted(subset)
    return float(single[inside].sum() + sum(pair[i, j] for i in inside for j in inside if i < j))


def shapley(single: np.ndarray, pair: np.ndarray) -> list[float]:
    """Over all orders, one by one, as Shapley defines it."""
    count, shares = len(single), np.zeros(len(single))
    orders = list(permutations(range(count)))
    for order in orders:
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            shares[player] += worth(before | {player}, single, pair) - worth(before, single, pair)
    return list(shares / len(orders))


def measured(single: np.ndarray, pair: np.ndarray) -> Attribution:
    everyone = frozenset(range(len(single)))
    whole = worth(everyone, single, pair)
    alone = {NAMES[i]: exactly(worth(frozenset({i}), single, pair)) for i in everyone}
    last = {NAMES[i]: exactly(whole - worth(everyone - {i}, single, pair)) for i in everyone}
    return attribute(NAMES, exactly(whole), alone, last)


def test_with_pairs_alone_the_mean_of_first_and_last_is_shapleys_value() -> None:
    generator = np.random.default_rng(1)
    for _ in range(5):
        single, pair = generator.normal(0, 0.3, 4), generator.normal(0, 0.2, (4, 4))
        found = {share.name: share.gain.log for share in measured(single, pair).shares}
        for name, share in zip(NAMES, shapley(single, pair), strict=True):
            assert math.isclose(found[name], share, abs_tol=1e-12)


def test_the_parts_multiply_to_the_whole_with_nothing_left_where_only_pairs_interact() -> None:
    generator = np.random.default_rng(2)
    parts = measured(generator.normal(0, 0.3, 4), generator.normal(0, 0.2, (4, 4)))
    assert parts.is_exact
    assert math.isclose(parts.beyond.log, 0, abs_tol=1e-12)
    product = math.prod(share.gain.ratio for share in parts.shares) * parts.beyond.ratio
    assert math.isclose(product, parts.total.ratio)
    assert [share.gain.log for share in parts.shares] == sorted((one.gain.log for one in parts.shares), reverse=True)


def test_what_three_do_together_is_left_over_and_scaled_into_nothing() -> None:
    names = NAMES[:3]
    single = dict.fromkeys(names, exactly(0.1))
    last = dict.fromkeys(names, exactly(0.1 + 0.3))  # v of all is 0.3 + 0.3, of each pair 0.2
    parts = attribute(names, exactly(0.6), single, last)
    assert [share.gain.log for share in parts.shares] == pytest.approx([0.25] * 3)
    assert parts.beyond.log == pytest.approx(0.6 - 0.75)  # Shapley would give 0.2 to each: higher orders show


def test_a_part_that_was_measured_one_way_says_so_and_one_that_was_not_is_named() -> None:
    parts = attribute(NAMES, exactly(1.0), {"workers": exactly(0.5)}, {"amp": exactly(0.2)})
    assert {share.name: share.basis for share in parts.shares} == {"workers": Basis.FIRST, "amp": Basis.LAST}
    assert parts.unmeasured == ("pin_memory", "chunk_cache")
    assert not parts.is_exact
    assert parts.beyond.log == pytest.approx(0.3)


def test_half_widths_add_up_whatever_the_signs() -> None:
    one, other = Gain(log=0.3, half_width=0.02), Gain(log=0.1, half_width=0.03)
    difference = combined((1.0, one), (-1.0, other))
    assert (difference.log, difference.half_width) == pytest.approx((0.2, 0.05))
    share = attribute(["a"], exactly(0.4), {"a": one}, {"a": other}).shares[0]
    assert share.gain.half_width == pytest.approx(0.025)
    assert difference.is_clear
    assert not Gain(log=0.01, half_width=0.02).is_clear


def test_an_endless_interval_stays_endless() -> None:
    open_ended = Gain(log=0.1, half_width=math.inf)
    assert (open_ended.low, open_ended.high) == (0.0, math.inf)
    assert not open_ended.is_clear
    assert combined((0.5, open_ended), (0.5, exactly(0.0))).half_width == math.inf


def compared(treatment: tuple[str, ...], reference: tuple[str, ...] = ()) -> Comparison:
    label = "+".join(treatment)
    return Comparison(label=label, treatment=config(*treatment), reference=config(*reference), timing=Timing.STEP)


def collected(*made: tuple[Comparison, float]) -> dict[tuple[Configuration, Configuration], StoredRow]:
    """Entries of one run by treatment and reference, each with an exact ratio."""
    known = [record for index, (_, ratio) in enumerate(made) for record in records(index, ratio)]
    kept = StoredRun(
        name="20260102T030405-0",
        began="2026-01-02T03:04:05+00:00",
        command="speedmatrix run leak",
        version="0.2.0",
        matrix=matrix(plan(*(comparison for comparison, _ in made)), known),
    )
    entries = answered([kept])
    return {(one.row.comparison.treatment, one.row.comparison.reference): one for one in entries}


ALL = ("amp", "chunk_cache", "workers")


def apart(*made: tuple[Comparison, float]) -> Attribution:
    found = collected((compared(ALL), 3.0), *made)
    return attributed(found[config(*ALL), config()], found.values())


@pytest.mark.parametrize(
    "last",
    [
        (compared(ALL, ("amp", "chunk_cache")), 2.0),  # against all the others
        (compared(("amp", "chunk_cache"), ALL), 0.5),  # taken away from all
        (compared(("amp", "chunk_cache")), 1.5),  # both against the baseline
    ],
)
def test_what_a_switch_adds_last_is_found_however_it_was_measured(last: tuple[Comparison, float]) -> None:
    (share,) = apart((compared(("workers",)), 1.8), last).shares
    assert (share.name, share.basis) == ("workers", Basis.BOTH)
    assert share.gain.ratio == pytest.approx(math.sqrt(1.8 * 2.0))


def test_only_what_was_measured_alike_counts() -> None:
    step = (compared(("workers",)), 1.8)
    found = collected((compared(ALL), 3.0), step)
    whole, alone = found[config(*ALL), config()], found[config("workers"), config()]
    assert [share.name for share in attributed(whole, [alone]).shares] == ["workers"]
    again, elsewhere = replace(ENVIRONMENT, memory_bytes=ENVIRONMENT.memory_bytes - 4096), replace(ENVIRONMENT, cores=1)
    same, foreign = (
        replace(alone, run=replace(alone.run, matrix=replace(alone.run.matrix, environment=one)))
        for one in (again, elsewhere)
    )
    assert [share.name for share in attributed(whole, [same]).shares] == ["workers"], "some pages less on another day"
    real = replace(alone, run=replace(alone.run, matrix=replace(alone.run.matrix, data={"leak": "real files"})))
    for other in (foreign, real):
        assert attributed(whole, [other]).shares == ()


def test_a_stack_without_an_estimate_cannot_be_taken_apart() -> None:
    kept = replace(next(iter(collected((compared(ALL), 3.0)).values())).run, matrix=matrix(plan(compared(ALL)), []))
    (entry,) = answered([kept])
    with pytest.raises(ValueError, match="only a stack with an estimate"):
        attributed(entry, [])
