"""The harness's own cost, for asv: its step over the same step written by hand.

    asv run --bench overhead

About 1; a twentieth more says that every measured step takes a twentieth longer than it would without the harness.
"""

from typing import Any

from benchmarks.overhead.fresh_processes import overhead
from harness.integrations.asv_cells import DIGITS, as_samples


class Harness:
    """What is followed of the harness itself."""

    version = "1"  # raised when the way of measuring changes, which begins a new series
    timeout = 600

    def track_overhead(self) -> dict[str, Any]:
        """The harness's step over the step by hand, both on leak at size smoke, round by round."""
        return as_samples(overhead("leak", size="smoke").relative, DIGITS)

    track_overhead.unit = "ratio"  # type: ignore[attr-defined]
    track_overhead.pretty_name = "Overhead of the harness: its step over the step by hand"  # type: ignore[attr-defined]
