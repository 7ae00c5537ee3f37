"""Figures that hand-written pages quote are those of the generated pages, which move with every run."""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.cli import main

ROOT = Path(__file__).resolve().parents[2]
RATIO = re.compile(r"[\d.]+x \[[\d.]+, [\d.]+\]")
RUN = re.compile(r"\]\((results/[\w-]+/\d{8}T\d{6}-\w{8})\)")
REPEATS = re.compile(r"(\d+) of (\d+) compatible")
IMPRECISE = re.compile(r"(\d+) more pairs? (?:was|were) left out")


def read(page: Path) -> str:
    """Its text as a reader sees it: without escapes and with usual blanks."""
    return page.read_text(encoding="utf-8").replace("\\[", "[").replace("\\]", "]").replace("\u00a0", " ")


def generated() -> Iterator[str]:
    for folder in ("results", "docs"):
        yield from map(read, sorted((ROOT / folder).rglob("*.md")))


def reported(run: str, monkeypatch: pytest.MonkeyPatch, output: Path) -> str:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "report", run, "--format", "markdown", "--output", str(output)])
    monkeypatch.chdir(ROOT)
    with suppress(SystemExit):
        main()
    return read(output)


def test_every_ratio_of_the_front_page_stands_on_a_page_or_in_a_run_that_it_links_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = read(ROOT / "README.md")
    quoted, pages = set(RATIO.findall(page)), "\n".join(generated())
    missing = {one for one in quoted if one not in pages}
    for run in set(RUN.findall(page)) if missing else ():
        text = reported(run, monkeypatch, tmp_path / "report.md")
        missing = {one for one in missing if one not in text}
    assert quoted
    assert missing == set()


def test_what_the_oracles_found_is_quoted_as_it_was_found() -> None:
    page = read(ROOT / "docs/validity.md")
    found = r"^(\d+ of \d+) options .*?, (\d+) of them at the second attempt and (\d+) later"
    right, second, later = re.findall(found, page, re.MULTILINE)[0]
    beyond = re.findall(r"off by more than 2 % in (\d+ of \d+)\.", page)[0]
    missed, bare = re.findall(r"(\d+) of (\d+) intervals at 95 % missed the truth at first", page)[0]
    width = re.findall(r"median half-width is ([\d.]+ %)", page)[0]
    front, methods = (" ".join(read(ROOT / name).split()) for name in ("README.md", "docs/methods.md"))
    assert f"{right} options came out right, {second} at a second attempt and {later} later, " in front
    assert f"half of them to ±{width} or better" in front
    assert f"Our ratio is off by more than 2 % in {beyond}" in front
    assert f"{right} options with known ratios came out as they must, {second} of them at a second attempt" in methods
    assert f"Of {bare} bare 95 % intervals {missed} missed at first; their median half-width is {width}" in methods


def compatible(text: str) -> tuple[int, int]:
    """How many pairs a page or a part of it counts as compatible, and how many in all."""
    found = REPEATS.findall(text)
    return sum(int(one) for one, _ in found), sum(int(other) for _, other in found)


def test_repeats_are_counted_as_the_pages_of_all_machines_count_them() -> None:
    pages = [read(page) for page in sorted((ROOT / "results").glob("*/README.md"))]
    alike, of = compatible("\n".join(pages))
    imprecise = sum(int(one) for page in pages for one in IMPRECISE.findall(page))
    front, methods = (" ".join(read(ROOT / name).split()) for name in ("README.md", "docs/methods.md"))
    assert f"compatible in {alike} of {of}, " in front
    assert f"another {imprecise} pairs are too imprecise" in front
    assert f"compatible in {alike} of {of} pairs" in methods
    parts = [part.partition("`") for page in pages for part in page.split("\n## Environment `")[1:]]
    environments = {digest: compatible(text) for digest, _, text in parts}
    known = [one for one in environments.values() if one[1]]
    low, count = min(known, key=lambda one: (one[0] / one[1], -one[1]))
    assert f"in the worst environment in {low} of {count}; " in methods
    pictured = re.findall(r"/heat-map-(\w+)\.svg\)", front)[0]
    ours, total = environments[pictured]
    assert f"and in {ours} of {total} in the environment of the first table" in front


def test_what_became_of_promises_is_quoted_as_their_page_sums_it_up() -> None:
    page, front = (" ".join(read(ROOT / name).split()) for name in ("results/claims.md", "README.md"))
    told = re.findall(r"Of (\d+) promises about the reference workloads: (.*?\.) ", page)
    ((promises, words),) = told
    held = re.findall(r"(\d+) held[,;]", words)[0]
    otherwise = re.findall(r"(\d+) tested under other conditions than promised", words)[0]
    assert not re.search(r"\d+ (?:overstated|harmful|failed)", words)
    idle = re.findall(r"(\d+) without effect", words)[0]
    quoted = f"of {promises} promises {held} held, {idle} was without effect, and {otherwise} could only be tested"
    assert quoted in front


def test_shared_processes_are_quoted_as_they_were_compared() -> None:
    page, front = (" ".join(read(ROOT / name).split()) for name in ("docs/isolation.md", "README.md"))
    every, alike = re.findall(r"Of (\d+) comparisons that were measured both ways .*?; (\d+) \(\d+ %\) are", page)[0]
    assert f"{alike} of {every} such ratios do not contradict isolated ones" in front
