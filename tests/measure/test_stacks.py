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

from harness.core.cell import Cell, Comparison, Switch, unmet
from harness.core.optimization import Optimization
from harness.core.workload import Workload
from harness.measure.device import settle_backend
from harness.measure.loop import Diverged
from harness.measure.session import open_session
from harness.plan.feasibility import compare, everything
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


def stacks() -> Iterator[Cell]:
    """Stacks of each workload, their sizes spread evenly from one switch to all that go together."""
    random = Random(SEED)
    for name, times in STACKS.items():
        workload = CATALOGUE.workloads[name]
        willing = [one for one in CATALOGUE.of(workload) if _can_be_drawn(one, workload)]
        for _ in range(times):
            yield _stack(workload, random.sample(willing, len(willing)), random.randint(1, len(willing)), random)


def _can_be_drawn(one: Optimization, workload: Workload) -> bool:
    # A compiler takes minutes, and launch settings are another process's; both have tests of their own.
    # Where some test has computed with several threads, a worker forked with several of its own waits for ever.
    in_process = set(one.sets).isdisjoint({"malloc", "expandable_segments", "compile", "threads", "worker_threads"})
    return in_process and unmet(one, ENVIRONMENT, workload) is None


def _stack(workload: Workload, order: list[Optimization], wanted: int, random: Random) -> Cell:
    scope = scope_of(workload)
    cell, switches = scope.reference, ()
    for one in order:
        further = _with(one, switches, random)
        entry = compare(scope, "stack", further)
        if isinstance(entry, Comparison) and len(switches) < wanted:
            cell, switches = entry.treatment, further
    return cell


def _with(one: Optimization, switches: tuple[Switch, ...], random: Random) -> tuple[Switch, ...]:
    """The switches, one more, and what it requires; nothing where a requirement cannot be met."""
    names = {switch.name for switch in switches}
    added = [KNOWN[name] for name in (*one.requires, one.name) if name not in names]
    levels = [random.choice(FEW.get(each.name, each.levels) or (None,)) for each in added]
    new = (Switch(name=each.name, level=level) for each, level in zip(added, levels, strict=True))
    return tuple(sorted((*switches, *new)))


CELLS = list(stacks())


def trained() -> Iterator[Cell]:
    """Every stack; or one of some of each workload, and then whichever has most of what is still missing."""
    if os.environ.get("SPEEDMATRIX_EXHAUSTIVE"):
        yield from CELLS
        return
    chosen = [cell for name, part in PART.items() for cell in [one for one in CELLS if one.workload == name][::part]]
    yield from chosen
    missing = names_in(CELLS) - names_in(chosen)
    while missing:
        further = max(CELLS, key=lambda cell: len(missing & names_in([cell])))
        yield further
        missing -= names_in([further])


def names_in(cells: Iterable[Cell]) -> set[str]:
    return {switch.name for cell in cells for switch in cell.switches}


def everything_on(workload: Workload) -> Cell:
    """What the matrix calls everything, but for what takes another process or a compiler; one loader worker."""
    switches = tuple(
        replace(one, level=1) if one.name == "workers" else one
        for one in everything(scope_of(workload))
        if _can_be_drawn(KNOWN[one.name], workload)
    )
    entry = compare(scope_of(workload), "everything", switches)
    assert isinstance(entry, Comparison), entry
    return entry.treatment


WHOLE = [everything_on(workload) for workload in CATALOGUE.workloads.values()]


def test_the_draw_has_stacks_of_all_sizes() -> None:
    sizes = Counter(len(cell.switches) for cell in CELLS)
    assert len(CELLS) == sum(STACKS.values()) == 200
    assert set(STACKS) == set(CATALOGUE.workloads)
    assert min(sizes) == 1
    assert max(sizes) >= 15
    assert len(sizes) >= 15


def test_every_optimization_that_can_be_drawn_is_in_some_stack() -> None:
    willing = {
        one.name
        for workload in CATALOGUE.workloads.values()
        for one in CATALOGUE.of(workload)
        if _can_be_drawn(one, workload)
    }
    assert willing <= names_in(CELLS) == names_in(trained())


def test_everything_is_nearly_all_that_the_matrix_switches_on() -> None:
    for cell, workload in zip(WHOLE, CATALOGUE.workloads.values(), strict=True):
        left_out = {one.name for one in everything(scope_of(workload))} - names_in([cell])
        assert left_out <= {"compile", "allocator", "trainer_threads", "tuned_malloc"}


def trainable(cell: Cell) -> Cell:
    """The cell; where bfloat16 is emulated, without it wherever a step would take minutes."""
    rest = tuple(one for one in cell.switches if one.name != "amp_bfloat16")
    if BFLOAT16 or cell.workload == QUICK or rest == cell.switches:
        return cell
    entry = compare(scope_of(CATALOGUE.workloads[cell.workload]), "stack", rest)
    return entry.treatment if isinstance(entry, Comparison) else cell


def marked(cell: Cell) -> ParameterSet:
    is_quick = cell in WHOLE and cell.workload == QUICK
    return pytest.param(cell, marks=[] if is_quick else [pytest.mark.thorough])


@pytest.mark.parametrize("cell", [marked(cell) for cell in (*WHOLE, *trained())], ids=str)
def test_a_stack_trains(cell: Cell, smoke_data: dict[str, Path], request: pytest.FixtureRequest) -> None:
    if cell.workload == "spoof" and AMX and {"amp_bfloat16", "se_resnet34"} <= names_in([cell]):
        # Torch 2.11's oneDNN reads memory that nobody wrote, in 3x3 convolutions of stride 2 to maps of 4 by 1:
        # MALLOC_PERTURB_=128 makes it happen always, and ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 never.
        why = "bfloat16 convolutions on a processor with AMX read memory that nobody wrote"
        request.applymarker(pytest.mark.xfail(raises=Diverged, strict=False, reason=why))
    task = task_at(trainable(cell), smoke_data[cell.workload])
    with put_back():
        settle_backend(task.recipe)
        session = open_session(task)
        step = session.step()
        losses = [float(step()) for _ in range(STEPS)]
        session.feed.close()
    assert all(map(math.isfinite, losses)), losses
