"""`asv run` for real, in a repository of its own on a machine that asv has never seen."""

import getpass
import json
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.integrations.asv_cells import BUDGET, SIZE
from harness.measure.surroundings import read_environment
from tests.integrations.asv_tree import ROOT, tree_in

pytestmark = pytest.mark.timeout(900)

WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import asv_runner.discovery
found = {one.name for one in asv_runner.discovery.disc_benchmarks(BENCHMARKS)}
import harness.integrations.asv_inplace
print(*sorted(found))
"""


def test_discovery_and_the_plugin_import_no_torch(tmp_path: Path) -> None:
    suite = ROOT / "benchmarks" / "asv_suite"
    done = subprocess.run(
        [sys.executable, "-c", f"BENCHMARKS = 'asv_suite'{WITHOUT_TORCH}"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{suite.parent}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert "overhead.Harness.track_overhead" in found
    for workload in ("Imagenet", "Leak", "Patches3d", "Speaker", "Spoof"):
        values = [name.rpartition(".")[2] for name in found if name.startswith(f"first_look.{workload}.")]
        assert values == ["track_peak_memory", "track_relative_time", "track_time_to_first_step"]


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.thorough
def test_asv_run_asks_nothing_keeps_results_and_names_nobody(tmp_path: Path) -> None:
    tree = tree_in(tmp_path, **{SIZE: "smoke", BUDGET: "none"})
    said = tree.asv("run", "--bench", "Leak")
    machine = read_environment("auto").machine
    (kept,) = (tree.folder / "results" / "asv" / machine).glob("*-inplace-py*-torch*.json")
    assert kept.name.startswith(tree.git("rev-parse", "HEAD")[:8])
    results = {name.rpartition(".")[2]: value[0] for name, value in json.loads(kept.read_text())["results"].items()}
    all_options, *others = results["track_relative_time"]
    assert 0.02 < all_options < 50.0  # where bfloat16 is emulated it is slower
    assert results["track_peak_memory"][0] > 50e6
    assert 0.01 < results["track_time_to_first_step"][0] < 60.0
    assert len(list((tree.folder / ".asv" / "measured").glob("*/leak/*/*/run.json"))) == 1
    if any(map(math.isnan, others)):  # where something cannot run here, which is said
        assert "n/a: leak, " in said
    names_nobody(tree.folder)
    assert files_below(tree.home) == []
    assert tree.git("status", "--porcelain") == "?? results/"


def names_nobody(folder: Path) -> None:
    """No file that is committed, and no name of one, tells whose machine it was or where anything lay."""
    secrets = {str(folder.parent), str(Path.home()), socket.gethostname(), f"/{getpass.getuser()}"}
    for path in files_below(folder / "results" / "asv"):
        text = f"{path.relative_to(folder)}\n{path.read_text()}"
        assert not [secret for secret in secrets if secret in text], path


@pytest.mark.thorough
def test_what_cannot_be_filed_is_refused_in_a_sentence(tmp_path: Path) -> None:
    tree = tree_in(tmp_path)
    assert "Only the commit that is checked out" in tree.asv("run", "HEAD^!", status=1)
    with (tree.folder / "harness" / "store.py").open("a") as file:
        file.write("# another line\n")
    said = tree.asv("run", "--bench", "overhead", status=1)
    assert "under a commit that lacks your changes (harness/store.py)" in said
    assert "Traceback" not in said
