import json
import math
from dataclasses import replace
from typing import Any

from harness.core.records import Record
from harness.report.matrix import matrix_to_json
from tests.analyze.synthetic import ENVIRONMENT, arm, comparison, matrix, plan, ready, story, windows


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def read(text: str) -> dict[str, Any]:
    document = json.loads(text, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_the_round_trip_keeps_every_number() -> None:
    found = story()
    document = read(matrix_to_json(found))
    assert document["schema"] == 1
    assert (document["seed"], document["noise"]) == (7, found.noise)
    assert document["environment"]["digest"] == ENVIRONMENT.digest
    for table, shown_table in zip(found.tables, document["tables"], strict=True):
        for row, shown in zip(table.rows, shown_table["rows"], strict=True):
            assert shown["subject"] == row.label
            assert (shown["estimate"] is None) == (row.estimate is None)
            if row.estimate:
                assert shown["estimate"]["ratio"] == row.estimate.ratio
                assert [shown["estimate"][name] for name in ("low", "high")] == [row.estimate.low, row.estimate.high]
                assert shown["estimate"]["verdict"] == row.estimate.verdict.value
            else:
                assert row.absence
                assert shown["absence"] == {
                    "outcome": row.absence.outcome.value, "words": row.absence.words, "kind": row.absence.kind,
                }  # fmt: skip


def test_everything_beside_a_ratio_is_there() -> None:
    row = read(matrix_to_json(story()))["tables"][0]["rows"][0]
    assert row["treatment"]["name"] == "leak@quick#64:workers"
    assert row["quality"]["status"] == "same bits"
    assert row["loader_ratio"] > 3
    for arm_profile in (row["treatment_profile"], row["reference_profile"]):
        assert arm_profile["host_bytes"] > 0
        assert set(arm_profile["phases"]) == {"input_wait", "copy", "compute", "overlapped"}
        assert set(arm_profile["bottleneck"]) == {
            "stage", "loader_rate", "compute_rate", "rate", "bound", "short_probe", "input_wait", "loads_beside",
        }  # fmt: skip
    assert row["treatment_profile"]["facts"] == {"layout": "contiguous", "workers": 2}


def test_an_endless_bound_is_null() -> None:
    found: list[Record] = []
    for replicate, ratio in ((0, 1e-100), (1, 1e100)):
        found += [ready(arm(0, replicate, 0)), ready(arm(0, replicate, 1)), *windows(0, replicate, ratio)]
    wild = matrix(plan(comparison("workers")), found)
    assert wild.rows[0].estimate is not None
    assert wild.rows[0].estimate.high == math.inf
    estimate = read(matrix_to_json(wild))["tables"][0]["rows"][0]["estimate"]
    assert (estimate["high"], estimate["low"]) == (None, 0.0)


def test_holes_keep_their_words_and_text_survives() -> None:
    named = replace(story(), noise="“±1 %” \x1b</script>")
    document = read(matrix_to_json(named))
    assert document["noise"] == named.noise
    assert {"workload": "speaker", "subject": "tf32", "reason": "needs a CUDA device"} in document["holes"]
