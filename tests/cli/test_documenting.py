"""Pages are written, checked and kept true to the catalogue, the ledger and the runs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalogue import read_catalogue
from harness.cli.sharing import PAGES_INDEX, document, documented, finished, pages_of, stale
from harness.core.mistake import Mistake
from harness.report.optimization_pages import PAGE_MARK, PLACE
from harness.store import Journal, create, finish
from tests.analyze.synthetic import comparison, plan, records
from tests.test_store import RUN_FACTS

PAGES = Path(__file__).parents[2] / "docs" / "optimizations"
CATALOGUE = read_catalogue()


def kept(results: Path, day: int = 2, ratio: float = 2.0, *, rehearsed: bool = False, done: bool = True) -> Path:
    """A run about set_to_none in a results folder."""
    facts = replace(RUN_FACTS, began=f"2026-01-0{day}T03:04:05+00:00", rehearsed=rehearsed)
    run = replace(facts, plan=plan(comparison("set_to_none")))
    promises = {"set_to_none": run.plan.promises["workers"]}
    folder = create(results, replace(run, plan=replace(run.plan, promises=promises)))
    journal = Journal(folder)
    for record in records(0, ratio):
        journal.append(record)
    journal.close()
    if done:
        finish(folder)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a page of somebody else's in it."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/notes.md").write_text("By hand.")
    return Path("docs")


def test_pages_are_written_and_stay_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(Path("results"))
    assert document(Path("results"), place, check=False) == 0
    first = {path.name: path.read_bytes() for path in place.glob("*.md")}
    assert set(first) == {PAGES_INDEX, "notes.md", *(f"{name}.md" for name in CATALOGUE.optimizations)}
    assert "[the gallery](../results/gallery.html)" in (place / "set_to_none.md").read_text()
    assert document(Path("results"), place, check=False) == 0
    assert {path.name: path.read_bytes() for path in place.glob("*.md")} == first
    capsys.readouterr()
    assert document(Path("results"), place, check=True) == 0
    assert "are as they would be written now" in capsys.readouterr().out


def test_a_check_names_the_first_page_that_is_stale(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document(Path("results"), place, check=False)
    (place / "workers.md").write_text(f"{PAGE_MARK}\nSomething else.")
    (place / "batched_fetch.md").unlink()
    (place / "gone.md").write_text(f"{PAGE_MARK}\n")
    capsys.readouterr()
    assert document(Path("results"), place, check=True) == 1
    assert capsys.readouterr().err == (
        "docs/batched_fetch.md is missing (2 others too); ./speedmatrix document writes it anew.\n"
    )
    found = list(stale(documented(pages_of(CATALOGUE, [], place), place)))
    assert found[1:] == [
        "docs/workers.md is not what would be written now",
        "docs/gone.md is about nothing that exists",
    ]
    document(Path("results"), place, check=False)
    assert not (place / "gone.md").exists()
    assert (place / "notes.md").read_text() == "By hand."


def test_a_new_run_makes_pages_stale_but_not_one_that_is_unfinished_or_rehearsed(place: Path) -> None:
    results = Path("results")
    kept(results, 1)
    before = pages_of(CATALOGUE, finished(results), place)
    kept(results, 2, done=False)
    kept(results, 3, rehearsed=True)
    assert pages_of(CATALOGUE, finished(results), place) == before
    kept(results, 4, ratio=3.0)
    after = pages_of(CATALOGUE, finished(results), place)
    assert {name for name in after if after[name] != before[name]} == {PAGES_INDEX, "set_to_none.md"}


def test_a_folder_that_cannot_be_written_is_a_mistake(place: Path) -> None:
    with pytest.raises(Mistake, match=r"Cannot write to .*; choose another folder with --output\."):
        document(Path("results"), place / "notes.md", check=False)


def test_a_page_of_somebody_elses_stays_and_nothing_is_written(place: Path) -> None:
    Path(PLACE).write_text("By hand.")
    with pytest.raises(Mistake, match=rf"{PLACE} was not written by \./speedmatrix document.*; rename or move"):
        document(Path("results"), place, check=False)
    assert Path(PLACE).read_text() == "By hand."
    assert [path.name for path in place.iterdir()] == ["notes.md"]


def test_the_prose_of_every_page_is_sound_markdown() -> None:
    for name, text in pages_of(CATALOGUE, [], PAGES).items():
        words = re.sub(r"```.*?```", "", text.removeprefix(PAGE_MARK), flags=re.DOTALL)
        bare = re.sub(r"`[^`\n]*`", "", words)
        assert "`" not in bare, name
        assert not re.search(r"(?<!\\)<[a-zA-Z/!]", bare), name
        assert len(re.findall("^```", text, flags=re.MULTILINE)) % 2 == 0, name
