import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.analyze.advice import remedy
from harness.catalogue import read_catalogue, read_workload
from harness.cli.reading import listed
from harness.core.configuration import Option, at_hand, parse_config, unmet
from harness.core.mistake import Mistake
from harness.core.optimization import Level, Numerics, Optimization, Stage
from harness.core.recipe import COMMON_FIELDS
from harness.core.workload import PYTORCH_DEFAULTS
from harness.plan.designs import DESIGNS
from harness.plan.feasibility import STAGE_ORDER, all_options
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU
from tests.measure.tasks import scope_of

ROOT = Path(__file__).parents[1]
CATALOGUE = read_catalogue()
OPTIMIZATIONS = list(CATALOGUE.optimizations.values())

by_optimization = pytest.mark.parametrize("one", OPTIMIZATIONS, ids=lambda one: one.name)

RECORDED = [  # an optimization, what an environment recorded, and whether it can be tried there
    ("medium_matmul_precision", {"cpu_flags": ("amx_bf16",)}, True),
    ("medium_matmul_precision", {"cpu_flags": ("bf16",)}, True),
    ("medium_matmul_precision", {"cpu_flags": ()}, False),
    ("medium_matmul_precision", {"cpu_flags": (), "device": "cuda"}, True),
    ("medium_matmul_precision", {"cpu": "AMD EPYC"}, False),  # no flags were recorded, and no AMD has such units
    ("medium_matmul_precision", {"cpu": "Intel(R) Xeon(R) Processor"}, True),  # unknown: nothing hinders it
    ("allocator", {"allocators": ("tcmalloc",)}, True),
    ("allocator", {"allocators": ()}, False),
    ("allocator", {}, True),  # unknown
    ("ram_cache", {"system": "Linux x86_64"}, True),
    ("ram_cache", {"system": "Darwin arm64"}, False),
]

WORKLOAD_FILE = """
from harness.core.workload import Size, Workload

WORKLOAD = Workload(
    name="mine", title="Mine", origin="here", parameters=1, traits=frozenset(), parts=lambda: None,
    sizes={"quick": Size(batch=2, epoch_steps=1, evaluation_items=1, data_bytes=1, shape={}, original_epoch_steps=1)},
)
"""


def test_there_are_enough_of_them_and_every_stage_has_its_turn() -> None:
    assert len(OPTIMIZATIONS) >= 14
    assert {one.stage for one in OPTIMIZATIONS} <= set(STAGE_ORDER)
    assert {"leak", "speaker"} <= set(CATALOGUE.workloads)


def test_names_are_those_of_the_files() -> None:
    general = {path.stem for path in (ROOT / "harness" / "optimizations").glob("[!_]*.py")}
    own = {path.stem for path in (ROOT / "workloads").glob("*/optimizations/[!_]*.py")}
    assert set(CATALOGUE.optimizations) == general | own
    assert not general & own
    folders = {path.parent.name for path in (ROOT / "workloads").glob("*/__init__.py")}
    assert set(CATALOGUE.workloads) == folders
    assert all(name == one.name for name, one in CATALOGUE.workloads.items())


@by_optimization
def test_it_sets_choices_that_exist(one: Optimization) -> None:
    own = CATALOGUE.workloads[one.workload].own if one.workload else {}
    assert one.sets
    assert set(one.sets) <= COMMON_FIELDS | set(own)
    assert bool(one.levels) == any(isinstance(value, Level) for value in one.sets.values())
    assert len(set(one.levels)) == len(one.levels)
    for environment in (ENVIRONMENT, GPU):
        level = one.usual_level(environment)
        assert level is None if not one.levels else isinstance(level, type(one.levels[0]))


@pytest.mark.parametrize(("name", "facts", "possible"), RECORDED)
def test_a_need_is_judged_from_what_was_recorded(name: str, facts: dict[str, Any], possible: bool) -> None:
    one = CATALOGUE.optimization(name)
    workload = CATALOGUE.workload(one.workload or "leak")
    assert (unmet(one, replace(ENVIRONMENT, **facts), workload) is None) == possible


