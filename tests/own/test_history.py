"""A job as it was at a commit: found in a real repository, in a tree of its own, and compared with what it is now."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from harness.catalogue import code_digest, read_workload
from harness.core.configuration import Option, compose
from harness.core.mistake import Mistake
from harness.core.own_file import (
    NOW,
    TOLD,
    Address,
    opened_elsewhere,
    parse_address,
    read_file,
    told_to_arms,
    unpacked,
)
from harness.core.recipe import Recipe
from harness.own import history
from harness.own.history import check_alike, seen, since
from harness.own.items import Indexed

ROOT = Path(__file__).parents[2]

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


def test_a_commit_with_a_link_to_elsewhere_is_told(file: Path) -> None:
    (file.parent / "data").symlink_to("/somewhere/else")
    git(file.parent, "add", "-A")
    git(file.parent, "commit", "-qm", "linked")
    for _ in range(2):  # nothing of a first try stands in the way
        with pytest.raises(Mistake, match=r"cannot be unpacked: below/data is a link to /somewhere/else.*has no such"):
            since(Address(file), "HEAD")
    assert since(Address(file), "HEAD~1")[0].path.is_file()


def test_a_commit_that_two_unpack_at_once_is_unpacked_by_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack, begun = history._unpack, list[Path]()

    def slower(top: Path, commit: str, folder: Path) -> None:
        begun.append(folder)
        unpack(top, commit, folder)
        if len(begun) == 1:
            since(Address(file), "HEAD")

    monkeypatch.setattr(history, "_unpack", slower)
    assert since(Address(file), "HEAD")[0].path.is_file()
    assert len({*begun}) == 2
    assert not any(one.exists() for one in begun)


def test_a_disk_that_is_full_is_told_and_nothing_stays_on_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_top: Path, _commit: str, folder: Path) -> None:
        folder.mkdir()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(history, "_unpack", full)
        with pytest.raises(Mistake, match=r"\(No space left on device\); make room there"):
            since(Address(file), "HEAD")
    then, _ = since(Address(file), "HEAD")
    assert then.path.is_file()
    assert not list(then.path.parents[2].glob("*.begun*"))


OPENS = {
    "as it is imported": ("data = TensorDataset(", "open('settings.txt').close()\ndata = TensorDataset("),
    "in the loss": (
        "loss=nn.CrossEntropyLoss()",
        "loss=lambda *given: (open('settings.txt').close(), nn.functional.cross_entropy(*given))[1]",
    ),
    "in a factory": ("model=Net", "model=lambda: (open('settings.txt').close(), Net())[1]"),
}


@pytest.mark.parametrize(
    "when", ["as it is imported", "in the loss", pytest.param("in a factory", marks=pytest.mark.thorough)]
)
def test_a_file_of_git_s_that_both_versions_would_read_as_it_is_now_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    settings = file.with_name("settings.txt")
    settings.write_text("3")
    git(file.parent.parent, "add", "-A")
    edited(file, OPENS[when], committed=True)
    settings.write_text("5")
    monkeypatch.chdir(file.parent)
    words = r"at HEAD opens below/settings\.txt in the working tree.*\(Path\(__file__\)\.parent / 'settings\.txt'\)"
    for _ in range(2):  # at first it is looked at in full, then what was seen is kept
        with pytest.raises(Mistake, match=words):
            check_alike(*since(Address(file), "HEAD"), "HEAD")
    settings.write_text("3")
    check_alike(*since(Address(file), "HEAD"), "HEAD")


@pytest.mark.thorough
def test_what_the_code_of_now_reads_is_part_of_the_plan(file: Path) -> None:
    """The process that plans runs the old code alone."""
    settings = file.with_name("settings.txt")
    settings.write_text("3")
    reading = f"open({str(settings)!r}).close()\ndata = TensorDataset("
    edited(file, ("data = TensorDataset(", reading))

    def source() -> str:
        then, now = since(Address(file), "HEAD")
        check_alike(then, now, "HEAD")
        assert str(replace(now, version=NOW)) in json.loads(told_to_arms()[TOLD])
        return read_workload(Path(str(then))).source

    before = source()
    assert source() == before
    settings.write_text("5")
    assert source() != before


def test_code_of_now_that_is_edited_while_it_is_measured_is_seen(file: Path) -> None:
    workload = read_workload(Path(str(since(Address(file), "HEAD")[0])))
    before = code_digest([workload], jobs=True)
    file.write_text(file.read_text() + "\n# changed\n")
    assert code_digest([workload], jobs=True) != before


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


DATA = """
import time
from functools import lru_cache
from torch.utils.data import DataLoader


