"""Every optimization on every workload that it applies to: it takes effect, and its losses keep its promise.

`speedmatrix verify` does the same over 20 steps in processes of their own and keeps what it finds under results/. Here
slow workloads take fewer steps, and of the general optimizations only those that meet their model, items or evaluation;
SPEEDMATRIX_EXHAUSTIVE=1 takes all. `./speedmatrix test` tries one of each kind on one workload, --thorough the others.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.quality import verified
from harness.core.configuration import Comparison, Configuration, Option, compose, expected
from harness.core.optimization import FAST_BFLOAT16, Optimization, Stage, Timing
from harness.core.plan import NoResult
from harness.core.protocol import UNTIMED
from harness.core.records import Arm, Ready
from harness.measure.session import Task
from harness.measure.trial import begin
from harness.plan.feasibility import single
from tests.measure.settings import put_back
from tests.measure.tasks import CATALOGUE, ENVIRONMENT, scope_of, task_at

STEPS = {"leak": 20, "speaker": 3, "spoof": 3, "imagenet": 2, "patches3d": 2}
FAST = "leak"  # on which all are tried
MEETING = {  # general ones that act on what differs between workloads: their layers, weights, items, evaluation
    *("amp_bfloat16", "channels_last", "channels_last_3d", "in_place_activations", "activation_checkpointing"),
    *("fused_optimizer", "foreach_clipping", "foreach_average", "gradient_accumulation"),
    *("direct_collate", "in_memory_data", "batched_fetch", "batched_evaluation"),
}
SLOW = {
    "patches3d": {
        *("activation_checkpointing", "batched_evaluation", "fused_optimizer", "direct_collate", "foreach_clipping"),
        *(() if FAST_BFLOAT16.met(ENVIRONMENT, CATALOGUE.workloads["patches3d"]) else ("amp_bfloat16",)),  # minutes
    }
}
PROCESS = {
    "malloc",
    "threads",
    "worker_threads",
}  # settled before a process starts, or for its whole life: tests/run/test_launch.py
EXHAUSTIVE = bool(os.environ.get("SPEEDMATRIX_EXHAUSTIVE"))
QUICK = {  # on the fast workload; one of each kind
    *("workers", "in_memory_data", "direct_collate", "set_to_none", "deferred_metrics"),
    *("fused_optimizer", "gradient_accumulation", "channels_last"),
}
LONGEST_START_S = 10.0  # compilers have tests of their own
MOST_PROCESSES = 2  # loader workers; more of them show nothing more
NAMELESS = Arm(block="test", replicate=0, attempt=0, position=0)
KNOWN = CATALOGUE.optimizations
# Seen not to take effect on a CPU, which is what the matrix then says.
INACTIVE = {("patches3d", "channels_last_3d"): "instance norms return the other memory format whatever they get"}


def comparisons() -> Iterator[Comparison]:
    for workload in CATALOGUE.workloads.values():
        scope = scope_of(workload)
        for one in scope.optimizations:
            chosen = one.name in MEETING - SLOW.get(workload.name, set())
            tried = workload.name == FAST or one.workload is not None or chosen or EXHAUSTIVE
            if not tried or one.start_s > LONGEST_START_S or not PROCESS.isdisjoint(one.sets):
                continue
            if one.stage is Stage.RANKS:  # several processes: tests/run/test_ranks.py
                continue
            if not isinstance(entry := single(scope, one, _level(one)), NoResult):
                yield entry


def _level(one: Optimization) -> int | str | None:
    level = one.usual_level(ENVIRONMENT)
    return min(level, MOST_PROCESSES) if one.name == "workers" and isinstance(level, int) else level


def is_quick(one: Comparison) -> bool:
    return one.treatment.workload == FAST and one.label.partition("=")[0] in QUICK


COMPARISONS = list(comparisons())
by_comparison = pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=[] if is_quick(one) else [pytest.mark.thorough]) for one in COMPARISONS],
    ids=lambda one: f"{one.treatment.workload}-{one.label}",
    scope="module",  # so that both tests of a comparison follow one another in one process, which keeps its reference
)


def begun(config: Configuration, timing: Timing, folder: Path, *, other_seeds: bool) -> Ready:
    """What the configuration's arm shows, trained in this process."""
    task: Task = task_at(config, folder)
    proof: dict[str, Any] = {}
    for option in config.options:
        if timing is Timing.EVALUATION or KNOWN[option.name].timed_on is not Timing.EVALUATION:
            proof |= expected(KNOWN[option.name], option.level)
    # Nothing is timed, so no step need be repeated: a loader's arm takes its first steps and then only fetches.
    timing = Timing.LOADER if timing is Timing.STEP else timing
    protocol = replace(UNTIMED, loss_steps=STEPS[config.workload], window_s=100.0 if timing is Timing.STEP else 0.4)
    with put_back():
        trial, fields = begin(task, timing, protocol, proof, other_seeds=other_seeds)
        trial.session.feed.close()
    return Ready(arm=NAMELESS, **fields)


@cache
def reference(config: Configuration, timing: Timing, folder: Path) -> Ready:
    return begun(config, timing, folder, other_seeds=True)


@by_comparison
def test_it_takes_effect_and_keeps_its_promise(one: Comparison, smoke_data: dict[str, Path]) -> None:
    folder = smoke_data[one.treatment.workload]
    treatment = begun(one.treatment, one.timing, folder, other_seeds=False)
    plain = reference(one.reference, one.timing, folder)
    differing = set(one.treatment.options) ^ set(one.reference.options)
    order = list(type(KNOWN["workers"].numerics))
    promised = max((KNOWN[option.name].numerics for option in differing), key=order.index)
    status, sentence = verified(treatment, plain, promised, one.timing)
    if (one.treatment.workload, one.label) in INACTIVE:
        assert status == "not active"
        return
    assert status in {"same bits", "close", "another training", "not judged"}, f"{status}: {sentence}"


@by_comparison
def test_what_was_asked_for_and_reverted_is_not_engaged(one: Comparison, smoke_data: dict[str, Path]) -> None:
    """The reference shows the settings of a run in which the option did nothing: its proof must fail there."""
    option = _asked_for(one)
    plain = reference(one.reference, one.timing, smoke_data[one.reference.workload])
    proof = expected(KNOWN[option.name], option.level)
    assert proof, "an optimization without proof could never be seen to fail"
    assert any(plain.effective.get(name) != value for name, value in proof.items()), plain.effective


def _asked_for(one: Comparison) -> Option:
    (option,) = set(one.treatment.options) - set(one.reference.options)
    return option


def test_most_of_the_catalogue_is_examined_here() -> None:
    assert len(COMPARISONS) > 100
    assert {one.label.partition("=")[0] for one in COMPARISONS if is_quick(one)} == QUICK
    assert {one.treatment.workload for one in COMPARISONS} == set(CATALOGUE.workloads)
    for one in COMPARISONS:
        compose(CATALOGUE.workloads[one.treatment.workload], one.treatment.options, KNOWN)
