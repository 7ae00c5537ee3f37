"""Pages say the same on every machine that renders them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.store import Journal, create, finish
from tests.analyze.synthetic import STARTS, comparison, plan, records
from tests.cli.invented_host import HOSTS, SPIES
from tests.test_store import RUN_FACTS

ROOT = Path(__file__).parents[2]


def measured(results: Path, day: int, cpu: str) -> None:
    """A run with two optimizations, on a machine that recorded neither flags nor allocators."""
    options = (("workers",), ("pin_memory",))
    environment = replace(RUN_FACTS.environment, cpu=cpu)
    facts = replace(RUN_FACTS, began=f"2026-01-0{day}T03:04:05+00:00", environment=environment)
    folder = create(results, replace(facts, plan=plan(*(comparison(*names) for names in options))))
    journal = Journal(folder)
    for index, names in enumerate(options):
        effective = {key: value for name in names for key, value in STARTS[name]["effective"].items()}
        for record in records(index, 1.5, effective=effective, loader_rate=450.0):
            journal.append(record)
    journal.close()
    finish(folder)


def rendered(folder: Path, host: str, *options: str) -> dict[str, bytes]:
    """Every file that the commands write on that host."""
    folder.mkdir()
    for day, cpu in enumerate(("Example 9000", "AMD EPYC"), 1):
        measured(folder / "results", day, cpu)
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.invented_host", host, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.thorough
def test_every_page_is_the_same_on_every_host(tmp_path: Path) -> None:
    first, *others = (rendered(tmp_path / name, name) for name in HOSTS)
    assert {"results/README.md", "docs/README.md", "claims.md", "comparison.md", "report.html", "advice.json"} <= set(
        first
    )
    for other in others:
        assert {name for name in first.keys() | other.keys() if first.get(name) != other.get(name)} == set()


def test_the_claims_are_the_same_on_a_small_and_a_large_host(tmp_path: Path) -> None:
    """The quickest of these pages, which rests on all that the others rest on: the needs of every optimization."""
    small, large = (rendered(tmp_path / name, name, "--claims") for name in ("bare", "large"))
    assert {"claims.md", "claims.json"} <= set(small)
    assert small == large


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The page of claims on two hosts, where optimizations read the host in every way that is known."""
    folder = tmp_path_factory.mktemp("spied")
    return [rendered(folder / name, name, "--spies")["claims.md"].decode() for name in ("bare", "large")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", SPIES)
def test_a_need_that_reads_the_host_would_change_a_page(spied: list[str], name: str) -> None:
    small, large = (
        {line for line in page.splitlines() if line.startswith(f"| spy-{name.replace('_', '-')} |")} for page in spied
    )
    assert small
    assert small != large
