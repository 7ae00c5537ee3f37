"""Ratios that are composed from a part of a step: real arms whose stages are known."""

import math
from dataclasses import replace

import pytest

from harness.analyze.composition import Composed
from harness.core.optimization import Timing
from tests.oracles.catalogue import PROTOCOL, added_up
from tests.oracles.runner import Experiment, measure, rows_of
from tests.oracles.stages import PLAIN, Stages

pytestmark = [pytest.mark.alone, pytest.mark.oracles, pytest.mark.timeout(600)]
BASE = Stages(load_s=0.012, step_s=0.018, load_pattern="ragged")
LOADERS = {
    "half": replace(BASE, load_s=0.006),
    "instant": replace(BASE, load_s=0.0002),
    "slower": replace(BASE, load_s=0.018),
    "equal": replace(BASE, copy=1),
}
STEPS = {
    "quick": replace(BASE, step_s=0.012),
    "heavy": replace(BASE, step_s=0.027),
    "same": replace(BASE, copy=1),
}


def test_composed_ratios_hold_the_truth_of_whole_steps() -> None:
    protocol = replace(PROTOCOL, part_s=0.3)
    told = {PLAIN: BASE, **LOADERS, **STEPS}
    found = [
        measure(Experiment(name=name, stages=told, options=[f"variant={one}" for one in names], timing=timing,
                           protocol=protocol))
        for name, names, timing in (
            ("steps", ("half",), Timing.STEP),
            ("loaders", LOADERS, Timing.LOADER),
            ("computes", STEPS, Timing.COMPUTE),
        )
    ]  # fmt: skip
    rows = rows_of([replace(one, plan=replace(one.plan, design="stages")) for one in found])
    composed = {row.comparison.treatment.options[0].level: row.on_steps for row in rows if row.on_steps}
    assert set(composed) == {*LOADERS, *STEPS}
    # What was disturbed shows nothing of what arrives.
    calm = not any(row.estimate.disturbed for row in rows if row.estimate)
    assert composed["half"].arrives.seen in ({1} if calm else {0, 1})
    plain_s = added_up(told, "")
    for name, one in composed.items():
        assert isinstance(one, Composed)
        truth = plain_s / added_up(told, f"variant={name}")
        assert one.low < truth < one.high, (name, one, truth)
        # Of a gain in a part, how much arrives is known to 0.13 at best.
        assert one.half_width < 0.03 + 0.3 * abs(math.log(truth)), (name, one)
