"""The report on coverage: every figure where it belongs, and what is not kept named."""

import io
import json
from dataclasses import replace

from rich.console import Console

from benchmarks.invented.coverage import Check, Share, Tally
from benchmarks.invented.coverage_report import Premises, conclusion, to_json, to_markdown, to_table

PREMISES = Premises(
    configs=2000,
    seed=5,
    command="./speedmatrix rehearse --coverage",
    worlds={"quiet": "steps wander", "a|b": "heat <costs> 6 %"},
    facts={"Start": "15 s"},
)


def tally(coverage: float = 0.951, half_width: float = 0.0175, machine_s: float = 96.2, wrong: float = 0.004) -> Tally:
    return Tally(
        coverage=Share(value=coverage, low=coverage - 0.01, high=coverage + 0.01, configs=2000),
        wrong_verdicts=Share(value=wrong, low=0.0, high=0.012, configs=1000),
        half_width=half_width,
        machine_s=machine_s,
    )


GOOD = Check(
    name="quiet",
    replicates=2.41,
    ours=tally(),
    trimmed=tally(0.53, half_width=0.007),
    window_pairs_alone=tally(0.6, half_width=0.006),
    conventional=tally(0.934, half_width=0.035, machine_s=552.0, wrong=0.05),
)
BAD = replace(GOOD, name="a|b", ours=tally(0.92, wrong=0.03), conventional=tally(machine_s=150.0))


def test_json_holds_every_figure_with_its_unit() -> None:
    document = json.loads(to_json([GOOD, BAD], PREMISES))
    first, second = document["environments"]
    assert (document["cells"], document["seed"], document["kept"]) == (2000, 5, False)
    assert (first["coverage"], first["coverage_low"], first["coverage_high"]) == (0.951, 0.941, 0.961)
    assert (first["half_width"], first["machine_s"], first["wrong_verdicts"]) == (0.0175, 96.2, 0.004)
    assert first["conventional"]["machine_s_same_width"] == 552.0 * 4
    assert first["trimmed"]["coverage"] == 0.53
    assert first["trimmed"]["machine_time_of_total_time"] == 6.25
    assert first["brackets_as_independent"]["coverage"] == 0.6
    assert first["kept"] == {"coverage": True, "machine_time": True, "wrong_verdicts": True}
    assert second["kept"] == {"coverage": False, "machine_time": False, "wrong_verdicts": False}
    assert second["disturbed_by"] == "heat <costs> 6 %"


def test_what_is_not_kept_is_named() -> None:
    assert all("everywhere" in sentence for sentence in conclusion([GOOD]))
    missed = list(conclusion([GOOD, BAD]))
    assert len(missed) == 3
    assert all(sentence.endswith(": not in a|b.") for sentence in missed)


def test_the_page_has_every_environment_in_every_table_and_foreign_text_escaped() -> None:
    page = to_markdown([GOOD, BAD], PREMISES)
    assert "| quiet | 95.1 % \\[94.1, 96.1\\] | ±1.8 % | 1 min 36 s | 2.4 | 0.4 %" in page
    assert "| quiet | 93.4 % \\[92.4, 94.4\\] | ±3.5 % | 9 min 12 s | 36 min 48 s, 23.0 times ours | 5.0 %" in page
    assert "| quiet | 53.0 % \\[52.0, 54.0\\] | ±0.7 % | ±1.8 % | 6.2 times |" in page
    assert "| quiet | 60.0 % \\[59.0, 61.0\\] | ±0.6 % | 0.4 %" in page
    assert page.count("| a\\|b |") == 4
    assert "heat \\<costs\\> 6 %" in page
    assert "2,000 configurations in each environment, seed 5" in page
    assert "    ./speedmatrix rehearse --coverage\n" in page
    assert max(map(len, (line for line in page.splitlines() if not line.startswith("|")))) <= 120


def test_the_terminal_shows_every_method() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(to_table([GOOD, BAD]))
    shown = console.export_text()
    assert (
        shown.count("speedmatrix")
        == shown.count("trimmed")
        == shown.count("conventional")
        == shown.count("pairs alone")
        == 2
    )
    assert "2,208 s" in shown
    assert "…" not in shown
