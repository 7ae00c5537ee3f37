"""Generated pages are as they would be written now: the last check, since all else can be right beside a stale page."""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from benchmarks.invented.coverage_command import Asked, premises_of
from benchmarks.invented.coverage_report import listed
from harness.catalogue import read_catalogue
from harness.cli import sharing as documenting
from harness.cli import sharing as publishing
from harness.cli.sharing import Pages, stale
from tests.docs.test_coverage_page import PAGE as COVERAGE
from tests.docs.test_coverage_page import command
from tests.faults.page import courses, names_on
from tests.faults.suite import FAULTS

ROOT = Path(__file__).parents[1]
RESULTS, OPTIMIZATIONS, FAULTS_PAGE = ROOT / "results", ROOT / "docs/optimizations", ROOT / "docs/faults.md"
LINK = re.compile(r"(?<!\\)\]\(([^)]+)\)")
# Each makes its pages once, in one of two processes.
COMMANDS = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("publish", "document")]


def known_to_git() -> list[Path]:
    """The runs that are committed: whoever has measured something of his own has not made a page false."""
    known = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=False)
    if known.returncode or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout; would check that results/ and docs/optimizations hold what would be written")
    return sorted(ROOT / Path(name).parent for name in known.stdout.split() if name.endswith("/run.json"))


@cache
def pages_of(name: str) -> Pages:
    """What a command would write for this tree."""
    catalogue, runs = read_catalogue(), known_to_git()
    if name == "publish":
        return publishing.publication_on_disk(RESULTS, runs, catalogue)
    return documenting.documented(documenting.pages_of(catalogue, runs, OPTIMIZATIONS), OPTIMIZATIONS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_pages_of_this_tree_are_fresh(name: str) -> None:
    wrong = list(stale(pages_of(name)))
    assert not wrong, f"{wrong[0]} ({len(wrong) - 1} others too); ./speedmatrix {name} rewrites them"


def test_the_page_on_coverage_is_about_what_is_in_use_now() -> None:
    found = command()
    premises = premises_of(Asked(configs=int(found[2]), protocol=found[3], seed=int(found[4])))
    assert found[1] == premises.command, f"{premises.command} rewrites docs/coverage.md"
    told = [line for line in COVERAGE.partition("## The machines")[2].splitlines() if line.startswith(("- ", "  "))]
    assert told == [*listed(premises.worlds), *listed(premises.facts)], f"{found[1]} rewrites docs/coverage.md"


def test_the_page_of_faults_is_about_those_that_the_suite_injects() -> None:
    page, remedy = (
        FAULTS_PAGE.read_text(encoding="utf-8"),
        "pytest tests/faults --write-faults docs/faults.md rewrites it",
    )
    assert names_on(page) == [one.name for one in FAULTS], f"{remedy} rewrites it"
    assert "\n".join(courses()) in page, f"{remedy} rewrites it"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_link_of_every_page_leads_somewhere(name: str) -> None:
    pages = pages_of(name)
    written = {pages.output / name for name in pages.texts}
    for page, target in links(pages.texts):
        path = (pages.output / page).parent / target
        assert path in written or path.exists(), (page, target)


def links(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pages' links: a page, and the file that it points to."""
    return [(name, target) for name, text in texts.items() if name.endswith(".md") for target in LINK.findall(text)]
