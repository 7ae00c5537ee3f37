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

    def is_slow(self, step_s: float) -> bool:
        """Whether one step outlasts a burst: such an arm takes fewer steps of every kind, each of them long."""
        return step_s > self.burst_s

    def rounds_of(self, step_s: float) -> int:
        """Rounds for steps that take about so long: fewer when they are slow, but no fewer than four."""
        return max(4, min(self.rounds, round(8 * self.burst_s / step_s))) if self.is_slow(step_s) else self.rounds


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
