"""The HTML report as text: what is in it, that it is safe and small. tests/browser opens it."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from harness.analyze.matrix import build_matrix
from harness.core.plan import NoResult
from harness.core.records import Window
from harness.report import words
from harness.report.html import embedded, to_html
from tests.analyze.advised import coarse
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan
from tests.report.exhibits import COMMAND, composing, exhibit, five, five_told, hostile, shown, two_machines

EVIL = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "' autofocus onfocus=alert(1) x='",
    "--><iframe src=javascript:alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "javascript:alert(1)",
    "\u202egnp.exe\u2028\u0000\x1b[31m",
)
VOID = {"meta", "link", "input", "br"}


class Seen(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"} and data.strip():
            self.scripts.append(data)
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_every_ratio_and_every_hole_stands_in_it_in_words() -> None:
    one = exhibit()
    text = Seen(to_html(shown(one))).text
    estimates = [row.estimate for row in one.kept.matrix.rows if row.estimate]
    assert len(estimates) == 5
    assert all(words.ratio(estimate).replace("x [", "x [") in text for estimate in estimates)
    assert all(row.absence.words in text for row in one.kept.matrix.rows if row.absence)
    assert "needs a C++ compiler (g++)" in text
    assert "5 of 8 comparisons have a ratio" in text


def test_a_composed_ratio_stands_first_with_its_part_beside_it() -> None:
    page = to_html(shown(composing()))
    head, *rows = page.split("<tbody ")
    row = next(one for one in rows if "~1.70x" in one)
    assert '<span class="head">part alone</span>' in head
    assert 'data-timed="training steps, composed"' in row
    assert 'data-verdict="undecided"' in row
    assert 'class="speedup" data-key="1.7"' in row
    assert re.search(r'class="c-part" data-key="[89]\.\d+">loader [89]\.\d\dx \[', row)
    assert 'c-memory" data-key="0">-<' in row, "its arms only load"
    assert "of a part that takes 50 % of the reference" in row
    whole = to_html(shown())
    assert "part alone" not in whole.partition("<main>")[2]
    assert "412 MiB <small>host peak</small>" in whole


def test_rows_without_a_memory_figure_are_sorted_as_nothing() -> None:
    told = [
        replace(one, host_bytes=None, host_peak_bytes=None) if isinstance(one, Window) else one for one in five_told()
    ]
    page = to_html(shown(exhibit(five(), told)))
    assert page.count('c-memory" data-key="0">-<') == 5


def test_the_first_screen_says_what_every_number_depends_on() -> None:
    head = Seen(to_html(shown()).partition("<main>")[0]).text
    for fact in (
        "Example | 9000, 2 cores; Linux 6.1",
        "Python 3.11.9",
        "2 replicates of 4 windows",
        "Not calibrated",
    ):
        assert fact in head


def test_the_limits_of_verdicts_are_those_of_the_machines_that_are_shown() -> None:
    usual = exhibit()
    matrix = build_matrix(five(), five_told(), ENVIRONMENT, coarse(0.03))
    other = replace(usual, kept=replace(usual.kept, name="20261123T100000-0a1b2c3d", matrix=matrix))
    texts = [Seen(to_html(one)).text for one in (shown(usual), shown(other), shown(usual, other))]
    assert [("1.01" in text, "1.03" in text) for text in map(_of_verdicts, texts)] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    assert ["within 0.98 and 1.02" in text for text in map(_of_verdicts, texts)] == [True, False, True]


def _of_verdicts(text: str) -> str:
    """What the page says of the limits."""
    found = re.search(r"the whole interval lies above.*?anything else", text)
    assert found
    return found.group()


def test_behind_a_ratio_stands_its_evidence() -> None:
    one = exhibit()
    compared = one.kept.matrix.rows[0].comparison
    page = to_html(shown(exhibit(commands={compared: "./speedmatrix run leak --only it's"})))
    first = Seen(page.partition('class="behind"')[2].partition("</tbody>\n<tbody")[0]).text
    for said in ("pairs in 2 replicates", "input wait", "its loader alone", "host peak", "first step", "Quality"):
        assert said in first
    assert "./speedmatrix run leak --only it's" in Seen(page).text
    assert page.count("No command of this version") == 4
    assert Seen(page).text.count(COMMAND) == 4 + 1


def test_settings_that_were_promised_are_told_apart() -> None:
    text = Seen(to_html(shown())).text
    assert "workers ✓ 2 0" in text
    assert "bfloat16_layers ✓ True not reported" in text


@pytest.mark.parametrize("evil", EVIL)
def test_a_strangers_text_is_shown_and_never_anything_else(evil: str) -> None:
    honest, attacked = Seen(to_html(shown())), Seen(to_html(hostile(evil)))
    assert {tag for tag, _ in attacked.tags} <= {tag for tag, _ in honest.tags} | {"ul", "li"}
    attributes = {name for _, found in attacked.tags for name in found}
    assert attributes <= {name for _, found in honest.tags for name in found} | {"aria-label"}
    assert not any(name.startswith("on") for name in attributes)
    links = [value for _, found in attacked.tags for name, value in found.items() if name in {"href", "src", "action"}]
    assert all(str(link).startswith(("#", "data:image/svg+xml,")) for link in links)
    assert attacked.text.count(words.one_line(evil)) > 15
    assert len([1 for tag, _ in attacked.tags if tag == "script"]) == 2
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00-\x09\x0b-\x1f]", to_html(hostile(evil)))


@pytest.mark.parametrize("evil", EVIL)
def test_data_cannot_leave_their_element(evil: str) -> None:
    text = embedded({evil: [evil, 1.5, None]})
    assert json.loads(text) == {evil: [evil, 1.5, None]}
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_nothing_is_loaded_from_anywhere_and_only_the_named_script_may_run() -> None:
    page = to_html(shown())
    tags = Seen(page).tags
    policy = next(found["content"] for tag, found in tags if found.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    for element in ("style", "script"):
        inside = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.DOTALL)
        assert len(inside) == 1
        checksum = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{element}-src 'sha256-{checksum}'" in policy
    assert not any(found.keys() & {"src", "srcset", "action"} for _, found in tags)
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert not any("style" in found for _, found in tags), "the policy forbids style attributes"


def test_the_script_never_makes_html_of_text() -> None:
    page = to_html(shown())
    script = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)[0]
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc"):
        assert sink not in script
    templates = [
        one.read_text() for one in (files("harness.report") / "templates").iterdir() if one.name.endswith(".html")
    ]
    assert len(templates) >= 6
    assert not any("|safe" in one.replace(" ", "") or "autoescape" in one for one in templates)


def test_of_many_runs_there_is_one_answer_and_the_others_are_marked() -> None:
    tags = Seen(to_html(two_machines())).tags
    bodies = [found for tag, found in tags if tag == "tbody" and "data-verdict" in found]
    assert len(bodies) == 15
    assert [("data-older" in one) for one in bodies].count(True) == 5
    assert {one["data-machine"] for one in bodies} == {"cpu-2-example-9000", "h200"}
    assert all("data-older" not in one for one in bodies if one["data-machine"] == "h200")
    text = Seen(to_html(two_machines())).text
    assert "Speedup matrix of 3 runs on 2 machines" in text
    assert "5 more ratios answer the same questions" in text


def test_without_a_single_ratio_there_is_no_table_but_words() -> None:
    page = to_html(shown(exhibit(plan(comparison("workers")), [])))
    assert "Nothing has a ratio yet" in page
    assert "not measured yet: run the same command again to continue" in page
    assert 'class="matrix"' not in page


def test_a_run_that_has_only_holes_says_why() -> None:
    page = to_html(shown(exhibit(plan(no_results=(NoResult(workload="leak", label="tf32", reason="no GPU"),)), [])))
    assert "no GPU" in page
    assert "0 of 1 comparisons have a ratio" in page
