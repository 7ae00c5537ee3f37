"""The words of the claims' report, and that no form of it can be led astray by foreign text."""

import json
from dataclasses import replace
from itertools import starmap
from typing import Any

import pytest

from harness.analyze.claims import Account, Basis, ClaimVerdict, Finding, MeasuredValue
from harness.core.claims import ANY, Bound, Claim, Metric, Tried
from harness.core.configuration import Option
from harness.core.optimization import Timing
from harness.report.claims import (
    body,
    by_report,
    claims_parts,
    claims_to_json,
    contradictions,
    count_line,
    decided,
    details,
    foremost,
    grouped,
    measured,
    promised,
    summary,
    verdict,
)
from harness.report.document import to_markdown, to_terminal
from tests.analyze.synthetic import config

NASTY = "8 <script>alert(1)</script> | [GPU](http://x)\nsecond\x1b[31m line"


def claim(name: str = "toy", bound: Bound = Bound.RANGE, metric: Metric = Metric.THROUGHPUT, **facts: Any) -> Claim:
    figures = {"low": 1.5, "high": 2.0} if bound is Bound.RANGE and "low" not in facts else {}
    given = {
        "workload": "leak",
        "treatment": "workers=2",
        "text": "It is fast.",
        "source": "a page",
        **figures,
        **facts,
    }
    return Claim(name=name, metric=metric, bound=bound, **given)


def basis(*shortfalls: str) -> Basis:
    tried = Tried(treatment=(Option(name="workers"),), reference=(), timing=Timing.STEP, shortfalls=shortfalls)
    return Basis(run="20260102T030405-abc", config=config("workers"), reference=config(), tried=tried)


def finding(one: Claim, claim_verdict: ClaimVerdict = ClaimVerdict.CONFIRMED, **facts: Any) -> Finding:
    return Finding(claim=one, workload=one.workload, claim_verdict=claim_verdict, **facts)


@pytest.mark.parametrize(
    ("bound", "metric", "facts", "words"),
    [
        (Bound.RANGE, Metric.THROUGHPUT, {}, "1.5 to 2x faster"),
        (Bound.POINT, Metric.THROUGHPUT, {"low": 1.35}, "about 1.35x faster"),
        (Bound.POINT, Metric.THROUGHPUT, {"low": 0.8}, "about 1.25x slower"),
        (Bound.AT_LEAST, Metric.DEVICE_MEMORY, {"low": 2.0}, "at least 2x less device memory"),
        (Bound.UP_TO, Metric.THROUGHPUT, {"high": 3.0}, "up to 3x faster"),
        (Bound.RANGE, Metric.HOST_MEMORY, {"low": 0.5, "high": 0.8}, "1.25 to 2x more host memory"),
        (Bound.GAIN, Metric.THROUGHPUT, {}, "faster"),
        (Bound.LOSS, Metric.START_UP, {}, "later at the first step"),
        (Bound.FREE, Metric.THROUGHPUT, {}, "the same throughput"),
        (Bound.FREE, Metric.QUALITY, {}, "learns the same"),
        (Bound.RANGE, Metric.DEVICE_SHARE, {"low": 0.4, "high": 0.6}, "device works 40 to 60 % of the time"),
        (Bound.AT_LEAST, Metric.RATE, {"low": 337_920.0}, "at least 337,920 samples/s"),
    ],
)
def test_what_is_promised(bound: Bound, metric: Metric, facts: dict[str, float], words: str) -> None:
    assert promised(claim(bound=bound, metric=metric, **facts)) == words


def test_what_was_measured_in_the_units_of_the_claim() -> None:
    measured_value = MeasuredValue(value=1.42, low=1.4, high=1.44, replicates=2)
    assert measured(finding(claim(), measured_value=measured_value)) == "1.42x [1.40, 1.44] as fast"
    share = MeasuredValue(value=0.5, low=0.0, high=0.55, replicates=2)
    device = claim(metric=Metric.DEVICE_SHARE, low=0.4, high=0.6)
    assert measured(finding(device, measured_value=share)) == "at most 55 %"
    assert measured(finding(claim())) == "-"


