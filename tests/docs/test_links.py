"""Whatever the hand-written pages point to exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md"), *ROOT.glob("workloads/*/README.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    files = [target.partition("#")[0] for target in targets]
    assert [file for file in files if file and not (page.parent / file).exists()] == []


def test_every_decision_stands_once_in_their_list() -> None:
    folder = ROOT / "docs/decisions"
    listed = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    files = sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")
    assert sorted(one for one in listed if "/" not in one) == files
