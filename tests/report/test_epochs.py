"""Epochs: what rates come to in the time that a real system counts in."""

import json
from dataclasses import replace

import pytest

from harness.analyze.matrix import Matrix
from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.plan.planning import planned
from harness.report.document import to_markdown
from harness.report.epochs import epoch_parts, epochs
from harness.report.matrix import matrix_to_json
from harness.report.overview import overview
from tests.analyze.synthetic import ENVIRONMENT, Noise, config, matrix, plan, records
from tests.report.whole import matrix_to_markdown


def measured(ratio: float, epoch: int | None = 64_000) -> Matrix:
    compared = Comparison(label="workers", treatment=config("workers"), reference=config(), timing=Timing.STEP)
    made = plan(compared)
    return matrix(
        replace(made, epochs={"leak": epoch} if epoch else {}, trainings={"leak": 600}),
        records(0, ratio, replicates=4, noise=Noise(replicate=0.01)),
    )


def test_an_epoch_takes_its_samples_over_the_rate() -> None:
    before, after = epochs(measured(2.0))
    assert (before.label, after.label) == ("baseline", "workers")
    assert before.seconds == pytest.approx(640.0, rel=0.01)  # at 100 samples a second
    assert after.seconds == pytest.approx(320.0, rel=0.02)
    assert after.steps_per_s == pytest.approx(200 / 64, rel=0.02)
    assert before.factor == pytest.approx(1.0)  # its processes are all alike
    assert after.factor is not None
    assert 1.002 < after.factor < 1.05


def test_what_is_not_surely_faster_has_no_epoch_of_its_own() -> None:
    assert [one.label for one in epochs(measured(0.8))] == ["baseline"]


def test_only_real_sizes_have_epochs() -> None:
    assert to_markdown(epoch_parts(measured(2.0, None))).strip() == ""
    assert "An epoch" not in matrix_to_markdown(measured(2.0, None), "")


def test_epochs_stand_in_reports_and_data() -> None:
    found = measured(2.0)
    for text in (matrix_to_markdown(found, ""), to_markdown(overview(found, "0"))):
        assert "| leak | the baseline | 64,000 samples | 10 min 40 s \\[" in text
        assert "| 600: 4.44 days \\[4.44 days, 4.44 days\\] |" in text
        assert "| leak | workers | 64,000 samples | 5 min " in text
    told = json.loads(matrix_to_json(found))["epochs"]
    assert [one["configuration"] for one in told] == ["baseline", "workers"]
    assert told[1]["interval_s"][0] < told[1]["seconds"] < told[1]["interval_s"][1]


@pytest.mark.parametrize(
    ("size", "samples"), [("standard", {"leak": 562 * 5632, "speaker": 10_920 * 100}), ("quick", {})]
)
def test_a_plan_tells_the_epochs_of_real_sizes(size: str, samples: dict[str, int]) -> None:
    request = Request(workloads=("leak", "speaker"), size=size, design="alone", protocol="brief", device="cpu")
    made = planned(request, read_catalogue(), ENVIRONMENT)
    assert made.epochs == samples
    assert made.trainings.keys() == samples.keys()
