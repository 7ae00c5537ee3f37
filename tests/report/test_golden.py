"""The wording of each view, held by one file that `pytest tests/report/test_golden.py --update-golden` rewrites."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from harness.analyze.claims import Account, ClaimVerdict, MeasuredValue
from harness.analyze.comparison import compare, of_runs
from harness.analyze.matrix import NO_PRICES
from harness.core.claims import Bound
from harness.report.advice import advice_parts, chapters
from harness.report.calibration import calibration_parts
from harness.report.claims import claims_parts
from harness.report.comparison import comparison_parts
from harness.report.document import Part, to_markdown, to_terminal
from harness.report.matrix import heading, matrix_parts
from harness.report.overview import advice_overview, after_advice, closing, overview
from tests.analyze.advised import KNOWN, advised
from tests.analyze.calibrated import Machine, calibration
from tests.analyze.machines import LARGE, SMALL, told
from tests.analyze.synthetic import story
from tests.conftest import GOLDEN
from tests.report.test_advice import NO_RESULTS, STORY
from tests.report.test_claims import basis, claim, finding
from tests.report.test_comparison import KNOWN as LIMITS

WIDTH = 100
FOLDER = "results/example/20260102T030405-01234567"


def report_on_one_screen() -> Iterable[Part]:
    return (*overview(story(), "9.9"), *closing(FOLDER, "./speedmatrix run leak", ", about 4 min 10 s"))


def report() -> Iterable[Part]:
    return matrix_parts(story(), "./speedmatrix run leak --seed 7")


ADVICE = advised(*STORY, no_results=NO_RESULTS)
STACKS = ADVICE.workloads[0].ready_made
COMMANDS = {
    **{one.best.rows[-1].comparison: "./speedmatrix run leak --only workers" for one in STACKS if one.best},
    **{one.untried: "./speedmatrix run leak --stack pin_memory+workers" for one in STACKS if one.untried},
}


def advice_on_one_screen() -> Iterable[Part]:
    return (*advice_overview(ADVICE, "9.9"), *after_advice(ADVICE, COMMANDS, FOLDER))


def advice() -> Iterable[Part]:
    return advice_parts(chapters(ADVICE, KNOWN), COMMANDS, heading(ADVICE.run.matrix))


def comparison() -> Iterable[Part]:
    ours = told(SMALL, {"workers": 1.5, "amp": 1.2, "pin_memory": 1.0})
    theirs = told(LARGE, {"workers": 3.0, "amp": 1.2, "pin_memory": 0.9})
    return comparison_parts(compare(of_runs([ours, theirs]), LIMITS, NO_PRICES))


def claims() -> Iterable[Part]:
    measured = MeasuredValue(value=1.42, low=1.4, high=1.44, replicates=2)
    opposed = claim("free", bound=Bound.FREE, contradicts=("toy",))
    findings = (
        finding(claim(conditions="an A10", contradicts=("free",)), measured_value=measured, basis=basis()),
        finding(opposed, ClaimVerdict.HARMFUL, measured_value=replace(measured, value=0.7, low=0.6, high=0.8)),
        finding(claim("amp", low=8, high=9), ClaimVerdict.UNTESTABLE, words="needs a CUDA device"),
    )
    return claims_parts([Account(machine="cpu-2", runs=("20260102T030405-01234567",), findings=findings)])


def of_terminal(parts: Callable[[], Iterable[Part]], *, short: bool = False) -> Callable[[], str]:
    return lambda: to_terminal(parts(), width=WIDTH, short=short)


VIEWS: dict[str, Callable[[], str]] = {
    "report.txt": of_terminal(report_on_one_screen),
    "report-verbose.txt": of_terminal(report),
    "report-markdown.txt": lambda: to_markdown(report()),
    "advise.txt": of_terminal(advice_on_one_screen),
    "advise-verbose.txt": of_terminal(advice),
    "advise-markdown.txt": lambda: to_markdown(advice()),
    "compare.txt": of_terminal(comparison),
    "claims.txt": of_terminal(claims, short=True),
    "claims-markdown.txt": lambda: to_markdown(claims()),
    "calibrate.txt": of_terminal(lambda: calibration_parts(calibration(Machine()))),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_says_what_its_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, VIEWS[name]())


def test_no_golden_file_is_left_without_its_view() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*VIEWS}


@pytest.mark.parametrize("name", ["report.txt", "advise.txt"])
def test_what_a_command_ends_with_fits_a_screen(name: str) -> None:
    lines = VIEWS[name]().splitlines()
    assert len(lines) <= 40
    assert max(len(one) for one in lines if "./speedmatrix" not in one) <= WIDTH
