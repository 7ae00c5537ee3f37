"""`sweep`: step times as they are typed, and runs of several emulated devices in one table and figure."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.invented.rehearsal import Effects
from harness.analyze.matrix import Matrix
from harness.analyze.sweep import known_times
from harness.catalogue import read_catalogue
from harness.cli import sweeping
from harness.cli.sweeping import entries, show, show_steps, step_times, sweep
from harness.core.configuration import Configuration, Option
from harness.core.emulation import times_in
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.report.figures import MARK
from harness.results import matrix_of
from harness.run.preparation import Place, prepared
from tests.analyze.machines import rehearsed


def test_figures_that_cannot_be_written_are_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = Place(results=tmp_path / "results", data=tmp_path, budget="none")
    with pytest.raises(Mistake, match=r"Cannot make .*file .*; name a folder with --figures\."):
        sweep(Request(workloads=("leak",), size="smoke"), "2ms,5ms", place, "terminal", None, tmp_path / "file")


def test_step_times_are_spaced_or_named() -> None:
    assert step_times("2ms..2s/4") == ("emulated:2ms", "emulated:20ms", "emulated:200ms", "emulated:2000ms")
    assert step_times("5ms, 1.5s") == ("emulated:5ms", "emulated:1.5s")
    assert step_times("6ms,6ms,20ms") == ("emulated:6ms", "emulated:20ms")


@pytest.mark.parametrize("text", ["2ms..2s", "2ms..2s/1", "2ms..2s/x", "2..3/4", "x..2s/3", "2ms..0s/3"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(Mistake, match="write"):
        step_times(text)


def test_known_devices_stand_at_what_a_sample_takes_them_in_the_real_system() -> None:
    workload = read_catalogue(ledger=False).workloads["imagenet"]
    config = Configuration(workload="imagenet", size="quick", batch=16)
    found = known_times(workload, config)
    assert list(found)[-1] == "T4"
    assert found["A100"].step_s == pytest.approx(16 / 2470, rel=0.01), "in bfloat16, as is published"
    assert found["T4"].step_s == pytest.approx(16 / 130, rel=0.01), "which has no bfloat16"
    assert found["T4"].least_s < found["T4"].step_s < found["T4"].most_s
    launched = known_times(workload, config, host_s=0.512)
    assert launched["A100"].step_s == pytest.approx(0.032), "256 samples, of which these are 16, in 512 ms"
    assert launched["A100"].most_s == launched["A100"].step_s, "whatever the device takes"
    assert launched["T4"].step_s == found["T4"].step_s, "which takes longer than its host"


def test_a_workload_that_takes_other_times_than_rates_say_stands_at_its_own() -> None:
    workload = read_catalogue(ledger=False).workloads["leak"]
    found = known_times(workload, Configuration(workload="leak", size="standard", batch=5632))
    assert found["A100"].step_s == pytest.approx(0.0272, rel=0.01)
    assert found["H200"].step_s == pytest.approx(0.01156, rel=0.01)


def test_no_device_stands_beside_samples_that_load_in_a_hundredth_of_the_real_time() -> None:
    workload = read_catalogue(ledger=False).workloads["patches3d"]
    sizes = {
        size: known_times(workload, Configuration(workload="patches3d", size=size, batch=1))
        for size in ("quick", "standard")
    }
    assert not sizes["quick"]
    assert "A100" in sizes["standard"]


def invented(device: str, gain: float) -> Matrix:
    """A run whose times are invented."""
    only = ("local_copy", "direct_collate", "amp_bfloat16")
    request = Request(workloads=("imagenet",), only=only, device=device, target="none")
    ready = prepared(request)
    return rehearsed(ready.environment, ready, Effects({"local_copy": gain, "direct_collate": 1.0})).matrix


def test_runs_of_several_devices_become_one_table_and_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"emulated:2ms": 8.0, "emulated:40ms": 2.0, "emulated:900ms": 1.0}
    found = [(device, invented(device, gain)) for device, gain in known.items()]
    assert len({matrix.environment.machine for _, matrix in found}) == 1
    workloads = read_catalogue(ledger=False).workloads
    assert show(found, workloads, "markdown", (None, tmp_path / "figures")) == 0
    page = capsys.readouterr().out
    assert "emulated" in page
    assert "local\\_copy pays below" in page
    assert re.search(r"No result: imagenet amp\\_bfloat16: .*no step time of an emulated", page)
    svg = (tmp_path / "figures" / "sweep-imagenet.svg").read_text()
    assert svg.startswith(MARK)
    assert "emulated" in svg
    assert show(found, workloads, "json", (None, None)) == 0
    assert '"emulated": true' in capsys.readouterr().out


def test_a_step_time_that_cannot_be_measured_costs_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(asked: Request, *_: object, **_words: object) -> Path:
        if asked.device == "emulated:900ms":
            raise Mistake("3 minutes are too few")
        return tmp_path / asked.device

    monkeypatch.setattr(sweeping, "measured", measured)
    monkeypatch.setattr(sweeping, "matrix_of", lambda folder: invented(folder.name, 2.0))
    asked = Request(workloads=("imagenet",), only=("local_copy",), target="none")
    place = Place(results=tmp_path, data=None, budget="9m", fresh=False)
    assert sweeping.sweep(asked, "2ms,40ms,900ms", place, "markdown", None, None) == 0
    told = capsys.readouterr()
    assert "emulated:900ms: 3 minutes are too few" in told.err
    assert "local\\_copy" in told.out
    with pytest.raises(Mistake, match="3 minutes are too few"):
        sweeping.sweep(asked, "900ms", place, "markdown", None, None)


def test_steps_of_a_real_device_become_entries_that_its_table_can_take() -> None:
    catalogue = read_catalogue(ledger=False)
    matrix = invented("cpu", 2.0)
    (text,) = entries(matrix, catalogue, "somewhere/20261120T211233-fe7ddc9a: batches on the device, some GPU")
    facts = "link_gb_s = 50\nmemory_gb_s = 3000\n"
    facts += "".join(f"{name}_us = 3\n" for name in ("launch", "forward", "backward", "update", "parameter"))
    facts += "\n".join(f'{name}_source = ""' for name in ("host", "link", "memory"))
    (step,) = times_in(f'title = "Own"\n{facts}\n{text}', "own.toml").steps
    config = matrix.tables[0].config
    assert (step.workload, step.size, step.batch, step.kind) == ("imagenet", "quick", 8, "measured")
    profile = matrix.tables[0].profile
    assert profile is not None
    assert profile.compute_rate is not None
    assert step.ms == pytest.approx(1000 * config.batch / profile.compute_rate, rel=1e-3)


def test_steps_of_what_is_not_the_suites_own_are_left_out_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    catalogue, matrix = read_catalogue(ledger=False), invented("cpu", 2.0)
    (table,) = (one for one in matrix.tables if one.timing is Timing.STEP and one.profile and one.profile.compute_rate)
    with_own = replace(table, config=replace(table.config, options=(Option(name="flat_model"),)))
    of_own = replace(table, config=replace(table.config, workload="train"))
    found = list(entries(replace(matrix, tables=(with_own, table, of_own)), catalogue, "somewhere/run"))
    assert len(found) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("imagenet@quick#8:flat_model is left out: the option flat_model is none of the suite's")
    assert second.startswith("train@quick#8 is left out: the workload train is none of the suite's")


def test_a_step_that_was_timed_alone_tells_of_treatments_too_and_once_of_each_entry() -> None:
    text = "\n".join(entries(matrix_of(Path("results/h200/20261129T223805-ae01fd09")), read_catalogue(), "there"))
    steps = [(one["workload"], one["precision"], one["layout"], one["ms"]) for one in tomllib.loads(text)["step"]]
    assert len({one[:3] for one in steps}) == len(steps) == 6
    assert steps[:2] == [("leak", "float32", "contiguous", 89.9), ("leak", "bfloat16", "contiguous", 11.56)]


def test_a_run_without_a_gpu_has_no_steps_to_emulate() -> None:
    kept = next(Path("results").glob("cpu-2-amd-epyc/*/run.json")).parent
    with pytest.raises(Mistake, match="no GPU of its own"):
        show_steps(kept)
