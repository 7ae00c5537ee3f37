"""What only a GPU can show; without one each test says what it would have checked."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.core.configuration import Conflict, compose, parse_option
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.measure.cuda import Cuda
from harness.measure.devices import settle_backend, timed
from harness.measure.phases import EventPhases
from harness.measure.session import open_session
from harness.measure.step import EAGER_STEPS, StepGraph, trained_by
from harness.measure.trial import begin
from tests.measure.settings import FLOAT32_COMPILED
from tests.measure.tasks import CATALOGUE, task_of

pytestmark = pytest.mark.gpu


def gpu(what: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip(f"needs a CUDA device; would check that {what}")


def test_events_bound_the_copy_and_the_device_s_span_without_a_sync() -> None:
    gpu("copies and kernels are timed by events that are read when a window is over")
    phases, device = EventPhases(Cuda("cuda")), Cuda("cuda")
    source = torch.ones(1 << 24).pin_memory()
    square = torch.ones(4096, 4096, device=device.torch)
    copy = phases.copying(lambda batch: batch.to(device.torch, non_blocking=True))
    update = phases.finishing(lambda: torch.mm(square, square))

    def step() -> None:
        copy(source)
        update()

    step()
    device.synchronize()
    phases.split()
    wall_s = timed(step, 10, device)
    split = phases.split()
    assert split.device_s is not None
    assert 0 < split.copy_s < wall_s
    assert 0 < split.device_s < wall_s
    assert phases.split().copy_s == 0


@pytest.mark.parametrize(
    ("stack", "proof"),
    [
        (("pin_memory", "non_blocking"), {"pinned_batches": True, "overlapping_copies": True}),
        (("amp_float16",), {"float16_layers": True}),
        (("tf32_matmul", "tf32_convolutions"), {"reduced_products": True, "reduced_convolutions": True}),
        (("medium_matmul_precision",), {"reduced_products": True, "reduced_convolutions": False}),
        (("cudnn_benchmark",), {"cudnn_benchmark": True, "reduced_products": False, "reduced_convolutions": False}),
        (("in_place_activations",), {"in_place_activations": True}),
        (("cuda_graph", "fused_optimizer"), {"cuda_graph": True, "optimizer_kernel": "fused"}),
        (("channels_last", "amp_bfloat16"), {"memory_format": "channels_last", "bfloat16_layers": True}),
    ],
)
def test_settings_that_need_cuda_engage(
    stack: tuple[str, ...], proof: dict[str, bool | str], smoke_data: dict[str, Path]
) -> None:
    gpu(f"{' and '.join(stack)} engage on the leak workload")
    task = task_of("leak", smoke_data["leak"], stack, device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, dict(proof), other_seeds=True)
    assert ready["inactive"] == ()
    window = trial.window(lead=1, steps=8)
    assert window["device_s"] is not None
    assert window["device_bytes"] > 0
    trial.session.feed.close()


def losses_of(workload: str, folder: Path, *names: str) -> list[float]:
    """The first losses on the GPU, past the step that is captured."""
    task = task_of(workload, folder, names, device="cuda")
    settle_backend(task.recipe)
    session = open_session(task)
    step = session.step()
    losses = [float(step()) for _ in range(EAGER_STEPS + 3)]
    session.feed.close()
    return losses


@pytest.mark.parametrize("workload", ["leak", "speaker", "spoof", "imagenet"])
def test_a_captured_step_trains_as_the_written_one_does(workload: str, smoke_data: dict[str, Path]) -> None:
    gpu("losses before, in and after the capture are close to those of the step that is not captured")
    folder = smoke_data[workload]
    plain, captured = losses_of(workload, folder), losses_of(workload, folder, "cuda_graph")
    assert captured[0] == pytest.approx(plain[0], rel=1e-5)
    assert captured == pytest.approx(plain, rel=0.02)
    assert len(set(captured)) == len(captured), "a replay trains on, and on another batch"


def test_a_captured_step_can_be_interrupted_by_eager_ones(smoke_data: dict[str, Path]) -> None:
    gpu("replays go on after a whole trial, whose evidence takes eager steps on the same weights")
    task = task_of("leak", smoke_data["leak"], ("cuda_graph", "set_to_none", "deferred_metrics"), device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, {"cuda_graph": True}, other_seeds=True)
    graph = trial.session.trainee.graph
    assert ready["inactive"] == ()
    assert graph is not None
    before = graph.replays
    window = trial.window(lead=1, steps=8)
    assert graph.replays - before >= window["steps"]
    assert window["device_s"] > 0
    trial.session.feed.close()


# In a process of its own: up to torch 2.11 a capture that failed leaves the process unable to compute on.
REFUSED_CAPTURE = """
import sys
from pathlib import Path
from tests.measure.test_gpu import refused_capture
print(refused_capture(Path(sys.argv[1])))
"""


def refused_capture(folder: Path, device: str = "cuda") -> str:
    """What is raised by the capture of a step that reads a value back."""
    task = replace(task_of("leak", folder, ("cuda_graph",)), device=Cuda(device))
    trainee = open_session(task).trainee
    reading = replace(trainee.bound, loss=lambda outputs, _: outputs[0].sum() * float(outputs[0].sum().item()))
    graph = StepGraph(trained_by(reading, lambda: None), task.device)
    inputs, targets = torch.rand(4, 1, 64, 1, device=device), torch.zeros(4, dtype=torch.long, device=device)
    for _ in range(EAGER_STEPS):
        graph(inputs, targets)
    try:
        graph(inputs, targets)
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_a_step_that_waits_for_the_device_cannot_be_captured(smoke_data: dict[str, Path]) -> None:
    gpu("a loss that is read back makes the capture an error and not a step that leaves it out")
    command = [sys.executable, "-c", REFUSED_CAPTURE, str(smoke_data["leak"])]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert "captur" in done.stdout


@pytest.mark.parametrize("workload", ["speaker", "spoof"])
def test_weights_updated_in_the_backward_pass_are_the_same_on_the_gpu(
    workload: str, smoke_data: dict[str, Path]
) -> None:
    gpu("an optimizer for each weight gives the first losses of one for all")
    ours = losses_of(workload, smoke_data[workload], "update_in_backward", "cudnn_deterministic")
    assert ours == pytest.approx(losses_of(workload, smoke_data[workload], "cudnn_deterministic"), rel=1e-3)


def test_volumes_are_channels_last_on_the_gpu(smoke_data: dict[str, Path]) -> None:
    gpu("the convolutions of patches3d compute in channels_last_3d")
    task = task_of("patches3d", smoke_data["patches3d"], ("channels_last_3d",), device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, {"memory_format_3d": "channels_last_3d"}, other_seeds=False)
    assert ready["inactive"] == ()
    trial.session.feed.close()


@pytest.mark.thorough
@pytest.mark.parametrize("stack", ["set_to_none", "", "gradient_accumulation=2"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", FLOAT32_COMPILED)
def test_reduce_overhead_records_cuda_graphs(stack: str, smoke_data: dict[str, Path]) -> None:
    gpu("compile=reduce-overhead records graphs of both passes, whether gradients are dropped, kept or added up")
    names = ("compile=reduce-overhead", *filter(None, [stack]))
    task = task_of("leak", smoke_data["leak"], names, device="cuda")
    proof = {"compiled": True, "micro_batches": task.recipe.micro_batches}
    trial, ready = begin(task, Timing.STEP, BRIEF, dict(proof), other_seeds=False)
    assert ready["inactive"] == ()
    assert ready["effective"]["cuda_graphs"] > 0
    assert trial.window(lead=1, steps=8)["steps"] == 8
    trial.session.feed.close()


def test_reduce_overhead_never_adds_up_gradients_that_are_dropped() -> None:
    """Needs no GPU itself: the fourth of these stacks is refused."""
    names = ("compile=reduce-overhead", "set_to_none", "gradient_accumulation=2")
    with pytest.raises(Conflict, match="exclude set_to_none"):
        compose(CATALOGUE.workloads["leak"], tuple(map(parse_option, names)), CATALOGUE.optimizations)
