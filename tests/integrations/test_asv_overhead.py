"""The harness's own cost: gathered from fresh processes, and seen by `asv compare` when it grows by a twentieth."""

import re
from os import getloadavg
from pathlib import Path

import pytest

from benchmarks.overhead import fresh_processes as module
from benchmarks.overhead.fresh_processes import overhead
from harness.core.mistake import Mistake
from harness.core.parallel import usable_cores
from tests.integrations.asv_tree import Tree, tree_in

pytestmark = pytest.mark.timeout(900)


def test_processes_follow_one_another_with_threads_and_memory_of_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def process(words: tuple[str, ...], environment: dict[str, str]) -> dict[str, list[float]]:
        asked.append((words, environment))
        seed = float(words[-1])
        return {"hand_s": [seed, 1.0], "harness_s": [seed, 2.0], "relative": [1.0, 2.0]}

    monkeypatch.setattr(module, "_process", process)
    found = overhead("speaker", size="quick", processes=2, rounds=2, device="cpu")
    assert found.hand_s == (0.0, 1.0, 1.0, 1.0)
    assert found.relative == (1.0, 2.0, 1.0, 2.0)
    words, environment = asked[0]
    assert words[:-1] == (
        *("--workload", "speaker", "--size", "quick", "--rounds", "2", "--device", "cpu"),
        "--seed",
    )
    assert environment["OMP_NUM_THREADS"] == "1"
    assert not [name for name in environment if name.startswith("MALLOC_")]


def test_what_its_process_complains_of_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path))
    with pytest.raises(Mistake, match="leak has no size 'huge'"):
        overhead("leak", size="huge", processes=1, device="cpu")
    with pytest.raises(Mistake, match="leek"):
        overhead("leek")


@pytest.mark.thorough
def test_the_harness_costs_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path))
    found = sorted(overhead(processes=2, rounds=10, device="cpu").relative)
    assert 0.9 < found[len(found) // 2] < 1.1
    assert len(found) == 20


SLOWER = {
    "from typing import Any\n": "from time import thread_time\nfrom typing import Any\n",
    "        inputs, targets = transfer(fetch())\n": """        began = thread_time()
        inputs, targets = transfer(fetch())
""",
    "        return value.detach()\n": """        until = thread_time() + 0.05 * (thread_time() - began)
        while thread_time() < until:
            pass
        return value.detach()
""",
}


def slow_down(tree: Tree) -> str:
    """Commits a step of the harness that takes a twentieth longer; gives the commit."""
    path = tree.folder / "harness" / "measure" / "step.py"
    text = path.read_text()
    for before, after in SLOWER.items():
        assert before in text
        text = text.replace(before, after, 1)  # the first is the plain step's
    path.write_text(text)
    return tree.commit("Slow the step down")


def changed_according_to_asv(tree: Tree, before: str, after: str) -> str:
    """The mark before the overhead's line: + for slower, - for faster, nothing for no change."""
    said = tree.asv("compare", "--factor", "1.025", before, after)
    line = next(line for line in said.splitlines() if "track_overhead" in line)
    found = re.match(r"\|\s*(\S?)\s*\|", line)
    assert found, said
    return found[1]


@pytest.mark.alone
@pytest.mark.thorough
def test_asv_compare_finds_a_step_that_is_a_twentieth_slower_and_nothing_else(tmp_path: Path) -> None:
    if getloadavg()[0] > 2 * usable_cores():
        pytest.skip("the machine is busy; would check that asv finds a step that is a twentieth slower")
    tree = tree_in(tmp_path)
    commits = [tree.git("rev-parse", "HEAD"), tree.commit("Nothing", "--allow-empty"), slow_down(tree)]
    for commit in commits:
        tree.git("checkout", "--quiet", commit)
        tree.asv("run", "--bench", "overhead", "--record-samples")
    assert changed_according_to_asv(tree, commits[0], commits[1]) == ""
    assert changed_according_to_asv(tree, commits[1], commits[2]) == "+"
    tree.asv("publish")
    page = tree.folder / ".asv" / "html"
    assert "overhead.Harness.track_overhead" in (page / "index.json").read_text()
