"""A device that the harness has never heard of trains, once it is a module and a line in the list of devices."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.environment import DEVICES
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.measure.devices import Device, device_named
from harness.measure.trial import begin
from tests.devices.counted import COPY_S, Counted
from tests.measure.tasks import task_of

PROTOCOL = replace(UNTIMED, loss_steps=4)
STEPS = 3


def test_a_device_is_found_by_its_name_with_or_without_a_number() -> None:
    assert type(device_named("cpu")) is Device
    assert (type(device_named("cuda:1")).__name__, str(device_named("cuda:1").torch)) == ("Cuda", "cuda:1")
    with pytest.raises(KeyError):
        device_named("abacus")


def test_what_a_device_lacks_is_said() -> None:
    with pytest.raises(NotImplementedError, match="cpu has no graphs"):
        device_named("cpu").graph()


@pytest.mark.filterwarnings("ignore:.*no accelerator is found:UserWarning")
@pytest.mark.parametrize("stack", [(), ("non_blocking", "pin_memory", "device_prefetch")])
def test_a_device_of_ones_own_trains_as_the_cpu_does(
    stack: tuple[str, ...], smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, "counted", "tests.devices.counted:Counted")
    device = device_named("counted")
    assert isinstance(device, Counted)
    task = replace(task_of("leak", smoke_data["leak"], ()), endless=True)
    _, expected = begin(task, Timing.STEP, PROTOCOL, {}, other_seeds=False)
    own = replace(task_of("leak", smoke_data["leak"], stack), device=device)
    trial, ready = begin(own, Timing.STEP, PROTOCOL, {}, other_seeds=False)
    assert ready["losses"] == expected["losses"]
    before = device.synchronised, device.events, device.lent
    window = trial.window(lead=0, steps=STEPS)
    trial.session.feed.close()
    assert device.synchronised > before[0], "the device has no work before the lead-in, and none after the window"
    assert device.events >= before[1] + 3 * STEPS, "a copy has two events, and an update one"
    assert (device.lent - before[2] > 0) is ("device_prefetch" in stack)
    assert ready["effective"]["device_prefetch"] is ("device_prefetch" in stack)
    assert window["device_bytes"] == 12_345
    assert 0 < window["device_s"] <= window["wall_s"]
    if stack:
        assert window["wall_s"] >= STEPS * COPY_S
