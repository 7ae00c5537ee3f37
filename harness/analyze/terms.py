"""Terms: what the calibration of a machine decides for every interval and verdict that is given on it."""

from dataclasses import dataclass

from harness.analyze.moderation import Prior
from harness.analyze.verdict import MARGIN

# Standard deviation of a restart's log ratio below which no pool is believed: what processes differ by, whatever a few
# restarts show. A constant where the machine was not calibrated (docs/decisions/least-spread.md).
LEAST_SPREAD, LEAST_FREEDOM = 0.009, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for all cells of a machine; as they stand, for one that was not calibrated."""

    least_spread: float = LEAST_SPREAD
    least_freedom: float = LEAST_FREEDOM  # degrees with which that is known
    margin: float = MARGIN  # by which an interval must leave 1 behind; infinite where no verdict can be given
    prior: Prior | None = None  # of variances, for cells timed on steps that have no pool of their own


UNCALIBRATED = Terms()
