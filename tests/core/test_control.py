"""Controls are known by name, can be composed, and are nobody's optimization."""

from dataclasses import replace

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import (
    CONTROLS,
    SHARES,
    Comparison,
    Conflict,
    compose,
    is_control,
    parse_option,
    planted,
    unmet,
)
from harness.core.optimization import Timing
from harness.core.recipe import ImpossibleRecipe, Recipe, difference
from tests.analyze.synthetic import ENVIRONMENT, config
from tests.core.invented import GPU, KNOWN, workload

TOY = workload()
ALL = {**KNOWN, **CONTROLS}


@pytest.mark.parametrize("name", sorted(CONTROLS))
def test_a_control_changes_a_place_and_a_length_and_nothing_else(name: str) -> None:
    recipe = compose(TOY, [parse_option(f"{name}=3")], ALL)
    changed = difference(recipe, Recipe(own=recipe.own))
    assert changed == {"added_delay": (None, name.removesuffix("_delay")), "delay_percent": (0, 3)}


@pytest.mark.parametrize("other", ["workers=2", "split=2"])
def test_what_would_hide_a_delay_cannot_be_beside_it(other: str) -> None:
    with pytest.raises(Conflict, match="cannot be together"):
        compose(TOY, [parse_option("host_delay=3"), parse_option(other)], ALL)


def test_two_delays_at_once_are_a_conflict() -> None:
    with pytest.raises(Conflict, match="both set added_delay"):
        compose(TOY, [parse_option("host_delay=3"), parse_option("loader_delay=3")], ALL)


def test_a_delay_without_a_length_is_impossible() -> None:
    with pytest.raises(ImpossibleRecipe, match="go together"):
        Recipe(added_delay="host")
    with pytest.raises(ImpossibleRecipe, match="go together"):
        Recipe(delay_percent=3)


def test_a_cpu_has_no_device_to_put_to_sleep() -> None:
    device = CONTROLS["device_delay"]
    assert unmet(device, ENVIRONMENT, TOY) == "a CPU computes itself: host_delay is its control"
    assert unmet(device, GPU, TOY) is None
    assert unmet(CONTROLS["host_delay"], ENVIRONMENT, TOY) is None


def test_the_catalogue_knows_controls_by_name_and_lists_none() -> None:
    catalogue = read_catalogue(ledger=False)
    assert not catalogue.optimizations.keys() & CONTROLS.keys()
    assert catalogue.known.keys() == catalogue.optimizations.keys() | CONTROLS.keys()
    assert catalogue.optimization("host_delay") is CONTROLS["host_delay"]
    for one in catalogue.workloads.values():
        assert not {optimization.name for optimization in catalogue.of(one)} & CONTROLS.keys()


def test_what_was_planted_is_read_from_what_differs() -> None:
    plain = config()
    delayed = replace(plain, options=(parse_option(f"host_delay={SHARES[0]}"),))
    comparison = Comparison(label="host_delay", treatment=delayed, reference=plain, timing=Timing.STEP)
    assert planted(comparison) == 3
    assert planted(replace(comparison, treatment=plain)) is None
    assert planted(replace(comparison, reference=delayed)) is None
    assert is_control([plain, delayed])
    assert not is_control([plain, config("workers")])