def test_a_verdict_says_why_and_how_it_falls_short() -> None:
    found = finding(
        claim(), ClaimVerdict.UNDECIDED, words="about 6 replicates would decide", basis=basis("tested without tf32: x")
    )
    assert verdict(found) == "undecided: about 6 replicates would decide; tested without tf32: x"
    assert verdict(finding(claim())) == "confirmed"


def test_a_count_names_what_was_refuted_and_how() -> None:
    claim_verdicts = [
        ClaimVerdict.CONFIRMED,
        ClaimVerdict.OVERSTATED,
        ClaimVerdict.NO_EFFECT,
        ClaimVerdict.NO_EFFECT,
        ClaimVerdict.UNTESTABLE,
    ]
    found = [finding(claim(), claim_verdict) for claim_verdict in claim_verdicts]
    assert count_line(found) == "5 claims: 1 confirmed, 3 refuted (1 overstated, 2 no effect), 1 untestable"
    assert count_line(found[1:]) == "4 claims: 3 refuted (1 overstated, 2 no effect), 1 untestable"
    assert count_line([]) == "0 claims: none"


def test_promises_are_summed_up_over_machines_by_the_finding_that_decides_most() -> None:
    value = MeasuredValue(value=1.2, low=1.15, high=1.25, replicates=2)
    here = [
        finding(claim("one"), ClaimVerdict.NOT_MEASURED),
        finding(claim("two"), ClaimVerdict.OVERSTATED, measured_value=value),
        finding(claim("three", workload="spoof"), ClaimVerdict.UNTESTABLE),
        finding(claim("four", workload=ANY), ClaimVerdict.CONFIRMED),
    ]
    there = [
        finding(claim("one"), ClaimVerdict.HOLDS_EMULATED),
        finding(claim("two"), ClaimVerdict.UNDECIDED),
        finding(claim("three", workload="spoof"), ClaimVerdict.NOT_MEASURED),
    ]
    found = [Account(machine="a", runs=(), findings=tuple(here)), Account(machine="b", runs=(), findings=tuple(there))]
    assert summary(found) == (
        "Of 3 promises about the reference workloads: 1 overstated (by a median factor of 1.2), "
        "1 held on an emulated device; 1 not measured yet, 0 not testable on these machines."
    )
    assert by_report(found).rows == (
        ("leak", "2", "1", "1", "0", "0", "0"),
        ("spoof", "1", "0", "0", "0", "0", "1"),
        ("training in general", "1", "1", "0", "0", "0", "0"),
    )
    page = to_markdown(claims_parts(found))
    first, second = page.split("## a\n")[1].split("## b\n")
    assert first.count("| three |") == 1
    assert "| three |" not in second  # which another machine did not test
    assert "| one |" in second
    assert "## On any machine" in page
    assert "\n\nBy machine: [a](#a) · [b](#b).\n\n## a\n" in page
    assert "By machine: a · b." in to_terminal(claims_parts(found), width=100)
    alone = to_markdown(claims_parts(found[:1]))
    assert "## On any machine" not in alone
    assert "By machine" not in alone
    assert "none tested yet" in summary([Account(machine="a", runs=(), findings=(here[0],))])


def test_of_machines_that_decide_as_much_the_one_that_tested_most_counts_in_whatever_order_they_come() -> None:
    def seen(name: str, at: float) -> Finding:
        value = MeasuredValue(value=at, low=at - 0.1, high=at + 0.1, replicates=4)
        return finding(claim(name), ClaimVerdict.TESTED_OTHERWISE, measured_value=value, basis=basis("x"))

    accounts = [
        Account(machine=machine, runs=(), findings=tuple(starmap(seen, known.items())))
        for machine, known in {"a": {"one": 1.2}, "b": {"one": 1.7, "two": 1.7}, "c": {"one": 2.5, "two": 2.5}}.items()
    ]
    assert {one.measured_value.value for one in foremost(accounts) if one.measured_value} == {1.7}
    assert summary(accounts).endswith(": 2 within what was promised.")
    assert summary(accounts) == summary(accounts[::-1])


