"""Step times of emulated devices: every number has its source, and what nobody knows is refused with words."""

from dataclasses import replace

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import compose, parse_option, unmet
from harness.core.emulation import (
    BY_TABLE,
    IN_TABLES,
    RESNET50_OPERATIONS,
    emulation_named,
    emulation_of,
    file_of,
    known_devices,
    precision_of,
    step_named,
    times_in,
    title_of,
    unknown_time,
    without_time,
)
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.core.recipe import Recipe
from harness.measure.surroundings import read_environment
from harness.run.preparation import prepared

CATALOGUE = read_catalogue(ledger=False)
IMAGENET = CATALOGUE.workloads["imagenet"]


def environment(device: str) -> Environment:
    return read_environment(device)


def test_every_number_says_where_it_is_from_and_how_far_off_it_may_be() -> None:
    assert set(known_devices()) == {"t4", "a10g", "a100", "h100", "h200", "b200"}
    for device in known_devices().values():
        for one in (*device.rates, *device.steps):
            assert len(one.source) > 40
            assert one.band >= 1.2
        assert {one.kind for one in device.steps} <= {"published", "roofline", "measured"}
        assert any((one.precision, one.layout) == ("float32", "contiguous") for one in device.rates)


def test_a_step_takes_its_operations_at_the_rate_of_the_device() -> None:
    size = IMAGENET.sizes["standard"]
    found = emulation_of("emulated:a100", IMAGENET, "standard", size, Recipe())
    assert found is not None
    rate = next(one for one in file_of("emulated:a100").rates if one.precision == "float32")
    assert IMAGENET.operations["standard"] == pytest.approx(RESNET50_OPERATIONS, rel=0.01)
    assert found.step_s == pytest.approx(256 / rate.images_s, rel=0.01)
    faster = emulation_of("emulated:a100", IMAGENET, "standard", size, Recipe(autocast="bfloat16", channels_last=True))
    assert faster is not None
    assert faster.step_s == pytest.approx(256 / 2470, rel=0.01), "as it is published"


def test_an_entry_of_its_own_goes_before_the_formula() -> None:
    workload = CATALOGUE.workloads["patches3d"]
    found = emulation_of("emulated:a100", workload, "standard", workload.sizes["standard"], Recipe())
    assert found is not None
    assert found.step_s == pytest.approx(0.116)
    assert "size standard in bfloat16, contiguous" in str(
        without_time("emulated:a100", workload, "standard", workload.sizes["standard"], Recipe(autocast="bfloat16"))
    )


def test_a_time_in_the_name_is_the_whole_steps() -> None:
    assert (step_named("emulated:18ms"), step_named("emulated:1.5s"), step_named("emulated:a100")) == (0.018, 1.5, None)
    times = emulation_named("emulated:18ms")
    assert (times.step_s, times.is_whole) == (0.018, True)
    with pytest.raises(Mistake, match="100us to 100s"):
        step_named("emulated:1us")


@pytest.mark.parametrize("name", ["emulated", "emulated:", "emulated:abacus", "emulated:18", "emulated:-1ms"])
def test_a_device_that_nobody_knows_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(Mistake, match=r"emulated:a100.*emulated:18ms"):
        environment(name)


def test_what_a_table_alone_decides_is_what_sets_nothing_else() -> None:
    told = set(IN_TABLES) | {"optimizer_kernel", "clip_kernel", "average_kernel", "set_to_none"}
    sets = {one.name: set(one.sets) for one in CATALOGUE.optimizations.values()}
    here = {name for name in sets if not unknown_time(CATALOGUE.optimizations[name], "emulated:a100")}
    assert {name for name in here if sets[name] and sets[name] <= told} == BY_TABLE & here


@pytest.mark.parametrize("line", ["images_s = -1.0", "images_s = 1.0\nspeed = 2", "images_s ="])
def test_a_bad_table_is_refused(line: str) -> None:
    with pytest.raises(Mistake, match=r"odd\.toml"):
        times_in(f'title = "Odd"\n[[rate]]\n{line}\n', "odd.toml")


def test_its_environment_says_emulated_and_is_never_another_ones() -> None:
    real, a100, times = environment("cpu"), environment("emulated:a100"), environment("emulated:18ms")
    assert len({one.digest for one in (real, a100, times, environment("emulated:19ms"))}) == 4
    assert len({one.machine for one in (real, a100, times)}) == 3
    assert environment("emulated:19ms").machine == times.machine
    for one in (a100, times):
        assert one.emulated
        assert one.machine.startswith("emulated-")
        assert one.chip.startswith("emulated ")
        assert real.cpu in one.chip, "the host decides beside it"
    assert title_of("emulated:a100") == "emulated A100"
    assert a100.driver != replace(a100, driver="step times 00000000").driver


