"""Surroundings: what a machine tells of itself, and what is said of a GPU that cannot be measured."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.catalogue import read_catalogue
from harness.core.environment import differing
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.measure import surroundings
from harness.measure.gpu import Driver
from harness.measure.surroundings import (
    PACKAGES,
    SETTINGS,
    compiler_for,
    file_system,
    free_bytes,
    memory_limit_bytes,
    read_environment,
    unread,
    unused_gpu,
)
from harness.run.arm import DEVICE_ALLOCATOR, THRESHOLDS, launch_environment
from tests.measure.planted import Nvml, Refused

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
    driver = Driver(Nvml(nvmlDeviceGetMemoryInfo=[SimpleNamespace(free=5 * GIB), Refused()]))
    monkeypatch.setattr(surroundings, "driver_of", lambda: driver)
    host, device = free_bytes("cuda")
    assert host > 0
    assert device == 5 * GIB
    with pytest.raises(Mistake, match="no longer answers for the GPU"):
        free_bytes("cuda")


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
    assert not {*SETTINGS} & {*settled, *THRESHOLDS, *DEVICE_ALLOCATOR, "LD_PRELOAD"}
    assert len(set(SETTINGS)) == len(SETTINGS)


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        ("flags : fpu amx_bf16 amx_tile\n", ("amx_bf16",)),
        ("Features : fp bf16\n", ("bf16",)),
        ("flags : fpu avx512_bf16\n", ()),
        (None, None),
    ],
)
def test_flags_of_the_processor_are_recorded_or_unknown(
    facts: str | None, flags: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(surroundings, "CPU_FACTS", tmp_path / "cpuinfo")
    if facts is not None:
        (tmp_path / "cpuinfo").write_text(facts)
    assert read_environment("cpu").cpu_flags == flags


def test_installed_allocators_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "library_of", {"tcmalloc": "libtcmalloc.so.4"}.get)
    assert read_environment("cpu").allocators == ("tcmalloc",)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in place of the system's, of a machine without a GPU that NVML knows."""
    for name in ("NVIDIA_DRIVER", "AMD_DRIVER", "GRAPHICS"):
        monkeypatch.setattr(surroundings, name, tmp_path / name)
    monkeypatch.setattr(surroundings, "read_gpu", dict)
    return tmp_path


def card(machine: Path, vendor: str) -> None:
    (machine / "GRAPHICS/card0/device").mkdir(parents=True)
    (machine / "GRAPHICS/card0/device/vendor").write_text(f"{vendor}\n")


@pytest.mark.parametrize(
    ("file", "vendor", "build", "named"),
    [
        (None, None, "2.11.0", None),
        ("AMD_DRIVER", None, "2.11.0", "AMD"),
        (None, "0x1002", "2.11.0", "AMD"),
        (None, None, "2.11.0+rocm7.1", "AMD"),
        ("NVIDIA_DRIVER", None, "2.11.0", "NVIDIA"),
        (None, "0x8086", "2.11.0+xpu", "Intel"),
        (None, "0x8086", "2.11.0", None),
    ],
)
def test_a_gpu_that_cannot_be_measured_is_named(
    file: str | None, vendor: str | None, build: str, named: str | None, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "package_version", lambda _: build)
    if file:
        (machine / file).touch()
    if vendor:
        card(machine, vendor)
    sentence = unused_gpu()
    assert (named is None) == (sentence is None)
    assert named is None or (named in (sentence or "") and "--device cpu" in (sentence or ""))
    assert read_environment("auto").device == "cpu"
    with pytest.raises(Mistake, match=named or "No CUDA device answers"):
        read_environment("cuda")