def test_what_was_decided_is_told_by_name() -> None:
    less, more = (MeasuredValue(value=at, low=at - 0.05, high=at + 0.05, replicates=2) for at in (1.2, 2.4))
    findings = (
        finding(claim("held", Bound.GAIN), measured_value=more),
        finding(claim("alike", Bound.FREE, Metric.QUALITY)),
        finding(claim("low"), ClaimVerdict.OVERSTATED, measured_value=less),
        finding(claim("far"), ClaimVerdict.UNDECIDED, measured_value=more),
        finding(claim("wide", workload=ANY), ClaimVerdict.CONFIRMED),
    )
    gain = "held, promised: faster, measured: 2.40x [2.35, 2.45] as fast"
    held = f"Held: {gain}; alike, promised: learns the same. Refuted: "
    low = "low (overstated), promised: 1.5 to 2x faster, measured: 1.20x [1.15, 1.25] as fast."
    accounts = [Account(machine="a", runs=(), findings=findings)]
    assert decided(accounts) == held + low
    assert decided([Account(machine="a", runs=(), findings=(*findings[:2], findings[3]))]) == f"{held}none."
    assert decided([]) == "Held: none. Refuted: none."
    several = [*accounts, Account(machine="b", runs=(), findings=())]
    assert "Refuted" not in to_markdown(claims_parts(accounts))
    assert "Refuted: low (overstated)" in to_markdown(claims_parts(several))


def test_what_many_rows_fall_short_by_stands_once_above_their_table() -> None:
    gpu, cores = "tested without tf32: needs a CUDA device", "8 workers shared 2 cores"
    known = [(gpu, "in batches of 32"), (cores, gpu), (cores,), (gpu, cores), ()]
    findings = [
        finding(claim(f"c{number}"), ClaimVerdict.TESTED_OTHERWISE, basis=basis(*shortfalls))
        for number, shortfalls in enumerate(known)
    ]
    page = to_markdown(claims_parts([Account(machine="m", runs=(), findings=tuple(findings))]))
    assert f"- (a) {gpu}\n- (b) {cores}\n\n| claim |" in page
    verdicts = [line.split(" | ")[-1] for line in page.splitlines() if line.startswith("| c") and "faster" in line]
    assert verdicts == [
        "tested otherwise; (a); in batches of 32 |",
        "tested otherwise; (a), (b) |",
        "tested otherwise; (b) |",
        "tested otherwise; (a), (b) |",
        "tested otherwise |",
    ]
    few = to_markdown(claims_parts([Account(machine="m", runs=(), findings=tuple(findings[:2]))]))
    assert "(a)" not in few
    assert f"tested otherwise; {cores}; {gpu} |" in few


def test_what_was_run_without_a_result_is_told_of_every_machine_with_its_reason() -> None:
    lost = finding(claim("lost"), ClaimVerdict.NO_RESULT, words="the machine was too disturbed")
    general = replace(finding(claim("wide", workload=ANY), ClaimVerdict.UNDECIDED), parts=(lost,))
    never = finding(claim("never"), ClaimVerdict.NOT_MEASURED)
    found = [Account(machine=name, runs=(), findings=(lost, never, general)) for name in ("a", "b")]
    second = to_markdown(claims_parts(found)).split("## b\n")[1]
    assert second.count("| no result: the machine was too disturbed |") == 2
    assert "| never |" not in second
    assert by_report(found).columns[-1] == "no result, not tested"


def test_what_was_tested_otherwise_is_counted_apart_and_called_neither_right_nor_wrong() -> None:
    one = finding(claim(), ClaimVerdict.TESTED_OTHERWISE, basis=basis("tested without tf32: x"))
    assert count_line([one, finding(claim())]) == "2 claims: 1 confirmed, 1 tested otherwise"
    assert verdict(one) == "tested otherwise; tested without tf32: x"
    account = Account(machine="m", runs=(), findings=(one,))
    ((found,),) = [machine["findings"] for machine in json.loads(claims_to_json([account]))["machines"]]
    assert (found["verdict"], found["refuted"]) == ("tested otherwise", False)
    shown = to_terminal(claims_parts([account]), width=160, colour=True, short=True)
    assert "\x1b[31m" not in shown
    assert "\x1b[32m" not in shown
    assert "1 tested otherwise." in to_markdown(claims_parts([account]))
    held, less, wide = (
        replace(
            one, claim=claim(name), measured_value=MeasuredValue(value=at, low=at - 0.1, high=at + 0.1, replicates=4)
        )
        for name, at in (("held", 1.7), ("less", 1.2), ("wide", 1.5))
    )
    told = Account(machine="m", runs=(), findings=(held, less, wide))
    assert summary([told]).endswith(
        " Under those other conditions, which judge no promise, intervals lie: "
        "1 within what was promised, 1 wholly below it, 1 across an end of it, or too wide to tell."
    )


