"""Files as the tools write them, cut down to what is read of them, and what starting a tool is seen to cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.precision.intervals import Finding
from benchmarks.precision.tools import RESULT, TOOLS, Tool

REFERENCE, TREATMENT = [0.041, 0.042, 0.043, 0.042, 0.041, 0.043, 0.042], [0.039, 0.04, 0.041, 0.04, 0.039, 0.041, 0.04]
TRUTH = 1.05


def named(name: str) -> Tool:
    return next(tool for tool in TOOLS if tool.name == name)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def of_pyperf(values: list[float]) -> dict[str, Any]:
    calibration = {"warmups": [[1, 9.0], [8, 9.0]], "metadata": {"calibrate_loops": 8}}
    return {"runs": [calibration, {"values": values[:3], "warmups": [[8, 9.0]]}, {"values": values[3:]}]}


def of_asv(values: list[float]) -> list[Any]:
    middle = sorted(values)[3]
    return [[middle], [], "version", 1700000000000, 20.1, [middle * 0.99], [middle * 1.01], [0.039], [0.043], [1], [7]]


WRITTEN: dict[str, dict[str, Any]] = {
    "pytest-benchmark": {
        RESULT: {
            "benchmarks": [
                {"name": "test_treatment", "stats": {"data": TREATMENT}},
                {"name": "test_reference", "stats": {"data": REFERENCE}},
            ]
        }
    },
    "torch.utils.benchmark": {RESULT: {"reference": REFERENCE, "treatment": TREATMENT}},
    "pyperf": {RESULT: {"benchmarks": [of_pyperf(REFERENCE), of_pyperf(TREATMENT)]}},
    "asv": {
        "results/here/machine.json": {"machine": "here"},
        "results/here/0123abcd-existing-py_bin_python.json": {
            "result_columns": [
                "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
                "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
            ],
            "results": {"steps.time_reference": of_asv(REFERENCE), "steps.time_treatment": of_asv(TREATMENT)},
        },
    },
    "speedmatrix": {
        RESULT: {"ratio": 1.05, "low": 1.04, "high": 1.06, "changed": None, "method": "t", "life_s": 5.0, "lent": 0.0}
    },
}  # fmt: skip


@pytest.fixture(params=TOOLS, ids=lambda tool: tool.name)
def read(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Tool, Finding]:
    for name, content in WRITTEN[request.param.name].items():
        write(tmp_path / name, content)
    return request.param, request.param.read(tmp_path)


def test_every_tool_is_read_the_right_way_round(read: tuple[Tool, Finding]) -> None:
    tool, found = read
    assert found.ratio == pytest.approx(TRUTH)
    assert found.low < TRUTH < found.high
    assert found.changed is (None if tool.name == "speedmatrix" else found.ratio > 1)


def test_the_interval_that_asv_states_is_brought_to_95_per_cent(tmp_path: Path) -> None:
    for name, content in WRITTEN["asv"].items():
        write(tmp_path / name, content)
    found = named("asv").read(tmp_path)
    # Two sides of 1 %, put together and narrowed by 1.96/2.576.
    assert found.high / found.ratio - 1 == pytest.approx(0.01 * 2**0.5 * 1.95996 / 2.57583, rel=0.02)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_more_time_buys_more_of_it(tool: Tool, tmp_path: Path) -> None:
    write(tmp_path / RESULT, WRITTEN["speedmatrix"][RESULT])
    cost = tool.cost(12.0, tmp_path)
    less, more = tool.spend(20.0, cost), tool.spend(60.0, cost)
    assert less != more
    assert all(value > 0 for value in less.values())
    assert max(more.values()) > max(less.values())
