"""`plan`: what --only means to each design, seen in the plan that would be measured."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.catalogue import read_catalogue
from harness.cli import main
from harness.cli.campaign_state import phases_of, resolved
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import Plan, Request
from harness.core.protocol import BRIEF, FEWEST_ROUNDS, REPLICATES_ALONE
from harness.plan.campaign import check_minutes
from harness.plan.cost import CUDA_START_S, START_S, arm_s
from harness.plan.planning import BESIDE, SHORT_REPLICATES, SHORT_ROUNDS, pace_of, planned
from harness.run import preparation
from harness.run.preparation import epoch_of, prepared
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU

NAMED = ("workers=2", "prefetch_factor", "amp_bfloat16")


def plan(design: str, *only: str, environment: Environment = ENVIRONMENT, **facts: Any) -> Plan:
    usual = {"workloads": ("leak",), "size": "smoke", "stack": None, "reference": "baseline", "protocol": "brief"}
    wish = Request(design=design, only=only, device="cpu", **{**usual, "probe": None, **facts})
    return planned(wish, read_catalogue(), environment)


def labels(found: Plan) -> list[str]:
    return [one.label for one in found.comparisons]


@pytest.mark.parametrize("design", ["alone", "combined"])
def test_what_is_named_takes_the_place_of_a_design_of_singles(design: str) -> None:
    assert sorted(labels(plan(design, *NAMED))) == ["amp_bfloat16", "prefetch_factor=4", "workers=2"]


def test_other_designs_are_narrowed_to_what_is_named() -> None:
    levels = read_catalogue().known["prefetch_factor"].levels
    assert set(labels(plan("levels", "prefetch_factor"))) == {f"prefetch_factor={one}" for one in levels}
    assert labels(plan("levels", "prefetch_factor=8", "amp_bfloat16")) == ["prefetch_factor=8", "amp_bfloat16"]
    evaluation = plan("evaluation", "inference_mode", "workers=2")
    assert [(one.label, one.timing) for one in evaluation.comparisons] == [("inference_mode", Timing.EVALUATION)]
    assert [(one.label, one.reason) for one in evaluation.no_results] == [
        ("workers=2", "is no part of the design evaluation")
    ]
    claimed = plan("claims", "memory_map").comparisons
    assert claimed
    assert all("memory_map" in {option.name for option in one.treatment.options} for one in claimed)
    with pytest.raises(Mistake, match="leave out --design pairs"):
        plan("pairs", stack="workers=2+amp_bfloat16")


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({"only": ("workers=1",)}, 8),
        ({"only": ("workers=2",)}, 7),
        ({"only": ("workers=2", "channels_last")}, 7),
        ({"only": ("workers=4",), "workloads": ("imagenet",)}, 29),
        ({"stack": "workers=2+keep_last_batch"}, 8),
    ],
)
def test_every_loader_worker_comes_to_load_all_batches_of_an_epoch(asked: dict[str, Any], steps: int) -> None:
    """In an order that repeats, two workers of eight batches would load the same four each for ever."""
    request = Request(
        **{"workloads": ("spoof",), "size": "quick", "device": "cpu", "environment": ENVIRONMENT, **asked}
    )
    ready = prepared(request)
    (block,) = ready.plan.blocks
    configs = (block.reference, *(one.treatment for one in block.comparisons))
    assert {epoch_of(ready, block, one).epoch_steps for one in configs} == {steps}


@pytest.mark.parametrize("design", ["alone", "stages", "matrix", "calibration", "against_itself"])
def test_a_workload_whose_files_cannot_be_read_is_left_out_with_words(
    design: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reason = "soundfile is not installed; pip install soundfile"
    monkeypatch.setattr(preparation, "unread", lambda one, _: reason if one.name == "speaker" else None)
    asked = Request(
        workloads=("leak", "speaker"), size="smoke", device="cpu", environment=ENVIRONMENT, design=design, copies=2
    )
    found = prepared(asked).plan
    assert {one.reference.workload for one in found.comparisons} == {"leak"}
    left = [one for one in found.no_results if one.workload == "speaker"]
    assert {one.reason for one in left} == {reason}
    assert len(left) == len({one.label for one in left}) > 0
    with pytest.raises(Mistake, match=r"^Nothing of this can be measured here \(speaker: soundfile [^:]*\); "):
        prepared(replace(asked, workloads=("speaker",)))
    with pytest.raises(Mistake, match=r"^The data of speaker cannot be read: soundfile is not installed; "):
        prepared(replace(asked, data_roots=(f"speaker={tmp_path}",)))


def test_a_design_that_crosses_is_about_what_is_named() -> None:
    assert sorted(labels(plan("factorial", *NAMED))) == [
        "amp_bfloat16", "workers=2", "workers=2+amp_bfloat16", "workers=2+prefetch_factor=4",
        "workers=2+prefetch_factor=4+amp_bfloat16",
    ]  # fmt: skip
    removed = labels(plan("removed", *NAMED))
    assert "all without workers=2 (nor prefetch_factor=4, which cannot be without)" in removed
    assert len(removed) == 4
    assert len(labels(plan("matrix", *NAMED))) == 1 + 3 + 3  # these are all stacks that there are
    assert len(labels(plan("matrix", *NAMED, "set_to_none"))) == 1 + 4 + 4 + 2
    assert len(labels(plan("pairs", *NAMED))) == 3 + 3


def test_what_is_named_twice_is_measured_once() -> None:
    assert labels(plan("alone", "workers=2", "workers=2", "amp_bfloat16")) == ["workers=2", "amp_bfloat16"]


def test_whoever_names_a_slow_starter_has_accepted_it() -> None:
    found = plan("removed", "compile", "amp_bfloat16", environment=replace(ENVIRONMENT, compiler="g++ 14"))
    assert found.no_results == ()
    assert labels(found) == ["all", "all without compile=default", "all without amp_bfloat16"]


def test_all_comparisons_of_a_matrix_are_in_blocks_that_plan_counts() -> None:
    found = plan("matrix")
    assert len(found.comparisons) == sum(len(block.comparisons) for block in found.blocks)
    references = {len(block.reference.options) for block in found.blocks}
    assert {0, 1} < references, "plain, workers alone, and all together"


def test_a_stack_is_measured_beside_a_crossed_design_of_what_is_named() -> None:
    found = labels(plan("factorial", "amp_bfloat16", stack="workers=2+amp_bfloat16"))
    assert found == ["workers=2+amp_bfloat16", "amp_bfloat16"]


def test_one_claim_is_tested_by_its_name() -> None:
    (one,) = plan("claims", "leak-memory-map").comparisons
    assert "memory_map" in str(one.treatment)
    assert len(plan("claims", "leak-memory-map", "leak-file-index").comparisons) == 2
    with pytest.raises(Mistake, match="There is no claim 'workers'"):
        plan("claims", "leak-memory-map", "workers")
    assert labels(plan("claims", "workers=2")) == ["workers=2"], "an option is measured alone, as by any design"


def test_a_phase_of_a_report_is_a_stack_by_its_name() -> None:
    (one,) = plan("alone", stack="leak-memory-map").comparisons
    assert one.label == "leak-memory-map"
    assert "memory_map" in str(one.treatment)
    with pytest.raises(Mistake, match=r"leak-phase-one is impossible on leak: .*needs"):
        plan("alone", stack="leak-phase-one")  # what its report names needs a GPU, and nothing is left out unsaid
    (phase,) = plan("alone", stack="leak-loader-settings", reference="baseline", environment=GPU).comparisons
    assert {"pin_memory", "workers", "prefetch_factor"} <= {option.name for option in phase.treatment.options}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("design", ["stages", "alone"])
def test_copies_of_the_reference_are_timed_among_the_first_and_as_those_are(design: str, seed: int) -> None:
    without, found = (plan(design, seed=seed, copies=count) for count in (0, 2))
    copies = [one for one in found.comparisons if one.treatment == one.reference]
    assert sorted(one.copy for one in copies) == [0, 1]
    assert [one for one in found.comparisons if one not in copies] == list(without.comparisons), "nothing is displaced"
    reference = found.blocks[0].reference
    timings = {one.timing for one in without.comparisons if one.reference == reference}
    assert all(one.timing in timings and one.reference == reference for one in copies)


def test_a_first_look_hides_a_copy_of_each_reference_beside_a_part_of_a_step() -> None:
    workloads = ("leak", "spoof")
    found = plan("stages", workloads=workloads)
    copies = [one for one in found.comparisons if one.treatment == one.reference]
    assert [one.reference.workload for one in copies] == list(workloads)
    for copy in copies:
        (block,) = (one for one in found.blocks if copy in one.comparisons)
        assert block.timing in PARTS_OF_A_STEP
        assert block.comparisons.index(copy) <= BESIDE
    for asked in ({"protocol": "standard"}, {"stack": "all"}, {"probe": "loader"}, {"copies": 0}):
        assert all(one.treatment != one.reference for one in plan("stages", **asked).comparisons), asked
    assert all(one.treatment != one.reference for one in plan("stages", *NAMED).comparisons)


@pytest.mark.parametrize("design", ["stages", "alone"])
def test_whole_steps_of_a_first_look_on_a_cpu_have_more_replicates_of_a_single_window(design: str) -> None:
    short = (SHORT_REPLICATES, SHORT_ROUNDS)

    def paces(**facts: Any) -> set[tuple[int | None, int | None]]:
        blocks = plan(design, **facts).blocks
        return {(one.replicates, one.rounds) for one in blocks if one.timing is Timing.STEP}

    assert paces() == {short}
    assert paces(environment=GPU).isdisjoint({short})
    for asked in ({"rounds": 2}, {"replicates": 3}, {"protocol": "standard"}):
        assert paces(**asked).isdisjoint({short}), asked
    few = plan(design, *NAMED)
    assert all(one.replicates is None for one in few.blocks), "three have no pool, and get more windows instead"
    assert few.protocol.replicates == REPLICATES_ALONE


def test_a_reference_needs_what_any_stack_needs() -> None:
    with pytest.raises(Mistake, match="ranks=2 is impossible here: ranks=2 needs a CPU"):
        plan("alone", "set_to_none", reference="ranks=2", environment=GPU)
    with pytest.raises(Mistake, match="pin_memory needs a CUDA device"):
        plan("alone", "set_to_none", reference="pin_memory")
    everywhere = tuple(read_catalogue().workloads)
    for environment in (ENVIRONMENT, GPU):  # of what the real systems had, a CPU lacks some
        assert plan("alone", "monitoring", reference="original", workloads=everywhere, environment=environment)


def together(found: Plan, *names: str) -> list[tuple[str, ...]]:
    """Which of these comparisons of whole steps beside the baseline share a block, in the order of the blocks."""
    steps = [one for one in found.blocks if one.timing is Timing.STEP and not one.reference.options]
    shared = (tuple(one.label for one in block.comparisons if one.label in names) for block in steps)
    return [one for one in shared if one]


def test_arms_of_many_loader_workers_make_windows_of_others_no_longer() -> None:
    """Beside 5 workers and 8 everybody would take 80 steps; where 80 are short, as on leak, nobody minds."""
    many = replace(GPU, cores=16)
    speaker = plan("stages", workloads=("speaker",), size="quick", environment=many)
    found = together(speaker, "original", "workers=8", "device_mixing", "int16_waveforms")
    assert found == [("original",), ("workers=8",), ("device_mixing", "int16_waveforms")]
    assert together(speaker, "all", "seek_read") == [("all",), ("seek_read",)], "steps beside a GPU load for long"
    leak = plan("stages", workloads=("leak",), size="quick", environment=many)
    assert together(leak, "original", "data_on_device") == [("original", "data_on_device")]


def test_two_cores_have_blocks_of_arms_with_and_without_a_loader_worker() -> None:
    spoof = plan("stages", workloads=("spoof",), size="quick")
    assert together(spoof, "original", "workers=1", "device_mel") == [("original", "workers=1", "device_mel")]
    speaker = plan("stages", workloads=("speaker",), size="quick")
    found = together(speaker, "original", "workers=1", "device_mixing")
    assert found == [("original",), ("workers=1", "device_mixing")], "the real system has five"


def test_arms_begin_side_by_side_on_a_cpu_alone_and_a_gpu_wants_a_context() -> None:
    catalogue = read_catalogue()
    paces = {
        (name, device): pace_of(catalogue.workload(name), "quick", device, 16)
        for name in ("leak", "patches3d")
        for device in ("cpu", "cuda", "emulated:a100")
    }
    assert {key: one.cores for key, one in paces.items()} == {key: 16 if key[1] == "cpu" else 1 for key in paces}
    assert {one.start_s for (_, device), one in paces.items() if device == "cuda"} == {CUDA_START_S}
    assert {one.start_s for (_, device), one in paces.items() if device != "cuda"} == {START_S}
    assert {device for (_, device), one in paces.items() if not one.steps_on_host} == {"cuda"}
    assert [key for key, one in paces.items() if one.meets_shapes] == [("patches3d", "cuda")]


@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU], ids=["cpu", "gpu"])
def test_small_copies_are_measured_where_no_size_is_named(environment: Environment) -> None:
    found = plan("alone", "set_to_none", environment=environment, size=None)
    assert {one.reference.size for one in found.blocks} == {"quick"}
    assert resolved(Request(workloads=("leak",), environment=environment)).size == "quick"


def test_where_copies_stand_is_drawn() -> None:
    def places(seed: int) -> list[int]:
        found = plan("alone", seed=seed, copies=1).comparisons
        return [place for place, one in enumerate(found) if one.treatment == one.reference]

    assert len({tuple(places(seed)) for seed in range(8)}) > 2


def test_too_many_for_a_factorial_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="are too many; name 6 at most"):
        plan("factorial")


@pytest.mark.parametrize("size", ["quick", "standard"])
def test_every_workload_says_about_how_long_its_steps_take(size: str) -> None:
    assert [name for name, one in read_catalogue().workloads.items() if not one.sizes[size].step_s] == []


def test_slow_steps_at_the_real_size_are_planned_as_such() -> None:
    paces = (pace_of(read_catalogue().workload(name), "standard", "cpu") for name in ("leak", "patches3d"))
    quick_s, slow_s = (arm_s(BRIEF, one) for one in paces)
    assert slow_s > 10 * quick_s
    slow = plan("alone", "set_to_none", workloads=("patches3d",), size="standard")
    assert {one.rounds or BRIEF.rounds for one in slow.blocks} == {FEWEST_ROUNDS}
    asked = resolved(Request(workloads=("leak", "patches3d"), size="standard", environment=ENVIRONMENT))
    with pytest.raises(Mistake, match=r"one comparison of patches3d takes about \d+"):
        check_minutes(3.0, phases_of(asked, 3.0))


def test_steps_without_their_loading_have_all_rounds() -> None:
    found = plan("alone", "set_to_none", workloads=("patches3d",), size="standard", probe="compute")
    assert {one.rounds for one in found.blocks} == {None}


def test_a_fleet_is_planned_and_its_words_are_those_of_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.toml"
    words = "leak --size smoke --design alone --only workers=1 --only set_to_none"
    path.write_text(
        f'[[machine]]\nname = "here"\ncount = 2\nper_hour = 3.0\nmeasure = [{{ words = "{words}", shards = 1 }}]\n'
    )
    monkeypatch.setenv("COLUMNS", "200")
    assert called(monkeypatch, "plan", "--fleet", str(path), "--results", str(tmp_path)) == 3
    shown = capsys.readouterr().out
    assert "2 of here" in shown
    assert "50 %" in shown, "one of two machines has nothing to do"
    with monkeypatch.context() as patched:
        patched.setattr("harness.cli.fleet.state_of", lambda *_: "measured")
        assert called(monkeypatch, "plan", "--fleet", str(path), "--results", str(tmp_path)) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "2 of here" in line)
    assert [one.strip() for one in row.strip(" │┃").split("│")][4:] == ["-"] * 6, "nothing is left to wait or pay for"
    path.write_text(path.read_text().replace("--design alone", "--desing alone"))
    assert called(monkeypatch, "plan", "--fleet", str(path)) == 2
    assert "--desing" in capsys.readouterr().err
    assert called(monkeypatch, "plan", "--fleet", str(tmp_path / "none.toml")) == 2


def called(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["speedmatrix", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize(
    ("stack", "timing"),
    [
        ("batched_evaluation+inference_mode", Timing.EVALUATION),
        ("inference_mode+workers=1", Timing.STEP),
        ("persistent_workers+workers=1", Timing.STEP),
        ("workers=1", Timing.STEP),
    ],
)
def test_a_stack_that_acts_on_evaluations_alone_is_timed_on_them(stack: str, timing: Timing) -> None:
    assert [one.timing for one in plan("stages", stack=stack).comparisons] == [timing]


def test_an_option_of_whole_epochs_by_itself_is_timed_on_them() -> None:
    found = plan("stages", stack="persistent_workers+workers=1", reference="workers=1")
    assert [one.timing for one in found.comparisons] == [Timing.EPOCH]
