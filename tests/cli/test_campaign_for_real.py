"""A campaign with real arms in slices of three quarters of a minute, handed from folder to folder by its archive."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from harness.catalogue import read_catalogue
from harness.cli.campaign_state import read_state
from harness.core.records import Window
from harness.exchange.archive import STATE
from harness.run.data import ensure_data
from harness.store import MEASUREMENTS, RUN, read_records, read_run

ROOT = Path(__file__).parents[2]
MINUTES, SLICE_S = 2.0, 45.0
WORKLOADS = ("leak", "spoof")
pytestmark = [pytest.mark.thorough, pytest.mark.alone, pytest.mark.timeout(600)]


@dataclass(slots=True)
class Rented:
    """A machine that keeps nothing but an archive."""

    scratch: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    folders: int = 0

    @property
    def archive(self) -> Path:
        return self.scratch / "campaign.tar.gz"

    @property
    def results(self) -> Path:
        return self.scratch / f"results-{self.folders}"

    def start(self) -> subprocess.Popen[str]:
        """One slice, with an empty folder of results."""
        self.folders += 1
        words = [*WORKLOADS, "--size", "smoke", "--device", "cpu", "--minutes", f"{MINUTES:g}"]
        words += ["--slice", f"{SLICE_S:.0f}s", "--archive", str(self.archive)]
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "campaign", *words, "--results", self.results, "--data",
             self.scratch / "data"],
            cwd=ROOT,
            env={**os.environ, "SPEEDMATRIX_TEST": self.mark, "COLUMNS": "160"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def ours(self) -> list[str]:
        """Command lines of processes that a slice has left behind."""
        found = []
        for one in psutil.process_iter():
            try:
                if one.environ().get("SPEEDMATRIX_TEST") == self.mark and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(one.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def wait_for_a_window(self, running: subprocess.Popen[str]) -> None:
        until = time.monotonic() + 40
        while time.monotonic() < until:
            assert running.poll() is None, running.communicate()
            if any(isinstance(one, Window) for path in runs(self.results) for one in read_records(path)):
                return
            time.sleep(0.2)
        raise AssertionError("no window within forty seconds")


def runs(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/*/{RUN}"))


def lines_of(results: Path) -> dict[str, bytes]:
    return {
        path.name: (path / MEASUREMENTS).read_bytes() for path in runs(results) if read_records(path)
    }  # fmt: skip


def test_slices_on_machines_that_keep_nothing_make_one_campaign(tmp_path: Path) -> None:
    there, slices = Rented(scratch=tmp_path), list[str]()
    write_data(there)
    before = stopped_by_the_scheduler(there)
    while True:
        began_s = time.monotonic()
        running = there.start()
        out, _ = running.communicate(timeout=SLICE_S + 60)
        slices.append(out)
        assert time.monotonic() - began_s < SLICE_S + 1, out
        assert running.returncode in {0, 3}, out
        assert there.ours() == []
        now = lines_of(there.results)
        assert all(now[name].startswith(lines) for name, lines in before.items())  # nothing was lost
        before = now
        if running.returncode == 0:
            break
        assert "minutes spent; the same command continues." in out
        assert len(slices) < 12
    assert "Taken in from" in slices[0]
    assert f"of {MINUTES:g} minutes spent; the campaign is over." in slices[-1]
    assert_whole(there.results)
    assert_published_at_home(there)


def assert_published_at_home(there: Rented) -> None:
    """The archive alone gives the same runs and pages where nothing is measured."""
    home = there.scratch / "home"
    command = [sys.executable, "-m", "harness", "campaign", "--archive", there.archive, "--publish", "--results", home]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert lines_of(home) == lines_of(there.results)
    pages = {one.relative_to(there.results): one.read_text() for one in there.results.rglob("*.md")}
    assert pages == {one.relative_to(home): one.read_text() for one in home.rglob("*.md")}


def write_data(there: Rented) -> None:
    """A process that writes them takes as long to start as a slice lasts where others are at work."""
    for name in WORKLOADS:
        ensure_data(there.scratch / "data", read_catalogue().workload(name), "smoke", lambda _: None)


def stopped_by_the_scheduler(there: Rented) -> dict[str, bytes]:
    """The first slice gets SIGTERM while it measures, and ends in seconds with its archive written."""
    running = there.start()
    there.wait_for_a_window(running)
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=15)
    assert running.returncode == 130, out
    assert there.ours() == []
    assert there.archive.exists()
    return lines_of(there.results)


def assert_whole(results: Path) -> None:
    found = sorted((read_run(path).began, path) for path in runs(results) if read_records(path))
    designs = [read_run(path).plan.design for _, path in found]
    assert designs[0] == "stages"  # what else fits into two minutes depends on how fast the machine is
    (machine,) = {path.parent for _, path in found}
    looked = {
        block.reference.workload
        for _, path in found
        if read_run(path).plan.design == "stages"
        for block in read_run(path).plan.blocks
    }
    assert looked == set(WORKLOADS)  # one plan, of all workloads
    assert set(Counter(path.name.rpartition("-")[2] for _, path in found).values()) == {1}
    for _, path in found:
        windows = [one for one in read_records(path) if isinstance(one, Window)]
        assert len({(one.arm, one.order) for one in windows}) == len(windows)
    # What was measured at that size proves nothing and has no page of its own.
    pages = {"README.md", "claims.md", f"{machine.name}/README.md"}
    assert {name for name in pages if (results / name).exists()} == pages
    state = read_state(machine / STATE)
    assert state is not None
    assert state.done
    assert state.spent_s < 60 * MINUTES + 1
