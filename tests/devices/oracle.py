"""A device simulated event by event: what the timelines of the emulated one are held against.

Work lies in queues. Whenever the clock of the simulation moves, each engine that is free takes the first work, in the
order of asking, that heads its queue and whose event is there. Nothing is worked out ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Job:
    """Work in a queue: an engine's, or a mark that waits for another one."""

    engine: str | None
    seconds: float = 0.0
    after: "Job | None" = None  # that must be done first
    not_done_before: float = 0.0  # the host was still asking for it
    begun: float | None = None
    done: float | None = None


@dataclass(slots=True)
class Simulated:
    """Queues by name, two engines, and the host's clock."""

    now: float = 0.0
    queues: dict[str, list[Job]] = field(default_factory=lambda: {"main": [], "side": []})
    busy: dict[str, Job | None] = field(default_factory=lambda: {"compute": None, "copy": None})

    def ask(self, queue: str, job: Job) -> Job:
        """The host puts a job into a queue at this moment."""
        self.queues[queue].append(job)
        self._start()
        return job

    def spend(self, seconds: float) -> None:
        """The host does something else for so long."""
        self._go_to(self.now + seconds)

    def wait(self, job: Job) -> None:
        """The host waits until a job is done."""
        while job.done is None:
            self._go_to(min(self._ends()))

    def _ends(self) -> Iterator[float]:
        for job in self.busy.values():
            if job is not None and job.begun is not None:
                yield max(job.begun + job.seconds, job.not_done_before)

    def _go_to(self, moment: float) -> None:
        while (ends := [one for one in self._ends() if one <= moment]) and min(ends) <= moment:
            self.now = min(ends)
            for engine, job in self.busy.items():
                if job and job.begun is not None and max(job.begun + job.seconds, job.not_done_before) <= self.now:
                    job.done, self.busy[engine] = self.now, None
            self._start()
        self.now = max(self.now, moment)

    def _start(self) -> None:
        moved = True
        while moved:
            moved = False
            for queue in self.queues.values():
                while queue and queue[0].done is not None:
                    queue.pop(0)
                if not queue or queue[0].begun is not None:
                    continue
                job = queue[0]
                if job.after is not None and job.after.done is None:
                    continue
                if job.engine is None:
                    job.begun = job.done = self.now
                    moved = True
                elif self.busy[job.engine] is None:
                    job.begun, self.busy[job.engine] = self.now, job
                    moved = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A training loop, told by its seconds."""

    load_s: float  # of the host, for a batch
    copy_s: float
    device_s: float
    host_s: float = 0.0  # of the host, to queue a step
    pinned: bool = False
    prefetched: bool = False
    deferred: bool = False
    queue: int = 1_000_000  # steps that may wait

    def seconds(self, steps: int) -> float:
        """Of so many steps, from the first batch to the last kernel."""
        device = Simulated()
        launched: list[Job] = []
        ahead: Job | None = None
        for _ in range(steps):
            if self.prefetched:
                copied = ahead or self._fetch(device, "side")
                device.ask("main", Job(None, after=copied))
            else:
                self._fetch(device, "main")
            if len(launched) >= self.queue:
                device.wait(launched[-self.queue])
            step = Job("compute", self.device_s, not_done_before=device.now + self.host_s)
            launched.append(device.ask("main", step))
            device.spend(self.host_s)
            if self.prefetched:
                ahead = self._fetch(device, "side")
            if not self.deferred:
                device.wait(step)
        device.wait(launched[-1])
        return device.now

    def _fetch(self, device: Simulated, queue: str) -> Job:
        device.spend(self.load_s)
        copied = device.ask(queue, Job("copy", self.copy_s))
        if not self.pinned:
            device.wait(copied)
        return copied
