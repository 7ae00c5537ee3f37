"""The interlude: an evaluation between two steps, after every so many epochs of a training."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from harness.measure.session import Session

Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class Interlude:
    """An evaluation that comes round whenever so many batches have been taken since it was made."""

    session: Session
    batches: int  # of the loader, between two evaluations
    began_at: int = field(init=False)
    ended_at: list[int] = field(default_factory=list)  # batches taken when an evaluation had gone through items

    def __post_init__(self) -> None:
        """Counts from here; the loader stands at an epoch's end."""
        self.began_at = self.session.consumed

    def after(self, step: Callable[[], Result]) -> Callable[[], Result]:
        """The step, followed by an evaluation when one is due."""

        def step_and_evaluation() -> Result:
            result = step()
            consumed = self.session.consumed
            if (consumed - self.began_at) % self.batches == 0 and self.session.evaluate().items:
                self.ended_at.append(consumed)
            return result

        return step_and_evaluation

    def epochs_between(self) -> float | None:
        """Epochs gone through for each evaluation seen so far; None before the first."""
        if not self.ended_at:
            return None
        return (self.ended_at[-1] - self.began_at) / len(self.ended_at) / len(self.session.feed.order)
