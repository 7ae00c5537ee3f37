"""Comparisons measured both ways: a ratio that sharing changes is found, and its option is kept apart from then on."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.analyze.composition import precisions
from harness.analyze.estimate import Estimate, narrowest, results
from harness.analyze.evidence import gather
from harness.analyze.isolation import Agreement, BothWays, apart_of, both_ways
from harness.analyze.verdict import UNCALIBRATED, Thresholds, Verdict
from harness.catalogue import APART, read_catalogue
from harness.cli.measuring import Progress
from harness.core.catalogue import Apart, Catalogue
from harness.core.codec import document, entries
from harness.core.optimization import Timing
from harness.core.plan import BOTH_WAYS, Block, Plan, Request
from harness.core.records import Record
from harness.plan.planning import own_process, planned
from harness.report.calibration import apart_toml, page_parts
from harness.report.document import to_markdown
from harness.results import finished, measured_both_ways
from harness.run.execution import Campaign
from harness.run.preparation import prepared
from tests.analyze.synthetic import ENVIRONMENT, Noise, comparison, matrix, records
from tests.analyze.synthetic import plan as plan_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("set_to_none", "channels_last", "deferred_metrics", "amp_bfloat16", "tuned_malloc")
WISH = Request(workloads=("leak",), size="quick", only=NAMES, design=BOTH_WAYS, device="cpu", replicates=6)
MOVED = "channels_last"  # what sharing makes faster, by an eighth
TRUE = {"set_to_none": 1.0, MOVED: 1.2, "deferred_metrics": 1.0, "amp_bfloat16": 1.5, "itself": 1.0}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


@pytest.fixture(scope="module")
def found(plan: Plan) -> dict[str, BothWays]:
    clock, random, records = VirtualClock(), Random(3), list[Record]()

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.comparisons[position - 1].treatment if position else block.reference
        known = TRUE | ({MOVED: 1.125 * TRUE[MOVED]} if block.shared else {})
        return RehearsedArm(
            config=config, timing=Timing.STEP, effects=Effects(known), clock=clock, random=Random(random.random()),
        )  # fmt: skip

    made = Campaign(
        plan=plan, records=records, start=start, append=lambda _: None, watcher=Progress(plan, Console(quiet=True)),
        clock=clock, precisions=precisions,
    )  # fmt: skip
    assert made.run()
    return {one.comparison.label: one for one in both_ways(plan, records, ENVIRONMENT)}


def test_each_comparison_that_can_share_is_planned_both_ways_and_one_with_itself(plan: Plan) -> None:
    labels = {shared: set[str]() for shared in (True, False)}
    for block in plan.blocks:
        labels[block.shared] |= {one.label for one in block.comparisons}
    assert labels[True] == labels[False] == {*TRUE}
    (left_out,) = plan.no_results
    assert (left_out.label, left_out.reason.startswith("needs its own process: malloc")) == ("tuned_malloc", True)


def test_what_sharing_changes_disagrees_and_nothing_else_does(found: dict[str, BothWays]) -> None:
    assert {*found} == {*TRUE}
    assert {label for label, one in found.items() if one.agreement is Agreement.DISAGREE} == {MOVED}
    moved = found[MOVED].quotient
    assert moved.low <= 1.125 <= moved.high
    assert any(one.agreement is Agreement.AGREE for one in found.values())


def test_what_disagreed_gets_its_own_process_wherever_it_is_part_of_a_comparison(
    plan: Plan, found: dict[str, BothWays]
) -> None:
    apart = apart_of(found.values())
    (one,) = apart
    assert (one.device, one.names) == ("cpu", (MOVED,))
    assert "in a shared process and 1.2" in one.reason
    catalogue = read_catalogue()
    catalogue = Catalogue(catalogue.workloads, catalogue.optimizations, None, (), apart)
    reasons = {each.label: own_process(each, catalogue, "cpu") for each in plan.comparisons}
    assert {label for label, reason in reasons.items() if reason} == {MOVED}
    assert own_process(plan.comparisons[0], catalogue, "cuda") is None
    assert not any(own_process(each, catalogue, "cuda") for each in plan.comparisons), "a CPU says nothing of a GPU"
    shared = planned(replace(WISH, design="alone", isolation="shared"), catalogue, ENVIRONMENT)
    own = {each.label for block in shared.blocks if not block.shared for each in block.comparisons}
    assert own == {MOVED, "tuned_malloc"}


def test_a_configuration_against_itself_keeps_nobody_apart(found: dict[str, BothWays]) -> None:
    assert apart_of([replace(found[MOVED], comparison=found["itself"].comparison)]) == ()


def test_the_list_that_planning_reads_is_what_was_written(found: dict[str, BothWays]) -> None:
    apart = apart_of(found.values())
    text = apart_toml(apart)
    assert entries(document(text, "apart.toml", {"apart"}), "apart", Apart, "apart.toml") == apart


def test_the_page_and_the_list_are_those_of_the_committed_runs() -> None:
    """`./speedmatrix calibrate --isolation --output docs/isolation.md` writes both anew."""
    measured = list(measured_both_ways(finished(ROOT / "results")))
    apart = apart_of(measured)
    assert (ROOT / "docs" / "isolation.md").read_text(encoding="utf-8") == to_markdown(
        page_parts(measured, apart, read_catalogue().workloads.values())
    )
    assert (ROOT / "harness" / APART).read_text(encoding="utf-8") == apart_toml(apart)
    assert len({one.comparison.reference.workload for one in measured}) >= 2


def test_a_calibration_lends_its_margin_to_shared_arms_and_not_the_spread_of_isolated_ones() -> None:
    calibrated = Thresholds(least_spread=0.0001, margin=0.03)
    chosen = plan_of(*(comparison(name) for name in ("workers", "amp")), replicates=4)
    told = [
        replace(one, arm=replace(one.arm, shared=one.arm.block == "0"))
        for block in (0, 1)
        for one in records(block, 1.02, replicates=4)
    ]
    shared, isolated = results(list(gather(chosen, told)), chosen.protocol, calibrated)
    assert isinstance(shared, Estimate)
    assert isinstance(isolated, Estimate)
    assert shared.half_width == pytest.approx(narrowest(UNCALIBRATED) / 2)
    assert isolated.half_width < 0.1 * shared.half_width
    assert (shared.thresholds.margin, shared.verdict) == (0.03, Verdict.UNDECIDED)


def test_small_pools_are_joined_with_those_of_their_own_kind_alone() -> None:
    """What isolated arms scatter says nothing of arms that share a process."""
    chosen = plan_of(*(comparison(name) for name in ("workers", "amp", "augment", "chunk_cache")))

    def half_width(scatter: float) -> float:
        noise = [Noise(replicate=one, generator=np.random.default_rng(7)) for one in (0.01, 0.01, scatter, scatter)]
        seen = [one for block, each in enumerate(noise) for one in records(block, 1.2, replicates=4, noise=each)]
        told = [replace(one, arm=replace(one.arm, shared=one.arm.block in {"0", "1"})) for one in seen]
        row = matrix(chosen, told).rows[0]
        assert row.estimate is not None
        assert row.estimate.shared
        return row.estimate.half_width

    assert half_width(0.01) == half_width(0.2)
