"""The leak classifier's own optimizations: each engages and is seen, alone and in stacks; plain shows none."""

import gc
import importlib
import pkgutil
from pathlib import Path

import pytest
import torch

from harness.core.configuration import Conflict, compose, expected, inactive, parse_option
from harness.core.optimization import Numerics, Optimization, Timing
from harness.core.recipe import Value
from harness.core.workload import Built
from harness.measure.devices import device_named
from harness.measure.session import Task, open_session
from workloads.leak import WORKLOAD, optimizations
from workloads.leak.data import prepare

torch.set_num_threads(1)
GENERAL = ("batched_fetch", "in_memory_data", "workers", "channels_last")


def read(package: str, name: str) -> Optimization:
    found: Optimization = importlib.import_module(f"{package}.{name}").OPTIMIZATION
    return found


OWN = {one.name: read(optimizations.__name__, one.name) for one in pkgutil.iter_modules(optimizations.__path__)}
KNOWN = OWN | {name: read("harness.optimizations", name) for name in GENERAL}
EACH = [
    f"{name}={level}" if level else name
    for name, one in OWN.items()
    for level in one.levels or (None,)
    if one.timed_on is not Timing.EVALUATION
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    list(prepare(path, WORKLOAD.sizes["smoke"]))
    return path


def trained(folder: Path, *names: str) -> tuple[list[float], tuple[str, ...], dict[str, Value]]:
    """Losses of three steps, what did not engage, and what the parts show."""
    options = tuple(parse_option(name) for name in names)
    recipe = compose(WORKLOAD, options, KNOWN)
    task = Task(
        parts=WORKLOAD.parts(),
        size=WORKLOAD.sizes["smoke"],
        recipe=recipe,
        data=folder,
        device=device_named("cpu"),
        seed=3,
        endless=True,
    )
    session = open_session(task)
    trainee, batch = session.trainee, session.feed.fetch()
    built = Built(
        dataset=session.feed.loader.dataset,
        model=trainee.model,
        loss=trainee.loss,
        device_stage=trainee.device_stage,
        batch=batch,
    )
    shown = dict(task.parts.effective(built))
    step = session.step()
    losses = [float(step()) for _ in range(3)]
    session.feed.close()
    proof = {
        name: value
        for option in options
        if option.name in OWN
        for name, value in expected(KNOWN[option.name], option.level).items()
    }
    del session, trainee, built, step
    gc.collect()  # HDF5 opens a file one way at a time: no handle may be left for the next test
    return losses, inactive(proof, shown), shown


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[list[float], dict[str, Value]]:
    """Losses and shown settings with everything off."""
    losses, _, shown = trained(folder)
    return losses, shown


@pytest.mark.parametrize("name", EACH)
def test_each_engages_alone_and_keeps_its_word(
    folder: Path, plain: tuple[list[float], dict[str, Value]], name: str
) -> None:
    losses, missing, _ = trained(folder, name)
    assert missing == ()
    numerics = OWN[name.partition("=")[0]].numerics
    if numerics is Numerics.CLOSE:
        assert losses == pytest.approx(plain[0], rel=1e-5)
    else:
        assert (losses == plain[0]) is (numerics is Numerics.EXACT)


@pytest.mark.parametrize("name", EACH)
def test_plain_shows_none_of_them(plain: tuple[list[float], dict[str, Value]], name: str) -> None:
    option = parse_option(name)
    assert inactive(expected(OWN[option.name], option.level), plain[1])


@pytest.mark.parametrize(
    "stack",
    [
        ("data_on_device", "conv1d_rewrite", "channels_last"),
        ("data_on_device", "workers=1"),
        ("data_on_device", "device_spec_augment", "focal_loss", "binary_classes"),
        ("batched_fetch", "loader_spec_augment", "conv1d_rewrite"),
        ("memory_map", "device_spec_augment"),
        ("hdf5_layout=compressed", "hdf5_chunk_cache=64", "swmr_off", "file_index_cache"),
        ("hdf5_layout=chunked", "in_memory_data"),
    ],
)
def test_stacks_engage_together(folder: Path, stack: tuple[str, ...]) -> None:
    losses, missing, _ = trained(folder, *stack)
    assert missing == ()
    assert all(0 < loss < 10 for loss in losses)


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (("hdf5_chunk_cache=32", "memory_map"), "past HDF5"),
        (("hdf5_chunk_cache=32", "data_on_device"), "no longer read through HDF5"),
        (("hdf5_layout=chunked", "batched_fetch"), "chunks cannot be mapped"),
        (("hdf5_layout=compressed", "memory_map"), "chunks cannot be mapped"),
        (("memory_map", "in_memory_data"), "not read again"),
        (("swmr_off", "data_on_device"), "no item is read through HDF5"),
        (("file_index_cache", "batched_fetch"), "no item is read through HDF5"),
        (("loader_spec_augment", "data_on_device"), "do not pass through the loader"),
        (("loader_spec_augment", "device_spec_augment"), "both set spec_augment"),
    ],
)
def test_what_cannot_be_together_says_why(stack: tuple[str, ...], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        compose(WORKLOAD, tuple(parse_option(name) for name in stack), KNOWN)


def test_every_choice_has_an_optimization_that_sets_it() -> None:
    assert {name for one in OWN.values() for name in one.sets} == set(WORKLOAD.own)


def test_the_chunk_cache_is_pointless_for_the_layout_that_plain_shows(folder: Path) -> None:
    for layout, pointless in (("contiguous", True), ("compressed", False)):
        names = () if layout == "contiguous" else (f"hdf5_layout={layout}",)
        _, _, shown = trained(folder, *names)
        assert (f"layout {shown['layout']}" in OWN["hdf5_chunk_cache"].pointless_where) is pointless