def test_claims_in_general_come_last_with_their_workloads_below() -> None:
    parts = (finding(claim(), ClaimVerdict.CONFIRMED),)
    general = Finding(
        claim=claim("wide", workload=ANY), workload=ANY, claim_verdict=ClaimVerdict.UNDECIDED, parts=parts
    )
    found = grouped(Account(machine="m", runs=(), findings=(general, finding(claim()))))
    assert list(found) == ["leak", "training in general"]
    assert [row[0] for row in body(found["training in general"])] == ["wide", "· leak"]


def test_contradictions_stand_side_by_side_once() -> None:
    chain = [
        finding(claim("one", contradicts=("two",))),
        finding(claim("other")),
        finding(claim("two", contradicts=("one", "three"))),
        finding(claim("three", contradicts=("two",))),
        finding(claim("left", contradicts=("gone",))),  # its counterpart is not shown
    ]
    assert [[one.claim.name for one in group] for group in contradictions(chain)] == [["one", "two", "three"]]


def test_details_name_the_source_the_cells_and_what_was_known() -> None:
    one = claim(remark="Nobody looked.", conditions="an A10")
    words = " ".join(details(finding(one, basis=basis())))
    assert words == (
        "It is fast. Said in a page. Judged by workers against the baseline (leak at size quick, batch 64, timed on "
        "step), run 20260102T030405-abc. Nobody looked."
    )
    measured_value = MeasuredValue(value=1.42, low=1.4, high=1.44, replicates=3)
    real = finding(one, measured_value=measured_value, basis=replace(basis(), data="real data; 3 files"))
    assert "timed on step, real data; 3 files), run 20260102T030405-abc, 3 replicates." in " ".join(details(real))
    assert "Tested by workers=2 against the baseline, timed on step." in " ".join(details(finding(one)))


def account() -> Account:
    nasty = claim("nasty", text=NASTY, source=NASTY, conditions=NASTY, contradicts=("plain-one",))
    plain = claim("plain-one", conditions="an A10", contradicts=("nasty",))
    measured_value = MeasuredValue(value=1.42, low=1.4, high=float("inf"), replicates=2)
    findings = (
        finding(nasty, ClaimVerdict.HARMFUL, words=NASTY, basis=basis(NASTY)),
        finding(plain, measured_value=measured_value),
    )
    return Account(machine="cpu-2", runs=("r1",), findings=findings)


def test_markdown_shows_foreign_text_as_it_is() -> None:
    page = to_markdown(claims_parts([account()]))
    assert page == to_markdown(claims_parts([account()]))
    assert "<script>" not in page
    assert "[GPU](" not in page
    assert "\x1b" not in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {6}
    assert "## cpu-2" in page
    assert "2 claims: 1 confirmed, 1 refuted (1 harmful)." in page
    assert "### Claims that contradict each other" in page


def test_the_terminal_shows_conditions_beside_the_verdict() -> None:
    shown = to_terminal(claims_parts([account()]), width=160, colour=False, short=True)
    assert "\x1b" not in shown
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("plain-one")][:1]
    assert "an A10" in line
    assert "confirmed" in line
    assert "Claims that contradict each other" in shown
    assert "\x1b[" in to_terminal(claims_parts([account()]), width=160, colour=True, short=True)


def test_json_holds_everything_a_script_needs() -> None:
    document = json.loads(claims_to_json([account()]))
    assert document["schema"] == 1
    (machine,) = document["machines"]
    harmful, confirmed = machine["findings"]
    assert (harmful["verdict"], harmful["refuted"], harmful["estimate"]) == ("harmful", True, None)
    assert harmful["tested"]["treatment"] == "leak@quick#64:workers"
    assert confirmed["estimate"] == {
        "value": 1.42,
        "low": 1.4,
        "high": "inf",
        "restarts": 2,
        "margin": 0.01,
        "df": "inf",
        "point": 0.975,
        "least": 0.0,
    }
    assert confirmed["claim"]["conditions"] == "an A10"
