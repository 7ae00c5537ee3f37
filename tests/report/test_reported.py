"""The five reports, item by item: what is named is there, and what is not there has its reason."""

import re
from pathlib import Path

import pytest

from harness.catalogue import read_catalogue
from harness.report.optimization_pages import PLACE, Report, read_reports, reports_page

CATALOGUE = read_catalogue()
CLAIMS = {one.name: one for one in CATALOGUE.claims}
REPORTS = read_reports()
ROOT = Path(__file__).parents[2]


def test_every_workload_comes_from_a_report() -> None:
    assert [one.workload for one in REPORTS] == ["speaker", "spoof", "imagenet", "leak", "patches3d"]
    assert len({(one.workload, item) for one in REPORTS for item in one.items}) == sum(
        len(one.items) for one in REPORTS
    )


@pytest.mark.parametrize("report", REPORTS, ids=lambda one: one.workload)
def test_every_option_and_claim_that_is_named_exists(report: Report) -> None:
    for item in report.items:
        for name in item.options:
            assert CATALOGUE.optimizations[name].workload in {None, report.workload}, item
        for name in item.claims:
            assert name in CLAIMS, item
        assert re.fullmatch(r"[0-9]+(-[0-9]+)?(, [0-9]+(-[0-9]+)?)*", item.lines), item
        assert item.options or item.claims or item.words, f"{item} stands nowhere"
        assert not item.words or item.words.endswith("."), item


# Claims of later pages and logs of the same repositories, which the reports do not quote.
LATER = {
    "speaker-total-logged", "speaker-total-elsewhere", "speaker-rate-after", "speaker-device-share-after",
    "speaker-batched-evaluation", "speaker-batched-evaluation-quality", "imagenet-local-copy-measured",
    "imagenet-compile", "imagenet-most-workers", "imagenet-no-mixup", "imagenet-hydrated-storage",
    "leak-loader-settings-later", "leak-loader-settings-measured", "leak-compile-lowers-device-share",
    "leak-total-later", "leak-fused-optimizer", "leak-in-place-relu", "patches3d-device-share-two-workers",
    "patches3d-two-workers",
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda one: one.workload)
def test_every_claim_of_a_report_is_one_of_its_items(report: Report) -> None:
    named = {name for item in report.items for name in item.claims}
    of_report = {one.name for one in CATALOGUE.claims if one.name.startswith(f"{report.workload}-")}
    assert of_report - named == {name for name in LATER if name.startswith(f"{report.workload}-")}


def test_the_page_is_what_would_be_written_now() -> None:
    assert (ROOT / "docs" / PLACE).read_text(encoding="utf-8") == reports_page(REPORTS)
