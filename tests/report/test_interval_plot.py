import math
from dataclasses import replace
from xml.etree import ElementTree as ET

from harness.analyze.matrix import Row, Table
from harness.analyze.verdict import Verdict
from harness.report.figures import interval_plot
from tests.analyze.synthetic import comparison, matrix, plan, records, story

SVG = "{http://www.w3.org/2000/svg}"


def table() -> Table:
    return story().tables[0]


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own text, made a line above


def intervals(svg: str) -> list[ET.Element]:
    return [line for line in parsed(svg).iter(f"{SVG}line") if "interval" in line.attrib["class"]]


def test_every_estimate_is_an_interval_around_its_ratio() -> None:
    svg = interval_plot(table())
    circles = list(parsed(svg).iter(f"{SVG}circle"))
    assert len(circles) == len(intervals(svg)) == 5
    for circle, line in zip(circles, intervals(svg), strict=True):
        assert float(line.attrib["x1"]) < float(circle.attrib["cx"]) < float(line.attrib["x2"])
    assert ">3.23x [3.16, 3.30] faster<" in svg  # colour is never the only sign
    assert [circle.attrib["class"] for circle in circles] == ["faster", "faster", "undecided", "undecided", "slower"]


def test_every_verdict_has_a_look_of_its_own() -> None:
    found = table()
    rows = [
        replace(row, result=replace(row.estimate, verdict=verdict))
        for row, verdict in zip(found.rows, Verdict, strict=False)
        if row.estimate is not None
    ]
    circles = parsed(interval_plot(replace(found, rows=tuple(rows)))).iter(f"{SVG}circle")
    assert {circle.attrib["class"] for circle in circles} == {"faster", "slower", "none", "undecided"}


def test_the_axis_is_logarithmic() -> None:
    svg = interval_plot(table())
    labels = {one.text: float(one.attrib["x"]) for one in parsed(svg).iter(f"{SVG}text")}
    per_log = (labels["3x"] - labels["1x"]) / math.log(3)
    assert math.isclose((labels["2x"] - labels["1x"]) / math.log(2), per_log, rel_tol=0.01)


def test_a_useless_interval_ends_at_the_edge_and_squeezes_nobody() -> None:
    wide = table()
    first = wide.rows[0]
    assert first.estimate is not None
    endless = replace(first, result=replace(first.estimate, low=0.0, high=math.inf))
    line = intervals(interval_plot(replace(wide, rows=(endless, *wide.rows[1:]))))[0]
    assert float(line.attrib["x1"]) >= 190
    assert float(line.attrib["x2"]) <= 820 - 230


def test_foreign_names_are_text() -> None:
    def renamed(row: Row) -> Row:
        return replace(row, comparison=replace(row.comparison, label="<script>&\x1b" + "x" * 40))

    found = table()
    svg = interval_plot(replace(found, rows=tuple(renamed(row) for row in found.rows)))
    assert "<script>" not in svg
    assert "&lt;script&gt;&amp;" in svg
    assert len(intervals(svg)) == 5


def test_what_has_no_effect_is_drawn_as_such() -> None:
    (table,) = matrix(plan(comparison("workers")), records(0, 1.0)).tables
    (row,) = table.rows
    assert row.estimate is not None
    narrow = replace(row.estimate, low=0.99, high=1.01, verdict=Verdict.NO_EFFECT)
    svg = interval_plot(replace(table, rows=(replace(row, result=narrow),)))
    assert [circle.attrib["class"] for circle in parsed(svg).iter(f"{SVG}circle")] == ["none"]
    assert ">1.00x [0.99, 1.01] no effect<" in svg


def test_no_estimates_leave_an_empty_axis() -> None:
    (empty,) = matrix(plan(comparison("workers")), []).tables
    assert intervals(interval_plot(empty)) == []