@pytest.mark.parametrize(
    ("newest", "built_for", "named"),
    [
        ("13.0", "13.0", None), ("13.2", "13.0", None), ("13.0", "13.1", None), ("", "13.0", None),
        ("12.8", "13.0", "CUDA up to 12.8"), ("13.0", None, "built without CUDA"),
    ],
)  # fmt: skip
def test_a_gpu_that_the_installed_torch_cannot_use_is_a_mistake(
    newest: str, built_for: str | None, named: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "version.py").write_text(f"cuda = {built_for!r}\n")
    monkeypatch.setattr(surroundings, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    gpu = {"name": "NVIDIA H200", "memory": "1", "capability": "9.0", "driver": "570.1", "cuda": newest}
    monkeypatch.setattr(surroundings, "read_gpu", lambda: gpu)
    if named is None:
        assert read_environment("cuda").device == "cuda"
        return
    for device in ("auto", "cuda"):
        with pytest.raises(Mistake, match=named):
            read_environment(device)


def test_compiling_for_a_gpu_needs_a_compiler_of_c_and_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {"g++", "clang"}
    monkeypatch.setattr(surroundings.shutil, "which", lambda name: name if name in found else None)
    monkeypatch.setattr(surroundings.sysconfig, "get_path", lambda _: str(tmp_path))
    assert (compiler_for("cpu"), compiler_for("cuda")) == ("g++", None)
    (tmp_path / "Python.h").touch()
    assert compiler_for("cuda") == "clang"


def test_processors_of_one_name_are_told_apart_by_their_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for model in (1, 17):
        facts = tmp_path / "cpuinfo"
        facts.write_text(f"cpu family\t: 25\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\nstepping\t: 1\n")
        monkeypatch.setattr(surroundings, "CPU_FACTS", facts)
        found = read_environment("cpu")
        assert (found.cpu, found.cpu_design) == ("AMD EPYC", f"family 25, model {model}, stepping 1")
        digests.add(found.digest)
    assert len(digests) == 2


def test_a_workload_whose_reader_is_missing_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"torch": "2.11.0", "h5py": "3.12"}
    monkeypatch.setattr(surroundings, "package_version", there.get)
    monkeypatch.setattr(surroundings, "import_failure", lambda _: None)
    workloads = read_catalogue().workloads
    assert {one.reader for one in workloads.values()} <= {*PACKAGES, None}
    assert (unread(workloads["leak"]), unread(workloads["imagenet"])) == (None, None)
    assert unread(workloads["speaker"]) == "soundfile is not installed; pip install soundfile"
    assert unread(workloads["speaker"], [("soundfile", "0.13.1")]) is None, "the environment that is planned for has it"
    there.clear()
    assert unread(workloads["speaker"]) is None, "nothing is measured here"


def test_a_reader_that_is_installed_and_cannot_be_imported_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soundfile without cffi."""
    monkeypatch.setattr(surroundings, "package_version", {"torch": "2.11.0", "half_a_reader": "0.13.1"}.get)
    workload = replace(read_catalogue().workloads["speaker"], reader="half_a_reader")
    words = (
        "half_a_reader cannot be imported (No module named 'half_a_reader'); pip install half_a_reader adds what it "
        "lacks"
    )
    assert unread(workload) == words
    assert unread(workload, [("half_a_reader", "0.13.1")]) == words, "this machine's environment lists it too"
    assert unread(workload, [("half_a_reader", "0.14.0")]) is None, "the environment that is planned for has another"


def test_the_kind_of_file_system_is_told_by_the_nearest_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [("/", "overlay"), (str(tmp_path / "data"), "nfs4"), (str(tmp_path / "data2"), "tmpfs")]
    told = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: told)
    found = [file_system(tmp_path / name) for name in ("data/images", "data2", "other")]
    assert found == ["nfs4", "tmpfs", "overlay"]
    told.append(SimpleNamespace(mountpoint=str(tmp_path / "data2"), fstype="ext4"))
    assert file_system(tmp_path / "data2") == "ext4", "what is mounted over another counts"
    told.clear()
    assert file_system(tmp_path) == "an unknown file system"
