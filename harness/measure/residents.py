"""The residents of a process: arms that take turns in it, each with the process's settings and random numbers its own.

Most processes have one. Where several live together, whatever PyTorch, NumPy and Python hold once for a process is set
anew whenever another arm takes its turn: the backend's settings, which are then looked at, and the state of the random
numbers, which goes on where that arm had left it. What an arm leaves behind is freed when it ends.
"""

import gc
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from harness.core.configuration import inactive
from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.measure.devices import effective_backend, give_back, settle_backend
from harness.measure.first_batches import FirstBatches, Randomness
from harness.measure.session import Task
from harness.measure.trial import Trial, begin
from harness.measure.warm_up import Unsettled


@dataclass(slots=True, kw_only=True)
class Resident:
    """An arm, and what it had of the process when its last turn ended."""

    task: Task
    randomness: Randomness
    seen: dict[str, Value] | None = None  # the backend's settings when it had begun
    trial: Trial | None = None

    def sit(self) -> None:
        """Makes the process this arm's own; raises Unsettled where a setting does not come back."""
        settle_backend(self.task.recipe)
        torch.clear_autocast_cache()
        self.randomness.restore(self.task.device.torch)
        if self.seen is not None and (wrong := inactive(self.seen, effective_backend())):
            raise Unsettled(f"another arm of its process left its mark: {'; '.join(wrong)}")


@dataclass(slots=True)
class Residents:
    """All arms of a process, by their numbers."""

    arms: dict[int, Resident] = field(default_factory=dict)
    seated: int | None = None  # whose turn it is
    _first: Randomness | None = None  # as the process began
    _batches: dict[str, FirstBatches] = field(default_factory=dict)

    def admit(self, number: int, task: Task, batches: str | None = None) -> None:
        """Takes note of an arm that is to be built; arms with the same `batches` have loaders that give the same."""
        self._first = self._first or Randomness.now(torch.device("cpu"))
        if batches:
            task = replace(task, first=self._batches.setdefault(batches, FirstBatches()))
        self.arms[number] = Resident(task=task, randomness=self._first)

    def begin(
        self, number: int, timing: Timing, protocol: Protocol, proof: dict[str, Value], **how: Any
    ) -> dict[str, Any]:
        """Builds and warms up; gives the fields of Ready."""
        one = self._turn(number)
        one.trial, ready = begin(one.task, timing, protocol, proof, **how)
        one.seen = effective_backend()
        return ready

    def settle(self, number: int, steps: int, offset: int) -> int:
        """Some steps that no clock counts; gives the lead-in that the arm needs."""
        return self._trial(number).settle(steps, offset)

    def window(self, number: int, lead: int, steps: int, start: int) -> dict[str, Any]:
        """Times steps; gives the fields of a Window. Whose the memory of a shared process is nobody can tell."""
        told = self._trial(number).window(lead, steps, start)
        return told | {"device_bytes": None, "process_bytes": None} if self.arms[number].task.shared else told

    def free(self, number: int) -> None:
        """Ends an arm's workers and gives back what it held, so that nobody after it finds any of it."""
        one = self.arms.pop(number, None)
        if one is None:
            return
        if number == self.seated:
            self.seated = None
        if one.trial is not None:
            one.trial.session.feed.close()
        device, one.trial = one.task.device, None
        gc.unfreeze()  # objects that an arm without a collector had set aside could not be collected
        give_back(device)

    def _trial(self, number: int) -> Trial:
        trial = self._turn(number).trial
        assert trial is not None  # noqa: S101  nobody asks for steps of an arm that was not built
        return trial

    def _turn(self, number: int) -> Resident:
        """The arm whose turn it is from now on."""
        one = self.arms[number]
        if number != self.seated:
            if self.seated is not None:
                before = self.arms[self.seated]
                before.randomness = Randomness.now(before.task.device.torch)
            self.seated = number
            if one.task.shared:
                one.sit()
        return one
