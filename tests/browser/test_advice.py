"""What to do, as a reader of the HTML report meets it: near the top, legible in both themes, on a phone too."""

from dataclasses import replace

import pytest

from harness.core.plan import NoResult
from harness.report.advice import chapters
from harness.report.html import Shown, to_html
from tests.analyze.advised import KNOWN, advised
from tests.browser.conftest import Visitor
from tests.browser.test_report import CONTRASTS, OVERFLOW, PHONE
from tests.report.exhibits import exhibit, shown
from tests.report.test_advice import STORY
from tests.report.test_html import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
COMMAND = "./speedmatrix run leak --size quick --stack chunk_cache+workers --replicates 2 --device cpu --budget none"


def with_advice(evil: str | None = None) -> Shown:
    """A page with advice; with `evil`, every foreign word of the advice is an attack."""
    no_results = (NoResult(workload=evil, label=evil, reason=evil),) if evil else ()
    written = {"title": evil, "page": f"{evil}\n\n    {evil}"} if evil else {}
    known = {name: replace(one, **written) for name, one in KNOWN.items()}
    advice = advised(*STORY[:2], STORY[3], *STORY[4:], no_results=no_results, known=known)
    asked = [made.untried for made in advice.workloads[0].ready_made if made.untried]
    assert asked
    return shown(replace(exhibit(), advice=chapters(advice, known), questions=dict.fromkeys(asked, evil or COMMAND)))


def test_it_stands_before_the_matrix_and_its_evidence_opens(visit: Visitor) -> None:
    seen = visit(to_html(with_advice()))
    page = seen.page
    advice, matrix = page.locator("#advice").bounding_box(), page.locator("#matrix").bounding_box()
    assert advice
    assert matrix
    assert advice["y"] < matrix["y"]
    first = page.locator(".s-on .point").first
    assert first.locator(".name").inner_text() == "workers"
    first.get_by_text("The evidence").click()
    assert first.get_by_text("8 pairs in 2 replicates").is_visible()
    assert page.locator("#advice .snippet").first.inner_text() == "workers.option(\n    on=True)"
    assert seen.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_of_it_can_be_read(visit: Visitor, theme: str) -> None:
    page = visit(to_html(with_advice()), color_scheme=theme).page
    page.evaluate("document.querySelectorAll('#advice details').forEach((one) => { one.open = true; })")
    least, text = page.evaluate(CONTRASTS)[0]
    assert least >= 4.5, text


def test_on_a_phone_nothing_is_cut_off(visit: Visitor) -> None:
    page = visit(to_html(with_advice()), **PHONE).page
    page.evaluate("document.querySelectorAll('#advice details').forEach((one) => { one.open = true; })")
    assert page.evaluate(OVERFLOW) == 0


@pytest.mark.parametrize("evil", EVIL)
def test_foreign_words_do_nothing(visit: Visitor, evil: str) -> None:
    seen = visit(to_html(with_advice(evil)))
    assert seen.page.locator("#advice script, #advice img, #advice iframe").count() == 0
    assert (seen.complaints, seen.requests) == ([], [])


def test_a_page_without_advice_has_no_such_section(visit: Visitor) -> None:
    assert visit(to_html(shown())).page.locator("#advice").count() == 0
