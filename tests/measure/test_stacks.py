"""Two hundred stacks drawn by a seed, of all sizes, and everything on each workload: all that compose train.

Of those that are drawn a part is trained here: some of each workload and what it takes to have every optimization in
one; SPEEDMATRIX_EXHAUSTIVE=1 trains all. `./speedmatrix test` trains everything on one workload, --thorough the others.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from _pytest.mark import ParameterSet

from harness.core.configuration import Comparison, Configuration, Option, unmet
from harness.core.optimization import Optimization, Stage
from harness.core.workload import Workload
from harness.measure.devices import settle_backend
from harness.measure.loop import Diverged
from harness.measure.session import open_session
from harness.plan.feasibility import all_options, compare
from tests.measure.settings import put_back
from tests.measure.tasks import CATALOGUE, ENVIRONMENT, scope_of, task_at

STACKS = {"leak": 90, "speaker": 40, "spoof": 30, "imagenet": 25, "patches3d": 15}  # fewer where a step is slow
PART = {"leak": 12, "speaker": 14, "spoof": 15, "imagenet": 13, "patches3d": 15}  # one of so many is trained
STEPS, SEED = 3, 20
QUICK = "leak"
FEW = {"workers": (1, 2), "batch_scale": (2,), "larger_network": ("resnetse34v2",)}  # levels that are cheap here
KNOWN = CATALOGUE.optimizations
CPU_FACTS = Path("/proc/cpuinfo")
FLAGS = CPU_FACTS.read_text(encoding="utf-8") if CPU_FACTS.exists() else ""
AMX, BFLOAT16 = "amx_bf16" in FLAGS, "bf16" in FLAGS or not FLAGS


def stacks() -> Iterator[Configuration]:
    """Stacks of each workload, their sizes spread evenly from one option to all that go together."""
    random = Random(SEED)
    for name, times in STACKS.items():
        workload = CATALOGUE.workloads[name]
        willing = [one for one in CATALOGUE.of(workload) if _can_be_drawn(one, workload)]
        for _ in range(times):
            yield _stack(workload, random.sample(willing, len(willing)), random.randint(1, len(willing)), random)


def _can_be_drawn(one: Optimization, workload: Workload) -> bool:
    # A compiler takes minutes, and launch settings are another process's; both have tests of their own.
    # Ranks are several processes.
    # Where some test has computed with several threads, a worker forked with several of its own waits for ever.
    in_process = set(one.sets).isdisjoint({"malloc", "expandable_segments", "compile", "threads", "worker_threads"})
    return in_process and one.stage is not Stage.RANKS and unmet(one, ENVIRONMENT, workload) is None


def _stack(workload: Workload, order: list[Optimization], wanted: int, random: Random) -> Configuration:
    scope = scope_of(workload)
    config, options = scope.reference, ()
    for one in order:
        further = _with(one, options, random)
        entry = compare(scope, "stack", further)
        if isinstance(entry, Comparison) and len(options) < wanted:
            config, options = entry.treatment, further
    return config


def _with(one: Optimization, options: tuple[Option, ...], random: Random) -> tuple[Option, ...]:
    """The options, one more, and what it requires; nothing where a requirement cannot be met."""
    names = {option.name for option in options}
    added = [KNOWN[name] for name in (*one.requires, one.name) if name not in names]
    levels = [random.choice(FEW.get(each.name, each.levels) or (None,)) for each in added]
    new = (Option(name=each.name, level=level) for each, level in zip(added, levels, strict=True))
    return tuple(sorted((*options, *new)))


CONFIGS = list(stacks())


def trained() -> Iterator[Configuration]:
    """Every stack; or one of some of each workload, and then whichever has most of what is still missing."""
    if os.environ.get("SPEEDMATRIX_EXHAUSTIVE"):
        yield from CONFIGS
        return
    chosen = [
        config for name, part in PART.items() for config in [one for one in CONFIGS if one.workload == name][::part]
    ]
    yield from chosen
    missing = names_in(CONFIGS) - names_in(chosen)
    while missing:
        further = max(CONFIGS, key=lambda config: len(missing & names_in([config])))
        yield further
        missing -= names_in([further])


def names_in(configs: Iterable[Configuration]) -> set[str]:
    return {option.name for config in configs for option in config.options}


def everything_on(workload: Workload) -> Configuration:
    """What the matrix calls everything, but for what takes another process or a compiler; one loader worker."""
    options = tuple(
        replace(one, level=1) if one.name == "workers" else one
        for one in all_options(scope_of(workload))
        if _can_be_drawn(KNOWN[one.name], workload)
    )
    entry = compare(scope_of(workload), "all", options)
    assert isinstance(entry, Comparison), entry
    return entry.treatment


WHOLE = [everything_on(workload) for workload in CATALOGUE.workloads.values()]


def test_the_draw_has_stacks_of_all_sizes() -> None:
    sizes = Counter(len(config.options) for config in CONFIGS)
    assert len(CONFIGS) == sum(STACKS.values()) == 200
    assert set(STACKS) == set(CATALOGUE.workloads)
    assert min(sizes) <= 2
    assert max(sizes) >= 15
    assert len(sizes) >= 15


def test_every_optimization_that_can_be_drawn_is_in_some_stack() -> None:
    willing = {
        one.name
        for workload in CATALOGUE.workloads.values()
        for one in CATALOGUE.of(workload)
        if _can_be_drawn(one, workload)
    }
    assert willing <= names_in(CONFIGS) == names_in(trained())


def test_everything_is_nearly_all_that_the_matrix_switches_on() -> None:
    for config, workload in zip(WHOLE, CATALOGUE.workloads.values(), strict=True):
        left_out = {one.name for one in all_options(scope_of(workload))} - names_in([config])
        assert left_out <= {"compile", "allocator", "trainer_threads", "tuned_malloc"}


def trainable(config: Configuration) -> Configuration:
    """The configuration; where bfloat16 is emulated, without it wherever a step would take minutes."""
    rest = tuple(one for one in config.options if one.name != "amp_bfloat16")
    if BFLOAT16 or config.workload == QUICK or rest == config.options:
        return config
    entry = compare(scope_of(CATALOGUE.workloads[config.workload]), "stack", rest)
    return entry.treatment if isinstance(entry, Comparison) else config


def marked(config: Configuration) -> ParameterSet:
    is_quick = config in WHOLE and config.workload == QUICK
    return pytest.param(config, marks=[] if is_quick else [pytest.mark.thorough])


@pytest.mark.parametrize("config", [marked(config) for config in (*WHOLE, *trained())], ids=str)
def test_a_stack_trains(config: Configuration, smoke_data: dict[str, Path], request: pytest.FixtureRequest) -> None:
    if config.workload == "spoof" and AMX and {"amp_bfloat16", "se_resnet34"} <= names_in([config]):
        # Torch 2.11's oneDNN reads memory that nobody wrote, in 3x3 convolutions of stride 2 to maps of 4 by 1:
        # MALLOC_PERTURB_=128 makes it happen always, and ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 never.
        why = "bfloat16 convolutions on a processor with AMX read memory that nobody wrote"
        request.applymarker(pytest.mark.xfail(raises=Diverged, strict=False, reason=why))
    task = task_at(trainable(config), smoke_data[config.workload])
    with put_back():
        settle_backend(task.recipe)
        session = open_session(task)
        step = session.step()
        losses = [float(step()) for _ in range(STEPS)]
        session.feed.close()
    assert all(map(math.isfinite, losses)), losses
