"""The design `calibration`: enough copies, in every place, and delays that no other design has."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from harness.core.configuration import CONTROLS, Comparison, Option, is_control
from harness.core.environment import Environment
from harness.core.plan import NoResult
from harness.core.protocol import BRIEF, Protocol
from harness.plan.designs import COPIES, DESIGNS, calibration
from harness.plan.feasibility import Entry
from harness.plan.schedule import blocks
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU, KNOWN
from tests.plan.test_designs import scope

EVERYTHING = {**KNOWN, **CONTROLS}


def planned(**facts: Any) -> list[Entry]:
    return list(calibration(replace(scope(**facts), known=EVERYTHING)))


def copies(entries: list[Entry]) -> list[Comparison]:
    found = [one for one in entries if isinstance(one, Comparison)]
    return [one for one in found if one.treatment == one.reference]


@pytest.mark.parametrize(("workloads", "each"), [(1, 20), (2, 10), (3, 7), (5, 4), (9, 4)])
def test_copies_are_shared_out_and_are_twenty_in_all(workloads: int, each: int) -> None:
    found = copies(planned(workloads=workloads, protocol=Protocol(treatments=4)))
    assert len(found) == each
    assert len(found) * workloads >= COPIES
    assert [one.copy for one in found] == list(range(each))


@pytest.mark.parametrize("protocol", [Protocol(), BRIEF])
@pytest.mark.parametrize("workloads", [1, 2, 5])
@pytest.mark.parametrize("environment", [GPU, ENVIRONMENT])
def test_every_place_of_a_block_holds_a_copy(protocol: Protocol, workloads: int, environment: Environment) -> None:
    entries = planned(workloads=workloads, protocol=protocol, environment=environment)
    made = blocks([one for one in entries if isinstance(one, Comparison)], protocol.treatments)
    places = Counter(
        place for block in made for place, one in enumerate(block.comparisons) if one.treatment == one.reference
    )
    assert set(places) == set(range(protocol.treatments))


def test_delays_of_both_lengths_come_first_in_every_place_that_there_is() -> None:
    on_gpu = [one.label for one in planned(environment=GPU)[:6] if isinstance(one, Comparison)]
    assert on_gpu == [f"{place}_delay={share}" for share in (3, 10) for place in ("loader", "host", "device")]
    on_cpu = planned()
    assert [one.label for one in on_cpu if isinstance(one, NoResult)] == ["device_delay=3", "device_delay=10"]
    assert sum(isinstance(one, Comparison) and is_control([one.treatment]) for one in on_cpu) == 4


def test_no_other_design_has_a_delay() -> None:
    for name, design in DESIGNS.items():
        if name != "calibration":
            entries = design(replace(scope(environment=GPU, chosen=(Option(name="halved"),)), known=EVERYTHING))
            configs = [one.treatment for one in entries if isinstance(one, Comparison)]
            assert not is_control(configs), name
