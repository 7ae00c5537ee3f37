"""A real Chromium, and pages opened in it from disk with everything noted that they ask for or complain of."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 60_000  # for a busy machine; whoever does not fail waits no longer than it takes
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """An open page, what it asked for after itself, what of that its policy refused, and every complaint."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


Visitor = Callable[..., Visit]


def first_paint_ms(page: Page) -> float:
    """When a page first showed anything; asked from outside, since its policy lets no expression wait inside it."""
    until = monotonic() + PATIENCE_MS / 1000
    while (found := page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")) is None:
        assert monotonic() < until
        page.wait_for_timeout(20)
    return float(found)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        words = f"there is no {CHROMIUM}, so the HTML report is opened in no browser: apt-get install chromium"
        (pytest.fail if os.environ.get("SPEEDMATRIX_BROWSER") == "required" else pytest.skip)(words)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    """Writes a page to disk and opens it; keywords are those of a browser context."""
    contexts = []

    def opened(text: str, *, at: str = "", **options: Any) -> Visit:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        found = Visit(page=context.new_page())
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.on(
            "requestfailed", lambda request: found.refused.append(request.url) if request.failure == "csp" else None
        )
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("dialog", lambda dialog: found.complaints.append(f"dialog: {dialog.message}"))
        found.page.goto(path.as_uri() + at)
        found.requests.remove(path.as_uri())
        return found

    yield opened
    for context in contexts:
        context.close()
