"""Options that act on a GPU engage there; without one each test says what it would have checked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.configuration import compose, expected, parse_option, unmet
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.recipe import Recipe
from harness.measure.devices import settle_backend
from harness.measure.trial import begin
from tests.measure.settings import FLOAT32_COMPILED, put_back
from tests.measure.tasks import CATALOGUE, ENVIRONMENT, task_of
from tests.measure.test_gpu import gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _settings_put_back() -> Iterator[None]:
    with put_back():
        yield
    settle_backend(Recipe())


def proof_of(options: tuple[str, ...]) -> dict[str, Any]:
    """All that the options of a stack promise."""
    known = [parse_option(one) for one in options]
    return {
        name: value for one in known for name, value in expected(CATALOGUE.optimizations[one.name], one.level).items()
    }


STACKS = [
    ("leak", "cudnn_deterministic"),
    ("leak", "fused_optimizer"),
    ("leak", "foreach_optimizer+foreach_clipping"),
    ("leak", "data_on_device"),
    ("leak", "device_spec_augment"),
    ("speaker", "activation_checkpointing"),
    ("leak", "set_to_none+deferred_metrics+non_blocking+pin_memory+workers=2+persistent_workers"),
    ("speaker", "device_mixing"),
    ("spoof", "device_mel"),
    ("patches3d", "device_augmentation"),
    ("patches3d", "amp_bfloat16+channels_last_3d"),
    ("imagenet", "local_copy+uint8_transfer"),
    ("imagenet", "local_copy+gpu_decoding"),
    ("imagenet", "local_copy+channels_last+amp_bfloat16+cudnn_benchmark"),
]
EVALUATIONS = [
    ("spoof", "evaluation_workers=2+evaluation_persistent_workers+evaluation_pin_memory+evaluation_non_blocking"),
    ("leak", "evaluation_workers=2+evaluation_pin_memory+evaluation_non_blocking+evaluation_autocast=float16"),
]
SLOW = [("leak", "compile=default")]


@pytest.mark.parametrize(
    ("workload", "stack"), [*STACKS, *(pytest.param(*one, marks=[pytest.mark.thorough]) for one in SLOW)]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", FLOAT32_COMPILED)
def test_a_stack_engages_on_a_gpu(workload: str, stack: str, written_data: dict[str, Path]) -> None:
    gpu(f"all that {stack} promises on {workload} takes effect, and a window of it is timed")
    options = tuple(stack.split("+"))
    task = task_of(workload, written_data[workload], options, device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, proof_of(options), other_seeds=False)
    window = trial.window(lead=1, steps=8)
    trial.session.feed.close()
    assert ready["inactive"] == ()
    assert window["device_s"] > 0


@pytest.mark.parametrize(("workload", "stack"), EVALUATIONS)
def test_an_evaluation_engages_on_a_gpu(workload: str, stack: str, written_data: dict[str, Path]) -> None:
    gpu(f"all that {stack} promises of evaluations of {workload} takes effect, and a pass is timed")
    options = tuple(stack.split("+"))
    task = task_of(workload, written_data[workload], options, device="cuda")
    trial, ready = begin(task, Timing.EVALUATION, BRIEF, proof_of(options), other_seeds=False)
    assert ready["inactive"] == ()
    assert trial.window(lead=1, steps=1)["wall_s"] > 0
    trial.session.feed.close()


@pytest.mark.parametrize(("workload", "stack"), [*STACKS, *EVALUATIONS, *SLOW])
def test_every_stack_here_can_be_planned_for_a_gpu(workload: str, stack: str) -> None:
    """Needs no GPU itself: what a workload does not offer would never engage."""
    there, environment = CATALOGUE.workloads[workload], replace(ENVIRONMENT, device="cuda", compiler="g++", cores=8)
    options = tuple(map(parse_option, stack.split("+")))
    compose(there, options, CATALOGUE.optimizations)
    known = CATALOGUE.optimizations
    assert [unmet(known[one.name], environment, there, one.level) for one in options] == [None] * len(options)


def test_every_switch_that_needs_cuda_has_a_test_here() -> None:
    """Needs no GPU itself: it reads the tests beside it."""
    needing = {
        name
        for name, one in CATALOGUE.optimizations.items()
        if any(need.missing == "needs a CUDA device" for need in one.needs)
    }
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_gpu*.py")))
    assert len(needing) > 5
    assert [name for name in sorted(needing) if f"{name}" not in tests] == []
