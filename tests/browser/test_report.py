"""The HTML report as a reader meets it: opened from disk in Chromium, by mouse, by keyboard, on a phone, on paper."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.report.html import to_html
from harness.report.words import one_line
from tests.analyze.synthetic import comparison, plan
from tests.browser.conftest import Visitor, first_paint_ms
from tests.report.exhibits import COMMAND, exhibit, five, full, hostile, shown, two_machines
from tests.report.test_html import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Every visible text with its contrast against what lies behind it, by the formula of WCAG 2.2, section 1.4.3.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => {
    const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = channels(getComputedStyle(one).backgroundColor);
      if (found[3] === 255) return found;
      if (found[3] !== 0) throw new Error("a background that shines through cannot be judged");
    }
    throw new Error("the page has no background");
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (["SCRIPT", "STYLE", "OPTION"].includes(element.tagName) || element.closest(".unseen")) continue;
    const style = getComputedStyle(element);
    const front = channels(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [light, dark] = [luminance(front), luminance(behind(element))].sort((one, other) => other - one);
    found.push([(light + 0.05) / (dark + 0.05), `${element.tagName} ${text.slice(0, 40)}`]);
  }
  return found.sort((one, other) => one[0] - other[0]);
}"""


def labels(page: Page) -> list[str]:
    """The subjects of the rows that can be seen, from top to bottom."""
    return page.locator(".matrix > tbody:visible .opens").all_inner_texts()


def brightness(colour: str) -> int:
    """The sum of red, green and blue in `rgb(252, 252, 250)`."""
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))


def test_it_weighs_little_asks_for_nothing_and_is_soon_there(visit: Visitor, tmp_path: Path, capsys) -> None:
    text = to_html(full())
    paints = []
    for _ in range(3):  # the soonest counts: a busy machine delays one or another
        seen = visit(text)
        paints.append(round(first_paint_ms(seen.page)))
    measured = {
        "ratios": seen.page.locator(".matrix > tbody").count(),
        "bytes": len(text.encode()),
        "requests": len(seen.requests),
        "first_contentful_paint_ms": min(paints),
        "loaded_ms": round(seen.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")),
    }
    (tmp_path / "weight.json").write_text(json.dumps(measured))
    with capsys.disabled():
        print(f"\nHTML report of a full matrix: {json.dumps(measured)}")
    assert measured["ratios"] == 350
    assert measured["bytes"] < 2_000_000
    assert measured["requests"] == 0
    assert measured["first_contentful_paint_ms"] < 1000
    assert seen.complaints == []


def test_any_column_sorts_by_mouse_and_by_keyboard(visit: Visitor) -> None:
    page = visit(to_html(shown())).page
    own = labels(page)
    assert own == ["augment", "workers", "pin_memory", "chunk_cache", "amp"]
    headers = page.locator(".matrix > thead th")
    speedup = headers.filter(has_text="speedup")
    speedup.get_by_role("button").click()
    expect(speedup).to_have_attribute("aria-sort", "descending")
    assert labels(page) == own
    page.keyboard.press("Enter")
    expect(speedup).to_have_attribute("aria-sort", "ascending")
    assert labels(page) == own[::-1]
    expect(page.locator("#said")).to_have_text("Sorted by speedup, 95 %, ascending.")
    page.keyboard.press("Space")
    expect(speedup).not_to_have_attribute("aria-sort", re.compile(""))
    for column in range(headers.count()):
        headers.nth(column).get_by_role("button").focus()
        page.keyboard.press("Enter")
        expect(headers.nth(column)).to_have_attribute("aria-sort", re.compile("ascending|descending"))
        expect(page.locator("[aria-sort]")).to_have_count(1)
        assert sorted(labels(page)) == sorted(own)
    headers.nth(0).get_by_role("button").click()
    assert labels(page) == sorted(own)


def test_filters_narrow_and_say_how_many_are_left(visit: Visitor) -> None:
    page = visit(to_html(shown())).page
    count = page.locator(".count")
    expect(count).to_have_text("5 of 5 ratios shown")
    page.locator(".filters [name=text]").fill("wor")
    assert labels(page) == ["workers"]
    expect(count).to_have_text("1 of 5 ratios shown")
    page.get_by_role("button", name="Reset").click()
    expect(count).to_have_text("5 of 5 ratios shown")
    page.locator(".filters [name=stage]").select_option("input")
    assert labels(page) == ["workers", "pin_memory"]
    page.locator(".filters [name=stage]").select_option("")
    page.locator(".filters [name=verdict]").select_option("slower")
    assert labels(page) == ["amp"]
    page.locator(".filters [name=text]").fill("nothing like this")
    expect(page.get_by_text("No row fits")).to_be_visible()


def test_a_ratio_opens_by_mouse_and_by_keyboard(visit: Visitor) -> None:
    seen = visit(to_html(shown(exhibit(commands={five().comparisons[0]: "./speedmatrix run leak --only workers"}))))
    page = seen.page
    page.locator("#r2 .c-stage").click()
    row = page.get_by_role("button", name="workers")
    expect(row).to_have_attribute("aria-expanded", "true")
    behind = page.locator("tbody.open .behind")
    expect(behind.get_by_text("pairs in 2 replicates")).to_be_visible()
    expect(behind.locator(".windows svg")).to_have_count(2)
    treated = behind.locator(".windows svg").first
    expect(treated).to_have_attribute("aria-label", re.compile("4 windows of the treatment"))
    expect(behind.locator(".windows svg circle")).to_have_count(2 * 9)
    behind.get_by_text("These windows as a table").click()
    expect(behind.locator(".numbers tbody tr")).to_have_count(2 * 9)
    row.focus()
    page.keyboard.press("Escape")
    expect(row).to_have_attribute("aria-expanded", "false")
    expect(behind).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("tbody.open .behind")).to_be_visible()
    assert seen.complaints == []


