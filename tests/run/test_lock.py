"""One campaign at a time, and words for whoever comes second."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.mistake import Mistake
from harness.run.preparation import measuring_alone

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from harness.run.preparation import measuring_alone
sys.argv = ["speedmatrix", "run", "leak", "--size", "smoke"]
with measuring_alone(Path(%r)):
    print("held", flush=True)
    sys.stdin.read()
"""


def held(path: Path) -> "subprocess.Popen[str]":
    """A process that holds the lock until its input ends."""
    one = subprocess.Popen(
        [sys.executable, "-c", HOLD % str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert one.stdout is not None
    assert one.stdout.readline() == "held\n"
    return one


def test_whoever_comes_second_is_told_who_since_when_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as owner:
        with pytest.raises(Mistake) as refused, measuring_alone(path):
            pass
        words = str(refused.value)
        assert words.startswith(f"Process {owner.pid} is measuring on this machine (since ")
        assert "speedmatrix run leak --size smoke" in words
        assert words.endswith(f"wait for it, or stop it with: kill {owner.pid}")
        owner.kill()
    with measuring_alone(path):
        assert path.read_text().splitlines()[0] == str(os.getpid())


def test_a_longer_signature_leaves_nothing_in_a_shorter_one(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n" + "x" * 999)
    with measuring_alone(tmp_path / "lock"):
        assert "xxx" not in (tmp_path / "lock").read_text()


def test_an_owner_who_could_not_sign_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as owner:
        path.write_text("somebody <b>else</b>")
        with pytest.raises(Mistake, match="Another user's process is measuring on this machine"), measuring_alone(path):
            pass
        owner.kill()


def test_a_lock_that_may_only_be_read_is_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("12\nearlier\nanother\n")
    path.chmod(0o444)
    tmp_path.chmod(0o755)
    as_nobody = f"import os\nos.chdir({str(tmp_path)!r})\nos.geteuid() or os.seteuid(65534)\n"  # root may do anything
    script = (HOLD % "lock").replace("with measuring", f"{as_nobody}with measuring")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, input="", capture_output=True, text=True, check=False
    )
    assert done.stdout == "held\n", done.stderr
    assert path.read_text() == "12\nearlier\nanother\n"


def test_a_place_that_cannot_be_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "lock")
    with pytest.raises(Mistake, match=r"Cannot lock .*No such file.*set TMPDIR"), measuring_alone(tmp_path / "link"):
        pass
    monkeypatch.setattr("harness.run.preparation.tempfile.gettempdir", _no_folder)
    with pytest.raises(Mistake, match="set TMPDIR to one that can"), measuring_alone():
        pass


def _no_folder() -> str:
    raise FileNotFoundError("no usable temporary directory")