class Slow(TensorDataset):
    __len__ = lambda self: 30_000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.zeros(4), index % 2
"""


def edited(file: Path, *changes: tuple[str, str], committed: bool = False) -> tuple[Address, Address]:
    """The job's file edited further, before the commit or after it."""
    for old, new in changes:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    if committed:
        git(file.parent.parent, "commit", "-qam", "again")
    return since(Address(file), "HEAD")


@pytest.mark.thorough
def test_a_cache_that_a_commit_brought_makes_the_epoch_of_both_arms_the_whole_set(file: Path) -> None:
    slow = ("data = TensorDataset(", f"{DATA}\ndata = Slow(")
    edited(file, slow, committed=True)
    assert read_workload(Path(str(edited(file)[0]))).sizes["quick"].epoch_steps <= 512
    kept = ("    def __getitem__(self, index):", "    @lru_cache(2048)\n    def __getitem__(self, index):")
    then, now = edited(file, kept)
    size = read_workload(Path(str(then))).sizes["quick"]
    assert size.keeps_items
    assert size.epoch_steps == 30_000 // 8
    assert any("keeps items" in line for line in read_workload(Path(str(then))).seen)
    check_alike(then, now, "HEAD")


def test_items_of_both_arms_need_seeds_where_those_of_either_do(file: Path) -> None:
    then, _ = edited(file, ("data = TensorDataset(", f"{DATA.replace('torch.zeros', 'torch.randn')}\ndata = Slow("))
    assert read_workload(Path(str(then))).sizes["quick"].seeded_items


def test_a_file_that_the_commit_does_not_hold_is_taken_as_it_is_now(file: Path) -> None:
    """With the code of then beside it: the job of a training that had none lies in a file of its own."""
    added = file.with_name(f"added_to_{file.stem}.py")
    for number in range(2):
        added.write_text(f"from layers_of_{file.stem.removeprefix('train_')} import WIDTH\nNUMBER = {10**number}\n")
        then, now = since(Address(added), "HEAD")
        assert now.path == added
        found = read_file(then.path).names
        assert (found["NUMBER"], found["WIDTH"]) == (10**number, 3)


def test_such_a_file_lies_in_no_folder_that_is_linked(file: Path) -> None:
    data = file.parent / "jobs" / "data.bin"
    data.parent.mkdir()
    data.write_text("1")
    then, _ = since(Address(file), "HEAD")
    assert (then.path.parent / "jobs").is_symlink()
    (added := data.with_name("added.py")).write_text("")
    then, _ = since(Address(added), "HEAD")
    assert unpacked(then.path.resolve()) is not None
    assert (then.path.parent / data.name).resolve() == data


def test_a_commit_whose_file_has_no_job_is_told_with_what_to_do(file: Path) -> None:
    text = file.read_text()
    edited(file, ("job = sm.job(", "def made():\n    return sm.job("), committed=True)
    file.write_text(text)
    words = r"^At HEAD: .* defines no WORKLOAD and no job\. Put the job into a file of its own .* for both versions\.$"
    with pytest.raises(Mistake, match=words):
        check_alike(*since(Address(file), "HEAD"), "HEAD")


DATA_AND_CODE = {
    "below/data/first.bin": True, "below/mine.txt": True, "ignored/kept.txt": True, "below/code.pyc": False,
    "below/code.py": False, "below/__pycache__/a.txt": False, "env/pyvenv.cfg": False, "cache/mine.txt": False,
}  # fmt: skip


def test_data_that_git_does_not_hold_are_linked_into_the_tree_of_then(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = file.parent.parent
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(top / "cache"))
    for name in DATA_AND_CODE:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("1")
    (top / ".gitignore").write_text("ignored\n*.bin\n*.pyc\n")
    for _ in range(2):
        here = unpacked(since(Address(file), "HEAD")[0].path)
    assert here is not None
    tree, _ = here
    assert {name: (tree / name).exists() for name in DATA_AND_CODE} == DATA_AND_CODE
    read = [str(place / "below/mine.txt") for place in here]
    assert opened_elsewhere(tree / "below" / file.name, read) == [], "both versions read the same"
    shutil.rmtree(tree)
    assert all((top / name).is_file() for name in DATA_AND_CODE)


