"""Invented workloads and optimizations, so that tests of planning and composition depend on no real one."""

from dataclasses import replace
from typing import Any

from harness.core.optimization import CUDA, LEVEL, SEVERAL_CORES, Level, Numerics, Optimization, Stage, Timing, trait
from harness.core.recipe import Value
from harness.core.workload import Parts, Size, Workload
from tests.analyze.synthetic import ENVIRONMENT

GPU = replace(ENVIRONMENT, device="cuda", accelerator="NVIDIA H200")
SIZE = Size(batch=12, epoch_steps=10, evaluation_items=4, data_bytes=1, shape={}, original_epoch_steps=100)


def _no_parts() -> Parts:
    raise AssertionError("planning needs no parts")


def workload(name: str = "toy", **facts: Any) -> Workload:
    given = {"own": {"reader": "slow"}, "original": ("workers=3", "tf32"), **facts}
    return Workload(
        name=name,
        title="A toy",
        origin="nowhere",
        parameters=1,
        traits=frozenset({"evaluation"}),
        sizes={"quick": SIZE, "standard": replace(SIZE, batch=120)},
        parts=_no_parts,
        **given,
    )


def optimization(name: str, sets: dict[str, Value | Level], **facts: Any) -> Optimization:
    given = {"stage": Stage.INPUT, "numerics": Numerics.EXACT, "proof": sets, **facts}
    return Optimization(name=name, title=name, sets=sets, **given)


ALL = (
    optimization("workers", {"workers": LEVEL}, levels=(1, 2, 4), usual=lambda environment: environment.cores),
    optimization("prefetch", {"prefetch_factor": LEVEL}, levels=(4, 8), requires=("workers",)),
    optimization("fast_reader", {"reader": "fast"}, workload="toy"),
    optimization("best_reader", {"reader": "best"}, workload="toy"),
    optimization("tf32", {"tf32_convolutions": True}, stage=Stage.DEVICE, numerics=Numerics.CLOSE, needs=(CUDA,)),
    optimization("halved", {"autocast": "bfloat16"}, stage=Stage.DEVICE, excludes={"fused": "they quarrel"}),
    optimization("fused", {"optimizer_kernel": "fused"}, stage=Stage.DEVICE, needs=(SEVERAL_CORES,)),
    optimization("split", {"micro_batches": LEVEL}, stage=Stage.DEVICE, levels=(2, 5), numerics=Numerics.DIFFERENT),
    optimization("compile", {"compile": LEVEL}, stage=Stage.DEVICE, levels=("default",), start_s=90.0),
    optimization(
        "whole_evaluation",
        {"batched_evaluation": True},
        stage=Stage.EVALUATION,
        timed_on=Timing.EVALUATION,
        needs=(trait("evaluation", "needs an evaluation"),),
    ),
)
KNOWN = {one.name: one for one in ALL}
