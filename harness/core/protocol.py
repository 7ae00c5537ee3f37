"""The protocol: how long and how often things are timed."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The numbers of a measurement, stated with every result. Durations in seconds."""

    restarts: int = 2  # fresh processes of both arms: the unit of every interval
    rounds: int = 12  # brackets of each treatment in one restart
    burst_s: float = 0.7
    burst_steps: int = 8  # at least
    floor_steps: int = 20  # warm-up, at least
    floor_s: float = 3.0  # warm-up, at least
    settle_s: float = 3.0  # watched for a steady state after the floor
    ceiling_s: float = 1.0
    loss_steps: int = 8  # first steps whose losses are compared
    discarded_rounds: int = 1  # rounds after which all arms have been seen in turn
    lives: int = 3  # an arm that is ended from outside so often is given up
    treatments: int = 4  # alive beside the reference in one block
    start_allowance_s: float = 600.0  # optimizations that start more slowly are left out, with words
    start_limit_s: float = 1200.0  # imports, compilation and warm-up of one arm
    burst_limit_s: float = 300.0
    # Half-width of a log ratio's interval beyond which a comparison gets further restarts; None: all get `restarts`.
    target: float | None = field(default=None, metadata={"since": "0.2.0"})
    looks: tuple[int, ...] = field(default=(), metadata={"since": "0.2.0"})  # restarts at which widths are looked at
    slow_s: float | None = field(default=None, metadata={"since": "0.2.0"})  # a step is slow beyond; None: `burst_s`
    # About the seconds of bursts that an arm gets in a restart; where bursts are long, they become fewer. None: eight
    # times what is slow, and only where steps are.
    timed_s: float | None = field(default=None, metadata={"since": "0.2.0"})

    @property
    def most_restarts(self) -> int:
        """Restarts beyond which no comparison gets more, however wide its interval."""
        return self.restarts if self.target is None else max((self.restarts, *self.looks))

    @property
    def is_timed(self) -> bool:
        """Whether anybody reads the clock of its arms; those that are only looked at need no time to warm up."""
        return self.floor_s > 0

    def look_from(self, restarts: int) -> int:
        """The first planned look at so many restarts or more; the last one where there is none."""
        return min((one for one in (self.restarts, *self.looks) if one >= restarts), default=self.most_restarts)

    def fixed(self) -> "Protocol":
        """The same for as many restarts of every comparison, however widely it is known."""
        return replace(self, target=None, looks=())

    def on(self, device: str) -> "Protocol":
        """The same for a device: on a CPU four times as many bursts, each a quarter as long.

        No queue is drained there at the end of a burst, and the sooner the reference has its turn again, the less a
        neighbour can do in between (docs/decisions/short-bursts-on-a-cpu.md).
        """
        if device != "cpu":
            return self
        return replace(
            self,
            rounds=SHORTER * self.rounds,
            burst_s=self.burst_s / SHORTER,
            burst_steps=max(1, self.burst_steps // SHORTER),
            slow_s=self._slow_s,
            timed_s=max(TIMED * self._slow_s, self.rounds * self.burst_s),
        )

    @property
    def _slow_s(self) -> float:
        return self.burst_s if self.slow_s is None else self.slow_s

    def is_slow(self, step_s: float) -> bool:
        """Whether a step is so long that an arm takes fewer of every kind."""
        return step_s > self._slow_s

    def rounds_of(self, step_s: float) -> int:
        """Rounds for steps that take about so long: fewer where that makes bursts long, but no fewer than four."""
        burst_s = step_s if self.is_slow(step_s) else max(self.burst_s, self.burst_steps * step_s)
        if self.timed_s is not None:
            return min(self.rounds, max(4, round(self.timed_s / burst_s)))
        return min(self.rounds, max(4, round(TIMED * self._slow_s / step_s))) if self.is_slow(step_s) else self.rounds

    def turns_s(self, step_s: float) -> float:
        """About the seconds of an arm's bursts in a restart, and of what it has of the reference's."""
        return TURNS * self.rounds_of(step_s) * max(self.burst_s, step_s)


SHORTER = 4  # times, on a CPU
TIMED = 8.0  # of the longest step that is not slow: seconds of bursts that an arm gets in a restart
TURNS = 1.5  # bursts for each of an arm's own: a reference's visit serves two
LOOKS = (2, 3, 4, 6, 8)
STANDARD = Protocol(target=0.02, looks=(*LOOKS, 12))
# For a first look on a small machine: the same order of things, shorter. Intervals widen by themselves.
BRIEF = Protocol(
    rounds=5,
    burst_s=0.4,
    burst_steps=2,
    floor_steps=2,
    floor_s=0.3,
    settle_s=0.0,
    ceiling_s=0.2,
    loss_steps=3,
    discarded_rounds=0,
    treatments=6,
    start_allowance_s=10.0,
    start_limit_s=180.0,
    burst_limit_s=60.0,
    target=0.05,
    looks=LOOKS,
)
PROTOCOLS = {"standard": STANDARD, "brief": BRIEF}
