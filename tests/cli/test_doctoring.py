"""The doctor's look at a GPU, with a driver that was planted."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from harness import api
from harness.cli import campaign as campaigning
from harness.cli import checks as doctoring
from harness.cli import measuring
from harness.cli.checks import Finding, examine, show_health
from harness.core.mistake import Mistake
from harness.measure import surroundings
from harness.measure.surroundings import SETTINGS
from harness.run.preparation import Place
from harness.search import QualityClass
from tests.measure.planted import Nvml, Refused, Running
from tests.test_auto_level import request_of

CLOCKS = {1: 345, 2: 3201}
HEALTHY: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
    "nvmlDeviceGetName": lambda _: "NVIDIA H200",
    "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=143771 << 20),
    "nvmlSystemGetDriverVersion": lambda: "580.159.03",
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlDeviceGetClockInfo": lambda _, kind: CLOCKS[kind],
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetTotalEccErrors": 0,
}
ASKED_FOR = ("GPU clocks", "GPU power limit", "GPU persistence mode", "GPU memory errors")


def findings(monkeypatch: pytest.MonkeyPatch, folder: Path, **answers: Any) -> dict[str, Finding]:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(**HEALTHY | answers))  # type: ignore[arg-type]
    return {one.what: one for one in examine(folder, folder)}


@pytest.fixture(autouse=True)
def _no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "nobody"))


def test_a_healthy_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = findings(monkeypatch, tmp_path)
    assert seen["GPU clocks"].found == "345 MHz now, 1,980 MHz at most, memory 3,201 MHz"
    assert seen["GPU power limit"].found == "700 W"
    assert seen["GPU persistence mode"].found == "on"
    assert seen["GPU memory errors"].found == "0"
    assert seen["processes on the GPU"].found == "0"
    assert seen["Multi-Process Service"].found == "absent"
    assert {seen[what].grade for what in (*ASKED_FOR, "Multi-Process Service")} == {"good"}


def test_a_part_of_a_gpu_tells_little_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = {name: Refused() for name in HEALTHY if name.startswith("nvmlDeviceGet") and name not in KNOWN}
    seen = findings(monkeypatch, tmp_path, **silent)
    assert seen["GPU clocks"].found.count("not told by the driver") == 3
    assert {seen[what].found for what in ASKED_FOR[1:]} == {"not told by the driver"}
    assert seen["processes on the GPU"].found == "not told by the driver"
    assert {seen[what].grade for what in ASKED_FOR} == {"good"}


KNOWN = {f"nvmlDeviceGet{name}" for name in ("HandleByIndex", "CudaComputeCapability", "Name", "MemoryInfo")}


def test_what_slows_or_spoils_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {
        "nvmlDeviceGetPersistenceMode": 0,
        "nvmlDeviceGetTotalEccErrors": 3,
        "nvmlDeviceGetComputeRunningProcesses": [Running(1)],
    }
    seen = findings(monkeypatch, tmp_path, **bad)
    assert (seen["GPU persistence mode"].grade, seen["GPU persistence mode"].found) == ("note", "off")
    assert (seen["GPU memory errors"].grade, seen["GPU memory errors"].found) == ("bad", "3")
    assert (seen["processes on the GPU"].grade, seen["processes on the GPU"].found) == ("note", "1")
    assert "cannot be trusted" in seen["GPU memory errors"].advice
    assert show_health(tmp_path, tmp_path) == 1
    assert "bad" in capsys.readouterr().out


def test_a_service_between_programs_and_device_is_seen_by_its_pipes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "control").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    seen = findings(monkeypatch, tmp_path)["Multi-Process Service"]
    assert (seen.grade, seen.found) == ("note", f"pipes in {tmp_path}")
    assert "nvidia-cuda-mps-control" in seen.advice


def test_a_service_between_programs_and_device_is_seen_by_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = [SimpleNamespace(info={"name": name}) for name in ("python", "nvidia-cuda-mps-server")]
    monkeypatch.setattr(psutil, "process_iter", lambda _: running)
    seen = findings(monkeypatch, tmp_path)["Multi-Process Service"]
    assert (seen.grade, seen.found) == ("note", "nvidia-cuda-mps-server is running")


def test_variables_that_a_shell_has_set_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert findings(monkeypatch, tmp_path)["variables"].grade == "good"
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("OMP_PROC_BIND", "")  # as if it were not set
    seen = findings(monkeypatch, tmp_path)["variables"]
    assert (seen.grade, seen.found) == ("note", "CUDA_LAUNCH_BLOCKING=1")
    assert "unset" in seen.advice


@pytest.mark.parametrize(("answer", "grade"), [(True, "note"), (False, "good"), (None, None)])
def test_convolutions_are_tried_where_the_cpu_is_measured(
    answer: bool | None, grade: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctoring, "reads_unwritten", lambda: answer)
    what = "convolutions in bfloat16"
    assert what not in findings(monkeypatch, tmp_path)  # a GPU answers
    monkeypatch.setattr(doctoring, "read_gpu", dict)
    seen = {one.what: one for one in examine(tmp_path, tmp_path)}
    assert (seen[what].grade if what in seen else None) == grade


@pytest.mark.gpu
def test_the_doctor_knows_the_gpu_at_hand(tmp_path: Path) -> None:
    from harness.measure.surroundings import read_gpu

    if not read_gpu():
        pytest.skip("needs a CUDA device; would check that its clocks and power limit are told, and that no MPS runs")
    seen = {one.what: one for one in examine(tmp_path, tmp_path)}
    assert "MHz" in seen["GPU clocks"].found
    assert seen["GPU power limit"].found.endswith(" W")
    assert seen["GPU memory errors"].grade == "good"
    assert seen["Multi-Process Service"].found == "absent"


@pytest.mark.parametrize(("there", "found"), [(True, "one that is not used"), (False, "none answers")])
def test_a_gpu_that_cannot_be_measured_is_told(
    there: bool, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant_amd(monkeypatch, tmp_path, there=there)
    monkeypatch.setattr(doctoring, "reads_unwritten", lambda: None)
    seen = {one.what: one for one in examine(tmp_path, tmp_path)}["GPU"]
    assert (seen.grade, seen.found) == ("note", found)
    assert ("AMD" in seen.advice) == there


def run_it(device: str, place: Place) -> int:
    return measuring.measure(request_of(device=device), place)


def find_the_best(device: str, place: Place) -> int:
    asked = request_of(device=device, only=("set_to_none",))
    return measuring.best(asked, QualityClass.EXACT, place, as_json=False)


def campaign(device: str, place: Place) -> int:
    return campaigning.campaign(request_of(device=device), 30.0, place)


@pytest.mark.parametrize("command", [run_it, find_the_best, campaign])
@pytest.mark.parametrize(("device", "told"), [("auto", True), ("cpu", False)])
def test_what_measures_says_that_it_measures_the_cpu_beside_a_gpu(
    command: Callable[[str, Place], int], device: str, told: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def ended() -> None:
        raise Mistake("enough")

    plant_amd(monkeypatch, tmp_path, there=True)
    for module in (api, campaigning, measuring):
        monkeypatch.setattr(module, "measuring_alone", ended)
    with pytest.raises(Mistake, match="enough"):
        command(device, Place(results=tmp_path, data=None, budget="none", fresh=True))
    assert ("AMD" in capsys.readouterr().err) == told


def plant_amd(monkeypatch: pytest.MonkeyPatch, folder: Path, *, there: bool) -> None:
    """A machine on which NVML is not installed, with or without the device of AMD's driver."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in ("NVIDIA_DRIVER", "AMD_DRIVER", "GRAPHICS"):
        monkeypatch.setattr(surroundings, name, folder / name)
    if there:
        (folder / "AMD_DRIVER").touch()