def test_everything_is_reached_with_the_keyboard_and_what_is_reached_is_seen(visit: Visitor) -> None:
    page = visit(to_html(shown())).page
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the matrix")).to_be_in_viewport()
    reached = set()
    for _ in range(60):
        focused = page.evaluate(
            "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert focused[1] != "none", focused
        reached.add(focused[0])
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    assert {"workers", "amp", "speedup, 95 %", "Reset", "Dark", "Copy"} <= reached


def test_the_command_is_copied(visit: Visitor) -> None:
    page = visit(to_html(shown()), permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("#runs .copy").click()
    expect(page.locator("#said")).to_have_text("The command is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == COMMAND


def test_a_link_to_a_row_opens_it(visit: Visitor) -> None:
    page = visit(to_html(shown()), at="#r3").page
    expect(page.locator("#r3 .behind")).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_enough(scheme: str, visit: Visitor) -> None:
    page = visit(to_html(two_machines()), color_scheme=scheme).page
    page.locator(".filters [name=older]").check()
    for index in range(page.locator(".matrix > tbody").count()):
        page.locator(".opens").nth(index).click()
    page.locator("#runs summary").first.click()
    found = page.evaluate(CONTRASTS)
    assert len(found) > 500
    assert found[0][0] >= 4.5, found[:5]


def test_dark_is_one_click_away_and_light_again(visit: Visitor) -> None:
    page = visit(to_html(shown()), color_scheme="light").page
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Switch to dark colours").click()
    dark = page.evaluate(paper)
    assert brightness(dark) < 150
    assert brightness(light) > 600
    page.get_by_role("button", name="Switch to light colours").click()
    assert page.evaluate(paper) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(scheme: str, visit: Visitor) -> None:
    seen = visit(to_html(two_machines()), color_scheme=scheme, **PHONE)
    page = seen.page
    assert page.evaluate(OVERFLOW) == 0
    for index in range(3):
        page.locator(".matrix > tbody:visible .opens").nth(index).tap()
    page.get_by_text("These windows as a table").first.tap()
    page.locator("#runs summary").first.tap()
    assert page.evaluate(OVERFLOW) == 0
    page.locator(".filters [name=sort]").select_option(label="optimization, ascending")
    assert labels(page) == sorted(labels(page))
    assert page.get_by_role("cell", name="faster").count() > 0, "a card is still a row of a table to whoever listens"
    assert seen.complaints == []


def test_on_no_screen_the_page_scrolls_sideways(visit: Visitor) -> None:
    page = visit(to_html(two_machines())).page
    page.locator(".opens").first.click()
    wide = {}
    for width in (320, 480, 768, 1024, 1153, 1200, 1280, 1345, 1366, 1473, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        wide[width] = page.evaluate(OVERFLOW)
    assert set(wide.values()) == {0}, wide


def test_it_prints_with_everything_open(visit: Visitor, tmp_path: Path) -> None:
    page = visit(to_html(shown())).page
    page.locator(".opens").nth(1).click()
    open_now = "[...document.querySelectorAll('.more > td > details')].map((one) => one.open)"
    assert page.evaluate(open_now) == [False, True, False, False, False]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(open_now) == [True] * 5
    expect(page.locator(".windows svg")).to_have_count(2 * 5)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(open_now) == [False, True, False, False, False]
    page.evaluate("addEventListener('beforeprint', () => { window.asked = true; })")
    paper = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert paper.startswith(b"%PDF")
    assert page.evaluate("window.asked"), "printing asks for everything to be opened"
    page.emulate_media(media="print")
    expect(page.locator("#theme")).to_be_hidden()
    expect(page.locator(".filters")).to_be_hidden()
    assert page.evaluate(OVERFLOW) == 0


@pytest.mark.parametrize("evil", EVIL)
def test_a_strangers_run_cannot_do_anything(evil: str, visit: Visitor) -> None:
    seen = visit(to_html(hostile(evil)))
    page, other = seen.page, visit(to_html(shown())).page
    for one in (page, other):
        one.locator(".opens").first.click()
        expect(one.locator(".windows svg g").first).to_be_attached()  # drawn a moment after the row has opened
    honest = other.evaluate("[...new Set([...document.all].map((one) => one.tagName))]")
    page.locator(".filters [name=text]").fill("g")
    page.keyboard.press("Tab")
    assert set(page.evaluate("[...new Set([...document.all].map((one) => one.tagName))]")) <= {*honest, "UL", "LI"}
    assert one_line(evil) in page.locator("body").text_content()
    assert seen.requests == []
    assert seen.complaints == []
    page.keyboard.press("Escape")


def test_the_policy_stops_what_would_get_through(visit: Visitor) -> None:
    """What escaping should never let happen: even then nothing runs, loads or is sent."""
    attack = (
        "<script>window.broken = 1</script><img src='https://example.org/x.png' onerror='window.broken = 2'>"
        "<a id='bad' href='javascript:window.broken = 3'>x</a><style>body { display: none }</style>"
        "<iframe src='https://example.org'></iframe><base href='https://example.org/'>"
    )
    seen = visit(to_html(shown()).replace("<main>", f"<main>{attack}"))
    seen.page.locator("#bad").evaluate("(one) => one.click()")
    assert seen.page.evaluate("window.broken") is None
    assert seen.page.locator("h1").is_visible()
    assert set(seen.refused) == set(seen.requests) == {"https://example.org/x.png"}
    assert any("Content Security Policy" in one for one in seen.complaints)


def test_without_a_script_the_tables_still_show(visit: Visitor) -> None:
    page = visit(to_html(shown()), java_script_enabled=False).page
    expect(page.locator(".matrix > tbody:visible")).to_have_count(5)
    expect(page.locator(".filters")).to_be_hidden()
    page.locator(".more summary").nth(1).click()
    expect(page.locator(".behind").nth(1)).to_be_visible()


def test_a_page_without_a_ratio_complains_of_nothing(visit: Visitor) -> None:
    seen = visit(to_html(shown(exhibit(plan(comparison("workers")), []))))
    expect(seen.page.get_by_text("Nothing has a ratio yet")).to_be_visible()
    seen.page.get_by_role("button", name="Switch to").click()
    assert seen.complaints == []


def test_older_answers_are_shown_when_asked_for(visit: Visitor) -> None:
    page = visit(to_html(two_machines())).page
    expect(page.locator(".count")).to_have_text("10 of 15 ratios shown")
    page.locator(".filters [name=older]").check()
    expect(page.locator(".count")).to_have_text("15 of 15 ratios shown")
    page.locator(".filters [name=machine]").select_option("h200")
    expect(page.locator(".count")).to_have_text("5 of 15 ratios shown")