@pytest.mark.parametrize(
    ("name", "device", "can"),
    [
        ("pin_memory", "emulated:a100", True),
        ("device_prefetch", "emulated:18ms", True),
        ("blocking_sync", "emulated:18ms", True),
        ("blocking_sync", "cpu", False),
        ("amp_bfloat16", "emulated:a100", True),
        ("amp_bfloat16", "emulated:t4", False),
        ("amp_bfloat16", "emulated:18ms", False),
        ("channels_last", "emulated:a100", False),
        ("foreach_optimizer", "emulated:a100", True),
        ("image_size", "emulated:a100", False),
        ("batched_evaluation", "emulated:a100", False),
        ("anomaly_detection", "emulated:a100", False),
        ("keep_last_batch", "emulated:18ms", False),
        ("finite_check", "emulated:18ms", True),
        ("cudnn_benchmark", "emulated:a100", False),
        ("device_delay", "emulated:a100", True),
    ],
)
def test_an_option_that_changes_the_devices_time_needs_a_time_of_its_own(name: str, device: str, can: bool) -> None:
    level = 64 if name == "image_size" else None
    reason = unmet(CATALOGUE.known[name], environment(device), IMAGENET, level)
    assert (reason is None) is can, reason
    if not can and device.startswith("emulated") and name != "cudnn_benchmark":
        assert "emulated" in str(reason)


def test_work_that_an_option_takes_out_of_the_loss_cannot_be_told() -> None:
    option = CATALOGUE.known["loader_distance_transform"]
    assert "leaves out" in str(unmet(option, environment("emulated:a100"), CATALOGUE.workloads["patches3d"]))
    assert unmet(option, environment("cpu"), CATALOGUE.workloads["patches3d"]) is None


def test_a_plan_holds_what_can_be_emulated_and_says_why_the_rest_cannot() -> None:
    plan = prepared(Request(workloads=("imagenet",), device="emulated:h100")).plan
    labels = {one.label for one in plan.comparisons}
    assert {"local_copy", "ram_cache", "deferred_metrics", "original", "amp_bfloat16"} <= labels
    assert {one.treatment.size for one in plan.comparisons} == {"quick"}
    reasons = {one.label: one.reason for one in plan.no_results}
    assert "no step time of an emulated H100" in reasons["channels_last"]
    original = next(one for one in plan.comparisons if one.label == "original")
    recipe = compose(IMAGENET, original.treatment.options, CATALOGUE.known)
    assert (recipe.workers, recipe.pin_memory, recipe.non_blocking) == (8, True, True)
    assert precision_of(recipe) == ("float32", "contiguous"), "what nobody can time is left out of it"


def test_a_part_of_an_update_takes_its_part_of_the_time() -> None:
    size = IMAGENET.sizes["quick"]
    for device in ("emulated:18ms", "emulated:a100"):
        whole, parts = (
            emulation_of(device, IMAGENET, "quick", size, compose(IMAGENET, options, CATALOGUE.known))
            for options in ((), (parse_option("gradient_accumulation=2"),))
        )
        assert whole is not None
        assert parts is not None
        assert parts.step_s == pytest.approx(whole.step_s / 2)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(workloads=("imagenet",), device="emulated:a100", reference="image_size=64"), "image_size=64"),
        (
            Request(workloads=("spoof",), device="emulated:25ms", only=("batch=24",)),
            "as long for each sample of any batch",
        ),
        (Request(workloads=("leak",), device="emulated:h200", batch=5632), "as long for each sample of any batch"),
    ],
)
def test_what_no_time_is_known_for_is_refused_in_the_reference_and_in_a_batch_too(
    request_: Request, words: str
) -> None:
    with pytest.raises(Mistake, match=words):
        prepared(request_)


def test_the_optimizers_of_original_are_those_that_pytorch_has_on_cuda() -> None:
    plan = prepared(Request(workloads=("speaker",), device="emulated:a100")).plan
    original = next(one for one in plan.comparisons if one.label == "original")
    assert "foreach_optimizer" in {one.name for one in original.treatment.options}
    assert "foreach_optimizer" not in CATALOGUE.workloads["speaker"].found_on("cpu")
