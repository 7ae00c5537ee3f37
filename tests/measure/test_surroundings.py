"""Free memory: what is told of it bounds how many arms may live at once."""

import psutil
import pytest

from harness.core.environment import differing
from harness.core.recipe import Recipe
from harness.measure import surroundings
from harness.measure.surroundings import free_bytes, memory_limit_bytes, read_environment
from harness.measure.variables import SETTINGS
from harness.run.arm import ALLOCATOR, DEVICE_ALLOCATOR, launch_environment

GIB = 1 << 30


def test_free_memory_is_some_of_what_there_is() -> None:
    (host,) = free_bytes("cpu")
    assert 0 < host <= memory_limit_bytes()


def test_the_control_group_counts_where_it_leaves_less(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, int | None] = {"memory.max": 4 * GIB, "memory.current": 3 * GIB}
    monkeypatch.setattr(surroundings, "_cgroup_bytes", known.get)
    monkeypatch.setattr(surroundings, "_cgroup_reclaimable_bytes", lambda: GIB // 2)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 100 * GIB}))
    assert free_bytes("cpu") == (3 * GIB // 2,), "what is not taken, and pages of files that can be dropped"
    known["memory.max"] = None
    assert free_bytes("cpu") == (100 * GIB,)


def test_a_device_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_gpu_free_bytes", lambda: 5 * GIB)
    host, device = free_bytes("cuda")
    assert host > 0
    assert device == 5 * GIB


def test_what_the_shell_has_set_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    usual = read_environment("cpu")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("HOME", "/somewhere")
    slowed = read_environment("cpu")
    assert slowed.variables == (("ONEDNN_MAX_CPU_ISA", "AVX2"),)
    assert list(differing(usual, slowed)) == [("ONEDNN_MAX_CPU_ISA", None, "AVX2")]
    assert usual.digest != slowed.digest


def test_no_variable_that_a_recipe_settles_itself_is_counted() -> None:
    settled = launch_environment(Recipe(), {})
    assert not {*SETTINGS} & {*settled, *ALLOCATOR, *DEVICE_ALLOCATOR, "LD_PRELOAD"}
    assert len(set(SETTINGS)) == len(SETTINGS)
