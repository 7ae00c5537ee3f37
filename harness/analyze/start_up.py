"""Start-up: what an arm takes before its steps run as they do later, and when a slower start has paid for itself."""

from dataclasses import dataclass

from harness.analyze.attribution import Gain
from harness.analyze.evidence import Side
from harness.core.measurement import Ready


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """After how many steps a gain has paid for a slower start; ranges are those of single restarts.

    With start-ups F and steps t of both arms that is N* = (F_B - F_A) / (t_A - t_B).
    """

    extra_s: tuple[float, float]  # start-up beyond the other arm's, the least and the most
    steps: tuple[float, float] | None  # None: never, since a step is no shorter
    step_s: float  # of the arm with the gain

    @property
    def seconds(self) -> float | None:
        """Training time until the worst start has paid for itself; None where it never does."""
        return None if self.steps is None else self.steps[1] * self.step_s


def start_up_s(ready: Ready) -> float:
    """Building, the first step, and what the warm-up took beyond as many steps at the speed of its end."""
    return ready.build_s + ready.first_step_s + max(0.0, ready.warm_up_s - ready.warm_up_steps * ready.step_s)


def break_even(ours: Side, theirs: Side, gain: Gain, step_s: float) -> BreakEven | None:
    """Of one arm against another whose step takes `step_s`; None where no restart has both."""
    first, other = _first_lives(ours), _first_lives(theirs)
    extra = [start_up_s(first[restart]) - start_up_s(other[restart]) for restart in first.keys() & other.keys()]
    if not extra:
        return None
    low, high = min(extra), max(extra)
    saved_s = step_s * (1 - 1 / gain.ratio)
    steps = (max(0.0, low) / saved_s, max(0.0, high) / saved_s) if saved_s > 0 else None
    return BreakEven(extra_s=(low, high), steps=steps, step_s=step_s / gain.ratio)


def _first_lives(side: Side) -> dict[int, Ready]:
    """The first start of each restart: one that was interrupted is not started from nothing again."""
    return {ready.arm.restart: ready for ready in reversed(side.readies)}
