"""The gallery as a reader meets it: opened from disk in Chromium, filtered, held side by side, taken along as CSV."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.analyze.verdict import Verdict
from harness.catalogue import read_catalogue
from harness.cli.sharing import read_publication
from harness.report.gallery import gallery
from harness.report.published import Publication
from harness.results import finished
from tests.browser.conftest import Visitor, first_paint_ms
from tests.browser.test_report import OVERFLOW, PHONE
from tests.report.collected import Made, kept, placed
from tests.report.test_html import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

RESULTS = Path(__file__).parents[2] / "results"
MOST_BYTES, MOST_MS = 3_000_000, 1_000


@pytest.fixture(scope="module")
def committed() -> Publication:
    return read_publication(finished(RESULTS), read_catalogue(), has_claims=True)


@pytest.fixture(scope="module")
def whole(committed: Publication) -> str:
    """The gallery of all committed runs."""
    return gallery(committed, read_catalogue().optimizations, "0")


def two() -> str:
    """Two machines with one question in common, one row that a spreadsheet would take for a formula, and an older."""
    workers, amp = Made(treatment=("workers",), ratio=1.5), Made(treatment=("amp",), ratio=1.2)
    formula = Made(treatment=("chunk_cache",), ratio=0.8, label="=1+1")
    former = Made(treatment=("amp", "tuned_malloc"), ratio=1.3, reference=("tuned_malloc",), label="amp")
    first = replace(placed(kept(workers, amp, formula, former)), name="first")
    second = replace(placed(kept(replace(workers, ratio=3.0))), name="second")
    return gallery(Publication(places=(first, second)), read_catalogue().optimizations, "0")


def subjects(page: Page) -> list[str]:
    return page.locator(".gallery tbody td:first-child").all_inner_texts()


@pytest.fixture
def opened(visit: Visitor) -> Callable[[], Page]:
    def it() -> Page:
        seen = visit(two())
        assert (seen.requests, seen.complaints) == ([], [])
        return seen.page

    return it


def test_all_results_weigh_little_ask_for_nothing_and_are_soon_there(
    visit: Visitor, whole: str, committed: Publication
) -> None:
    assert len(whole.encode()) < MOST_BYTES
    paints = []
    for _ in range(3):  # the soonest counts: a busy machine delays one or another
        seen = visit(whole)
        paints.append(first_paint_ms(seen.page))
    assert min(paints) < MOST_MS
    assert seen.page.locator(".sweep img").count() == sum(len(place.sweeps) for place in committed.places)
    for one in seen.page.locator(".sweep img").all():
        one.scroll_into_view_if_needed()
        assert one.evaluate("async (image) => { await image.decode(); return image.naturalWidth; }") > 0
    assert [one for one in seen.requests if not one.startswith("data:image/svg+xml;base64,")] == []
    assert seen.complaints == []


def test_it_fits_a_phone(visit: Visitor, whole: str) -> None:
    assert visit(whole, **PHONE).page.evaluate(OVERFLOW) == 0


def test_filters_narrow_the_table_and_reset_widens_it(opened: Callable[[], Page]) -> None:
    page = opened()
    assert sorted(subjects(page)) == ["=1+1", "amp", "workers", "workers"], "what stands aside waits for its box"
    page.locator(".filters [name=machine]").select_option("second")
    assert subjects(page) == ["workers"]
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".gallery tbody tr")).to_have_count(4)
    page.get_by_label("Search").fill("amp")
    page.get_by_label("Other environments").check()
    expect(page.locator(".count")).to_have_text("2 of 5 ratios")
    page.get_by_label("Search").fill("nothing like it")
    expect(page.locator(".none")).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    page.locator(".filters [name=sort]").select_option("ratio")
    assert subjects(page)[0] == "workers"
    assert subjects(page)[-1] == "=1+1"


def side_by_side(page: Page) -> str:
    """The only pair of rows of both machines."""
    page.locator(".filters [name=machine]").select_option("first")
    page.locator(".filters [name=beside]").select_option("second")
    expect(page.locator(".gallery tbody tr")).to_have_count(1)
    return page.locator(".gallery tbody tr").inner_text()


def test_two_machines_stand_side_by_side(opened: Callable[[], Page]) -> None:
    row = side_by_side(opened())
    assert "1.50x" in row
    assert "3.00x" in row
    assert "2.00x [1.9" in row
    assert "more there" in row


def test_other_stacks_of_a_name_make_no_pair_and_a_disturbed_machine_tells_no_difference(visit: Visitor) -> None:
    workers = Made(treatment=("workers",), ratio=1.5)
    everything = Made(treatment=("amp", "workers"), ratio=2.0, label="all")
    other = replace(everything, treatment=("amp", "pin_memory", "workers"))
    calm, run = kept(workers, everything), kept(replace(workers, ratio=3.0), other)
    tables = tuple(
        replace(
            table,
            rows=tuple(
                replace(row, result=replace(row.estimate, verdict=Verdict.DISTURBED)) if row.estimate else row
                for row in table.rows
            ),
        )
        for table in run.matrix.tables
    )
    disturbed = replace(run, matrix=replace(run.matrix, tables=tables))
    places = [replace(placed(one), name=name) for one, name in ((calm, "first"), (disturbed, "second"))]
    row = side_by_side(visit(gallery(Publication(places=tuple(places)), read_catalogue().optimizations, "0")).page)
    assert "2.00x [1.9" in row
    assert "undecided" in row


def test_a_link_to_a_row_shows_it_whatever_the_filters_hide(visit: Visitor) -> None:
    page = visit(two()).page
    page.get_by_label("Other environments").check()
    key = page.locator(".gallery tbody tr", has_text="tuned_malloc").get_attribute("id")
    again = visit(two(), at=f"#{key}").page
    expect(again.locator(".found")).to_have_count(1)
    expect(again.locator(".found")).to_contain_text("tuned_malloc")
    again.locator(".filters [name=machine]").select_option("second")
    again.evaluate("location.hash = ''")
    again.evaluate(f"location.hash = '#{key}'")
    expect(again.locator(".found")).to_be_in_viewport()


def test_the_visible_table_is_taken_along_as_csv(opened: Callable[[], Page]) -> None:
    page = opened()
    page.locator(".filters [name=machine]").select_option("first")
    with page.expect_download() as download:
        page.get_by_role("button", name="Table as CSV").click()
    assert download.value.suggested_filename == "speedmatrix.csv"
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [row["optimization"] for row in found] == ["workers", "amp", "'=1+1"]
    assert float(found[0]["ratio"]) == pytest.approx(1.5, abs=0.01)
    assert {"low", "high", "run", "environment"} <= set(found[0])


def test_it_is_used_by_keyboard_alone(opened: Callable[[], Page]) -> None:
    page = opened()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the ratios
    page.keyboard.press("Tab")
    page.keyboard.type("amp")
    assert subjects(page) == ["amp"]


@pytest.mark.parametrize("evil", EVIL)
def test_a_strangers_words_are_text(evil: str, visit: Visitor) -> None:
    made = kept(Made(treatment=("workers",), ratio=1.5, label=evil))
    seen = visit(gallery(Publication(places=(placed(made),)), {}, "0"))
    expect(seen.page.locator(".gallery tbody tr")).to_have_count(1)
    assert seen.page.locator(".gallery tbody td:first-child > *").count() == 1, "a link and nothing else"
    assert (seen.requests, seen.complaints) == ([], [])


def test_without_a_script_it_says_where_the_numbers_are(visit: Visitor) -> None:
    page = visit(two(), java_script_enabled=False).page
    assert "the pages show the same" in page.locator("main").inner_text()
