"""The document tree: what each renderer makes of its parts, foreign text included."""

import re

import pytest

from harness.report.document import (
    Code,
    Column,
    Details,
    Facts,
    Heading,
    Item,
    Items,
    Part,
    Span,
    Table,
    Text,
    listed,
    tabled,
    to_json,
    to_markdown,
    to_terminal,
    warning,
)

EVIL = "x|<b>`\n# y \x1b[2J [red]z[/red]"
EVERYTHING: tuple[Part, ...] = (
    Heading(EVIL, 1),
    Facts(((EVIL, EVIL),)),
    Text((Span(EVIL, "bold"), Span(f" {EVIL}", "italic"))),
    warning(EVIL),
    Table((EVIL, Column(name=EVIL, style="italic")), ((EVIL, EVIL),)),
    Items((Item(EVIL, (Text(EVIL), Code(EVIL))),)),
    Details("more", (Text(EVIL),)),
)


def test_foreign_text_is_text_in_every_form() -> None:
    page = to_markdown(EVERYTHING)
    outside = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<b>", outside)
    assert "\n# y" not in outside
    shown = to_terminal(EVERYTHING, width=200)
    assert "\x1b" not in page + shown
    assert "[red]z[/red]" in shown


def test_a_fence_is_longer_than_any_run_of_backticks_in_its_code() -> None:
    assert to_markdown([Code("a ```` b")]) == "`````sh\na ```` b\n`````\n"


def test_details_stand_on_a_page_and_are_left_out_of_a_short_view() -> None:
    parts = (Text("first"), Details("more", (Text("behind it"),)))
    assert "behind it" in to_markdown(parts)
    assert "behind it" in to_terminal(parts, width=80)
    assert "behind it" not in to_terminal(parts, width=80, short=True)


def test_a_narrow_terminal_loses_the_least_columns_first_and_cuts_no_number() -> None:
    columns = (
        Column(name="name", short=True),
        Column(name="number", whole=True),
        Column(name="more", whole=True, optional=1),
        Column(name="most", whole=True, optional=2),
    )
    table = Table(
        columns, (("a very long name of a configuration", "1.234x [1.111, 1.345]", "0123456789", "9876543210"),)
    )
    wide, usual, narrow = (to_terminal([table], width=width) for width in (120, 60, 40))
    assert "9876543210" in wide
    assert "a very long name of a configuration" in wide
    assert "9876543210" not in usual
    assert "0123456789" in usual
    assert "0123456789" not in narrow
    assert "…" in narrow
    assert all("1.234x [1.111, 1.345]" in one for one in (wide, usual, narrow))


@pytest.mark.parametrize("width", [30, 60, 120])
def test_code_is_never_broken(width: int) -> None:
    line = "./speedmatrix run " + "--only x " * 20 + "end"
    assert f"    {line}\n" in to_terminal([Code(line)], width=width)


def test_nothing_is_made_of_no_rows_and_no_sentences() -> None:
    assert tabled(("a",), ()) == ()
    assert listed(()) == ()


def test_json_has_null_for_a_number_without_end() -> None:
    assert to_json({"a": (1, float("inf"))}) == '{\n  "a": [\n    1,\n    null\n  ]\n}\n'
