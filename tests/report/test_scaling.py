"""Several ranks in reports: efficiency, communication that shows, bytes, and what is too good to be one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.matrix import Matrix
from harness.core.configuration import Comparison, Option
from harness.core.optimization import Numerics, Promise, Timing
from harness.report.document import to_markdown
from harness.report.matrix import matrix_to_json
from harness.report.overview import overview
from harness.report.published_pages import workload_page
from harness.report.published_parts import heat_map_picture
from harness.report.scaling import scaling_parts
from tests.analyze.synthetic import KNOWN, config, matrix, plan, records
from tests.report.collected import kept, placed
from tests.report.whole import matrix_to_markdown

RANKS = Promise(numerics=Numerics.DIFFERENT, proof=("ranks",), pointless_where={})
OF_RANKS = dict.fromkeys(("ranks", "batch_scale", "gradient_accumulation", "gradients_not_reduced"), RANKS)
TWO = Option(name="ranks", level=2)
MIB = 2**20
LINK = {"link_bytes_per_s": 750 * MIB}


def compared(label: str, options: tuple[Option, ...], reference: tuple[Option, ...] = ()) -> Comparison:
    treatment, other = (replace(config(), options=one) for one in (options, reference))
    return Comparison(label=label, treatment=treatment, reference=other, timing=Timing.STEP)


def scaled(strong: float, weak: float, silent: float, link: Mapping[str, int] = LINK) -> Matrix:
    """Two ranks with these speedups over one process, and over themselves without reductions."""
    scale = Option(name="batch_scale", level=2)
    made = (
        compared("ranks=2", (TWO,)),
        compared("batch_scale=2+ranks=2", (scale, TWO), (Option(name="gradient_accumulation", level=2),)),
        compared("gradients_not_reduced", (Option(name="gradients_not_reduced"), TWO), (TWO,)),
        compared("ranks=2+workers", (TWO, Option(name="workers"))),
    )
    effective: dict[str, Any] = {"ranks": 2, "reduced_bytes": 8 * MIB, **link}
    ratios = enumerate((strong, weak, silent, 3.0))
    found = [one for block, ratio in ratios for one in records(block, ratio, effective=effective)]
    return matrix(replace(plan(*made), promises={**KNOWN, **OF_RANKS}), found)


def shown(found: Matrix, *, on_a_cpu: bool = True) -> str:
    return to_markdown(scaling_parts(found.every_row, on_a_cpu=on_a_cpu))


def test_efficiency_is_the_speedup_of_each_rank() -> None:
    strong, weak = (line for line in shown(scaled(1.5, 1.8, 1.25)).splitlines() if line.startswith("| leak"))
    assert strong.startswith("| leak, 2 | strong | 150 | 1.50x")
    assert "| 75 % \\[74, 76\\] |" in strong
    assert "| weak | 180 | 1.80x" in weak
    assert "| 90 % \\[" in weak


def test_what_goes_without_reductions_is_the_communication_that_shows() -> None:
    strong, weak = (line for line in shown(scaled(1.5, 1.8, 1.25)).splitlines() if line.startswith("| leak"))
    assert "| 20 % \\[19, 21\\], 85.3 ms of 427 ms |" in strong  # 64 samples at 150 a second, of which 1 - 1/1.25
    assert "ms of" not in weak  # nobody measured it there


def test_bytes_of_gradients_are_those_of_a_ring() -> None:
    strong = next(line for line in shown(scaled(1.5, 1.8, 1.25)).splitlines() if "strong" in line)
    # 2 (2 - 1) / 2 x 8 MiB x 150 / 64 updates a second; the same ranks reduce 750 MiB in one if they do nothing else.
    assert strong.endswith("| 8.0 MiB | 18.8 MiB/s, 2.5 % of the link |")


def test_runs_that_did_not_time_the_link_have_no_share_of_it() -> None:
    strong = next(line for line in shown(scaled(1.5, 1.8, 1.25, link={})).splitlines() if "strong" in line)
    assert strong.endswith("| 8.0 MiB | 18.8 MiB/s |")


def test_more_than_linear_is_no_efficiency() -> None:
    text = shown(scaled(2.5, 1.8, 1.0))
    strong = next(line for line in text.splitlines() if line.startswith("| leak, 2 | strong"))
    assert "refused, see below" in strong
    assert "125 %" not in text
    assert "ranks=2 on leak reads 2.50x" in text
    just_linear = shown(scaled(2.0, 1.8, 1.0))
    assert "refused" not in just_linear
    assert "100 % \\[" in just_linear


def test_a_cpu_is_said_to_tell_nothing_of_gpus() -> None:
    found = scaled(1.5, 1.8, 1.25)
    assert "nothing of ranks with a GPU each" in shown(found)
    assert "nothing of ranks with a GPU each" not in shown(found, on_a_cpu=False)


def test_the_same_is_told_as_data() -> None:
    strong, weak = json.loads(matrix_to_json(scaled(1.5, 1.8, 1.25)))["scaling"]
    assert (strong["scaling"], strong["ranks"], weak["scaling"]) == ("strong", 2, "weak")
    assert strong["speedup"][0] == pytest.approx(1.5, rel=0.01)
    assert strong["efficiency"][0] == pytest.approx(0.75, rel=0.01)
    assert strong["not_hidden"][0] == pytest.approx(0.2, rel=0.05)
    middle, low, high = strong["not_hidden"]
    assert low < middle < high
    assert strong["step_s"] == pytest.approx(64 / 150, rel=0.01)
    assert strong["reduced_bytes"] == 8 * MIB
    assert strong["sent_bytes_per_s"] == pytest.approx(8 * MIB * 150 / 64, rel=0.01)
    assert strong["share_of_link"] == pytest.approx(0.025, rel=0.01)
    assert weak["not_hidden"] is None
    assert json.loads(matrix_to_json(scaled(2.5, 1.8, 1.0)))["scaling"][0]["efficiency"] is None


def test_ranks_stand_in_every_report() -> None:
    found = scaled(1.5, 1.8, 1.25)
    texts = (
        matrix_to_markdown(found, ""),
        to_markdown(overview(found, "0")),
        workload_page(placed(replace(kept(), matrix=found)), "leak", has_claims=False).text,
    )
    assert all("Several ranks against one process" in text for text in texts)


def test_ranks_are_no_option_among_others_on_a_heat_map() -> None:
    def titles(found: Matrix) -> str:
        ((setting, _),) = placed(replace(kept(), matrix=found)).answers
        picture = heat_map_picture(setting)
        return picture.svg if picture else ""

    both = matrix(plan(compared("workers", (Option(name="workers"),))), records(0, 1.2))
    assert "workers" in titles(both)
    alone = replace(plan(compared("ranks=2", (TWO,))), promises={**KNOWN, **OF_RANKS})
    assert "ranks" not in titles(matrix(alone, records(0, 1.5, effective={"ranks": 2})))


@pytest.mark.parametrize("names", [(), ("workers",)])
def test_without_ranks_there_is_no_table(names: tuple[str, ...]) -> None:
    found = matrix(plan(compared("workers", tuple(Option(name=one) for one in names or ("amp",)))), records(0, 1.2))
    assert not shown(found).strip()