@pytest.mark.parametrize(
    ("name", "level", "environment"),
    [
        ("compile", "max-autotune", replace(ENVIRONMENT, compiler="g++")),
        ("cudnn_benchmark", None, GPU),
        ("channels_last_3d", None, ENVIRONMENT),
    ],
)
def test_patches_of_one_shape_in_batches_meet_needs(name: str, level: str | None, environment: Any) -> None:
    one, workload = CATALOGUE.optimization(name), CATALOGUE.workload("patches3d")
    config = CATALOGUE.config(parse_config("patches3d#4:fixed_patch_shape"), "quick", environment)
    assert unmet(one, environment, workload, level) is not None
    assert unmet(one, environment, at_hand(workload, config, CATALOGUE.known), level) is None


def test_evaluations_in_float16_are_for_gpus_before_ampere_too() -> None:
    one, leak = CATALOGUE.optimization("evaluation_autocast"), CATALOGUE.workload("leak")
    old, new = (replace(GPU, capability=capability) for capability in ("7.5", "8.0"))
    assert (one.usual_level(old), one.usual_level(new)) == ("float16", "bfloat16")
    assert unmet(one, old, leak, "float16") is None
    assert "8.0 or higher" in (unmet(one, old, leak, "bfloat16") or "")
    assert unmet(one, new, leak, "bfloat16") is None
    assert "needs a CUDA device" in (unmet(one, replace(ENVIRONMENT, cpu_flags=()), leak, "bfloat16") or "")


def test_items_that_are_kept_in_memory_are_advised_for_a_data_set_of_any_kind() -> None:
    assert "[dataset[index] for index in range(len(dataset))]" in remedy(
        CATALOGUE.optimization("in_memory_data"), "cpu"
    )


def test_a_usual_level_is_one_that_the_recorded_packages_can_run() -> None:
    decoder = CATALOGUE.optimization("decoder")
    assert decoder.usual_level(replace(ENVIRONMENT, packages=(("simplejpeg", "1.9.0"),))) == "simplejpeg"
    assert decoder.usual_level(replace(ENVIRONMENT, packages=())) == "torchvision"


@by_optimization
def test_its_proof_is_something_that_arms_report(one: Optimization) -> None:
    assert one.proof
    assert set(one.proof) <= set(reported())


@by_optimization
def test_what_it_requires_and_excludes_exists(one: Optimization) -> None:
    assert {*one.requires, *one.excludes} <= set(CATALOGUE.optimizations)
    assert all(reason.strip() for reason in (*one.excludes.values(), *one.pointless_where.values()))
    below = (CATALOGUE.optimizations[name].requires for name in one.requires)
    assert {name for names in below for name in names} <= set(one.requires)  # designs look one step down


@by_optimization
def test_its_docstring_is_a_page(one: Optimization) -> None:
    lines = one.page.splitlines()
    assert len(one.page) > 200
    assert len(lines[0]) > 20
    assert any(line.startswith("    ") for line in lines), "a line of code"


OTHER_TRAININGS = (
    *("batch_scale", "gradient_accumulation", "linear_learning_rate", "keep_last_batch"),
    *("image_size", "crop_length", "crop_before_mel", "patch_size", "fixed_patch_shape"),
    *("larger_network", "se_resnet34", "metric_learning", "binary_classes", "focal_loss"),
)


@pytest.mark.parametrize("name", OTHER_TRAININGS)
def test_what_changes_the_training_is_labelled_as_another_training_and_is_no_part_of_everything(name: str) -> None:
    optimization = CATALOGUE.optimizations[name]
    assert optimization.numerics is Numerics.DIFFERENT
    owners = [one for one in CATALOGUE.workloads.values() if optimization.workload in (None, one.name)]
    for workload in owners:
        scope = replace(scope_of(workload), environment=GPU)
        assert name not in {option.name for option in all_options(scope)}


@cache
def reported() -> frozenset[str]:
    """All words that what measures, and the workloads, write as literals; read without importing torch."""
    places = (ROOT / "harness").glob("measure/**/*.py"), *((ROOT / "workloads").glob(one) for one in ("*.py", "*/*.py"))
    return frozenset(_literals([path for found in places for path in found]))


