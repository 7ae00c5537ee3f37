"""The environment of an arm's process, and what a process shows of it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from harness.core import environment as allocator
from harness.core.configuration import inactive, unmet
from harness.core.recipe import Recipe, Value, patched
from harness.measure.observed_process import all_expandable
from harness.run.arm import KERNELS, THRESHOLDS, launch_environment, own_kernels, read_libraries
from tests.analyze.synthetic import ENVIRONMENT
from tests.measure.tasks import CATALOGUE

SHOW = """import json
from harness.measure import devices, observed_process
print(json.dumps(observed_process.of_launch(devices.Device('cpu'))))"""


def shown(environment: dict[str, str]) -> dict[str, Value]:
    return _shown(frozenset(environment.items()))


@cache  # each start takes seconds
def _shown(environment: frozenset[tuple[str, str]]) -> dict[str, Value]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=dict(environment), capture_output=True, text=True, check=True
    )
    found: dict[str, Value] = json.loads(done.stdout)
    return found


def launched(recipe: Recipe) -> dict[str, str]:
    """What an arm is started with, but for the name of the test."""
    return launch_environment(recipe, {name: one for name, one in os.environ.items() if name != "PYTEST_CURRENT_TEST"})


@pytest.mark.parametrize("malloc", ["tuned", "glibc"])
def test_a_process_shows_by_whose_rules_its_memory_is_served(malloc: str) -> None:
    environment = launched(patched(Recipe(), {"malloc": malloc}))
    assert (environment.items() >= THRESHOLDS.items()) == (malloc == "tuned")
    assert shown(environment)["malloc"] == malloc


def test_thresholds_that_are_set_after_all_are_seen() -> None:
    environment = launched(Recipe()) | THRESHOLDS
    assert inactive({"malloc": "glibc"}, shown(environment)) == ("malloc is tuned, not glibc",)


@pytest.mark.parametrize("name", allocator.STEMS)
def test_another_allocator_is_preloaded_and_its_functions_are_called(name: str) -> None:
    if (library := allocator.library_of(name)) is None:
        pytest.skip(f"needs {allocator.PACKAGES[name]}; would check that {name} serves a process that asks for it")
    environment = launched(patched(Recipe(), {"malloc": name}))
    assert environment["LD_PRELOAD"] == library
    assert not environment.keys() & THRESHOLDS.keys()
    assert shown(environment)["malloc"] == name
    del environment["LD_PRELOAD"]
    assert inactive({"malloc": name}, shown(environment)) == (f"malloc is glibc, not {name}",)


def test_a_library_is_found_where_the_loader_of_programs_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libtcmalloc_minimal.so.4").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = str(tmp_path / "libtcmalloc_minimal.so.4")
    assert allocator.library_of("tcmalloc") == found
    assert launched(Recipe(malloc="tcmalloc"))["LD_PRELOAD"] == found


def test_an_allocator_that_is_missing_has_words_for_each_level() -> None:
    optimization, leak = CATALOGUE.optimizations["allocator"], CATALOGUE.workloads["leak"]
    one, none = (replace(ENVIRONMENT, allocators=names) for names in (("jemalloc",), ()))
    assert unmet(optimization, one, leak, "jemalloc") is None
    assert unmet(optimization, one, leak) is None
    words = "needs the library of tcmalloc: apt-get install libtcmalloc-minimal4"
    assert unmet(optimization, one, leak, "tcmalloc") == words
    assert "jemalloc or tcmalloc" in (unmet(optimization, none, leak) or "")
    assert unmet(optimization, ENVIRONMENT, leak, "tcmalloc") is None  # nobody looked
    assert optimization.usual_level(replace(ENVIRONMENT, allocators=("tcmalloc",))) == "tcmalloc"


def test_what_the_harness_was_started_with_does_not_reach_its_arms() -> None:
    ours = {
        "LD_PRELOAD": "/usr/lib/libjemalloc.so.2:/usr/lib/other.so",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        "MALLOC_TRIM_THRESHOLD_": "1",
        "HOME": "/root",
    }
    plain = launch_environment(Recipe(), ours)
    assert plain["LD_PRELOAD"] == "/usr/lib/other.so"
    assert plain["HOME"] == "/root"
    assert "MALLOC_TRIM_THRESHOLD_" not in plain
    assert not [name for name in plain if name.endswith("ALLOC_CONF")]
    tuned = launch_environment(Recipe(malloc="tuned"), ours)
    assert tuned["MALLOC_TRIM_THRESHOLD_"] == THRESHOLDS["MALLOC_TRIM_THRESHOLD_"]


NO_GPU = "RuntimeError: No CUDA GPUs are available\n"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (subprocess.CompletedProcess("python", 0, stderr="UserWarning: old\n"), ""),
        (subprocess.CompletedProcess("python", 1, stderr=NO_GPU), NO_GPU.strip()),
        (subprocess.CompletedProcess("python", -11, stderr=""), "status -11"),
        (OSError("no more processes"), "no more processes"),
        (subprocess.TimeoutExpired("python", 60.0), "Command 'python' timed out after 60.0 seconds"),
    ],
    ids=["good", "failed", "killed", "not begun", "slow"],
)
def test_libraries_of_a_gpu_are_read_once_before_any_arm_and_a_failure_of_that_is_told(
    ended: subprocess.CompletedProcess[str] | Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command)
        if isinstance(ended, Exception):
            raise ended
        return ended

    monkeypatch.setattr("harness.run.arm.subprocess.run", run)
    read_libraries.cache_clear()
    try:
        found = [read_libraries(device) for device in ("cpu", "emulated:a100", "cuda", "cuda")]
    finally:
        read_libraries.cache_clear()
    assert found == ["", "", told, told]
    assert [command[-1] for command in started] == ["harness.measure.cuda"]


def test_what_a_shell_says_of_ranks_reaches_no_arm_but_for_their_interface() -> None:
    """`DETAIL` has every collective checked by another one: two ranks would pay for that, and one process would not."""
    shell = {
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
        "TORCH_NCCL_BLOCKING_WAIT": "1",
        "NCCL_PROTO": "LL",
        "NCCL_DEBUG": "INFO",
        "GLOO_DEVICE_TRANSPORT": "TCP_TLS",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    found = launch_environment(Recipe(ranks=2), shell)
    assert found.keys() & shell.keys() == {"NCCL_SOCKET_IFNAME"}
    told = launch_environment(Recipe(ranks=2, nccl_protocol="Simple"), shell)
    assert (told["NCCL_PROTO"], told["NCCL_DEBUG"]) == ("Simple", "INFO")
    assert "TORCH_DISTRIBUTED_DEBUG" not in told


def test_expandable_segments_are_asked_for_by_both_of_the_variable_s_names() -> None:
    found = launched(Recipe(expandable_segments=True))
    assert found["PYTORCH_ALLOC_CONF"] == found["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


def test_segments_can_grow_only_if_every_one_of_them_can() -> None:
    assert all_expandable([{"is_expandable": True}, {"is_expandable": True}])
    assert not all_expandable([{"is_expandable": True}, {"is_expandable": False}])
    assert not all_expandable([{}])
    assert not all_expandable([])


def test_the_threads_of_a_recipe_reach_every_library() -> None:
    environment = launched(Recipe(threads=2))
    assert {environment[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"2"}


def test_every_start_of_a_compiled_arm_finds_no_kernels_unless_a_folder_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KERNELS, raising=False)
    folders = [own_kernels(Recipe(compile="default")) for _ in range(2)]
    assert len({one.name for one in folders if one}) == 2
    for one in filter(None, folders):
        assert not list(Path(one.name).iterdir())
        one.cleanup()
    assert own_kernels(Recipe()) is None
    monkeypatch.setenv(KERNELS, "/some/folder")
    assert own_kernels(Recipe(compile="default")) is None


def test_all_cores_compile_and_nobody_else_starts_compilers() -> None:
    name, cores = "TORCHINDUCTOR_COMPILE_THREADS", len(os.sched_getaffinity(0))
    assert launched(patched(Recipe(), {"compile": "default"}))[name] == str(cores)
    assert launched(Recipe())[name] == "1"


COMPILERS = """import psutil, time
from torch._inductor.async_compile import AsyncCompile
from harness.measure.warm_up import end_compilers
AsyncCompile.process_pool().submit(int).result()
before = len(psutil.Process().children())
end_compilers()
print(before, len(psutil.Process().children()))"""


@pytest.mark.thorough
def test_compilers_end_before_anything_is_timed() -> None:
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILERS], env=environment, capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    assert before > 0
    assert after == 0
