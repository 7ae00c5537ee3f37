"""Servers are up while they are needed and gone afterwards, and say why when they cannot start."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.api import _appending
from harness.core.mistake import Mistake
from harness.core.records import Fault, Lost, Window
from harness.core.workload import Service
from harness.run.data import answers, serving
from harness.run.sentinel import Sentinel
from harness.store import Journal, read_records
from tests.analyze.synthetic import arm, window


def files(folder: Path, port: int) -> tuple[str, ...]:
    return sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)


ROOT = Path(__file__).parents[2]
FILES = Service(title="A file server", missing=lambda: None, command=files, wanted=lambda _: True)


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    one = Sentinel()
    yield one
    one.close()


def read(address: str) -> bytes:
    with urllib.request.urlopen(f"{address}/hello.txt", timeout=30) as answer:  # noqa: S310  on loopback
        content: bytes = answer.read()
        return content


def test_a_service_answers_for_as_long_as_it_is_needed(tmp_path: Path, sentinel: Sentinel) -> None:
    (tmp_path / "hello.txt").write_text("hello")
    with serving(FILES, tmp_path, sentinel) as address:
        assert read(address) == b"hello"
        assert answers(address)
    assert not answers(address)
    with pytest.raises(OSError, match="refused"):
        read(address)


def test_a_loss_to_a_service_that_ended_is_no_record(tmp_path: Path, sentinel: Sentinel) -> None:
    lost = Lost(arm=arm(position=1), outcome="failed", reason="connection refused", trace="", kind=Fault.ERROR)
    (tmp_path / "run").mkdir()
    journal = Journal(tmp_path / "run")
    with serving(FILES, tmp_path, sentinel) as address:
        append = _appending(journal, {"imagenet": address})
        append(lost)
    with pytest.raises(Mistake, match="The service of imagenet ended; what was measured is kept"):
        append(lost)
    append(window(arm(), 0, 100.0))
    journal.close()
    assert [type(one) for one in read_records(tmp_path / "run")] == [Lost, Window]


def _read_until(address: str, until: float) -> None:
    while time.monotonic() < until:
        read(address)
        time.sleep(0.02)


LAUNCHER = """
import sys, time
from pathlib import Path
from harness.run.sentinel import Sentinel
from harness.run.data import serving
from tests.run.test_services import FILES
with serving(FILES, Path(sys.argv[1]), Sentinel()) as address:
    print(address, flush=True)
    time.sleep(600)
"""


def test_a_service_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello")
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as launcher:
        address = launcher.stdout.readline().strip() if launcher.stdout else ""
        assert read(address) == b"hello"
        launcher.kill()
    with pytest.raises(OSError, match=r"refused|reset|closed"):
        _read_until(address, time.monotonic() + 60)


@pytest.mark.parametrize(
    ("service", "words"),
    [
        (replace(FILES, missing=lambda: "the package is not installed"), "A file server cannot start: the package"),
        (replace(FILES, command=lambda *_: (sys.executable, "-c", "raise SystemExit('no luck')")), "no luck"),
    ],
)
def test_a_service_that_cannot_start_says_why(service: Service, words: str, tmp_path: Path, sentinel: Sentinel) -> None:
    with pytest.raises(Mistake, match=words), serving(service, tmp_path, sentinel):
        pass


def test_a_service_that_does_not_answer_in_time_is_ended(tmp_path: Path, sentinel: Sentinel) -> None:
    mute = replace(FILES, command=lambda *_: (sys.executable, "-c", "import time; time.sleep(600)"))
    began_s = time.monotonic()
    with pytest.raises(Mistake, match="did not start within 1 s"), serving(mute, tmp_path, sentinel, limit_s=1.0):
        pass
    assert time.monotonic() - began_s < 30