def _literals(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_an_unknown_name_is_a_mistake_that_shows_where_to_look() -> None:
    with pytest.raises(Mistake, match=r"There is no workload 'nope'; choose one of .*leak"):
        CATALOGUE.workload("nope")
    with pytest.raises(Mistake, match=r"There is no optimization 'nope'; \./speedmatrix list shows them all"):
        CATALOGUE.optimization("nope")


def test_a_later_switch_replaces_an_earlier_one() -> None:
    leak = CATALOGUE.workload("leak")
    found = CATALOGUE.options(leak, ("original", "workers=2"), ENVIRONMENT)
    assert [str(one) for one in found] == [
        *("channels_last", "foreach_clipping", "monitoring=10"),
        *("persistent_workers", "prefetch_factor=4", "set_to_none", "workers=2"),
    ]
    assert Option(name="pin_memory") in CATALOGUE.options(leak, ("original",), GPU)


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_the_real_systems_had_the_defaults_of_pytorch_on_their_device(name: str) -> None:
    workload = CATALOGUE.workload(name)
    here, there = ({one.name for one in CATALOGUE.original(workload, on)} for on in (ENVIRONMENT, GPU))
    assert "set_to_none" in here
    assert "foreach_optimizer" not in here  # on a CPU PyTorch goes through the tensors one by one
    assert {"set_to_none", "foreach_optimizer", "tf32_convolutions"} <= there
    assert ("foreach_clipping" in here) == ("foreach_clipping" in there) == ("clipping" in workload.traits)
    assert all(workload.original.values()), "each says where it is known from"


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_the_card_of_a_workload_says_whose_defaults_the_real_system_had(name: str) -> None:
    card = (ROOT / "workloads" / name / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if "PyTorch's default since" in line]
    since = {source.rpartition("since ")[2] for source in PYTORCH_DEFAULTS.values() if "since" in source}
    assert all(f"default since {version}" in line for version in since)
    assert "not known" in line


def test_imagenet_was_found_to_copy_without_blocking() -> None:
    assert Option(name="non_blocking") in CATALOGUE.original(CATALOGUE.workload("imagenet"), GPU)


def test_a_cell_takes_the_usual_size_and_batch_where_none_is_named() -> None:
    assert str(CATALOGUE.config(parse_config("leak"), "quick", ENVIRONMENT)) == "leak@quick#256"
    assert str(CATALOGUE.config(parse_config("leak@smoke#8:tf32_matmul"), "quick", GPU)) == "leak@smoke#8:tf32_matmul"
    with pytest.raises(Mistake, match="leak has no size 'huge'; choose one of smoke, quick, standard"):
        CATALOGUE.config(parse_config("leak@huge"), "quick", ENVIRONMENT)
    with pytest.raises(Mistake, match="choose a batch of at most 512"):
        CATALOGUE.config(parse_config("leak@smoke#513"), "quick", ENVIRONMENT)


def test_a_larger_batch_is_that_of_the_cell_unless_one_is_named() -> None:
    usual = "leak@quick#512:batch_scale=2"
    assert str(CATALOGUE.config(parse_config("leak:batch_scale=2"), "quick", ENVIRONMENT)) == usual
    for text in (usual, "leak@smoke#8:batch_scale=4"):
        assert str(CATALOGUE.config(parse_config(text), "quick", ENVIRONMENT)) == text
    with pytest.raises(Mistake, match="A batch of 9 does not stand for 2 of one size; choose a multiple of 2"):
        CATALOGUE.config(parse_config("leak#9:batch_scale=2"), "quick", ENVIRONMENT)
    with pytest.raises(Mistake, match="choose a batch of at most 512"):
        CATALOGUE.config(parse_config("leak@smoke:batch_scale=9"), "quick", ENVIRONMENT)
    with pytest.raises(Mistake, match="batch_scale needs a level: batch_scale=2, batch_scale=4"):
        CATALOGUE.config(parse_config("leak:batch_scale"), "quick", ENVIRONMENT)


def test_a_workload_of_ones_own_joins_the_others(tmp_path: Path) -> None:
    path = tmp_path / "mine_to_join.py"
    path.write_text(WORKLOAD_FILE)
    found = read_catalogue(path)
    assert found.own == "mine"
    assert found.workload("mine").path == str(path)
    assert set(found.workloads) == {*CATALOGUE.workloads, "mine"}
    assert {one.name for one in found.of(found.workload("mine"))} == {
        one.name for one in OPTIMIZATIONS if one.workload is None
    }


def test_what_cannot_change_is_read_once_and_a_file_of_ones_own_whenever_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mine_to_read_again.py"
    path.write_text(WORKLOAD_FILE)
    first, mine, last = read_catalogue(), read_catalogue(path), read_catalogue()
    assert first.claims is mine.claims is last.claims
    assert all(mine.optimizations[name] is one for name, one in last.optimizations.items())
    assert (mine.own, last.own) == ("mine", None)
    assert last == first
    assert "mine" not in last.workloads


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("absent.py", None, "There is no workload file .*; give the path of a Python file that defines WORKLOAD"),
        ("plain_text.txt", "", "is not a Python file; a workload file ends in .py"),
        ("empty_workload.py", "", "defines no WORKLOAD and no job; write job = .* or see CONTRIBUTING.md"),
        ("wrong_workload.py", "WORKLOAD = 3", "defines no WORKLOAD and no job; write job = .* or see CONTRIBUTING.md"),
    ],
)
def test_a_file_that_is_no_workload_is_a_mistake(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Mistake, match=words):
        read_workload(tmp_path / name)


