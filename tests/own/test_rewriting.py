"""Advice in somebody's script: the diff applies, the script does what was advised, and all else stays as it is."""

import subprocess
from pathlib import Path

import pytest

from harness.core.configuration import Option, parse_option
from harness.core.mistake import Mistake
from harness.own.rewriting import Rewritten, rewritten

LOADER = "loader = DataLoader(data, batch_size=4)\n"


def written(source: str, *names: str) -> Rewritten:
    return rewritten("train.py", source, [parse_option(one) for one in names])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("DataLoader(data)", "DataLoader(data, num_workers=2)"),
        ("DataLoader((data))", "DataLoader((data), num_workers=2)"),
        ("DataLoader( # why\n    (data) # so\n)", "DataLoader( # why\n    (data), num_workers=2 # so\n)"),
        ("DataLoader(data, batch_size=(4),)", "DataLoader(data, batch_size=(4), num_workers=2,)"),
        ("DataLoader(\n    data,\n    shuffle=True,\n)", "DataLoader(\n    data,\n    shuffle=True, num_workers=2,\n)"),
        ("torch.utils.data.DataLoader(data, num_workers=0)", "torch.utils.data.DataLoader(data, num_workers=2)"),
        ("DataLoader(data, num_workers=2)", "DataLoader(data, num_workers=2)"),
        ("DataLoader()", "DataLoader(num_workers=2)"),
        ("DataLoader(data, 64, True, None, None, 0)", "DataLoader(data, 64, True, None, None, 2)"),
        ("x = 'ä'; DataLoader(f('ö'), 'ü')", "x = 'ä'; DataLoader(f('ö'), 'ü', num_workers=2)"),
        ("DataLoader(DataLoader(a))", "DataLoader(DataLoader(a, num_workers=2), num_workers=2)"),
    ],
)
def test_a_keyword_is_added_or_replaced_and_nothing_else_changes(source: str, expected: str) -> None:
    found = written(source, "workers=2")
    assert (found.after, found.left) == (expected, ())


@pytest.mark.parametrize(
    "source", ["DataLoader(data, **more)", "DataLoader(*parts)", "DataLoader(x for x in y)", "load(data)", ""]
)
def test_what_has_no_place_is_left_to_the_reader(source: str) -> None:
    found = written(source, "workers=2", "channels_last")
    assert (found.after, found.diff) == (source, "")
    assert found.left == (Option(name="workers", level=2), Option(name="channels_last"))


@pytest.mark.parametrize(
    ("name", "source", "expected", "is_left"),
    [
        ("in_place_activations", "nn.ReLU(True)", "nn.ReLU(True)", False),
        ("in_place_activations", "nn.ReLU(False)", "nn.ReLU(True)", False),
        ("set_to_none", "opt.zero_grad(False)", "opt.zero_grad(True)", False),
        ("fused_optimizer", "Adam(weights, foreach=True)", "Adam(weights, foreach=True)", True),
        ("fused_optimizer", "Adam(weights, foreach=False)", "Adam(weights, foreach=False, fused=True)", False),
        ("persistent_workers", "DataLoader(data)", "DataLoader(data)", True),
        (
            "persistent_workers",
            "DataLoader(a, num_workers=4); DataLoader(test); DataLoader(b, num_workers=0)",
            "DataLoader(a, num_workers=4, persistent_workers=True); DataLoader(test); DataLoader(b, num_workers=0)",
            False,
        ),
    ],
)
def test_what_a_call_gives_by_its_place_or_cannot_take_is_known(
    name: str, source: str, expected: str, is_left: bool
) -> None:
    found = written(source, name)
    assert (found.after, bool(found.left)) == (expected, is_left)


@pytest.mark.parametrize(
    ("option", "source", "kept"),
    [
        ("workers=1", "DataLoader(data, num_workers=4)", "num_workers=4 in line 1"),
        ("workers=1", "DataLoader(data, 64, True, None, None, 4)", "num_workers=4 in line 1"),
        ("workers=1", "DataLoader(\n    data,\n    num_workers=args.workers)", "num_workers=args.workers in line 3"),
        ("prefetch_factor=4", "DataLoader(data, num_workers=1, prefetch_factor=8)", "prefetch_factor=8 in line 1"),
        ("pin_memory", "DataLoader(data, pin_memory=cuda)", "pin_memory=cuda in line 1"),
    ],
)
def test_a_value_that_was_not_compared_stays_and_is_told(option: str, source: str, kept: str) -> None:
    found = written(source, option)
    assert (found.after, found.kept, found.left) == (source, (kept,), ())


