"""What a fresh model has learned in so many steps, and what its evaluation is worth."""

from dataclasses import dataclass

from harness.core.workload import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Losses of a training, and three evaluations of its model."""

    losses: tuple[float, ...]  # of every step
    evaluation: Evaluation  # as the cell evaluates
    again: Evaluation  # the same once more
    as_found: Evaluation  # of the same model, in the slow way of the real system
    unengaged: tuple[str, ...]
    train_s: float
