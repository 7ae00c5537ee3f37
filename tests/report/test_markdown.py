import re
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.matrix import Matrix
from harness.core.plan import NoResult
from harness.core.protocol import STANDARD
from harness.core.records import Window
from harness.report.document import escaped
from tests.analyze.synthetic import ENVIRONMENT, comparison, matrix, plan, records, story
from tests.report.whole import matrix_to_markdown

COMMAND = "./speedmatrix measure leak --seed 7"


def tables(text: str) -> list[list[str]]:
    """Blocks of lines that begin with a pipe."""
    return [block.strip().splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)]


def test_every_line_of_a_table_has_as_many_cells_as_its_header() -> None:
    found = tables(matrix_to_markdown(story(), COMMAND))
    assert len(found) == 5
    for table in found:
        borders = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(borders) == 1, table


def test_the_header_says_how_windows_were_led_in() -> None:
    led = replace(story(), protocol=replace(STANDARD, target=None))
    assert "2 replicates of 12 windows, each of about 1 s after 100 ms or more untimed |" in matrix_to_markdown(
        led, COMMAND
    )


@pytest.mark.parametrize(
    ("reference", "treatment", "called", "configs"),
    [
        ({"host_peak_bytes": 3 << 30}, {"host_peak_bytes": 2 << 30}, "host peak", ("3.0 GiB", "2.0 GiB")),
        (
            {"host_peak_bytes": 3 << 30, "host_peak_since_start": True},
            {"host_peak_bytes": 2 << 30},
            "host peak since start",
            ("3.0 GiB", "2.0 GiB"),
        ),
        ({"host_peak_bytes": None}, {"host_peak_bytes": None}, "host resident", ("1.0 GiB", "1.0 GiB")),
        ({"host_peak_bytes": 3 << 30}, {"host_peak_bytes": None}, "host resident", ("1.0 GiB", "1.0 GiB")),
        ({"device_bytes": 5 << 30}, {"device_bytes": 4 << 30}, "device peak", ("5.0 GiB", "4.0 GiB")),
    ],
)
def test_memory_is_called_what_it_is_and_told_alike_of_all_rows(
    reference: dict[str, Any], treatment: dict[str, Any], called: str, configs: tuple[str, str]
) -> None:
    told = [
        replace(one, **({"host_bytes": 1 << 30} | (treatment if one.arm.position else reference)))
        if isinstance(one, Window)
        else one
        for one in records(0, 1.5)
    ]
    header, _, *rows = tables(matrix_to_markdown(matrix(plan(comparison("workers")), told), COMMAND))[1]
    column = header.split(" | ").index(called)
    assert tuple(row.split(" | ")[column] for row in rows) == configs


def test_without_a_single_ratio_there_is_no_table_but_words() -> None:
    text = matrix_to_markdown(matrix(plan(comparison("workers")), []), COMMAND)
    assert "1 (reference)" not in text
    assert "## leak, without a ratio" in text
    assert "| workers | not measured yet: run the same command again to continue |" in text


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<script>x</script>", r"\<script\>x\</script\>"),
        ("[me](javascript:x)", r"\[me\](javascript:x)"),
        ("`code` *bold* _it_", r"\`code\` \*bold\* \_it\_"),
        ("a\\|b", r"a\\\|b"),
        ("one\n\n# two", r"one \# two"),
        ("see https://example.org or WWW.example.org", r"see https\://example.org or WWW\.example.org"),
        ("&lt;", r"\&lt;"),
    ],
)
def test_foreign_text_is_shown_and_never_obeyed(foreign: str, shown: str) -> None:
    assert escaped(foreign) == shown


def test_nothing_foreign_gets_through_anywhere() -> None:
    evil = "x|<b>`\n# y"
    text = matrix_to_markdown(hostile(evil), f"./speedmatrix {evil} ```\n```")
    assert not re.search(r"(?<!\\)<b>", text.split("````sh")[0] + text.split("````")[-1])
    assert "\n# y" not in text
    assert text.count("````") == 2
    for table in tables(text):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def hostile(evil: str) -> Matrix:
    environment = replace(ENVIRONMENT, cpu=evil, system=evil, packages=((evil, evil),))
    empty = matrix(plan(no_results=(NoResult(workload=evil, label=evil, reason=evil),)), [])
    return replace(empty, environment=environment, design=evil, noise=evil)