def test_of_two_calls_the_one_without_a_value_of_its_own_is_changed() -> None:
    found = written("DataLoader(a, num_workers=4); DataLoader(b)", "workers=1")
    assert found.after == "DataLoader(a, num_workers=4); DataLoader(b, num_workers=1)"
    assert (found.kept, found.left) == (("num_workers=4 in line 1",), ())


@pytest.mark.parametrize(
    ("advised", "reference", "source", "expected"),
    [
        ("workers=1", ["workers=4"], "DataLoader(data, num_workers=4)", "DataLoader(data, num_workers=1)"),
        ("workers=1", ["workers=4"], "DataLoader(data, num_workers=8)", "DataLoader(data, num_workers=8)"),
        ("prefetch_factor=4", [], "DataLoader(a, num_workers=1, prefetch_factor=2)", None),
        ("start_method=spawn", [], 'DataLoader(a, num_workers=1, multiprocessing_context="fork")', None),
    ],
)
def test_a_value_that_was_compared_is_replaced(
    advised: str, reference: list[str], source: str, expected: str | None
) -> None:
    found = rewritten("train.py", source, [parse_option(advised)], map(parse_option, reference))
    expected = expected or source.replace("=2)", "=4)").replace('"fork"', "'spawn'")
    assert (found.after, bool(found.kept), found.left) == (expected, expected == source, ())


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("DataLoader(data, num_workers=args.workers)", ("workers=4", "persistent_workers")),
        ("DataLoader(data, num_workers=args.workers)", ("prefetch_factor=4",)),
        ("DataLoader(data, **given)", ("workers=4", "persistent_workers")),
        ("DataLoader(data, persistent_workers=False, **given)", ("workers=4", "persistent_workers")),
        ("DataLoader(data)", ("persistent_workers",)),
    ],
)
def test_what_needs_workers_is_written_only_where_there_surely_are_some(source: str, names: tuple[str, ...]) -> None:
    found = written(source, *names)
    assert found.after == source
    assert parse_option(names[-1]) in found.left
    assert not found.loaders


def test_all_loaders_that_are_changed_are_named() -> None:
    assert written("DataLoader(a)\nDataLoader(b, pin_memory=True)\n\nDataLoader(c)", "pin_memory").loaders == (1, 4)


def test_several_options_come_to_one_call_and_to_all_calls() -> None:
    source = (
        f"{LOADER}other = DataLoader(rest)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"
        "layer = nn.ReLU()\noptimizer.zero_grad()\noptimizer.zero_grad(set_to_none=False)\n"
    )
    names = (
        "workers=1",
        "persistent_workers",
        "fused_optimizer",
        "in_place_activations",
        "set_to_none",
        "tuned_malloc",
    )
    found = written(source, *names)
    assert found.after == (
        "loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)\n"
        "other = DataLoader(rest, num_workers=1, persistent_workers=True)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n"
        "layer = nn.ReLU(inplace=True)\noptimizer.zero_grad()\noptimizer.zero_grad(set_to_none=True)\n"
    )
    assert found.left == (Option(name="tuned_malloc"),)
    again = rewritten("train.py", found.after, [parse_option(one) for one in names])
    assert again.diff == "", "what is there already is not written twice"


@pytest.mark.parametrize("ending", ["", "\n", "\n# \x0c form feed and \u2028 separator\n", "\r\n"])
def test_git_applies_the_diff(ending: str, tmp_path: Path) -> None:
    source = f"import torch\n\n{LOADER}print(loader){ending}"
    found = written(source, "workers=2")
    path = tmp_path / "train.py"
    path.write_text(source, newline="")
    subprocess.run(["git", "apply", "--verbose", "-"], input=found.diff.encode(), cwd=tmp_path, check=True)
    assert path.read_bytes().decode() == found.after


def test_the_rewritten_loader_has_the_workers(tmp_path: Path) -> None:
    from torch.utils.data import DataLoader

    names = {"DataLoader": DataLoader, "data": list(range(8))}
    exec(written(LOADER, "workers=1", "prefetch_factor=4", "persistent_workers", "start_method=spawn").after, names)  # noqa: S102
    loader = names["loader"]
    assert isinstance(loader, DataLoader)
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (1, 4, True)


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(Mistake, match="is no Python that can be read"):
        written("def (", "workers=1")
