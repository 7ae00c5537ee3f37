"""A job as it was at a commit: found in a real repository, in a tree of its own, and compared with what it is now."""

import subprocess
from pathlib import Path

import pytest

from harness.catalogue import read_workload
from harness.core.configuration import Option, compose
from harness.core.mistake import Mistake
from harness.core.own_file import NOW, Address, parse_address
from harness.own.history import check_alike, since

TRAIN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
import speedmatrix as sm
from layers_of_{name} import Net

data = TensorDataset(torch.randn(64, 4), torch.arange(64) % 2)
job = sm.job(
    model=Net, dataset=data, loss=nn.CrossEntropyLoss(), batch={batch},
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
)
"""
NET = """
from torch import nn

WIDTH = {width}


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, WIDTH), nn.Linear(WIDTH, 2))
"""


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job in a repository, whose model was narrower at the first commit and is not committed as it is now."""
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "data"))
    folder = tmp_path / "repository" / "below"
    folder.mkdir(parents=True)
    git(folder.parent, "init", "-q")
    name = tmp_path.name.replace("-", "_")
    (folder / f"train_{name}.py").write_text(TRAIN.format(name=name, batch=8))
    net = folder / f"layers_of_{name}.py"
    net.write_text(NET.format(width=3))
    git(folder.parent, "add", "-A")
    git(folder.parent, "commit", "-qm", "narrow")
    net.write_text(NET.format(width=5))
    return folder / f"train_{name}.py"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("train.py", Address(Path("train.py"))),
        ("a/train.py:job", Address(Path("a/train.py"), ("job",))),
        ("train.py:job, other", Address(Path("train.py"), ("job", "other"))),
        ("x.job:job", Address(Path("x.job"), ("job",))),
        ("train.py:job@now", Address(Path("train.py"), ("job",), NOW)),
        ("c/train.py@/b/train.py", Address(Path("c/train.py"), (), "/b/train.py")),
        ("c/train.py:job@/b@c/train.py:job", Address(Path("c/train.py"), ("job",), "/b@c/train.py:job")),
        ("a.python/train.py", Address(Path("a.python/train.py"))),
        ("somewhere", Address(Path("somewhere"))),
    ],
)
def test_an_address_reads_as_it_is_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


def test_arms_of_then_and_now_run_different_files(file: Path) -> None:
    then, now = since(Address(file, ("job",)), "HEAD")
    check_alike(then, now, "HEAD")
    workload = read_workload(Path(str(then)))
    known = {one.name: one for one in workload.optimizations}
    plain, changed = (compose(workload, options, known) for options in ((), (Option(name=NOW),)))
    assert workload.path_for(plain) == str(then)
    assert workload.path_for(changed) == f"{file.resolve()}:job@now"
    assert workload.parameters == 4 * 3 + 3 + 3 * 2 + 2, "what it was"
    assert "WIDTH = 3" in (then.path.parent / file.name.replace("train_", "layers_of_")).read_text()


def test_each_version_shows_which_it_is(file: Path) -> None:
    _, now = since(Address(file), "HEAD")
    workload = read_workload(Path(f"{now}@{NOW}"))
    assert workload.own == {NOW: False}
    assert workload.path_for(compose(workload, (), {})) == f"{file.resolve()}@now"
    assert workload.parameters == 4 * 5 + 5 + 5 * 2 + 2


def test_edited_code_is_another_plan(file: Path) -> None:
    def source() -> str:
        return read_workload(Path(str(since(Address(file), "HEAD")[0]))).source

    before = source()
    assert source() == before
    file.write_text(file.read_text() + "\n# changed\n")
    assert source() != before


def test_another_batch_must_be_said(file: Path) -> None:
    file.write_text(file.read_text().replace("batch=8", "batch=16"))
    then, now = since(Address(file), "HEAD")
    with pytest.raises(Mistake, match="takes batches of 16 now and took 8 at HEAD; add --batch"):
        check_alike(then, now, "HEAD")


def test_what_cannot_be_imported_is_told_before_anything_is_measured(file: Path) -> None:
    then, now = since(Address(file), "HEAD")
    file.write_text("import nothing_of_that_name\n")
    with pytest.raises(Mistake, match="cannot be imported"):
        check_alike(then, now, "HEAD")


def test_what_git_does_not_know_has_a_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"no nowhere is known; name a commit"):
        since(Address(file), "nowhere")
    added = file.with_name("added.py")
    added.write_text(file.read_text())
    with pytest.raises(Mistake, match=r"There was no added\.py in that place at HEAD"):
        since(Address(added), "HEAD")
    with pytest.raises(Mistake, match="There is no file"):
        since(Address(file.with_name("absent.py")), "HEAD")
    alone = tmp_path / "alone.py"
    alone.write_text("job = None\n")
    with pytest.raises(Mistake, match="git says of"):
        since(Address(alone), "HEAD")
