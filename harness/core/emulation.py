"""Emulated devices: how long an accelerator takes for a step, for a link and for a launch, and how that is known."""

import hashlib
import importlib.resources
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from harness.core.mistake import Mistake
from harness.core.optimization import Optimization, Stage
from harness.core.recipe import Recipe
from harness.core.workload import Size, Workload

EMULATED = "emulated"  # the name under which DEVICES has it; what follows a colon says what is emulated
ANY = "a100"  # whose link and memory stand beside a step that is given by its time
RESNET50_OPERATIONS = 24.288e9  # forward and backward, for one image of 224 pixels: that of imagenet@standard
OTHER_NETWORKS = (
    2.4  # by how much the rates of ResNet-50 may miss another network: spoof@standard took 2.36 times as long
)
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s)")
_A_SECOND = {"us": 1e6, "ms": 1e3, "s": 1.0}
SHORTEST_S, LONGEST_S = 1e-4, 100.0
NO_TIME = "no step time of an {title} is known for {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """What an emulated device and its driver take for the steps of one arm; seconds, and bytes a second."""

    step_s: float  # of the device: forward pass, backward pass and update of one batch
    launch_s: float  # of the host, for one kernel, without what PyTorch does before it
    link_bytes_s: float  # from pinned memory
    memory_bytes_s: float  # the device's own
    is_whole: bool = False  # `step_s` holds what the host takes too: no longer than that
    # Of the host for one operator, beside its launch, and for one parameter of a foreach or fused optimizer.
    forward_s: float = 0.0
    backward_s: float = 0.0
    update_s: float = 0.0
    parameter_s: float = 0.0
    band: float = 1.0  # the true step time lies within this factor, either way

    def stage_s(self, launches: int, touched_bytes: int) -> float:
        """Of the device, for operators that do little with each number: its memory is what they wait for."""
        return launches * LEAST_KERNEL_S + touched_bytes / self.memory_bytes_s


LEAST_KERNEL_S = 3e-6  # a kernel with nearly nothing to do (order of magnitude, as profilers of CUDA show)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Operations a second that a device sustains in training convolutions, in one precision and memory format."""

    precision: str
    layout: str
    images_s: float  # of ResNet-50
    band: float  # the true figure lies within this factor, either way
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Milliseconds of one step that are known as such."""

    workload: str
    size: str
    batch: int
    precision: str
    layout: str
    ms: float
    band: float
    kind: str  # published, roofline or measured
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """One file of `harness/devices`: a device, its link and memory, and what is known of its steps."""

    name: str
    title: str
    launch_us: float
    forward_us: float
    backward_us: float
    update_us: float
    parameter_us: float
    host_source: str
    link_gb_s: float
    link_source: str
    memory_gb_s: float
    memory_source: str
    rates: tuple[Rate, ...]
    steps: tuple[StepTime, ...]
    digest: str  # of the file


@cache
def known_devices() -> Mapping[str, DeviceTimes]:
    """All devices with a file, by name."""
    folder = importlib.resources.files("harness") / "devices"
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    return {one.name.removesuffix(".toml"): times_in(one.read_text(encoding="utf-8"), one.name) for one in files}


def times_in(text: str, file: str) -> DeviceTimes:
    """The content of one file; raises Mistake where it is not as it must be."""
    try:
        plain: dict[str, Any] = tomllib.loads(text)
        rates = tuple(Rate(**one) for one in plain.pop("rate", ()))
        steps = tuple(StepTime(**one) for one in plain.pop("step", ()))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        found = DeviceTimes(name=file.removesuffix(".toml"), rates=rates, steps=steps, digest=digest, **plain)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise Mistake(f"harness/devices/{file} is no table of step times ({error}); see those beside it.") from error
    times = [*(one.images_s for one in rates), *(one.ms for one in steps), found.link_gb_s, found.memory_gb_s]
    if not all(one > 0 and math.isfinite(one) for one in times):
        raise Mistake(f"harness/devices/{file} holds a time or a rate that is not above zero; put it right.")
    return found


# Names of devices: `emulated:a100`, or `emulated:18ms` for one whose steps all take so long.


def is_emulated(device: str) -> bool:
    """Whether the device of an environment is one of these."""
    return device.partition(":")[0] == EMULATED


def seconds_named(text: str) -> float | None:
    """The seconds in `18ms`; None where no time is named."""
    match = _TIME.fullmatch(text)
    return float(match[1]) / _A_SECOND[match[2]] if match else None


def step_named(device: str) -> float | None:
    """The seconds in `emulated:18ms`; None where no time is named; raises Mistake for one that is out of bounds."""
    named = device.partition(":")[2]
    seconds = seconds_named(named)
    if seconds is not None and not SHORTEST_S <= seconds <= LONGEST_S:
        raise Mistake(f"A step of {named} cannot be emulated; name a time from 100us to 100s.")
    return seconds


def file_of(device: str) -> DeviceTimes:
    """What is known of a device that was named; raises Mistake with the names there are."""
    name = ANY if step_named(device) is not None else device.partition(":")[2]
    if name not in known_devices():
        known = ", ".join(f"{EMULATED}:{one}" for one in known_devices())
        raise Mistake(f"There is no emulated device '{device}'; choose {known}, or a step's time as {EMULATED}:18ms.")
    return known_devices()[name]


def title_of(device: str) -> str:
    """What an environment calls it: `emulated A100`, `emulated 18ms`."""
    named = device.partition(":")[2]
    return f"{EMULATED} {named if step_named(device) is not None else file_of(device).title}"


def emulation_named(device: str) -> Emulation:
    """The times that a name alone tells; a step takes none where it depends on what is trained."""
    seconds = step_named(device)
    return _emulation(file_of(device), seconds or 0.0, is_whole=seconds is not None)


def _emulation(known: DeviceTimes, step_s: float, band: float = 1.0, *, is_whole: bool) -> Emulation:
    return Emulation(
        step_s=step_s,
        launch_s=known.launch_us / 1e6,
        forward_s=known.forward_us / 1e6,
        backward_s=known.backward_us / 1e6,
        update_s=known.update_us / 1e6,
        parameter_s=known.parameter_us / 1e6,
        link_bytes_s=known.link_gb_s * 1e9,
        memory_bytes_s=known.memory_gb_s * 1e9,
        is_whole=is_whole,
        band=band,
    )


def table_of(device: str) -> str:
    """What an environment says in place of a driver: the table that the times are of; raises Mistake."""
    return f"step times {file_of(device).digest}"


def is_former(device: str, driver: str | None) -> bool:
    """Whether an environment's device was emulated by a table that was put right since.

    Of a step time that was named too, whose launches and link are those of a table.
    """
    return is_emulated(device) and driver != table_of(device)


def band_of(device: str, workload: str, size: str, batch: int) -> float | None:
    """The factor within which a device's table holds for a workload, either way; None where a step's time is named."""
    if step_named(device) is not None:
        return None
    known = file_of(device)
    own = [one.band for one in known.steps if (one.workload, one.size, one.batch) == (workload, size, batch)]
    return max(own or [one.band * _misfit(workload, size) for one in known.rates])


def _misfit(workload: str, size: str) -> float:
    """By how much more than their bands say the rates of ResNet-50 may miss what is trained."""
    return 1.0 if (workload, size) == ("imagenet", "standard") else OTHER_NETWORKS


# How long a step takes, and which options nobody can say that of.


def emulation_of(device: str, workload: Workload, size_name: str, size: Size, recipe: Recipe) -> Emulation | None:
    """The times of one arm; None where no step time is known for what it computes."""
    found = _of_an_update(device, workload, size_name, size, recipe)
    return replace(found, step_s=found.step_s / recipe.micro_batches) if found else None


def _of_an_update(device: str, workload: Workload, size_name: str, size: Size, recipe: Recipe) -> Emulation | None:
    """The same for all that one update takes, in how many parts ever."""
    if step_named(device) is not None:
        return emulation_named(device)
    known, found = file_of(device), precision_of(recipe)
    own = [one for one in known.steps if (one.workload, one.size, one.batch) == (workload.name, size_name, size.batch)]
    for one in own:
        if (one.precision, one.layout) == found:
            return _emulation(known, one.ms / 1000, one.band, is_whole=False)
    if own:  # its steps take other times than the rates say
        return None
    rate = next((one for one in known.rates if (one.precision, one.layout) == found), None)
    operations = workload.operations.get(size_name)
    if rate is None or operations is None:
        return None
    step_s = operations * size.batch / (rate.images_s * RESNET50_OPERATIONS)
    return _emulation(known, step_s, rate.band * _misfit(workload.name, size_name), is_whole=False)


def precision_of(recipe: Recipe) -> tuple[str, str]:
    """Precision and memory format, as the tables name them."""
    layout = "channels_last" if recipe.channels_last or recipe.channels_last_3d else "contiguous"
    return recipe.autocast or "float32", layout


def without_time(device: str, workload: Workload, size_name: str, size: Size, recipe: Recipe) -> str | None:
    """Why an arm cannot be emulated, in words; None where its step's time is known."""
    if emulation_of(device, workload, size_name, size, recipe):
        return None
    precision, layout = precision_of(recipe)
    what = f"{workload.name} at size {size_name} in {precision}, {layout.replace('_', ' ')}"
    return NO_TIME.format(title=title_of(device), what=what)