def test_the_list_is_one_object_of_four_lists_of_named_things() -> None:
    found = json.loads(json.dumps(listed(CATALOGUE)))
    assert list(found) == ["workloads", "optimizations", "claims", "designs"]
    for kind, fields in {
        "workloads": {"name", "title", "parameters", "sizes", "original", "score"},
        "optimizations": {"name", "title", "stage", "numerics", "levels", "workload", "timed_on", "needs", "requires"}
        | {"excludes", "supersedes", "sought", "sets", "proof", "page"},
        "claims": {"name", "text", "source", "workload", "metric", "promise", "treatment", "reference", "conditions"},
        "designs": {"name", "what"},
    }.items():
        assert found[kind], kind
        for entry in found[kind]:
            assert set(entry) >= fields
            assert entry["name"]
    assert {one["name"] for one in found["optimizations"]} == set(CATALOGUE.optimizations)
    stages = [list(Stage).index(Stage(one["stage"])) for one in found["optimizations"]]
    assert stages == sorted(stages)
    workers = next(one for one in found["optimizations"] if one["name"] == "workers")
    assert workers["sets"] == workers["proof"] == {"workers": "LEVEL"}
    assert [one["name"] for one in found["claims"]] == [one.name for one in CATALOGUE.claims]
    assert [one["name"] for one in found["designs"]] == list(DESIGNS)


EXAMPLE = '''"""An example: raises the number of threads of the trainer.

    torch.set_num_threads(2)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="zz_example",
    title="An example",
    stage=Stage.HOST,
    numerics=Numerics.CLOSE,
    sets={"threads": 2},
    proof={"threads": 2},
)
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house with one file more."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("harness", "workloads"):  # with what was compiled, but for what is being written
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    (folder / "harness" / "optimizations" / "zz_example.py").write_text(EXAMPLE)
    return folder


def said(copy: Path, *command: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def named(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["name"] for entry in entries}


@pytest.mark.thorough
def test_one_new_file_is_in_the_list_the_plan_the_matrix_and_has_a_page(copy: Path) -> None:
    assert "zz_example" in named(json.loads(said(copy, "list", "--json"))["optimizations"])
    plan = json.loads(said(copy, "plan", "leak", "--device", "cpu", "--json"))["plan"]
    labels = [one["subject"] for block in plan["blocks"] for one in block["comparisons"]]
    assert labels.count("zz_example") == 1
    assert plan["promises"]["zz_example"]["proof"] == ["threads"]
    rehearsed = said(copy, "rehearse", "leak", "--effect", "zz_example=1.5")
    assert any("zz_example" in line and "faster" in line for line in rehearsed.splitlines())
    page = said(copy, "explain", "zz_example")
    assert "torch.set_num_threads(2)" in page
    assert "proof of engagement: threads = 2" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (EXAMPLE.replace('name="zz_example"', 'name="other"'), "defines 'other'; name the file after it"),
        ('"""Nothing."""\n', "defines no OPTIMIZATION; a file in that folder must define one"),
    ],
)
def test_a_misnamed_file_is_refused(copy: Path, text: str, words: str) -> None:
    path = copy / "harness" / "optimizations" / "zz_misnamed.py"
    path.write_text(text)
    try:
        complaint = said(copy, "list", status=2)
    finally:
        path.unlink()
    assert words in complaint
    assert len(complaint.splitlines()) == 1
