"""The examples that CONTRIBUTING.md gives are true: the workload trains, the optimization can be composed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.catalogue import read_workload
from harness.core.configuration import Option, compose, expected, inactive, unmet
from harness.core.environment import Environment
from harness.core.optimization import Optimization
from harness.core.recipe import Recipe
from harness.core.workload import Workload
from harness.measure.devices import device_named, effective_backend, settle_backend
from harness.measure.session import Session, Task, open_session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def workload() -> Workload:
    """The example workload, found as a user's own file is."""
    return read_workload(ROOT / "docs/example_workload.py")


@pytest.fixture
def session(workload: Workload, tmp_path: Path) -> Iterator[Session]:
    """The example, ready to take steps with nothing switched on."""
    torch.set_num_threads(1)
    size = workload.sizes["smoke"]
    assert list(workload.parts().prepare(tmp_path, size))[-1] == 1.0
    found = open_session(
        Task(
            parts=workload.parts(),
            size=size,
            recipe=Recipe(),
            data=tmp_path,
            device=device_named("cpu"),
            seed=0,
            endless=True,
        )
    )
    yield found
    found.feed.close()


@pytest.fixture(scope="module")
def optimization() -> Optimization:
    """The example optimization, as it stands on the page."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    module: dict[str, object] = {}
    exec(next(block for block in blocks if "OPTIMIZATION =" in block), module)  # noqa: S102  a page of our own
    found = module["OPTIMIZATION"]
    assert isinstance(found, Optimization)
    return found


def test_the_example_workload_learns_in_three_steps(session: Session) -> None:
    step = session.step()
    losses = [float(step()) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]


def test_the_example_workload_states_what_it_is(session: Session, workload: Workload, tmp_path: Path) -> None:
    assert sum(one.numel() for one in session.trainee.model.parameters()) == workload.parameters
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= workload.sizes["smoke"].data_bytes
    step = session.step()
    for _ in range(64):
        step()
    evaluation = session.evaluate()
    assert evaluation.items == workload.sizes["smoke"].evaluation_items
    assert evaluation.score > 0.9


def test_the_example_workload_fits_on_a_page() -> None:
    assert len((ROOT / "docs/example_workload.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_example_optimization_is_a_file_of_ours() -> None:
    text = (ROOT / "harness/optimizations/trainer_threads.py").read_text(encoding="utf-8")
    assert f"```python\n{text}```" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_example_optimization_engages(optimization: Optimization, workload: Workload) -> None:
    level = optimization.levels[0]
    option = Option(name=optimization.name, level=level)
    settle_backend(compose(workload, [option], {optimization.name: optimization}))
    seen = effective_backend()
    torch.set_num_threads(1)
    assert inactive(expected(optimization, level), seen) == ()
    assert inactive(expected(optimization, level), effective_backend()) != ()


def test_the_example_optimization_needs_what_it_says(optimization: Optimization, workload: Workload) -> None:
    facts = {"accelerator": None, "accelerator_memory_bytes": None, "capability": None, "driver": None}
    lone = Environment(
        **facts,
        device="cpu",
        cpu="",
        cores=1,
        memory_bytes=1,
        system="",
        python="",
        compiler=None,
        packages=(),
    )
    assert unmet(optimization, lone, workload) == "needs at least two CPU cores"