# Choices of a recipe for which a table may hold a time of its own.
IN_TABLES = {"autocast": ("precision",), "channels_last": ("layout",), "channels_last_3d": ("layout",)}
# They move the same work on the device in time, or do it in fewer launches.
OF_THE_HOST = frozenset({"device_prefetch", "non_blocking", "optimizer_kernel", "clip_kernel", "average_kernel"})
# Of the device's stage before the model, whose launches and bytes are counted.
OF_ITS_STAGE = frozenset({"spec_augment"})
# Optimizations of which all that an emulated device tells is worked out of its table, whatever is timed.
BY_TABLE = frozenset(
    {
        "amp_bfloat16",
        "channels_last",
        "foreach_average",
        "foreach_clipping",
        "foreach_optimizer",
        "fused_optimizer",
        "set_to_none",
    }
)
# Of other stages than the device's, and yet they change what it computes.
OF_THE_DEVICE_TOO = frozenset({"anomaly_detection", "keep_last_batch", "front_end", "patch_shape"})
EVALUATES = "an emulated device trains only: evaluations run the model itself"


def unknown_time(optimization: Optimization, device: str) -> str | None:
    """Why an optimization cannot be told from an emulated device at all, in words; None where it can."""
    if optimization.stage is Stage.EVALUATION:
        return EVALUATES
    names = set(optimization.sets)
    if "monitoring_steps" in names:
        return "an emulated device has no counters to read, which take most of the time of a reading"
    if (
        optimization.stage is not Stage.DEVICE and not names & OF_THE_DEVICE_TOO
    ) or names <= OF_THE_HOST | OF_ITS_STAGE:
        return None
    title = title_of(device)
    if step_named(device) is None and names <= set(IN_TABLES):
        value = optimization.sets.get("autocast", "float32")
        layout = "contiguous" if "autocast" in names else "channels_last"
        if any((one.precision, one.layout) == (value, layout) for one in file_of(device).rates):
            return None
    return f"changes what the device computes, and no step time of an {title} is known for it"