ALIKE: dict[str, tuple[tuple[str, str], str]] = {
    "kernel": (("lr=0.01", "lr=0.01, foreach=True"), "foreach True in place of None.*--only foreach_optimizer"),
    "loader": (("dataset=data, ", "dataset=DataLoader(data, num_workers=2), "), "num_workers 2.*--only workers=2"),
    "threads": (("data = ", "torch.set_num_threads(7)\ndata = "), "set_num_threads 7.*--only trainer_threads=7"),
    "clipping": (("batch=8", "batch=8, clip_norm=0.5"), "clip_norm 0.5 in place of None"),
}


@pytest.mark.parametrize(
    "what", [*("kernel", "threads"), *(pytest.param(one, marks=pytest.mark.thorough) for one in ("loader", "clipping"))]
)
def test_what_every_arm_is_given_alike_cannot_be_compared(file: Path, what: str) -> None:
    change, words = ALIKE[what]
    imported = ("import torch\n", "import torch\nfrom torch.utils.data import DataLoader\n")
    then, now = edited(file, imported, change)
    with pytest.raises(Mistake, match=words) as told:
        check_alike(then, now, "HEAD")
    assert "\n" not in str(told.value)


WHOLE = """
class Whole(TensorDataset):
    {text}
    __getitems__ = lambda self, places: [self[one] for one in places]
"""


@pytest.mark.thorough
def test_each_arm_fetches_batches_as_its_own_data_set_does(file: Path) -> None:
    plain, whole = WHOLE.format(text="").rpartition("    __getitems__")[0] + "    pass\n", WHOLE.format(text="")
    edited(file, ("data = TensorDataset(", f"{plain}\ndata = Whole("), committed=True)
    then, now = edited(file, (plain, whole))
    check_alike(then, now, "HEAD")
    size = read_workload(Path(str(then))).sizes["quick"]
    assert size.whole_batches
    arms = [read_workload(Path(place)).parts() for place in (str(then), f"{now}@{NOW}")]
    kinds = [isinstance(one.dataset(Path(), size, Recipe()), Indexed) for one in arms]
    assert kinds == [False, True]


# Packages that are found through the import path, as those that are installed in editable mode.


