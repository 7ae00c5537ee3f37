"""Figures: what stands in them, and that nothing but their values decides a byte."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from harness.analyze.attribution import Basis, Gain, attribute
from harness.analyze.estimate import Estimate
from harness.analyze.profile import bottleneck
from harness.analyze.verdict import Verdict
from harness.report.figures import (
    BEYOND,
    MARK,
    SLOW_PROBE,
    Box,
    Frame,
    Grid,
    Label,
    Line,
    Tile,
    drawn,
    heat_map,
    shade,
    stage_bars,
    waterfall,
)

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[2]


def estimate(ratio: float, verdict: Verdict = Verdict.FASTER) -> Estimate:
    return Estimate(
        ratio=ratio,
        low=ratio * 0.98,
        high=ratio * 1.02,
        pairs=8,
        processes=2,
        df=6.0,
        method="moderated t",
        outlying=False,
        verdict=verdict,
        drift=0.01,
        trimmed_ratio=ratio,
    )


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own text, made a line above


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in parsed(svg).iter(f"{SVG}text")]


def fills(svg: str) -> list[str]:
    styles = (path.attrib.get("style", "") for path in parsed(svg).iter(f"{SVG}path"))
    return [found[1] for style in styles if (found := re.search(r"fill: (#\w+)", style))]


FRAME = Frame(width=200, height=100, title="A <title>", description="What & where")
MARKS = (
    Box(x=10, y=10, width=20, height=10, fill="#2e8b57"),
    Line(x1=0, y1=50, x2=100, y2=50, is_dashed=True),
    Label(x=10, y=80, text="$x_2$ <b>\x1bbold\n"),
)


def test_a_figure_is_read_out_and_keeps_foreign_text_as_text() -> None:
    svg = drawn(FRAME, MARKS)
    root = parsed(svg)
    assert svg.startswith(f"{MARK}\n<svg ")
    assert root.attrib["viewBox"] == "0 0 200 100"
    assert [root.findtext(f"{SVG}{name}") for name in ("title", "desc")] == ["A <title>", "What & where"]
    assert texts(svg) == ["$x_2$ <b> bold"]
    assert "matplotlib" not in svg.lower()


def test_marks_stand_where_they_were_put_from_the_top() -> None:
    (label,) = parsed(drawn(FRAME, [Label(x=10, y=80, text="a", size=10)])).iter(f"{SVG}text")
    assert (float(label.attrib["x"]), float(label.attrib["y"])) == (10, pytest.approx(83.6))
    (line,) = list(parsed(drawn(FRAME, [MARKS[1]])).iter(f"{SVG}path"))
    assert line.attrib["d"].split() == ["M", "0", "50", "L", "100", "50"]


def test_what_a_user_has_set_changes_no_byte() -> None:
    plain = drawn(FRAME, MARKS)
    theirs = {
        "svg.fonttype": "path",
        "font.size": 40,
        "lines.linewidth": 9,
        "font.family": ["serif"],
        "axes.grid": True,
    }
    with mpl.rc_context(theirs):
        assert drawn(FRAME, MARKS) == plain
        assert mpl.rcParams["font.size"] == 40  # and what they have set stays set
    assert drawn(FRAME, MARKS) == plain


def test_no_day_no_folder_no_seed_and_no_settings_file_changes_a_byte(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("svg.fonttype: path\nfont.size: 30\nfigure.facecolor: red\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.report.test_figures import every_figure\n"
        "sys.stdout.write(every_figure())"
    )
    surroundings = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1000"}
    command = [sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout == every_figure()


def every_figure() -> str:
    """One of each kind."""
    return "\n".join((heat(), waterfall("Parts", "all", PARTS), stages()))


def test_shades_are_grey_at_one_and_dark_enough_for_white_text() -> None:
    def parts(colour: str) -> tuple[int, ...]:
        return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (p / 255 for p in parts(colour))]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert len(set(parts(shade(1.0)))) == 1
    for ratio in (0.1, 0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 2.0, 40.0):
        assert 1.05 / (luminance(shade(ratio)) + 0.05) >= 4.5, ratio  # WCAG 2.2, level AA
    assert parts(shade(2.0))[1] > parts(shade(2.0))[0]
    assert parts(shade(0.5))[0] > parts(shade(0.5))[1]
    assert shade(4.0) == shade(400.0)


def heat() -> str:
    tiles = {
        ("all", "leak"): Tile(estimate=estimate(2.37)),
        ("all", "spoof"): Tile(estimate=estimate(2.12), is_otherwise=True),
        ("workers=2", "leak"): Tile(estimate=estimate(1.02, Verdict.UNDECIDED)),
        ("workers=2", "spoof"): Tile(is_open=True),
        ("pin_memory", "leak"): Tile(estimate=estimate(0.9, Verdict.SLOWER), is_conditional=True),
        ("pin_memory", "spoof"): Tile(),
    }
    rows, columns = ("all", "workers=2", "pin_memory"), (("leak", "quick, 512"), ("spoof", "quick, 12"))
    return heat_map(Grid(title="All of it", rows=rows, columns=columns, stacks=1, tiles=tiles))


def test_a_heat_map_has_every_ratio_and_tells_what_is_not_decided() -> None:
    svg = heat()
    shown = texts(svg)
    for text in ("2.37", "2.12 ≠", "1.02", "0.90 *", "-", "·", "all", "workers=2", "leak", "quick, 12"):
        assert shown.count(text) == 1, text
    assert shade(2.37) in fills(svg)
    assert shade(1.02) not in fills(svg)  # outlined, not filled
    assert shade(0.9) in fills(svg)


def test_a_heat_map_widens_for_many_workloads() -> None:
    columns = tuple((f"mine_{number}", "quick, 8") for number in range(20))
    svg = heat_map(Grid(title="Many", rows=("workers",), columns=columns, stacks=0, tiles={}))
    assert float(parsed(svg).attrib["viewBox"].split()[2]) > 820


PARTS = attribute(
    ("workers", "amp", "pin_memory"),
    Gain(log=0.9, half_width=0.05),
    {"workers": Gain(log=0.5, half_width=0.02), "amp": Gain(log=-0.2, half_width=0.02)},
    {"workers": Gain(log=0.7, half_width=0.02)},
)


def test_a_waterfall_shows_parts_the_rest_and_the_whole_and_says_what_is_missing() -> None:
    svg = waterfall("Parts", "all", PARTS)
    shown = texts(svg)
    assert [name for name in shown if name in {"workers", "amp", BEYOND, "all"}] == [
        "workers", "amp", BEYOND, "all",
    ]  # fmt: skip
    assert "1.82x [1.79, 1.86]" in shown
    assert "0.82x [0.80, 0.84], alone" in shown
    assert "1.65x [1.51, 1.80]" in shown
    assert "2.46x [2.34, 2.59]" in shown
    assert "1 of 3 parts have no ratio of their own: they are in the bar of what is beyond the parts" in shown
    assert any("measured only so; the others are Shapley shares" in text for text in shown)


def test_a_waterfall_says_how_its_shares_were_made() -> None:
    first = Gain(log=0.2, half_width=0.01)
    full = attribute(["a"], first, {"a": first}, {"a": first})
    alone = attribute(["a"], first, {"a": first}, {})
    assert {share.basis for share in full.shares} == {Basis.BOTH}
    assert any("Shapley share" in text for text in texts(waterfall("x", "s", full)))
    assert any("none was put on last" in text for text in texts(waterfall("x", "s", alone)))
    assert "1x" in texts(waterfall("x", "s", alone))


def test_an_endless_interval_does_not_break_a_waterfall() -> None:
    wide = attribute(["a"], Gain(log=0.2, half_width=float("inf")), {"a": Gain(log=0.1, half_width=0.1)}, {})
    assert "1.2x [0.0, ∞]" in texts(waterfall("x", "s", wide))


def stages() -> str:
    plain, best = bottleneck(20.0, 44.0, 40.0), bottleneck(71.0, 4000.0, 71.5)
    return stage_bars("Stages", {"imagenet": {"baseline": plain, "all": best}})


def test_stage_bars_are_as_long_as_their_rates_until_one_would_squeeze_all_others() -> None:
    svg = stages()
    shown = texts(svg)
    for text in ("44 samples/s", "40 samples/s", "20 samples/s", "4,000 samples/s", "71.5 samples/s", "71 samples/s"):
        assert text in shown
    widths = [width(path) for path in parsed(svg).iter(f"{SVG}path") if "fill: #767676" in path.attrib["style"]]
    measured = [one for one in widths if one > 16]  # the other one is the legend's
    assert measured[1] / measured[0] == pytest.approx(71 / 20, rel=0.01)


def test_a_bar_that_beats_its_probe_says_that_the_probe_was_slow() -> None:
    assert not any("slow moment" in text for text in texts(stages()))
    svg = stage_bars("Stages", {"spoof": {"all": bottleneck(112.0, 1580.0, 103.0)}})
    shown = texts(svg)
    assert {"1,580 samples/s", "103 samples/s*", "112 samples/s"} <= set(shown)
    assert SLOW_PROBE in shown
    assert f"step alone 103 samples/s*, trains 112 samples/s; {SLOW_PROBE}" in svg


def test_a_rate_beyond_both_its_probes_ends_the_axis() -> None:
    svg = stage_bars("Stages", {"imagenet": {"all": bottleneck(318.0, 314.0, 300.0)}})
    assert fills(svg).count("#767676") == 2, "the legend's and one bar, without a piece beyond a gap"


def width(path: ET.Element) -> float:
    numbers = [float(one) for one in re.findall(r"-?[\d.]+", path.attrib["d"])]
    return max(numbers[::2]) - min(numbers[::2])
