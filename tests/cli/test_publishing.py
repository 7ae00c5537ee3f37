"""Everything is published, checked and kept true to the runs."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalogue import read_catalogue
from harness.cli.sharing import publication_on_disk, publish, stale
from harness.core.mistake import Mistake
from harness.report.figures import MARK
from harness.results import finished
from harness.store import ORIGIN, Journal, create, finish
from tests.analyze.synthetic import STARTS, comparison, plan, records
from tests.test_store import RUN_FACTS

ROOT = Path(__file__).parents[2]
CATALOGUE = read_catalogue()
MACHINE = "cpu-2-example-9000"


def kept(results: Path, day: int = 2, *, rehearsed: bool = False, done: bool = True, ratio: float = 2.0) -> Path:
    """A run with two optimizations and both of them together."""
    options = (("workers",), ("pin_memory",), ("pin_memory", "workers"))
    facts = replace(RUN_FACTS, began=f"2026-01-0{day}T03:04:05+00:00", rehearsed=rehearsed)
    folder = create(results, replace(facts, plan=plan(*(comparison(*names) for names in options))))
    journal = Journal(folder)
    for index, (names, factor) in enumerate(zip(options, (ratio, 1.1, 2.5), strict=True)):
        effective = {key: value for name in names for key, value in STARTS[name]["effective"].items()}
        for record in records(index, factor, effective=effective, loader_rate=450.0):
            journal.append(record)
    journal.close()
    if done:
        finish(folder)
    return folder


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of results in an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    return Path("results")


def contents(results: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in results.rglob("*") if path.suffix in {".md", ".svg"}}


def test_pages_and_figures_are_written_and_stay_the_same(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept(results)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert publish(results, check=False) == 0
    first = contents(results)
    assert {f"results/{MACHINE}/README.md", f"results/{MACHINE}/leak.md", "results/README.md"} <= set(first)
    kinds = "heat-map", "all-.*-stages", "leak-.*-stages", "leak-.*-waterfall", "leak-.*-step"
    figures = sorted(name for name in first if name.endswith(".svg"))
    assert len(figures) == len(kinds)
    assert all(any(re.search(kind, name) for name in figures) for kind in kinds)
    assert publish(results, check=False) == 0
    assert contents(results) == first
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    capsys.readouterr()
    assert publish(results, check=True) == 0
    assert "pages and figures in results are as they would be written now" in capsys.readouterr().out


def test_a_check_names_the_first_file_that_is_stale(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(results)
    publish(results, check=False)
    figures = Path(f"results/{MACHINE}/figures")
    next(figures.glob("heat-map-*.svg")).unlink()
    Path(f"results/{MACHINE}/leak.md").write_bytes(f"{MARK}\n".encode() + b"By \xff hand.")
    (figures / "gone.svg").write_text(f"{MARK}\n<svg/>")
    (figures / "theirs.svg").write_text("<svg/>")
    Path("results/notes.md").write_text("By hand.")
    capsys.readouterr()
    assert publish(results, check=True) == 1
    said = capsys.readouterr().err
    ending = r"is missing \(2 others too\); ./speedmatrix publish writes it anew\.\n"
    assert re.fullmatch(rf"results/{MACHINE}/figures/heat-map-\w+\.svg {ending}", said), said
    found = [str(one) for one in stale(publication_on_disk(results, finished(results), CATALOGUE))]
    assert f"results/{MACHINE}/leak.md is not what would be written now" in found
    assert f"results/{MACHINE}/figures/gone.svg is about nothing that exists" in found
    publish(results, check=False)
    assert not (figures / "gone.svg").exists()
    assert (figures / "theirs.svg").exists()
    assert Path("results/notes.md").read_text() == "By hand."


def test_only_finished_runs_of_real_times_are_published(results: Path) -> None:
    kept(results, 1)
    before = publication_on_disk(results, finished(results), CATALOGUE).texts
    kept(results, 2, done=False)
    kept(results, 3, rehearsed=True)
    assert publication_on_disk(results, finished(results), CATALOGUE).texts == before
    kept(results, 4, ratio=1.5)
    after = publication_on_disk(results, finished(results), CATALOGUE).texts
    assert {name for name in after if name.endswith(".md") and after[name] != before[name]} == {
        "README.md", f"{MACHINE}/README.md", f"{MACHINE}/leak.md",
    }  # fmt: skip


def test_an_imported_run_is_marked_and_stands_in_for_nothing(results: Path) -> None:
    kept(results, 1)
    theirs = kept(results, 5, ratio=4.0)
    (theirs / ORIGIN).write_text("{}")
    texts = publication_on_disk(results, finished(results), CATALOGUE).texts
    assert f"# {MACHINE} (contributed)\n" in texts[f"{MACHINE}/README.md"]
    ours, contributed = texts[f"{MACHINE}/leak.md"].split(", contributed\n", 1)
    assert "4.00x" not in ours
    assert "4.00x" in contributed
    assert "4.00x" not in texts["README.md"]


def test_an_empty_folder_is_published_too(results: Path) -> None:
    assert publish(results, check=False) == 0
    assert "Nothing was measured yet" in Path("results/README.md").read_text()


def test_a_folder_that_is_none_is_a_mistake_and_is_not_made(results: Path) -> None:
    with pytest.raises(Mistake, match=r"There is no folder elsewhere; .* or name another with --results\."):
        publish(Path("elsewhere"), check=False)
    assert not Path("elsewhere").exists()


def test_a_folder_that_cannot_be_written_is_a_mistake(results: Path) -> None:
    kept(results)
    Path(f"results/{MACHINE}/figures").write_text("in the way")
    with pytest.raises(Mistake, match=r"Cannot write to results .*; make it writable or name another folder"):
        publish(results, check=False)


def test_a_page_of_somebody_elses_stays_and_nothing_is_written(results: Path) -> None:
    kept(results)
    Path("results/README.md").write_text("By hand.")
    with pytest.raises(Mistake, match=r"results/README\.md was not written by \./speedmatrix publish.*; rename or"):
        publish(results, check=False)
    assert Path("results/README.md").read_text() == "By hand."
    assert not Path("results/gallery.html").exists()
    assert not Path(f"results/{MACHINE}/README.md").exists()


@pytest.mark.thorough
def test_no_seed_day_or_folder_changes_a_byte(results: Path, tmp_path: Path) -> None:
    kept(results)
    publish(results, check=False)
    expected = contents(results)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "matplotlibrc").write_text("svg.fonttype: path\nfont.size: 30\n")
    for seed, zone in (("1", "America/Lima"), ("7", "Asia/Tokyo")):
        surroundings = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "harness", "publish", "--results", str(tmp_path / "results")]
        subprocess.run(command, cwd=tmp_path / "elsewhere", env=surroundings, capture_output=True, check=True)
        assert contents(results) == expected