@pytest.fixture
def package(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the repository on PYTHONPATH, from which the job has its model; it is not committed as it is now."""
    source = file.parent.parent / "src"
    net = source / f"package_of_{file.stem}" / "__init__.py"
    net.parent.mkdir(parents=True)
    net.write_text(NET.format(width=3))
    file.write_text(file.read_text().replace("layers_of_" + file.stem.removeprefix("train_"), net.parent.name))
    git(file.parent.parent, "add", "-A")
    git(file.parent.parent, "commit", "-qm", "package")
    net.write_text(NET.format(width=5))
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', ROOT)}{os.pathsep}{source}")
    monkeypatch.syspath_prepend(source)
    return net


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Address], history.Seen]:
    """What a look at a version gives, which takes seconds; what `check_alike` has looked at is not looked at again."""
    monkeypatch.setattr(history, "seen", cache(seen))
    return history.seen


def test_arms_of_then_have_the_packages_of_then(
    file: Path, package: Path, looked_at: Callable[[Address], history.Seen]
) -> None:
    then, now = since(Address(file), "HEAD")
    check_alike(then, now, "HEAD")
    widths = [
        (looked_at(one).facts.parameters - 2) // 7 for one in (replace(then, version=""), replace(now, version=NOW))
    ]
    assert widths == [3, 5]


@pytest.mark.thorough
def test_each_version_has_the_modules_of_its_own_package(
    file: Path, looked_at: Callable[[Address], history.Seen]
) -> None:
    file.write_text(file.read_text().replace("from layers_of_", "from .layers_of_"))
    git(file.parent.parent, "commit", "-qm", "relative", str(file))
    then, now = since(Address(file), "HEAD")
    check_alike(then, now, "HEAD")
    widths = [
        (looked_at(one).facts.parameters - 2) // 7 for one in (replace(then, version=""), replace(now, version=NOW))
    ]
    assert widths == [3, 5]


def test_a_package_that_is_edited_is_another_plan(file: Path, package: Path) -> None:
    def source() -> str:
        return read_workload(Path(str(since(Address(file), "HEAD")[0]))).source

    before = source()
    package.write_text(NET.format(width=6))
    assert source() != before


def test_a_version_that_imports_modules_of_the_other_is_told_with_the_module(file: Path, package: Path) -> None:
    file.write_text(f"import sys\nsys.path.insert(0, {str(package.parent.parent)!r})\n{file.read_text()}")
    git(file.parent.parent, "commit", "-qm", "by place", str(file))
    then, now = since(Address(file), "HEAD")
    with pytest.raises(Mistake, match=f"imports {package.parent.name} from .*is of another version"):
        check_alike(then, now, "HEAD")


@pytest.mark.thorough
def test_a_module_that_the_commit_has_not_is_of_another_version_too(file: Path, package: Path) -> None:
    """It would be found in the working tree by both."""
    (package.parent.parent / f"only_here_{file.stem}.py").write_text("")
    installed = file.parent / "venv" / "lib" / "site-packages" / f"installed_{file.stem}.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    file.write_text(
        f"import sys\nsys.path.append({str(installed.parent)!r})\nimport {installed.stem}\n{file.read_text()}"
    )
    git(file.parent.parent, "commit", "-qm", "installed", str(file))
    then, now = since(Address(file), "HEAD")
    check_alike(then, now, "HEAD")
    file.write_text(f"import only_here_{file.stem}\n{file.read_text()}")
    git(file.parent.parent, "commit", "-qm", "only here", str(file))
    with pytest.raises(Mistake, match=f"imports only_here_{file.stem} from .*commit that"):
        check_alike(*since(Address(file), "HEAD"), "HEAD")


def test_a_submodule_is_as_the_commit_pins_it(
    file: Path, tmp_path: Path, looked_at: Callable[[Address], history.Seen]
) -> None:
    name, top = f"layers_of_{file.stem.removeprefix('train_')}", file.parent.parent
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    for number, width in enumerate((3, 5)):
        (origin / "__init__.py").write_text(NET.format(width=width))
        git(origin, "add", "-A")
        git(origin, "commit", "-qm", str(width))
        place = file.parent / name
        if not number:
            git(top, "rm", "-qf", f"below/{name}.py")
            git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin), f"below/{name}")
        git(place, "-c", "protocol.file.allow=always", "pull", "-q", "origin", "HEAD")
        git(top, "add", "-A")
        git(top, "commit", "-qm", f"pinned {width}")
    then, now = since(Address(file), "HEAD~1")
    check_alike(then, now, "HEAD~1")
    widths = [
        (looked_at(one).facts.parameters - 2) // 7 for one in (replace(then, version=""), replace(now, version=NOW))
    ]
    assert widths == [3, 5]
    git(top, "update-index", "--cacheinfo", f"160000,{'ab' * 20},below/{name}")
    git(top, "commit", "-qm", "pinned elsewhere")
    with pytest.raises(
        Mistake, match=rf"submodule below/{name} at abab.* not in .*check it out .*or name another commit\.$"
    ):
        since(Address(file), "HEAD")


def test_packages_in_editable_mode_are_found_in_the_tree_of_then(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then, _ = since(Address(file), "HEAD")
    here, installed = unpacked(then.path), ModuleType("__editable___some_finder")
    assert here is not None
    assert here[1] == file.parent.parent
    assert unpacked(file) is None
    elsewhere = str(file.parent.parent.parent)
    installed.MAPPING = {"below": str(file.parent), "other": elsewhere}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, installed.__name__, installed)
    monkeypatch.setattr(sys, "path", [str(file.parent), elsewhere])
    read_workload(then.path)
    assert {"below": str(then.path.parent), "other": elsewhere} == installed.MAPPING
    assert sys.path == [str(then.path.parent), str(then.path.parent), str(file.parent), elsewhere]


def test_what_git_does_not_know_has_a_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"no nowhere is known; name a commit"):
        since(Address(file), "nowhere")
    with pytest.raises(Mistake, match="There is no file"):
        since(Address(file.with_name("absent.py")), "HEAD")
    alone = tmp_path / "alone.py"
    alone.write_text("job = None\n")
    with pytest.raises(Mistake, match="git says of"):
        since(Address(alone), "HEAD")
